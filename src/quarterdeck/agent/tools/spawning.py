"""The names of the tools that start agents and look after them."""

__all__ = ["SPAWNING"]

SPAWNING = frozenset(("spawn_agent", "children"))
