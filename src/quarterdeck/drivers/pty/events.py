"""What a screen says in a turn, as events: text in pieces, tool calls with a start and an end."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeAlias

from quarterdeck.terminal.emulator import Color, GridRow
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

from .patterns import AnswerPatterns
from .reader import TerminalRequest

__all__ = ["OTHER_MARK", "TextBeforeTurn", "TurnEvents", "TurnItem", "TurnText", "TurnTextFinder"]

OTHER_MARK = "│"
"""Replaces the mark of a prompt where its colour shows that it is none."""
_Kind: TypeAlias = Literal["text", "thought", "tool", "failed"]


@dataclass(slots=True, kw_only=True)
class TurnItem:
    """A message, a thought or a tool call of a turn."""

    kind: _Kind
    lines: list[str]
    status: Literal["running", "completed", "failed"] = "completed"

    @property
    def text(self) -> str:
        """Its text; blank lines around it do not count."""
        return "\n".join(self.lines).rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnText:
    """A turn so far."""

    items: tuple[TurnItem, ...]
    began: bool
    """The prompt of the turn is on the screen."""

    def joined(self, kind: _Kind) -> str:
        """Everything of a kind."""
        return "\n".join(item.text for item in self.items if item.kind == kind)

    @property
    def failure(self) -> str:
        """Why the turn failed; empty if it did not."""
        return self.joined("failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBeforeTurn:
    """What was there when a prompt was about to be sent."""

    prompts: int
    last: tuple[str, ...] | None
    """In a window that scrolls by itself: the last prompt and what follows it; else None."""


class TurnTextFinder:
    """Finds the text of a turn; patterns are an agent's ``AnswerPatterns``."""

    def __init__(self, rule: AnswerPatterns, columns: int) -> None:
        self._rule = rule
        self._width = columns - rule.margin
        self._echo = re.compile(rule.echo)
        self._echo_more = re.compile(rule.echo_more) if rule.echo_more else None
        starts: dict[_Kind, str] = {
            "failed": rule.failed,
            "tool": rule.tool,
            "thought": rule.thought,
            "text": rule.text,
        }
        self._starts: list[tuple[_Kind, re.Pattern[str]]] = [
            (kind, re.compile(like, re.MULTILINE)) for kind, like in starts.items() if like
        ]
        self._more = re.compile(rule.more) if rule.more else None
        self._skip = re.compile(rule.skip) if rule.skip else None
        self._over = re.compile(rule.over) if rule.over else None
        self._again = re.compile(rule.again) if rule.again else None

    def before(self, lines: Sequence[str], *, is_window: bool) -> TextBeforeTurn:
        """What is there before a prompt is sent; ``lines`` are kept, or the window of a program."""
        blocks = self._blocks(lines)
        last = tuple(lines[blocks[-1].start :]) if blocks else ()
        return TextBeforeTurn(prompts=len(blocks), last=last if is_window else None)

    def read(self, lines: Sequence[str], before: TextBeforeTurn) -> TurnText:
        """What follows the prompt that was sent after ``before``."""
        blocks = self._blocks(lines)
        if not blocks:  # it has left at the top
            return TurnText(items=tuple(self._items(lines)), began=False)
        if before.last is not None:
            return self._read_window(lines, blocks[-1], before.last)
        if len(blocks) <= before.prompts:
            return TurnText(items=(), began=False)
        end = len(lines)
        if not self._rule.one_echo and len(blocks) > before.prompts + 1:
            end = blocks[before.prompts + 1].start
        start = blocks[before.prompts].stop
        return TurnText(items=tuple(self._items(lines[start:end])), began=True)

    def _read_window(self, lines: Sequence[str], block: range, last: tuple[str, ...]) -> TurnText:
        """Prompts leave a window at its top: ours is the last, unless it is the one from before."""
        if last and tuple(lines[block.start :])[: len(last)] == last:
            return TurnText(items=(), began=False)
        return TurnText(items=tuple(self._items(lines[block.stop :])), began=True)

    def _blocks(self, lines: Sequence[str]) -> list[range]:
        """The places of prompts; further lines of one belong to it."""
        blocks: list[range] = []
        for index, line in enumerate(lines):
            if blocks and blocks[-1].stop == index and _fits(self._echo_more, line):
                blocks[-1] = range(blocks[-1].start, index + 1)
            elif self._echo.match(line):
                blocks.append(range(index, index + 1))
        return blocks

    def color(self, row: GridRow) -> Color:
        """The colour of the mark that begins this row."""
        spans = (span for span in row.spans if span.text.strip())
        first = next(spans, None)
        return first.style.foreground if first is not None else None

    def plain(self, row: GridRow, color: Color) -> str:
        """The text of a row; its mark is another one where its colour is."""
        mark = self._rule.mark
        if mark and row.text.lstrip().startswith(mark) and self.color(row) != color:
            return row.text.replace(mark, OTHER_MARK, 1)
        return row.text

    def _items(self, lines: Sequence[str]) -> list[TurnItem]:
        items: list[TurnItem] = []
        current: TurnItem | None = None
        last = ""
        is_own = False
        for line, after in zip_longest(lines, lines[1:], fillvalue=""):
            is_inner = self._rule.tool_after_blank and bool(last) and line.startswith(" ")
            last = line
            is_own = self._is_own(line, is_own)
            if _fits(self._skip, line):
                current = None
                continue
            no_tool = is_inner or (self._over is not None and not is_own)
            started = self._started(line, after, no_tool=no_tool)
            if started is not None and is_own and started.kind in ("text", "thought"):
                current = None
            elif started is not None:
                current = started
                items.append(current)
            elif current is not None:
                current = self._continued(current, line)
        for item in items:
            if item.kind in ("text", "thought") and self._rule.wraps:
                item.lines = _unfolded(item.lines, self._width)
        return items

    def _is_own(self, line: str, before: bool) -> bool:
        """Whether what follows is the agent's own, not the model's."""
        return not _fits(self._again, line) if before else _fits(self._over, line)

    def _started(self, line: str, after: str, *, no_tool: bool) -> TurnItem | None:
        for kind, pattern in self._starts:
            if no_tool and kind == "tool":
                continue
            if found := pattern.match(f"{line}\n{after}"):
                groups = found.groupdict()
                text = groups.get("text") or groups.get("title") or groups.get("reason") or ""
                item = TurnItem(kind=kind, lines=[text])
                if groups.get("running") is not None:
                    item.status = "running"
                if groups.get("failed") is not None:
                    item.status = "failed"
                return item
        return None

    def _continued(self, item: TurnItem, line: str) -> TurnItem | None:
        """The item that the line goes on with; None when it belongs to nothing."""
        if item.kind not in ("text", "thought"):
            return None
        if not line:
            item.lines.append("")
            return item
        if self._more is not None and (found := self._more.match(line)):
            item.lines.append(found["text"])
            return item
        return None


