"""A session as an agent keeps it on disk, and the errors of reading one.

::

    DriverError
    └── HistoryError
        ├── NoHistorySessionError no session of this id is on disk
        ├── AmbiguousHistorySessionError several are meant
        ├── HistoryLockedError   its database is in use and cannot be copied
        ├── HistoryUnreadableError the file is there, and cannot be read
        └── HistoryIncompleteError some of an agent's sessions cannot be had, others can
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ..errors import DriverError

__all__ = [
    "AmbiguousHistorySessionError",
    "HistoryError",
    "HistoryIncompleteError",
    "HistoryLockedError",
    "HistorySession",
    "HistoryUnreadableError",
    "NoHistorySessionError",
]


class HistorySession(Struct, frozen=True, kw_only=True):
    """A session as an agent keeps it."""

    agent: str
    """The agent's name in the catalogue."""
    id: str
    """What the agent takes to go on with it."""
    path: str
    """The file that has it."""
    cwd: str | None = None
    """Where it worked; None where unknown."""
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


class HistoryError(DriverError):
    """Base of what goes wrong with sessions on disk."""


class NoHistorySessionError(HistoryError):
    """No session of this id is on disk."""

    def __init__(
        self, id_: str, agent: str | None = None, failures: Mapping[str, str] | None = None
    ) -> None:
        of = f" of {agent}" if agent else ""
        also = "".join(f"; of {name}: {reason}" for name, reason in (failures or {}).items())
        super().__init__(
            f"no session{of} {id_!r} is on disk; `quarterdeck history --all` lists them{also}"
        )
        self.id = id_


class AmbiguousHistorySessionError(HistoryError):
    """Several sessions begin so."""

    def __init__(self, id_: str, found: Sequence[str]) -> None:
        text = ", ".join(found[:5])
        super().__init__(f"{id_!r} is ambiguous: {text}; give a longer prefix or --agent")


class HistoryLockedError(HistoryError):
    """A database is in use and too large to be copied."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{str(path)!r} is locked by its agent; end the agent or try again later")


class HistoryUnreadableError(HistoryError):
    """A file is there and cannot be read; the message says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read {str(path)!r}: {reason}")


class HistoryIncompleteError(HistoryError):
    """Some of an agent's sessions cannot be listed; it has the others."""

    def __init__(self, why: HistoryError, sessions: "Sequence[HistorySession]") -> None:
        super().__init__(str(why))
        self.sessions = tuple(sessions)
