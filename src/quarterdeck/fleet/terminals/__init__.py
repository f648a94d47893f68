"""Terminals that the host owns: programs of a person, and the screens of live agents."""
