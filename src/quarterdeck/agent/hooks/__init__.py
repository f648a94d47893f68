"""Hooks: programs and functions of the user that are run at points of a session.

``agent.ports`` is all that a session knows of them; the rest is imported when one is
configured.
"""
