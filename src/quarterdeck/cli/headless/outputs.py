"""The three forms of a headless answer: text, one JSON object, one event a line."""

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.event_text import describe_event
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    MessageChunk,
    ModelCallFinished,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    PermissionViolated,
    RateLimited,
    RetryScheduled,
    ToolCallStarted,
)
from quarterdeck.wire.record import Record, encode_record

from ..output import shown, write_notice, write_output

if TYPE_CHECKING:
    from quarterdeck.agent.goals.pursuit import GoalResult
    from quarterdeck.agent.replay.check import ReplayReport
    from quarterdeck.journal import Journal
    from quarterdeck.policy.gate import Gate
    from quarterdeck.wire.content import ContentBlock
    from quarterdeck.wire.events import TurnEnded
    from quarterdeck.wire.ids import SessionId

__all__ = [
    "HeadlessOutput",
    "HeadlessResult",
    "HeadlessSession",
    "JsonOutput",
    "OutputFormat",
    "StreamOutput",
    "TextOutput",
    "UnattendedRefusal",
    "make_output",
]


class HeadlessSession(Protocol):
    """One conversation, written to a log."""

    @property
    def id(self) -> "SessionId":
        """Its id."""
        ...

    @property
    def journal(self) -> "Journal":
        """Its log."""
        ...

    @property
    def last_seq(self) -> int:
        """The last of its records."""
        ...

    @property
    def gate(self) -> "Gate":
        """Decides about its tool calls."""
        ...

    async def prompt(self, content: "tuple[ContentBlock, ...]") -> "TurnEnded":
        """Run a turn."""
        ...

    async def cancel(self) -> None:
        """End the running turn."""
        ...


class HeadlessResult(Struct, frozen=True, kw_only=True):
    """How a headless run went."""

    session: str
    model: str | None
    ended: "TurnEnded"
    refused: int
    """Calls that were refused because there was no person to ask."""
    violations: int = 0
    """Calls that an agent made without permission."""
    goal: "GoalResult | None" = None
    """How far the goal came, where one was pursued."""


OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]

_LONGEST = 2000
"""Characters of a notice that are shown."""
_EMPTY = "the turn ended with no message and no tool call"


class UnattendedRefusal(Struct, frozen=True, kw_only=True):
    """A call that was refused because there was no person to ask."""

    tool: str | None
    title: str
    allow: tuple[str, ...]
    """The rules that would have allowed it; none where no rule can."""


class HeadlessOutput(Protocol):
    """Takes every record of the turn, then its end."""

    answer: str
    """The last message of the agent, so far."""
    is_empty: bool
    """Whether there was no message and no call so far, nor any other work."""

    def record(self, record: Record) -> None:
        """Take one record, in order.

        Raises:
            OutputLostError: its reader is gone, or it cannot be written.
        """
        ...

    def end(self, result: HeadlessResult) -> None:
        """Write what is left to write. Raises as ``record``."""
        ...

    def compare(self, report: "ReplayReport") -> None:
        """After the end of a rerun from a cassette: where it differs."""
        ...


