"""The three forms of a headless answer: text, one JSON object, one event a line."""

import sys
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    MessageChunk,
    ModelCallFinished,
    Notice,
    PermissionViolated,
    RetryScheduled,
    ToolCallStarted,
)
from quarterdeck.wire.record import Record, encode_record

from .session import Result

if TYPE_CHECKING:
    from quarterdeck.agent.goals.pursuit import Pursued

__all__ = ["Format", "JsonOutput", "Output", "StreamOutput", "TextOutput", "make_output"]

Format: TypeAlias = Literal["text", "json", "stream-json"]


class Output(Protocol):
    """Takes every record of the turn, then its end."""

    answer: str
    """The last message of the agent, so far."""

    def record(self, record: Record) -> None:
        """Take one record, in order."""
        ...

    def end(self, result: Result) -> None:
        """Write what is left to write."""
        ...


class _Listener:
    """Keeps the agent's last message; what it said before a tool call is not the answer."""

    def __init__(self) -> None:
        self.answer = ""
        self._is_over = False

    def record(self, record: Record) -> None:
        match record.event:
            case MessageChunk(content=TextContent(text=text), role="agent"):
                self.answer = text if self._is_over else self.answer + text
                self._is_over = False
            case ModelCallFinished() | ToolCallStarted():
                self._is_over = True
            case _:
                pass


class TextOutput(_Listener):
    """The answer alone on stdout; what happens meanwhile on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def record(self, record: Record) -> None:
        """Take one record."""
        super().record(record)
        if not self._quiet:
            self._tell(record)

    def end(self, result: Result) -> None:
        """Write the answer."""
        ended = result.ended
        if self.answer:
            sys.stdout.write(self.answer.rstrip("\n") + "\n")
        if result.goal is not None:
            _say(_goal_words(result.goal))
        if ended.stop != "end_turn":
            _say(f"the turn ended: {ended.stop}" + (f" ({ended.reason})" if ended.reason else ""))

    def _tell(self, record: Record) -> None:
        match record.event:
            case ToolCallStarted(title=title, name=name):
                _say(f"{name or 'tool'}: {title}")
            case RetryScheduled(delay=delay, reason=reason):
                _say(f"trying again in {delay:.1f} s: {reason}")
            case Notice(title=title):
                _say(title)
            case PermissionViolated(title=title, reason=reason):
                _say(f"done without leave: {title} ({reason})")
            case _:
                pass


class JsonOutput(_Listener):
    """One object on stdout when the turn has ended."""

    def end(self, result: Result) -> None:
        """Write the object."""
        _write(msgspec.json.encode(summary(result, self.answer)))


class StreamOutput(_Listener):
    """Every record of the session as one line, as it becomes durable."""

    def record(self, record: Record) -> None:
        """Write one record."""
        super().record(record)
        _write(encode_record(record))

    def end(self, result: Result) -> None:
        """Nothing: the last line was the turn's end."""


def make_output(format_: Format, *, quiet: bool) -> Output:
    """The output of that form."""
    match format_:
        case "text":
            return TextOutput(quiet=quiet)
        case "json":
            return JsonOutput()
        case "stream-json":
            return StreamOutput()


def summary(result: Result, answer: str) -> dict[str, Any]:
    """What ``--format json`` tells."""
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


def _goal(pursued: "Pursued") -> dict[str, Any]:
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


def _goal_words(pursued: "Pursued") -> str:
    ended = pursued.ended
    if ended is None:
        return "the goal is not reached; go on with --goal --resume"
    if ended.how == "reached":
        return f"the goal is reached, in {ended.turns} turns: {ended.summary}"
    return f"the goal is not reached ({ended.how}): {ended.reason}"


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _say(text: str) -> None:
    # Tool titles come from a model: one line, no control characters.
    shown = "".join(char if char.isprintable() else " " for char in text)
    sys.stderr.write(f"· {shown[:200]}\n")
    sys.stderr.flush()
