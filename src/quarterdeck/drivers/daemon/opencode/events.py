"""Messages of ``opencode serve`` as our events: pure; a part may arrive twice."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from quarterdeck.wire.clock import read_wall_seconds
from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    PlanChanged,
    RetryScheduled,
    SessionChanged,
    ToolCallUpdated,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.ids import ToolCallId, new_message_id
from quarterdeck.wire.settings import PlanEntry, PlanStatus
from quarterdeck.wire.usage import Cost, TokenUsage

from ...foreign_json import (
    as_list,
    as_map,
    as_number,
    as_text,
    message,
    output_content,
    rate_limit,
    thought,
)
from ...link import TurnOutcome
from ...opencode_messages import (
    STOPS,
    amount_of,
    call_ended,
    call_id,
    call_started,
    error_text,
    limit_of,
    tokens_of,
)

__all__ = ["EventOfCall", "OpencodeCallPart", "OpencodeServerReader", "OpencodeTextPart"]

_SHOWN_OUTPUT = 8 * 1024
_STRIDE = 4 * 1024
"""Characters of a command's output after which it is shown again."""


@dataclass(slots=True)
class OpencodeTextPart:
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
            yield self._message_chunk(delta)

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
            yield self._message_chunk(rest)

    def _message_chunk(self, text: str) -> Event:
        return thought(text, self.name) if self.is_thought else message(text, self.name)


_RANKS = {"pending": 0, "running": 1, "completed": 2, "error": 2}


