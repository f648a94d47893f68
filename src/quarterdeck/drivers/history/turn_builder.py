"""Builds turns from a stored session: a prompt begins one, every call in it ends once."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from quarterdeck.wire.content import ContentBlock, ImageContent, text
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    Prompted,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnd,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import CompactionId, MessageId, SessionId, ToolCallId, TurnId
from quarterdeck.wire.tool_calls import Diff, ToolCallContent, ToolCallEnd, ToolCallLocation
from quarterdeck.wire.usage import Cost, TokenUsage

from ..foreign_json import as_list, as_map, as_text, output_content, tool_kind
from .reader import HistoryEvent

__all__ = [
    "TurnBuilder",
    "call_ended",
    "call_started",
    "content_of",
    "derive_session_id",
    "text_of_parts",
]

_TITLE = 200
_PATHS = ("path", "file_path", "filePath", "absolute_path", "filename")
_REASON = 1_000


def call_started(call: str, name: str, given: Any) -> ToolCallStarted:
    """A call begins; its title is the command, or the tool and the file."""
    fields = as_map(given)
    path = next((found for key in _PATHS if (found := as_text(fields.get(key)))), "")
    command = as_text(fields.get("command")) or as_text(fields.get("cmd"))
    title = " ".join((command or f"{name} {path}").split()) or "a tool call"
    return ToolCallStarted(
        call=ToolCallId(call or "unnamed"),
        title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
        name=name or None,
        kind=tool_kind(name),
        status="in_progress",
        locations=(ToolCallLocation(path=path),) if path else (),
        raw_input=dict(fields) if fields else given,
    )


def call_ended(
    call: str, status: ToolCallEnd, output: str, diff: Mapping[str, Any] | None = None
) -> ToolCallEnded:
    """A call ends. ``diff``: ``path``, ``old`` and ``new`` of the file that it changed."""
    content: tuple[ToolCallContent, ...] = output_content(output)
    if diff and as_text(diff.get("path")) and isinstance(diff.get("new"), str):
        old = as_text(diff.get("old")) or None
        content = (Diff(path=diff["path"], old_text=old, new_text=diff["new"]),)
    return ToolCallEnded(
        call=ToolCallId(call or "unnamed"),
        status=status,
        reason=output[:_REASON] or None if status != "completed" else None,
        content=content,
    )


def content_of(parts: Any) -> Iterator[ContentBlock]:
    """A person's message, from ``{"type": "text"|"image", …}`` parts or from plain text."""
    if isinstance(parts, str):
        parts = [{"text": parts}]
    for part in map(as_map, as_list(parts)):
        data = as_text(part.get("data"))
        kind = as_text(part.get("mimeType")) or as_text(part.get("mime_type"))
        if words := as_text(part.get("text")):
            yield text(words)
        elif data and kind.startswith("image/"):
            yield ImageContent(data=data, mime_type=kind)


def text_of_parts(parts: Any) -> str:
    """The texts of such parts, a line each."""
    if isinstance(parts, str):
        return parts
    return "\n".join(text for one in as_list(parts) if (text := as_text(as_map(one).get("text"))))


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LEFT_OPEN = "the history does not record how it ended"


def derive_session_id(agent: str, id_: str) -> SessionId:
    """The id of ours for a session of an agent: the same whenever and wherever it is read."""
    return SessionId(f"ses_{_digest(agent, id_)}")


def _digest(*parts: str) -> str:
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).digest())
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(0, 130, 5))


