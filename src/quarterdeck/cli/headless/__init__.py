"""``quarterdeck run``: the native agent in scripts.

``command`` reads the command line, ``running`` runs the turn, ``outputs`` writes the answer,
``answers`` checks it against a JSON schema. Exit codes are in ``codes`` and docs/headless.md.
"""
