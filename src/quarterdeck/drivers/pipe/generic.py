"""An agent whose lines are described by a table in its file instead of by code."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET

from quarterdeck.wire.decoders import convert
from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    PlanChanged,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.settings import PlanEntry, PlanStatus
from quarterdeck.wire.usage import Cost, TokenUsage

from ..agent_process import Launch
from ..errors import BadAgentFileError
from ..foreign_json import (
    as_list,
    as_number,
    as_text,
    message,
    output_content,
    rate_limit,
    thought,
    tool_kind,
)
from ..link import AgentExit, TurnOutcome
from .dialect import PipeDialect, failure_text

__all__ = [
    "EventRule",
    "EventTable",
    "GenericReader",
    "Meaning",
    "Path",
    "compile_table",
    "find",
    "generic",
    "matches",
    "parse_path",
]

Meaning: TypeAlias = Literal[
    "text",
    "thought",
    "tool",
    "tool_update",
    "tool_end",
    "plan",
    "session",
    "usage",
    "retry",
    "rate_limit",
    "notice",
    "error",
    "result",
    "ignore",
]
Path: TypeAlias = tuple[str | int, ...]
"""Keys and positions, one after another, into a value of JSON."""


class EventRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What lines of one shape mean. All but ``when``, ``where``, ``means``, ``adds`` are paths."""

    means: Meaning
    when: dict[str, Any] = {}
    """Paths and the values that a line must have there; of a list, one."""
    each: str = ""
    """A list in the line; the other paths then begin at each of its elements."""
    where: dict[str, Any] = {}
    """With ``each``: as ``when``, for an element."""
    text: str = ""
    """The text of a message, a thought or an error."""
    id: str = ""
    """Of a message, a tool call, the session."""
    name: str = ""
    """Of a tool."""
    title: str = ""
    """Of a tool call."""
    input: str = ""
    """Of a tool call; of usage: prompt tokens, without those of a cache."""
    output: str = ""
    """Of a tool call; of usage: answered tokens."""
    failed: str = ""
    """Of a tool's end and of a result: it failed if something is there but false or empty."""
    model: str = ""
    """Of the session."""
    cached: str = ""
    cache_written: str = ""
    thought: str = ""
    cost: str = ""
    """In US dollars."""
    adds: bool = False
    """Usage counts one step and not the whole turn."""
    includes_cache: bool = False
    """The prompt tokens of usage count those of the cache too."""
    attempt: str = ""
    delay: str = ""
    """Of a retry, in seconds."""
    delay_ms: str = ""
    status: str = ""
    """Of an entry of a plan."""


class EventTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the lines of one agent are read."""

    rules: tuple[EventRule, ...] = ()
    """Each that fits a line applies; a line that none fits is unknown."""
    result_is_due: bool = False
    """A turn without a result has failed, whatever the exit code."""
    streams: bool = False
    """Text comes in pieces."""
    obeys_sigint: bool = False
    """Leaves in good order on SIGINT."""


def compile_table(agent: str, events: Mapping[str, Any]) -> EventTable:
    """Make a table of what an agent's file says.

    Raises:
        BadAgentFileError: a field is unknown or wrong; names the agent and the place.
    """
    try:
        table = convert(dict(events), EventTable)
    except msgspec.ValidationError as error:
        text = f"{agent}: transports.pipe.events: {error}. docs/agents-pipe.md has every field."
        raise BadAgentFileError(text) from error
    if not table.rules:
        text = f"{agent}: transports.pipe.events.rules is missing: it says what lines mean."
        raise BadAgentFileError(f"{text} docs/agents-pipe.md has every field.")
    return table


def parse_path(path: str) -> Path:
    """The steps of ``message.content.0.text``."""
    steps = path.split(".") if path else []
    return tuple(int(step) if step.lstrip("-").isdecimal() else step for step in steps)


def find(value: object, path: Path) -> Any:
    """What is at a path; None where there is nothing."""
    for step in path:
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(str(step))
        elif isinstance(value, list) and isinstance(step, int):
            items = cast("list[Any]", value)
            value = items[step] if -len(items) <= step < len(items) else None
        else:
            return None
    return value


def matches(value: object, conditions: Mapping[Path, tuple[Any, ...]]) -> bool:
    """Whether a value has one of the wanted values at every path."""
    return all(_is_one_of(find(value, path), wanted) for path, wanted in conditions.items())


def _is_one_of(found: object, wanted: tuple[Any, ...]) -> bool:
    return any(type(found) is type(one) and found == one for one in wanted)


_Conditions: TypeAlias = dict[Path, tuple[Any, ...]]
_PLAN: dict[str, PlanStatus] = {
    "completed": "completed",
    "done": "completed",
    "in_progress": "in_progress",
    "active": "in_progress",
}


def generic(launch: Launch) -> PipeDialect:
    """The dialect that the table ``events`` of an agent's file describes.

    Raises:
        BadAgentFileError: the table cannot be used.
    """
    agent = launch.agent
    table = compile_table(agent, launch.events)
    rules = tuple(map(_compiled, table.rules))
    return PipeDialect(
        name=agent,
        reader=lambda asked: GenericReader(agent, table, rules),
        streams=table.streams,
        obeys_sigint=table.obeys_sigint,
    )


@dataclass(frozen=True, slots=True)
class _Compiled:
    rule: EventRule
    when: _Conditions
    each: Path
    where: _Conditions
    paths: dict[str, Path]

    def at(self, value: object, field: str) -> Any:
        """What a field of the rule points at; None where it says nothing."""
        path = self.paths.get(field)
        return find(value, path) if path else None

    def text_at(self, value: object, field: str) -> str:
        return _text(self.at(value, field))

    def subjects(self, line: Mapping[str, Any]) -> Iterator[Any]:
        """The line, or the elements of a list in it, that this rule is about."""
        if not matches(line, self.when):
            return
        if not self.each:
            yield line
            return
        for element in as_list(find(line, self.each)):
            if matches(element, self.where):
                yield element


class GenericReader:
    """Reads one turn by the rules of a table."""

    def __init__(self, agent: str, table: EventTable, rules: tuple[_Compiled, ...]) -> None:
        self._agent = agent
        self._table = table
        self._rules = rules
        self._usage: TokenUsage | None = None
        self._cost: float | None = None
        self._error: str | None = None
        self._has_result = False

    def read(self, value: Mapping[str, Any]) -> Iterable[Event]:
        """The events of one line."""
        is_known = False
        for rule in self._rules:
            for subject in rule.subjects(value):
                is_known = True
                yield from self._apply(rule, subject)
        if not is_known:
            yield UnknownEvent(origin=self._agent, raw=dict(value))

    def outcome(self, left: AgentExit) -> TurnOutcome:
        """How the turn went: a reported error, a bad exit or a missing result is a failure."""
        cost = Cost(amount=self._cost, currency="USD") if self._cost else None
        is_missing = self._table.result_is_due and not self._has_result
        if self._error is None and left.exit_code == 0 and not is_missing:
            return TurnOutcome(stop="end_turn", usage=self._usage, cost=cost)
        reason = failure_text(left, self._error or "")
        return TurnOutcome(stop="failed", reason=reason, usage=self._usage, cost=cost)

    def _apply(self, rule: _Compiled, value: Any) -> Iterable[Event]:
        means = rule.rule.means
        if means == "usage":
            self._count(rule, value)
        elif means == "result":
            return self._finish(rule, value)
        elif means == "error":
            return self._fail(rule.text_at(value, "text"))
        elif means in _EVENTS:
            return _EVENTS[means](rule, value)
        return ()

    def _count(self, rule: _Compiled, value: Any) -> None:
        cached = as_number(rule.at(value, "cached"))
        written = as_number(rule.at(value, "cache_written"))
        apart = 0 if rule.rule.includes_cache else cached + written
        counted = TokenUsage(
            input=as_number(rule.at(value, "input")) + apart,
            output=as_number(rule.at(value, "output")),
            cached=cached,
            cache_written=written,
            thought=as_number(rule.at(value, "thought")),
        )
        cost = _seconds(rule.at(value, "cost"))
        if rule.rule.adds:
            self._usage = (self._usage or TokenUsage()) + counted
            self._cost = (self._cost or 0.0) + cost
        else:
            self._usage, self._cost = counted, cost

    def _finish(self, rule: _Compiled, value: Any) -> Iterable[Event]:
        self._has_result = True
        if not rule.at(value, "failed"):
            return ()
        return self._fail(rule.text_at(value, "text"))

    def _fail(self, text: str) -> Iterable[Event]:
        self._error = text or self._error or ""
        limited = rate_limit(text)
        return (limited,) if limited is not None else ()


# Events that need nothing but the line


def _message(rule: _Compiled, value: Any) -> Iterator[Event]:
    if words := rule.text_at(value, "text"):
        yield message(words, rule.text_at(value, "id"))


def _thought(rule: _Compiled, value: Any) -> Iterator[Event]:
    if words := rule.text_at(value, "text"):
        yield thought(words, rule.text_at(value, "id"))


def _tool(rule: _Compiled, value: Any) -> Iterator[Event]:
    name = rule.text_at(value, "name") or "tool"
    yield ToolCallStarted(
        call=ToolCallId(rule.text_at(value, "id") or name),
        title=rule.text_at(value, "title") or name,
        name=name,
        kind=tool_kind(name),
        status="in_progress",
        raw_input=rule.at(value, "input"),
    )


def _tool_update(rule: _Compiled, value: Any) -> Iterator[Event]:
    call = ToolCallId(rule.text_at(value, "id") or rule.text_at(value, "name") or "tool")
    output = output_content(rule.text_at(value, "output"))
    yield ToolCallUpdated(call=call, status="in_progress", content=output)


def _tool_end(rule: _Compiled, value: Any) -> Iterator[Event]:
    failed = bool(rule.at(value, "failed"))
    yield ToolCallEnded(
        call=ToolCallId(rule.text_at(value, "id") or rule.text_at(value, "name") or "tool"),
        status="failed" if failed else "completed",
        reason=(rule.text_at(value, "text") or None) if failed else None,
        content=output_content(rule.text_at(value, "output")),
        raw_output=rule.at(value, "output"),
    )


def _session(rule: _Compiled, value: Any) -> Iterator[Event]:
    id_, model = rule.text_at(value, "id"), rule.text_at(value, "model")
    if id_ or model:
        yield SessionChanged(agent_session=id_ or UNSET, model=model or UNSET)


def _plan(rule: _Compiled, value: Any) -> Iterator[Event]:
    """A whole plan: ``input`` is the list, ``text`` and ``status`` are of an entry."""
    entries = tuple(
        PlanEntry(
            content=rule.text_at(entry, "text") or as_text(entry),
            priority="medium",
            status=_PLAN.get(rule.text_at(entry, "status"), "pending"),
        )
        for entry in as_list(rule.at(value, "input"))
    )
    yield PlanChanged(entries=entries)


def _retry(rule: _Compiled, value: Any) -> Iterator[Event]:
    delay = _seconds(rule.at(value, "delay")) or _seconds(rule.at(value, "delay_ms")) / 1000
    attempt = max(as_number(rule.at(value, "attempt")), 1)
    yield RetryScheduled(attempt=attempt, delay=delay, reason=rule.text_at(value, "text"))


def _rate_limit(rule: _Compiled, value: Any) -> Iterator[Event]:
    yield RateLimited(
        reason=rule.text_at(value, "text"), retry_after=_seconds(rule.at(value, "delay")) or None
    )


def _notice(rule: _Compiled, value: Any) -> Iterator[Event]:
    if words := rule.text_at(value, "text"):
        yield NoticePosted(title=words)


_EVENTS: dict[str, Callable[[_Compiled, Any], Iterator[Event]]] = {
    "text": _message,
    "thought": _thought,
    "tool": _tool,
    "tool_update": _tool_update,
    "tool_end": _tool_end,
    "session": _session,
    "plan": _plan,
    "retry": _retry,
    "rate_limit": _rate_limit,
    "notice": _notice,
}

_PATHS = tuple(
    field
    for field in EventRule.__struct_fields__
    if field not in ("means", "when", "each", "where", "adds", "includes_cache")
)


def _compiled(rule: EventRule) -> _Compiled:
    return _Compiled(
        rule=rule,
        when=_conditions(rule.when),
        each=parse_path(rule.each),
        where=_conditions(rule.where),
        paths={field: parse_path(path) for field in _PATHS if (path := getattr(rule, field))},
    )


def _conditions(data: Mapping[str, Any]) -> _Conditions:
    return {parse_path(path): tuple(as_list(wanted)) or (wanted,) for path, wanted in data.items()}


def _text(value: object) -> str:
    """A value as text: what is in a list of text blocks is joined."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    blocks = (_text(find(one, ("text",))) or as_text(one) for one in as_list(value))
    return "\n".join(filter(None, blocks))


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e12 else 0.0
