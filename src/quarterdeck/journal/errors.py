"""What can go wrong with the log, and what to do about it.

::

    JournalError
    ├── JournalLockedError another process writes this log
    ├── JournalUnlockableError the file system cannot guard the log against two writers
    ├── JournalReadOnlyError the log, its disk or this journal may not be written
    ├── JournalUnreachableError the file is not there or cannot be opened
    ├── NotAJournalError a database, but not ours
    ├── JournalTooNewError written by a newer program
    ├── JournalCorruptError damaged; salvage it
    ├── JournalStalledError nothing can be written at the moment; what was taken on is kept
    │   └── JournalDiskFullError because the disk is full
    ├── UnrecordableEventError an event that has no JSON form
    └── JournalClosedError used after it was closed
"""

import sqlite3
from pathlib import Path

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "DATABASE_ERRORS",
    "JournalClosedError",
    "JournalCorruptError",
    "JournalDiskFullError",
    "JournalError",
    "JournalLockedError",
    "JournalReadOnlyError",
    "JournalStalledError",
    "JournalTooNewError",
    "JournalUnlockableError",
    "JournalUnreachableError",
    "NotAJournalError",
    "UnrecordableEventError",
    "damage_error",
    "is_faulty_statement",
    "translate_error",
    "translate_reading_errors",
]

_STATEMENT_FAULTS = (
    "SQLITE_ERROR",
    "SQLITE_CONSTRAINT",
    "SQLITE_MISMATCH",
    "SQLITE_MISUSE",
    "SQLITE_RANGE",
    "SQLITE_TOOBIG",
)


class JournalError(QuarterdeckError):
    """Base of the log's errors."""


class JournalLockedError(JournalError):
    """Another process writes this log; ``pid`` is None when it is unknown."""

    def __init__(self, path: Path, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"the log {str(path)!r} is being written by {holder}; stop that process, or open the "
            "log read-only"
        )
        self.path = path
        self.pid = pid


class JournalUnlockableError(JournalError):
    """The file system has no file locks, so two writers could not be kept apart."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the file system of {str(path)!r} cannot lock files ({reason}); "
            f"put the log on a local disk"
        )
        self.path = path


class JournalReadOnlyError(JournalError):
    """The log may not be written: its permissions, its disk, or how it was opened."""

    def __init__(
        self, path: Path, reason: str, *, advice: str = "make it writable, or open it read-only"
    ) -> None:
        super().__init__(f"the log {str(path)!r} cannot be written: {reason}; {advice}")
        self.path = path


class JournalUnreachableError(JournalError):
    """The file is not there or cannot be opened."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the log {str(path)!r} cannot be read: {reason}")
        self.path = path


class NotAJournalError(JournalError):
    """A database, but not one of ours; nothing in it was changed."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{str(path)!r} is a database of another program; choose another file for the log"
        )
        self.path = path


class JournalTooNewError(JournalError):
    """The log was written by a newer program; nothing in it was changed."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"the log {str(path)!r} has version {found}; this program knows versions up to "
            f"{known}. Upgrade quarterdeck to open it."
        )
        self.path = path
        self.found = found
        self.known = known


class JournalCorruptError(JournalError):
    """The file is damaged. What is readable can be copied with ``salvage(path, new_path)``."""

    def __init__(self, path: Path, reason: str) -> None:
        import shlex

        super().__init__(
            f"the log {str(path)!r} is damaged ({reason}); keep the file and copy its readable "
            f"records to a new log: quarterdeck journal --file {shlex.quote(str(path))} salvage "
            "NEW_FILE"
        )
        self.path = path
        self.reason = reason


class JournalStalledError(JournalError):
    """Nothing can be written at the moment; the journal keeps trying.

    ``kept`` says whether the event in question was taken on: it then waits in memory and is
    written, in order, as soon as that is possible; appending it again would double it.
    """

    def __init__(self, path: Path, reason: str, *, kept: bool) -> None:
        fate = "kept in memory until it can" if kept else "not kept"
        super().__init__(f"the log {str(path)!r} cannot be written ({reason}); {fate}")
        self.path = path
        self.reason = reason
        self.kept = kept


class JournalDiskFullError(JournalStalledError):
    """Stalled because the disk is full."""


class UnrecordableEventError(JournalError):
    """An event that has no JSON form, such as one with half a surrogate pair in a text."""


class JournalClosedError(JournalError):
    """The journal was used after it was closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"the log {str(path)!r} is closed; open it again to use it")
        self.path = path


class _DamageError(sqlite3.DatabaseError):
    """Damage that we found where the database did not."""


def damage_error(reason: str) -> sqlite3.DatabaseError:
    """An error that is translated as ``JournalCorruptError``, for damage that the database does not
    notice.
    """
    return _DamageError(reason)


DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What the database raises; the latter where its message quotes a damaged schema."""


def translate_error(error: Exception, path: Path) -> JournalError:
    """Give a database error its name in our words."""
    if _is_damage(error):
        return JournalCorruptError(path, str(error))
    code = getattr(error, "sqlite_errorname", "") or ""
    if code == "SQLITE_FULL":
        return JournalDiskFullError(path, "the disk is full", kept=True)
    if code.startswith("SQLITE_READONLY"):
        return JournalReadOnlyError(path, str(error))
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return JournalCorruptError(path, str(error))
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return JournalUnreachableError(path, str(error))
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return JournalLockedError(path, None)
    return JournalStalledError(path, f"{error}, {code}" if code else str(error), kept=True)


def translate_reading_errors(error: Exception, path: Path) -> JournalError:
    """Give an error of opening or reading its name in our words."""
    found = translate_error(error, path)
    return (
        JournalUnreachableError(path, found.reason)
        if isinstance(found, JournalStalledError)
        else found
    )


def is_faulty_statement(error: Exception) -> bool:
    """Whether the fault is in what was asked of the database rather than in file or disk."""
    if _is_damage(error):
        return False
    if not isinstance(error, sqlite3.Error):
        return True
    code = getattr(error, "sqlite_errorname", None) or "SQLITE_ERROR"
    return code.startswith(_STATEMENT_FAULTS)


def _is_damage(error: Exception) -> bool:
    # Text that is no UTF-8 is found by Python, which gives no code.
    return isinstance(error, _DamageError | UnicodeDecodeError) or str(error).startswith(
        "Could not decode to UTF-8"
    )
