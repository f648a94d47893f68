"""Goals: a session that goes on turn after turn until the goal is reached or a budget is spent.

Imported when a goal is set, or is in the log of a session that is loaded.
"""
