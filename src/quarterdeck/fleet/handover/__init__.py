"""Handover: the brief of a session, another agent that continues it, and the rule for failures."""
