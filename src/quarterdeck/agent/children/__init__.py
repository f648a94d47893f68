"""Agents that an agent starts: their profiles, their sessions, what they ask and what they answer.

Imported when a session has profiles of its own or starts its first child.
"""
