"""What users write for the agent in files: slash commands and skills.

``session_library`` is all that a session knows; the rest is imported when there is a file to
read.
"""
