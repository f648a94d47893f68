"""A program that takes Claude Code's flags and speaks its lines; its prompts are commands.

``docs/fake-agent.md`` lists the commands that all fakes share, ``commands.py`` those of this one.
It knows the flags of the real one and refuses others, so that a wrong word is found. What it is
to forget or to do wrong is in ``$FAKE_QUIRKS``, separated by commas.
"""
