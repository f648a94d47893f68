"""What the native agent can do: a folder for each tool, the contract in ``tool``."""