class _Listener:
    """Keeps the agent's last message; a message before a tool call is not the answer.

    What happens meanwhile, and at the end what was refused, goes to stderr.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.answer = ""
        self.is_empty = True
        self._quiet = quiet
        self._is_over = False
        self._asked: dict[str, PermissionAsked] = {}
        self._refused: list[UnattendedRefusal] = []

    def record(self, record: Record) -> None:
        match record.event:
            case MessageChunk(content=TextContent(text=text), role="agent"):
                self.answer = text if self._is_over else self.answer + text
                self._is_over = False
                self.is_empty = self.is_empty and not text.strip()
            case MessageChunk(role="agent") | CompactionChanged():
                self.is_empty = False
            case ModelCallFinished():
                self._is_over = True
            case ToolCallStarted():
                self._is_over = True
                self.is_empty = False
            case PermissionAsked(request=request) as asked:
                self._asked[request] = asked
            case PermissionAnswered(request=request) as answered:
                self._answered(self._asked.pop(request, None), answered)
            case _:
                pass
        if not self._quiet:
            self._tell(record)

    def end(self, result: HeadlessResult) -> None:
        self._tell_end(result)

    def compare(self, report: "ReplayReport") -> None:
        from ..replay.report import format_report

        for line in format_report(report):
            write_notice(line)

    def _tell(self, record: Record) -> None:
        _tell(record)

    def _answered(self, asked: PermissionAsked | None, answered: PermissionAnswered) -> None:
        from quarterdeck.policy.gate import NOBODY

        if asked is not None and answered.by == NOBODY:
            self._refused.append(_refused_call(asked))

    def _tell_end(self, result: HeadlessResult) -> None:
        ended = result.ended
        if result.goal is not None:
            _say(_goal_words(result.goal))
        if ended.stop != "end_turn":
            _say_event(ended)
        elif self.is_empty and result.goal is None:
            _say(_EMPTY)
        for call in dict.fromkeys(self._refused):
            _say(f"denied, no person could be asked: {call.tool or 'tool'}: {call.title}")
            _say(f"  {_way_to_allow(call)}")


class TextOutput(_Listener):
    """The answer alone on stdout."""

    def end(self, result: HeadlessResult) -> None:
        """Write the answer; on a terminal nothing in it acts on the terminal."""
        if self.answer:
            write_output(shown(self.answer.rstrip("\n")) + "\n")
        self._tell_end(result)

    def _tell(self, record: Record) -> None:
        if isinstance(record.event, ToolCallStarted):
            _say_event(record.event)
        else:
            super()._tell(record)


class JsonOutput(_Listener):
    """One object on stdout when the turn has ended."""

    def end(self, result: HeadlessResult) -> None:
        """Write the object."""
        data = summary(result, self.answer)
        if self._refused:
            data["refusals"] = self._refused
        _write(msgspec.json.encode(data))
        self._tell_end(result)


class StreamOutput(_Listener):
    """Every record of the session as one line, as it becomes durable."""

    def record(self, record: Record) -> None:
        """Write one record."""
        super().record(record)
        _write(encode_record(record))

    def _tell(self, record: Record) -> None:
        """Nothing: it is in the records."""


def make_output(format_: OutputFormat, *, quiet: bool) -> HeadlessOutput:
    """The output of that form."""
    match format_:
        case "text":
            return TextOutput(quiet=quiet)
        case "json":
            return JsonOutput(quiet=quiet)
        case "stream-json":
            return StreamOutput(quiet=quiet)


def summary(result: HeadlessResult, answer: str) -> dict[str, Any]:
    """The result of ``--format json``."""
    ended = result.ended
    return {
        "session": result.session,
        "model": result.model,
        "stop": ended.stop,
        "reason": ended.reason,
        "text": answer,
        "usage": ended.usage,
        "cost": ended.cost,
        "refused": result.refused,
        "violations": result.violations,
        **({} if result.goal is None else {"goal": _goal(result.goal)}),
    }


def _goal(pursued: "GoalResult") -> dict[str, Any]:
    ended = pursued.ended
    if ended is None:
        return {"goal": pursued.goal, "how": None}
    return {
        "goal": pursued.goal,
        "how": ended.how,
        "summary": ended.summary,
        "evidence": ended.evidence,
        "reason": ended.reason,
        "turns": ended.turns,
        "usage": ended.usage,
        "cost": ended.cost,
    }


def _goal_words(pursued: "GoalResult") -> str:
    ended = pursued.ended
    if ended is None:
        return "the goal is not reached; continue with --goal --resume"
    if ended.how == "reached":
        return f"the goal is reached, in {ended.turns} turns: {ended.summary}"
    return f"the goal is not reached ({ended.how}): {ended.reason}"


def _refused_call(asked: PermissionAsked) -> UnattendedRefusal:
    from quarterdeck.policy.grammar import print_pattern
    from quarterdeck.policy.permission_options import choice_of

    lasting = [
        choice_of(asked.options, option.option_id)
        for option in asked.options
        if option.kind == "allow_always"
    ]
    patterns = next((choice.patterns for choice in lasting if choice.scope == "session"), ())
    return UnattendedRefusal(
        tool=asked.name, title=asked.title, allow=tuple(print_pattern(p) for p in patterns)
    )


def _way_to_allow(call: UnattendedRefusal) -> str:
    import shlex

    if not call.allow:
        return "no rule can allow it in this mode; use `quarterdeck spawn` to answer requests"
    return "to allow it: " + " ".join(f"--allow {shlex.quote(rule)}" for rule in call.allow)


def _tell(record: Record) -> None:
    match record.event:
        case NoticePosted(title=title, severity="info"):
            _say(title)
        case RetryScheduled() | RateLimited() | PermissionViolated() | NoticePosted():
            _say_event(record.event)
        case _:
            pass


def _say_event(event: Event) -> None:
    if (described := describe_event(event)) is not None:
        _say(described.text)


def _write(line: bytes) -> None:
    write_output(line + b"\n")


def _say(text: str) -> None:
    words = " ".join(text.split()) if not text.startswith(" ") else "  " + " ".join(text.split())
    write_notice(f"· {words if len(words) <= _LONGEST else words[:_LONGEST] + '…'}")
