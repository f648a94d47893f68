"""The append-only log of every event of every session, and its projections.

Names are imported when they are first used: most who write a log never search or mend one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .check import Report
    from .errors import (
        Corrupt,
        Full,
        JournalClosed,
        JournalError,
        Locked,
        NotAJournal,
        ReadOnly,
        Stalled,
        TooNew,
        Unlockable,
        Unreachable,
        Unrecordable,
    )
    from .hits import Hit
    from .journal import Journal
    from .limits import Limits
    from .projections import Projection
    from .reading import ReadableJournal
    from .salvaging import Salvaged, salvage
    from .sessions import SessionSummary

__all__ = [
    "Corrupt",
    "Full",
    "Hit",
    "Journal",
    "JournalClosed",
    "JournalError",
    "Limits",
    "Locked",
    "NotAJournal",
    "Projection",
    "ReadOnly",
    "ReadableJournal",
    "Report",
    "Salvaged",
    "SessionSummary",
    "Stalled",
    "TooNew",
    "Unlockable",
    "Unreachable",
    "Unrecordable",
    "salvage",
]

_HOMES = {
    "check": ("Report",),
    "errors": (
        "Corrupt",
        "Full",
        "JournalClosed",
        "JournalError",
        "Locked",
        "NotAJournal",
        "ReadOnly",
        "Stalled",
        "TooNew",
        "Unlockable",
        "Unreachable",
        "Unrecordable",
    ),
    "journal": ("Journal",),
    "limits": ("Limits",),
    "projections": ("Projection",),
    "reading": ("ReadableJournal",),
    "salvaging": ("Salvaged", "salvage"),
    "hits": ("Hit",),
    "sessions": ("SessionSummary",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