@dataclass(slots=True)
class OpencodeCallPart:
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
            yield call_started(part)
        if rank == 2:
            yield call_ended(part)
        elif rank == before:
            yield from self._output(part, as_map(state.get("metadata")))

    def _output(self, part: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[Event]:
        output = as_text(data.get("output"))
        if not output or (self.size and len(output) < self.size + _STRIDE):
            return
        self.size = len(output)
        yield ToolCallUpdated(call=call_id(part), content=output_content(output[-_SHOWN_OUTPUT:]))


EventOfCall: TypeAlias = tuple[Event, ToolCallId | None]
"""An event, and the call of ours that it belongs to."""

_STEPS: dict[str, PlanStatus] = {"in_progress": "in_progress", "completed": "completed"}
_ABORTED = "MessageAbortedError"
_SILENT_PARTS = frozenset(("step-start", "snapshot", "patch", "agent", "retry", "file", "subtask"))
_SILENT = frozenset(
    (
        *("session.diff", "session.deleted", "session.compacted", "message.removed"),
        *("message.part.removed", "permission.asked", "permission.replied", "question.asked"),
        *("question.replied", "question.rejected", "command.executed"),
    )
)
"""What a session reports that something else reports too, or that ``requests`` answers."""


class OpencodeServerReader:
    """Reads what concerns one session, and those that its tools have started.

    Between ``begin_turn`` and ``end_turn`` the answers to a prompt are emitted, each once, whether
    they come from the stream (``read``) or from what the server has kept (``catch_up``).
    """

    def __init__(self, origin: str, session: str, *, model: str = "", title: str = "") -> None:
        self._origin = origin
        self._session = session
        self.family: dict[str, ToolCallId | None] = {session: None}
        """The session and those that its tools have started, with the calls that did."""
        self._prompt = ""
        self.has_begun = False
        """Whether the server has taken the prompt."""
        self.is_over = False
        """Whether it has answered it."""
        self.calls: dict[str, Mapping[str, Any]] = {}
        """The tool calls of this turn as they stand."""
        self._answers: set[str] = set()
        """Messages that are answers to the prompt."""
        self._parts: dict[str, OpencodeTextPart | OpencodeCallPart | None] = {}
        self._usage: TokenUsage | None = None
        self._cost = 0.0
        self._finish = ""
        self._error: Mapping[str, Any] = {}
        self._model, self._title = model, title
        self._totals: TokenUsage | None = None
        self._tells: dict[str, Callable[[Mapping[str, Any]], Iterator[Event]]] = {
            "session.created": self._session_updated,
            "session.updated": self._session_updated,
            "session.status": self._status,
            "session.idle": self._idle,
            "session.error": self._trouble,
            "message.updated": lambda data: self._message(as_map(data.get("info"))),
            "message.part.updated": lambda data: self._part(as_map(data.get("part"))),
            "message.part.delta": self._delta,
            "todo.updated": _plan,
        }

    # Turns

    def begin_turn(self, prompt: str) -> None:
        """What comes now answers this prompt."""
        self._prompt = prompt
        self.has_begun = self.is_over = False
        self.calls.clear()
        self._answers.clear()
        self._parts.clear()
        self._usage, self._cost, self._finish, self._error = None, 0.0, "", {}

    def end_turn(self) -> None:
        """What comes now belongs to nothing of ours."""
        self._prompt = ""

    def outcome(self) -> TurnOutcome:
        """How the turn went, as far as it was received."""
        cost = Cost(amount=self._cost, currency="USD") if self._cost else None
        if self._error.get("name") == _ABORTED:
            return TurnOutcome(stop="cancelled", usage=self._usage, cost=cost)
        if self._error:
            reason = error_text(self._error)
            if self._error.get("name") == "MessageOutputLengthError":
                return TurnOutcome(stop="max_tokens", reason=reason, usage=self._usage, cost=cost)
            return TurnOutcome(stop="failed", reason=reason, usage=self._usage, cost=cost)
        stop = STOPS.get(self._finish, "end_turn")
        return TurnOutcome(stop=stop, usage=self._usage, cost=cost)

    @property
    def is_answered(self) -> bool:
        """Whether the answer has come to an end of its own."""
        return bool(self._error) or self._finish not in ("", "tool-calls", "unknown")

    # Listening

    def read(self, kind: str, properties: Mapping[str, Any]) -> Iterator[EventOfCall]:
        """The events of one event of the stream."""
        session = _session_of(properties)
        if kind in ("session.created", "session.updated"):
            self._adopt(as_map(properties.get("info")))
        if session not in self.family:
            return
        tell = self._tells.get(kind)
        if tell is not None:
            for event in tell(properties):
                yield event, self.family.get(session)
        elif kind not in _SILENT:
            yield (
                UnknownEvent(
                    origin=self._origin, raw={"type": kind, "properties": dict(properties)}
                ),
                None,
            )

    def gap(self) -> None:
        """The stream was cut: pieces of what was growing may be missing."""
        for part in self._parts.values():
            if isinstance(part, OpencodeTextPart):
                part.has_gap = True

    def catch_up(self, messages: Iterable[Mapping[str, Any]]) -> Iterator[EventOfCall]:
        """The missing events of a session's messages, as the server has kept them."""
        for kept in messages:
            info = as_map(kept.get("info"))
            parent = self.family.get(as_text(info.get("sessionID")))
            for event in self._message(info):
                yield event, parent
            for part in map(as_map, as_list(kept.get("parts"))):
                for event in self._part(part, is_live=False):
                    yield event, parent

    def past(self, messages: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Event]]:
        """The events of earlier turns, each with the role of its author."""
        for kept in messages:
            role = as_text(as_map(kept.get("info")).get("role"))
            for part in map(as_map, as_list(kept.get("parts"))):
                for event in self._tell_part(part, is_live=False):
                    yield role, event
        self._parts.clear()
        self._usage, self._cost = None, 0.0

    # Sessions

    def _adopt(self, info: Mapping[str, Any]) -> None:
        parent = as_text(info.get("parentID"))
        if parent in self.family:
            self.family.setdefault(as_text(info.get("id")), self.family[parent])

    def _session_updated(self, data: Mapping[str, Any]) -> Iterator[Event]:
        info = as_map(data.get("info"))
        if info.get("id") != self._session:
            return
        title = as_text(info.get("title"))
        if title != self._title and not title.startswith("New session - "):
            self._title = title
            yield SessionChanged(title=title)
        totals = tokens_of(as_map(info.get("tokens")))
        if totals.total and totals != self._totals:
            self._totals = totals
            money = (
                Cost(amount=cost, currency="USD") if (cost := amount_of(info.get("cost"))) else None
            )
            yield UsageReported(session_tokens=totals, session_cost=money)

    def _status(self, data: Mapping[str, Any]) -> Iterator[Event]:
        status = as_map(data.get("status"))
        match status.get("type"):
            case "idle":
                yield from self._idle(data)
            case "retry" if self._prompt:
                reason = as_text(status.get("message")) or "the model failed"
                delay = max(as_number(status.get("next")) / 1000 - read_wall_seconds(), 0.0)
                if (limited := rate_limit(reason, delay)) is not None:
                    yield limited
                attempt = as_number(status.get("attempt")) + 1
                yield RetryScheduled(attempt=attempt, delay=delay, reason=reason)
            case _:
                pass

    def _idle(self, data: Mapping[str, Any]) -> Iterator[Event]:
        """The session is idle. Sent twice: it ends the turn only after the prompt was seen."""
        if self.has_begun and data.get("sessionID") == self._session:
            self.is_over = True
        return iter(())

    def _trouble(self, data: Mapping[str, Any]) -> Iterator[Event]:
        if self._prompt and data.get("sessionID") == self._session:
            yield from self._fail(as_map(data.get("error")))

    def _fail(self, error: Mapping[str, Any]) -> Iterator[Event]:
        if not error or self._error:
            return
        self._error = error
        if (limited := limit_of(error)) is not None:
            yield limited

    # Messages

    def _message(self, info: Mapping[str, Any]) -> Iterator[Event]:
        id_, session = as_text(info.get("id")), as_text(info.get("sessionID"))
        is_ours = session == self._session
        if not self._prompt or (is_ours and id_ < self._prompt):
            return
        if is_ours:
            self.has_begun = True
        if info.get("role") != "assistant":
            return
        self._answers.add(id_)
        if not is_ours:
            return
        self._finish = as_text(info.get("finish"))
        model = f"{as_text(info.get('providerID'))}/{as_text(info.get('modelID'))}"
        if model not in (self._model, "/"):
            self._model = model
            yield SessionChanged(model=model)
        yield from self._fail(as_map(info.get("error")))

    def _part(self, part: Mapping[str, Any], *, is_live: bool = True) -> Iterator[Event]:
        if self._prompt and as_text(part.get("messageID")) in self._answers:
            yield from self._tell_part(part, is_live=is_live)

    def _tell_part(self, part: Mapping[str, Any], *, is_live: bool) -> Iterator[Event]:
        id_, kind = as_text(part.get("id")), as_text(part.get("type"))
        known = self._parts.get(id_)
        if kind in ("text", "reasoning"):
            if not isinstance(known, OpencodeTextPart):
                known = OpencodeTextPart(id_, kind == "reasoning", has_gap=not is_live)
            self._parts[id_] = known
            yield from known.update(part, is_live=is_live)
        elif kind == "tool":
            self._remember(part)
            if not isinstance(known, OpencodeCallPart):
                known = OpencodeCallPart()
            self._parts[id_] = known
            yield from known.update(part)
        elif id_ not in self._parts:
            self._parts[id_] = None
            yield from self._once(kind, part)

    def _once(self, kind: str, part: Mapping[str, Any]) -> Iterator[Event]:
        if kind == "step-finish":
            self._usage = (self._usage or TokenUsage()) + tokens_of(as_map(part.get("tokens")))
            self._cost += amount_of(part.get("cost"))
        elif kind == "compaction":
            yield NoticePosted(title="OpenCode has compacted its context.")
        elif kind not in _SILENT_PARTS:
            yield UnknownEvent(origin=self._origin, raw=dict(part))

    def _remember(self, part: Mapping[str, Any]) -> None:
        call, state = call_id(part), as_map(part.get("state"))
        self.calls[call] = part
        child = as_text(as_map(state.get("metadata")).get("sessionId"))
        if child and child != self._session:
            self.family[child] = call

    def _delta(self, data: Mapping[str, Any]) -> Iterator[Event]:
        known = self._parts.get(as_text(data.get("partID")))
        if self._prompt and isinstance(known, OpencodeTextPart) and data.get("field") == "text":
            yield from known.grow(as_text(data.get("delta")))


def _session_of(data: Mapping[str, Any]) -> str:
    inner = as_map(data.get("info")) or as_map(data.get("part"))
    return as_text(data.get("sessionID")) or as_text(inner.get("sessionID"))


def _plan(data: Mapping[str, Any]) -> Iterator[Event]:
    yield PlanChanged(
        entries=tuple(
            PlanEntry(
                content=as_text(one.get("content")),
                priority=_priority(one.get("priority")),
                status=_STEPS.get(as_text(one.get("status")), "pending"),
            )
            for one in map(as_map, as_list(data.get("todos")))
        )
    )


def _priority(value: object) -> Any:
    return value if value in ("high", "medium", "low") else "medium"
