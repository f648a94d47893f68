"""Fakes of command-line agents that run once for each turn: codex, gemini, opencode and others.

``python -m quarterdeck.testing.oneshot_cli --as NAME …`` takes the real one's flags and prints
what the real one prints; the prompt is a list of commands, see ``docs/fake-agent.md``. Sessions
outlive the process in the directory that the variable ``FAKE_STATE`` names.
"""
