"""The append-only log of every event of every session, and its projections."""

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
from .journal import Journal
from .limits import Limits
from .projections import Projection
from .reading import ReadableJournal
from .salvage import Salvaged, salvage
from .search import Hit
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
