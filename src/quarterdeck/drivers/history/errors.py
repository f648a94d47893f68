"""Why a past session cannot be had.

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
from typing import TYPE_CHECKING

from ..errors import DriverError

if TYPE_CHECKING:
    from .session import HistorySession

__all__ = [
    "AmbiguousHistorySessionError",
    "HistoryError",
    "HistoryIncompleteError",
    "HistoryLockedError",
    "HistoryUnreadableError",
    "NoHistorySessionError",
]


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
