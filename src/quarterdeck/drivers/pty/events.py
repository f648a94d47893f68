"""Telling what a screen shows as events: text in pieces, tool calls with a start and an end."""

import time
from collections.abc import Sequence

from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
)
from quarterdeck.wire.ids import MessageId, ToolCallId, new_message_id
from quarterdeck.wire.tool_calls import ToolCallEnd

from .reader import TerminalRequest
from .turn_text import TurnItem, TurnText

__all__ = ["TurnEvents"]

_SETTLED = 0.2
"""Seconds that something must have been on the screen before it counts as said."""
_GAP = "[…]"
"""Stands for lines that left the screen before they could be read."""


class TurnEvents:
    """What was told of one turn, and what is new. Nothing that was told is taken back."""

    def __init__(self, turn: str) -> None:
        self._turn = turn
        self._told: dict[int, str] = {}
        """The text of each item that was told."""
        self._messages: dict[int, MessageId] = {}
        self._calls: list[ToolCallId] = []
        self._open: ToolCallId | None = None
        self._about: TerminalRequest | None = None
        """What was asked last."""
        self._allowed: TerminalRequest | None = None
        """What was asked about the open call, and allowed."""
        self._ends: dict[ToolCallId, ToolCallEnd] = {}
        self._window: list[str] = []
        """Lines that were told when the beginning of the turn had left the screen."""
        self._has_said = False
        self._appeared: dict[int, tuple[str, float]] = {}

    def news(self, said: TurnText, *, is_last: bool, is_calm: bool) -> list[Event]:
        """What is new; the line that is being written waits until the screen is calm."""
        if not said.began:
            return self._windowed(said, is_last or is_calm)
        events: list[Event] = []
        tools = 0
        for index, item in enumerate(said.items):
            is_behind = index < len(said.items) - 1
            if item.kind == "tool":
                events += self._tool(item, tools, is_over=is_behind or is_last)
                tools += 1
            elif item.kind != "failed" and (is_last or self._is_settled(index, item)):
                events += self._text(index, item, whole=is_behind or is_last or is_calm)
        return events

    def _is_settled(self, index: int, item: TurnItem) -> bool:
        """Whether it has been there for a moment: agents draw a call as text, then as a call."""
        if index in self._told:
            return True
        first = item.lines[0].split(" ", 1)[0]
        known, since = self._appeared.get(index, ("", 0.0))
        if known != first:
            self._appeared[index] = first, time.monotonic()
            return False
        return time.monotonic() - since >= _SETTLED

    def asked(self, request: TerminalRequest) -> tuple[ToolCallId, list[Event]]:
        """The call that a request is about: the one that runs, or one that the screen hides.

        One that was asked about and allowed is over when something else is asked.
        """
        events: list[Event] = []
        allowed, self._allowed = self._allowed, None
        if self._open is not None and self._open not in self._ends:
            if allowed is None or allowed == request:
                self._about = request
                return self._open, []
            events = self._end(self._open, "completed")
        call = ToolCallId(f"{self._turn}-asked-{len(self._calls)}")
        self._calls.append(call)
        self._open, self._about = call, request
        return call, [*events, ToolCallStarted(call=call, title=request.title, kind=request.kind)]

    def decided(self, call: ToolCallId, allowed: bool) -> list[Event]:
        """A request was answered: what was refused has ended."""
        if allowed:
            self._allowed = self._about
            return []
        return self._end(call, "failed")

    def last(self) -> list[Event]:
        """The ends of all that is open, when the turn is over."""
        return [event for call in self._calls for event in self._end(call, "completed")]

    def _text(self, index: int, item: TurnItem, *, whole: bool) -> list[Event]:
        shown = item.text if whole else _steady(item.text)
        told = self._told.get(index, "")
        if shown.startswith(told):
            fresh = shown[len(told) :]
        else:
            # It was drawn anew in another shape: once it is whole, go on where that begins.
            fresh = _reshaped(told, shown) if whole else ""
        if not fresh:
            return []
        self._told[index] = shown
        if item.kind == "thought":
            return [ThoughtChunk(content=text(fresh))]
        if index not in self._messages:
            self._messages[index] = new_message_id()
            fresh = f"\n{fresh}" if self._has_said else fresh
        self._has_said = True
        return [MessageChunk(content=text(fresh), message=self._messages[index])]

    def _tool(self, item: TurnItem, number: int, *, is_over: bool) -> list[Event]:
        events: list[Event] = []
        if number >= len(self._calls):
            call = ToolCallId(f"{self._turn}-{number}")
            self._calls.append(call)
            self._open, self._allowed = call, None
            events.append(ToolCallStarted(call=call, title=item.text, status="in_progress"))
        if is_over:
            end: ToolCallEnd = "failed" if item.status == "failed" else "completed"
            events += self._end(self._calls[number], end)
        return events

    def _end(self, call: ToolCallId, how: ToolCallEnd) -> list[Event]:
        if call in self._ends:
            return []
        self._ends[call] = how
        return [ToolCallEnded(call=call, status=how)]

    def _windowed(self, said: TurnText, whole: bool) -> list[Event]:
        """The beginning of the turn is out of sight: go on where what was told last is seen."""
        lines = [line for item in said.items if item.kind == "text" for line in item.lines]
        if not whole:
            lines = lines[:-1]
        known = self._window or [line for told in self._told.values() for line in told.split("\n")]
        fresh = _after(known, lines)
        if not fresh:
            return []
        self._window = [*known, *fresh][-200:]
        start = "\n" if self._has_said else ""
        self._has_said = True
        return [MessageChunk(content=text(start + "\n".join(fresh)))]


def _steady(shown: str) -> str:
    """All but the word that is being written."""
    return shown[: max(shown.rfind(" "), shown.rfind("\n"), 0)]


def _reshaped(text: str, shown: str) -> str:
    """The lines from the first that was told otherwise; what was told stays told."""
    before, now = text.split("\n"), shown.split("\n")
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    return "".join(f"\n{line}" for line in now[same:])


def _after(known: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The lines that follow those that are known; with a mark where some are missing."""
    if not known:
        return list(lines)
    for size in (3, 1):
        end = list(known[-size:])
        for at in range(len(lines), len(end) - 1, -1):
            if list(lines[at - len(end) : at]) == end:
                return list(lines[at:])
    return [_GAP, *lines] if lines else []
