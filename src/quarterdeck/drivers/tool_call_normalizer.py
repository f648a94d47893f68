"""The book of tool calls: one start, any number of updates, one end, whatever the agent sends."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from quarterdeck.wire.events import (
    Event,
    PermissionAsked,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.tool_calls import ToolCallEnd

__all__ = ["ToolCallNormalizer"]


class ToolCallNormalizer:
    """Makes what agents say about tool calls keep the rules of the vocabulary.

    Agents use ids again in later turns, announce a call first when they ask for leave, send the
    end as an update or twice, or not at all. An id that comes again in a later turn gets a new
    name, so that a call is one call in the whole log.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._open: dict[str, ToolCallId] = {}
        self._ended: set[str] = set()
        """Ids that ended in this turn, as the agent calls them."""
        self._used: dict[str, int] = {}
        """How often an id began, over the whole session."""

    def name(self, theirs: str) -> ToolCallId:
        """What we call the agent's call."""
        return self._open.get(theirs) or _numbered(theirs, self._used.get(theirs, 0))

    def begin(self, start: ToolCallStarted) -> Iterator[Event]:
        """The agent announces a call, perhaps again, perhaps one that is over already."""
        theirs = start.call
        if theirs in self._open:
            yield from self.update(_as_update(start))
            return
        if theirs in self._ended:
            yield _late(self._origin, start)
            return
        final = start.status if start.status in ("completed", "failed") else None
        ours = self._open_call(theirs)
        status = "in_progress" if final else start.status
        yield replace(start, call=ours, status=status)
        if final:
            yield self._end(theirs, ToolCallEnded(call=ours, status=final))

    def update(self, update: ToolCallUpdated) -> Iterator[Event]:
        """The agent tells of a call, perhaps for the first time, perhaps that it is over."""
        theirs = update.call
        if theirs in self._ended:
            yield _late(self._origin, update)
            return
        if theirs not in self._open:
            first = _as_start(update)
            over = first.status in ("completed", "failed")
            yield from self.begin(replace(first, status="in_progress") if over else first)
            if not over and update.raw_output is UNSET:
                return
            update = ToolCallUpdated(
                call=update.call,
                status=update.status if over else UNSET,
                content=update.content if over else UNSET,
                raw_output=update.raw_output,
            )
        ours = self._open[theirs]
        if isinstance(update.status, str) and update.status in ("completed", "failed"):
            yield from self._finish(theirs, ours, update, update.status)
        else:
            yield replace(update, call=ours)

    def ask(self, question: PermissionAsked) -> Iterator[Event]:
        """The agent asks for leave; some announce the call by nothing else."""
        if question.call not in self._open and question.call not in self._ended:
            yield from self.begin(
                ToolCallStarted(
                    call=question.call,
                    title=question.title,
                    name=question.name,
                    kind=question.kind,
                    content=question.content,
                    locations=question.locations,
                    raw_input=question.raw_input,
                )
            )

    def end(self, end: ToolCallEnded) -> Iterator[Event]:
        """The agent says that a call is over."""
        theirs = end.call
        if theirs in self._ended:
            yield _late(self._origin, end)
            return
        if theirs not in self._open:
            ours = self._open_call(theirs)
            yield ToolCallStarted(call=ours, title=theirs, status="in_progress")
        yield self._end(theirs, replace(end, call=self._open[theirs]))

    def close(self, status: ToolCallEnd, reason: str) -> Iterator[Event]:
        """End the calls that the agent left open; the turn is over."""
        for theirs, ours in list(self._open.items()):
            yield self._end(theirs, ToolCallEnded(call=ours, status=status, reason=reason))
        self._ended.clear()

    def _open_call(self, theirs: str) -> ToolCallId:
        count = self._used[theirs] = self._used.get(theirs, 0) + 1
        ours = self._open[theirs] = _numbered(theirs, count)
        return ours

    def _finish(
        self, theirs: str, ours: ToolCallId, update: ToolCallUpdated, status: ToolCallEnd
    ) -> Iterator[Event]:
        """An update that is the end: what an end has no place for is told before."""
        named = {
            field: getattr(update, field)
            for field in ("title", "name", "kind", "raw_input")
            if not isinstance(getattr(update, field), UnsetType)
        }
        if named:
            yield ToolCallUpdated(call=ours, **named)
        yield self._end(
            theirs,
            ToolCallEnded(
                call=ours,
                status=status,
                content=update.content,
                locations=update.locations,
                raw_output=update.raw_output,
            ),
        )

    def _end(self, theirs: str, end: ToolCallEnded) -> ToolCallEnded:
        del self._open[theirs]
        self._ended.add(theirs)
        return end


def _numbered(theirs: str, count: int) -> ToolCallId:
    return ToolCallId(theirs if count <= 1 else f"{theirs}~{count}")


def _late(origin: str, event: ToolCallStarted | ToolCallUpdated | ToolCallEnded) -> UnknownEvent:
    return UnknownEvent(
        origin=origin,
        raw=msgspec.json.decode(msgspec.json.encode(event)),
        reason="it arrived after the end of its call",
    )


def _as_update(start: ToolCallStarted) -> ToolCallUpdated:
    data: dict[str, Any] = {
        "title": start.title or UNSET,
        "name": start.name if start.name is not None else UNSET,
        "kind": start.kind,
        "status": start.status,
        "content": start.content or UNSET,
        "locations": start.locations or UNSET,
        "raw_input": start.raw_input if start.raw_input is not None else UNSET,
    }
    return ToolCallUpdated(call=start.call, **data)


def _as_start(update: ToolCallUpdated) -> ToolCallStarted:
    fields = ("name", "kind", "status", "content", "locations", "raw_input")
    data: dict[str, Any] = {
        field: value
        for field in fields
        if not isinstance(value := getattr(update, field), UnsetType)
    }
    title = update.title if isinstance(update.title, str) else data.get("name") or update.call
    return ToolCallStarted(call=update.call, title=title, **data)
