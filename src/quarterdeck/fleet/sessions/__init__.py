"""Stored sessions: import, handover, rewind, retention, sub-agents."""
