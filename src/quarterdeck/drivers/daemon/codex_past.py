"""What a server of codex has written down of a thread."""

from collections.abc import Mapping
from typing import Any

from ..pipe.told import as_list, as_map, as_text
from .codex_line import CodexLine

__all__ = ["LAST_TURNS", "items_of", "turn_of"]

LAST_TURNS: Mapping[str, Any] = {"limit": 5, "itemsView": "full"}
"""Which turns are looked at to find one of ours among those of others."""
_PAGE = 100


async def items_of(line: CodexLine, thread: str) -> list[Mapping[str, Any]]:
    """The complete items of a thread, oldest first, page by page. Raises as ``CodexLine.ask``."""
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
