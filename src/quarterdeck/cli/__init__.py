"""Thin entry points; everything else is imported late.

``main`` answers ``--version`` alone and leaves the rest to ``run``, which turns whatever
happens into an exit code; ``root`` lists the commands by name; each command is a module that is
imported when it is used.
"""