class TurnBuilder:
    """Keeps the rules of a session's events for a reader: see ``quarterdeck.wire.events``.

    Ids are the same at each reading: a turn's is made of what the agent calls its prompt, or of the
    order where it has no name for it. So a branch of a session that is read later has turns of its
    own.
    """

    def __init__(self, agent: str, id_: str) -> None:
        self._agent = agent
        self._id = id_
        self._number = 0
        self._messages = 0
        self._compactions = 0
        self._turn: TurnId | None = None
        self._last: TurnId | None = None
        self._named: Counter[str] = Counter()
        """How many turns have begun under a name of the agent's."""
        self._calls: dict[str, ToolCallId] = {}
        """Calls that are open, under the agent's ids."""
        self._seen: set[str] = set()
        self._time: int | None = None
        self._usage: TokenUsage | None = None
        self._cost = 0.0
        self._stop: tuple[TurnEnd, str | None] = ("end_turn", None)

    def message(self) -> MessageId:
        """An id for a further message."""
        self._messages += 1
        place = (self._last or "", str(self._messages))
        return MessageId(f"msg_{_digest(self._agent, self._id, 'message', *place)}")

    def prompt(
        self, content: Iterable[ContentBlock], time: int | None, name: str = ""
    ) -> Iterator[HistoryEvent]:
        """A person speaks: the turn before is over, and one begins.

        ``name`` is what the agent calls the prompt or its turn, if it does.
        """
        yield from self.end()
        self._time = time or self._time
        blocks = tuple(content) or (text(""),)
        begun = self._next(name)
        message = self.message()
        yield HistoryEvent(event=Prompted(content=blocks, message=message), time=self._time)
        yield from self._begin(begun, message)

    def tell(
        self, event: Event, time: int | None, parent: str | None = None
    ) -> Iterator[HistoryEvent]:
        """Something happens within the turn; one begins if there is none."""
        self._time = time or self._time
        if self._turn is None:
            yield from self._begin(self._next(""), None)
        call = self._calls.get(parent, ToolCallId(parent)) if parent else None
        for one in self._kept(event):
            yield HistoryEvent(event=one, time=self._time, turn=self._turn, parent=call)

    def outside(self, event: Event, time: int | None) -> Iterator[HistoryEvent]:
        """Something that belongs to no turn, such as a title."""
        yield HistoryEvent(event=event, time=time or self._time, turn=self._turn)

    def compact(self, summary: str | None, time: int | None) -> Iterator[HistoryEvent]:
        """The agent replaced its window by a summary, which may be unknown."""
        self._compactions += 1
        name = CompactionId(f"cmp_{self._compactions}")
        begun = CompactionChanged(compaction=name, status="in_progress")
        done = CompactionChanged(compaction=name, status="completed", summary=summary)
        for event in (begun, done):
            yield from self.outside(event, time)

    def spend(self, usage: TokenUsage, cost: float = 0.0) -> None:
        """Count what a model call of the turn took, once."""
        self._usage = usage if self._usage is None else self._usage + usage
        self._cost += cost

    def stop(self, how: TurnEnd, reason: str | None = None) -> None:
        """Say how the turn will have ended."""
        self._stop = how, reason

    def end(self) -> Iterator[HistoryEvent]:
        """The turn is over, if there is one; what it left open ends before it."""
        if self._turn is None:
            return
        for call in self._calls.values():
            ended = ToolCallEnded(call=call, status="cancelled", reason=_LEFT_OPEN)
            yield HistoryEvent(event=ended, time=self._time, turn=self._turn)
        how, reason = self._stop
        cost = Cost(amount=self._cost, currency="USD") if self._cost else None
        ended = TurnEnded(stop=how, reason=reason, usage=self._usage, cost=cost)
        yield HistoryEvent(event=ended, time=self._time, turn=self._turn)
        self._turn = None
        self._calls.clear()
        self._usage, self._cost = None, 0.0
        self._stop = "end_turn", None

    def _next(self, name: str) -> TurnId:
        """The id of the turn that begins."""
        self._number += 1
        self._named[name] += 1
        key = (name, str(self._named[name])) if name else (str(self._number),)
        self._last = TurnId(f"trn_{_digest(self._agent, self._id, 'turn', *key)}")
        return self._last

    def _begin(self, turn: TurnId, prompt: MessageId | None) -> Iterator[HistoryEvent]:
        self._turn = turn
        yield HistoryEvent(event=TurnStarted(prompt=prompt), time=self._time, turn=self._turn)

    def _kept(self, event: Event) -> Iterator[Event]:
        """The event, under ids that are used once; a call that never began begins first."""
        match event:
            case ToolCallStarted(call=call):
                if call not in self._calls:
                    yield replace(event, call=self._open(call))
            case ToolCallUpdated(call=call) if call in self._calls:
                yield replace(event, call=self._calls[call])
            case ToolCallUpdated():
                return
            case ToolCallEnded(call=call) if call in self._seen and call not in self._calls:
                return
            case ToolCallEnded(call=call):
                if call not in self._calls:
                    yield ToolCallStarted(call=self._open(call), title="a tool call")
                yield replace(event, call=self._calls.pop(call))
            case _:
                yield event

    def _open(self, call: str) -> ToolCallId:
        name, number = call, 2
        while name in self._seen:
            name, number = f"{call}~{number}", number + 1
        self._seen.add(name)
        self._calls[call] = ToolCallId(name)
        return self._calls[call]
