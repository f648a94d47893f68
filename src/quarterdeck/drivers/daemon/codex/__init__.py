"""Codex as a server: ``codex app-server`` over JSON-RPC."""
