"""Slash commands: what they are, those that come with us, and those that people write in files.

``command`` and ``book`` are all that a session needs to know; ``files`` is imported where there
is a file to read.
"""
