"""What is known of a log's damage, in a small file beside it: ``<log>.damage``.

A full check takes time in proportion to the log, so what it found, and what was found in passing,
is kept for lists of sessions. The file follows from the log: it may be deleted at any time.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.events import UnknownEvent
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import open_private
from quarterdeck.wire.record import Record

from .records import CHANGED

__all__ = ["DamageNote", "count_damaged", "note_damage", "read_damage", "replace_damage"]

_VERSION = 1
_MOST_BYTES = 4 << 20
_LOST = "its log cannot be read"


class DamageNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The form of the file."""

    version: int = _VERSION
    sessions: dict[SessionId, int]
    """How many records of each session are known to be damaged or lost."""


def read_damage(log: Path) -> Mapping[SessionId, str]:
    """What is known to be wrong with the sessions of a log, in words; blocks for a moment."""
    return {id_: _damage_text(count) for id_, count in _read(log).items()}


def note_damage(log: Path, found: Mapping[SessionId, int]) -> None:
    """Add what was found in passing; best effort, since a log may be read where none may write."""
    known = _read(log)
    both = known | {id_: max(count, known.get(id_, 0)) for id_, count in found.items()}
    if both != known:
        _write(log, both)


def replace_damage(log: Path, found: Mapping[SessionId, int]) -> None:
    """Write down what a full check found, in place of what was known."""
    if found:
        _write(log, dict(found))
    else:
        with contextlib.suppress(OSError):
            _file(log).unlink(missing_ok=True)


def count_damaged(records: Iterable[Record]) -> int:
    """How many of these records are not as they were written, or cannot be read."""
    events = (record.event for record in records)
    return sum(
        isinstance(one, UnknownEvent) and one.origin == "log" and _is_lost(one) for one in events
    )


def _is_lost(event: UnknownEvent) -> bool:
    # What a newer program wrote is not understood, but it is whole.
    return event.reason == CHANGED or not isinstance(event.raw, dict)


def _damage_text(count: int) -> str:
    if count < 1:
        return _LOST
    return f"damaged: {count} record{'s' * (count != 1)} unreadable"


def _file(log: Path) -> Path:
    return log.with_name(log.name + ".damage")


def _read(log: Path) -> dict[SessionId, int]:
    try:
        with _file(log).open("rb") as file:
            note = decode_json(file.read(_MOST_BYTES), DamageNote)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return note.sessions if note.version == _VERSION else {}


def _write(log: Path, sessions: dict[SessionId, int]) -> None:
    beside = _file(log).with_name(_file(log).name + f".{os.getpid()}")
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(open_private(beside, flags), "wb") as file:
            file.write(msgspec.json.encode(DamageNote(sessions=sessions)))
        beside.replace(_file(log))
