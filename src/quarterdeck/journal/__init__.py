"""The append-only log of every event of every session, and its projections.

Names are imported when they are first used: most users of a log never search or repair one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .check import CheckReport
    from .errors import (
        JournalClosedError,
        JournalCorruptError,
        JournalDiskFullError,
        JournalError,
        JournalLockedError,
        JournalReadOnlyError,
        JournalStalledError,
        JournalTooNewError,
        JournalUnlockableError,
        JournalUnreachableError,
        NotAJournalError,
        UnrecordableEventError,
    )
    from .journal import Journal
    from .limits import JournalLimits
    from .projections import Projection
    from .reader import ReadableJournal
    from .salvage import SalvageReport, salvage_journal
    from .search_hit import SearchHit
    from .sessions import SessionSummary

__all__ = [
    "CheckReport",
    "Journal",
    "JournalClosedError",
    "JournalCorruptError",
    "JournalDiskFullError",
    "JournalError",
    "JournalLimits",
    "JournalLockedError",
    "JournalReadOnlyError",
    "JournalStalledError",
    "JournalTooNewError",
    "JournalUnlockableError",
    "JournalUnreachableError",
    "NotAJournalError",
    "Projection",
    "ReadableJournal",
    "SalvageReport",
    "SearchHit",
    "SessionSummary",
    "UnrecordableEventError",
    "salvage_journal",
]

_HOMES = {
    "check": ("CheckReport",),
    "errors": (
        "JournalCorruptError",
        "JournalDiskFullError",
        "JournalClosedError",
        "JournalError",
        "JournalLockedError",
        "NotAJournalError",
        "JournalReadOnlyError",
        "JournalStalledError",
        "JournalTooNewError",
        "JournalUnlockableError",
        "JournalUnreachableError",
        "UnrecordableEventError",
    ),
    "journal": ("Journal",),
    "limits": ("JournalLimits",),
    "projections": ("Projection",),
    "reader": ("ReadableJournal",),
    "salvage": ("SalvageReport", "salvage_journal"),
    "search_hit": ("SearchHit",),
    "sessions": ("SessionSummary",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
