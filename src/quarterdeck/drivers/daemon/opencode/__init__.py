"""OpenCode as a server: ``opencode serve`` over HTTP."""
