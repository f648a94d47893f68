"""How long a test waits: widely, for shared machines, and far below what a failure takes."""

__all__ = ["SOON"]

SOON = 15.0
"""Seconds within which something must have happened that would else take a minute or for ever."""
