"""How an agent's process ended."""

from dataclasses import dataclass

__all__ = ["AgentExit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExit:
    """How the agent's process left."""

    exit_code: int | None = None
    signal: str | None = None
    stderr: str = ""
    """The last lines, secrets masked."""
