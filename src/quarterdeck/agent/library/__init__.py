"""What people write for the agent in files: slash commands and skills.

``shelves`` is all that a session knows; the rest is imported where there is a file to read.
"""
