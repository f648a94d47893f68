"""Claude Code, and agents that speak its stream-json, over a pipe."""
