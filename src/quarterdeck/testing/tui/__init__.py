"""An agent that can only be used in a terminal, for tests: its prompts are commands.

``python -m quarterdeck.testing.tui`` draws a prompt between two lines at the end of the screen and
what it says above, as agents do that keep to the main screen.
"""