def _fits(pattern: re.Pattern[str] | None, line: str) -> bool:
    return pattern is not None and pattern.match(line) is not None


def _unfolded(lines: list[str], width: int) -> list[str]:
    """Lines as they were before they were broken at words to fit the width."""
    whole: list[str] = []
    last = ""
    for line in lines:
        word = line.split(" ", 1)[0]
        if whole and last and word and len(last) + 1 + len(word) > width:
            whole[-1] = f"{whole[-1]} {line}"
        else:
            whole.append(line)
        last = line
    return whole


_SETTLED = 0.2
"""Seconds that something must have been on the screen before it is emitted."""
_GAP = "[…]"
"""Replaces lines that left the screen before they could be read."""


class TurnEvents:
    """What was reported of one turn, and what is new. Nothing that was reported is taken back."""

    def __init__(self, turn: str) -> None:
        self._turn = turn
        self._shown_items: dict[int, str] = {}
        """The text of each item that was reported."""
        self._messages: dict[int, MessageId] = {}
        self._calls: list[ToolCallId] = []
        self._open: ToolCallId | None = None
        self._about: TerminalRequest | None = None
        """What was asked last."""
        self._allowed: TerminalRequest | None = None
        """What was asked about the open call, and allowed."""
        self._ends: dict[ToolCallId, ToolCallEnd] = {}
        self._window: list[str] = []
        """Lines that were reported when the beginning of the turn had left the screen."""
        self._has_text = False
        self._appeared: dict[int, tuple[str, float]] = {}

    def news(self, turn_text: TurnText, *, is_last: bool, is_calm: bool) -> list[Event]:
        """What is new; the line that is being written waits until the screen is calm."""
        if not turn_text.began:
            return self._windowed(turn_text, is_last or is_calm)
        events: list[Event] = []
        tools = 0
        for index, item in enumerate(turn_text.items):
            is_behind = index < len(turn_text.items) - 1
            if item.kind == "tool":
                events += self._tool(item, tools, is_over=is_behind or is_last)
                tools += 1
            elif item.kind != "failed" and (is_last or self._is_settled(index, item)):
                events += self._text(index, item, whole=is_behind or is_last or is_calm)
        return events

    def _is_settled(self, index: int, item: TurnItem) -> bool:
        """Whether it has been there for a moment: agents draw a call as text, then as a call."""
        if index in self._shown_items:
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
        before = self._shown_items.get(index, "")
        if shown.startswith(before):
            fresh = shown[len(before) :]
        else:
            # It was drawn anew in another shape: once it is whole, go on where that begins.
            fresh = _reshaped(before, shown) if whole else ""
        if not fresh:
            return []
        self._shown_items[index] = shown
        if item.kind == "thought":
            return [ThoughtChunk(content=text(fresh))]
        if index not in self._messages:
            self._messages[index] = new_message_id()
            fresh = f"\n{fresh}" if self._has_text else fresh
        self._has_text = True
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

    def _windowed(self, turn_text: TurnText, whole: bool) -> list[Event]:
        """The beginning of the turn is out of sight: go on where what was reported last is seen."""
        lines = [line for item in turn_text.items if item.kind == "text" for line in item.lines]
        if not whole:
            lines = lines[:-1]
        known = self._window or [
            line for entry in self._shown_items.values() for line in entry.split("\n")
        ]
        fresh = _after(known, lines)
        if not fresh:
            return []
        self._window = [*known, *fresh][-200:]
        start = "\n" if self._has_text else ""
        self._has_text = True
        return [MessageChunk(content=text(start + "\n".join(fresh)))]


def _steady(shown: str) -> str:
    """All but the word that is being written."""
    return shown[: max(shown.rfind(" "), shown.rfind("\n"), 0)]


def _reshaped(text: str, shown: str) -> str:
    """The lines from the first that was reported otherwise; what was reported stays reported."""
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
