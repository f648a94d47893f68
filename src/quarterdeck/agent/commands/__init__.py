"""Slash commands: what a command is, the built-in ones, and the registry of a session.

Commands that users write in files are in ``agent.library``.
"""
