"""The option ``--host`` and what follows from it for commands."""
