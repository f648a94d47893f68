"""Hooks: programs and functions of the user's that are run at points of a session.

``seam`` is all that a session knows of them; the rest is imported when one is configured.
"""
