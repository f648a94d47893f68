"""Events for a log, in tests."""

from collections.abc import Iterable
from typing import Any

from quarterdeck.journal import Journal
from quarterdeck.wire.events import Event
from quarterdeck.wire.record import Record

__all__ = ["append_all"]


async def append_all(
    journal: Journal, session: Any, events: Iterable[Event], **place: Any
) -> list[Record]:
    """Append events of one session, in order."""
    return [await journal.append(session, event, **place) for event in events]
