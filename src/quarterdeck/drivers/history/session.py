"""A session as an agent keeps it on disk."""

from msgspec import Struct

__all__ = ["HistorySession"]


class HistorySession(Struct, frozen=True, kw_only=True):
    """A session as an agent keeps it."""

    agent: str
    """The agent's name in the catalogue."""
    id: str
    """What the agent takes to go on with it."""
    path: str
    """The file that has it."""
    cwd: str | None = None
    """Where it worked; None where it is not told."""
    title: str | None = None
    """The title that it was given, else the beginning of the first prompt."""
    started: int = 0
    """Microseconds since the epoch, as all times; 0: not known."""
    updated: int = 0
    size: int | None = None
    """Bytes on disk; None where many sessions share a file."""
    messages: int | None = None
    """How many, where counting is cheap."""
    version: str | None = None
    """Of the program that began it."""
    archived: bool = False
    """The agent has put it away."""
    can_resume: bool = True
    """Whether the agent can go on with it; False where it kept nothing but prompts."""
