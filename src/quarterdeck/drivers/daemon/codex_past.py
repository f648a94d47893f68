"""What a server of codex has written down of a thread."""

from collections.abc import Mapping
from typing import Any

from ..link import Host
from ..pipe.told import as_list, as_map, as_text
from .codex_ear import said_by_person
from .codex_events import CodexReader
from .codex_line import CodexLine

__all__ = ["LAST_TURNS", "tell_past", "turn_of"]

LAST_TURNS: Mapping[str, Any] = {"limit": 5, "itemsView": "full"}
"""Which turns are looked at to find one of ours among those of others."""
_PAGE = 100


async def tell_past(line: CodexLine, thread: str, host: Host, reader: CodexReader) -> None:
    """Tell what was said and done in a thread. Raises as ``CodexLine.ask``."""
    for item in await _items_of(line, thread):
        if item.get("type") == "userMessage":
            await host.emit(said_by_person(item))
            continue
        for event in reader.past(item):
            await host.emit(event)


async def _items_of(line: CodexLine, thread: str) -> list[Mapping[str, Any]]:
    """The complete items of a thread, oldest first, page by page."""
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    while True:
        page = {"threadId": thread, "limit": _PAGE, "cursor": cursor}
        listed = await line.ask("thread/items/list", page)
        entries = map(as_map, as_list(listed.get("data")))
        found += [as_map(entry.get("item")) or entry for entry in entries]
        cursor = as_text(listed.get("nextCursor")) or None
        if cursor is None:
            return found


async def turn_of(line: CodexLine, thread: str, id_: str) -> Mapping[str, Any]:
    """One of the last turns, with its complete items; empty if it is none of them. Raises so."""
    listed = await line.ask("thread/turns/list", {"threadId": thread, **LAST_TURNS})
    turns = map(as_map, as_list(listed.get("data")))
    return as_map(next((one for one in turns if one.get("id") == id_), None))
