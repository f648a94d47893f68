"""What opencode calls parts: pieces of messages that grow, and may be heard of twice.

A part is told as pieces of text without a position, and as a whole when it begins and ends. After
the stream was cut, a part that was growing has a gap: its pieces are left out until the whole of
it comes, of which then the rest is told. So nothing is lost and nothing is doubled.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quarterdeck.wire.events import Event, ToolCallEnded, ToolCallStarted, ToolCallUpdated
from quarterdeck.wire.ids import ToolCallId, new_message_id
from quarterdeck.wire.toolcalls import ToolCallLocation

from ..pipe.told import as_map, as_text, message, shown, thought, tool_kind

__all__ = ["CallPart", "TextPart", "call_id"]

_SHOWN_OUTPUT = 8 * 1024
_STRIDE = 4 * 1024
"""Characters of a command's output after which it is shown again."""


@dataclass(slots=True)
class TextPart:
    """A text or a thought."""

    name: str
    """Its id; a text that was rewritten gets another."""
    is_thought: bool
    has_gap: bool
    is_done: bool = False
    pieces: list[str] = field(default_factory=list[str])

    def grow(self, delta: str) -> Iterator[Event]:
        """A piece of it."""
        if delta and not self.has_gap and not self.is_done:
            self.pieces.append(delta)
            yield self._said(delta)

    def update(self, part: Mapping[str, Any], *, is_live: bool) -> Iterator[Event]:
        """All of it, as far as it is there."""
        if self.is_done:
            return
        whole = as_text(part.get("text"))
        self.is_done = as_map(part.get("time")).get("end") is not None
        if is_live and not whole and not self.pieces:
            self.has_gap = False  # here it begins, and all of its pieces will follow
        before = "".join(self.pieces)
        if whole.startswith(before):
            rest = whole[len(before) :]
        elif before.startswith(whole) or not self.is_done:
            return  # what it has more is white space at its end, or news of which we know more
        else:
            rest, self.name, self.pieces = whole, new_message_id(), []
        if rest:
            self.pieces.append(rest)
            yield self._said(rest)

    def _said(self, text: str) -> Event:
        return thought(text, self.name) if self.is_thought else message(text, self.name)


_RANKS = {"pending": 0, "running": 1, "completed": 2, "error": 2}


@dataclass(slots=True)
class CallPart:
    """A tool call; it only ever goes forward."""

    rank: int = -1
    size: int = 0
    """Characters of its output when it was last shown."""

    def update(self, part: Mapping[str, Any]) -> Iterator[Event]:
        """How it stands."""
        state = as_map(part.get("state"))
        rank = _RANKS.get(as_text(state.get("status")), -1)
        if rank < self.rank or self.rank == 2 or rank < 0:
            return
        before, self.rank = self.rank, rank
        if rank > before and before < 1:
            yield _started(part, state)
        if rank == 2:
            yield _ended(part, state)
        elif rank == before:
            yield from self._output(part, as_map(state.get("metadata")))

    def _output(self, part: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Event]:
        output = as_text(told.get("output"))
        if not output or (self.size and len(output) < self.size + _STRIDE):
            return
        self.size = len(output)
        yield ToolCallUpdated(call=call_id(part), content=shown(output[-_SHOWN_OUTPUT:]))


def call_id(part: Mapping[str, Any]) -> ToolCallId:
    """The id of a tool call."""
    return ToolCallId(as_text(part.get("callID")) or as_text(part.get("id")))


def _started(part: Mapping[str, Any], state: Mapping[str, Any]) -> ToolCallStarted:
    name, given = as_text(part.get("tool")), as_map(state.get("input"))
    path = as_text(given.get("filePath")) or as_text(given.get("path"))
    return ToolCallStarted(
        call=call_id(part),
        title=as_text(state.get("title")) or as_text(given.get("command")) or path or name,
        name=name,
        kind=tool_kind(name),
        status="pending" if state.get("status") == "pending" else "in_progress",
        locations=(ToolCallLocation(path=path),) if path else (),
        raw_input=dict(given) or None,
    )


def _ended(part: Mapping[str, Any], state: Mapping[str, Any]) -> ToolCallEnded:
    has_failed = state.get("status") != "completed"
    output = as_text(state.get("error" if has_failed else "output"))
    return ToolCallEnded(
        call=call_id(part),
        status="failed" if has_failed else "completed",
        reason=output or "it failed" if has_failed else None,
        content=shown(output),
        raw_output=state.get("output"),
    )
