"""Events that are passages by themselves, and answers with what was asked."""

from collections.abc import Iterator
from typing import Any

from quarterdeck.wire.events import (
    CompactionChanged,
    GrantRevoked,
    ModeChanged,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    PermissionViolated,
    PlanChanged,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    TurnEnded,
    Unknown,
)
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import Record

from ..text import block_text
from .calls import as_text
from .passages import Block, Passage

__all__ = ["tell", "tell_answer", "tell_reply"]


def tell(record: Record) -> Iterator[Passage]:
    """The passage of an event that stands for itself; none for those that only computers need."""
    match record.event:
        case Prompted(content=content, origin=origin, steers=steers):
            who = "" if origin == "person" else f" by {origin}"
            title = f"Prompt{who}" + (", during the turn" if steers else "")
            text = "\n".join(block_text(each) or f"[{type(each).__name__}]" for each in content)
            yield Passage.of(record, "prompt", title, Block(kind="text", text=text))
        case PlanChanged(entries=entries):
            lines = (f"[{entry.status}] {entry.content}" for entry in entries)
            yield Passage.of(record, "plan", "Plan", Block(kind="text", text="\n".join(lines)))
        case CompactionChanged(status=status, summary=summary, error=error):
            text = summary or error or ""
            yield Passage.of(
                record, "notice", f"Compaction {status}", Block(kind="text", text=text)
            )
        case Notice(title=title, severity=severity, description=description):
            block = Block(kind="text", text=description or "")
            yield Passage.of(record, "notice", f"{severity}: {title}", block)
        case Unknown(origin=origin, raw=raw):
            block = Block(kind="text", text=as_text(raw))
            yield Passage.of(record, "notice", f"Not understood ({origin})", block)
        case event:
            title = _session(event) or _passing(event)
            if title:
                kind = "notice" if isinstance(event, RateLimited | RetryScheduled) else "session"
                yield Passage.of(record, kind, title)


def _session(event: Any) -> str:
    match event:
        case SessionOpened(agent=agent, cwd=cwd, model=model):
            return f"{agent} works in {cwd}" + (f" with {model}" if model else "")
        case SessionResumed():
            return "Resumed"
        case SessionChanged(title=str(title)):
            return f"Titled {title}"
        case SessionChanged(model=str(model)):
            return f"Model {model}"
        case ModeChanged(mode=mode):
            return f"Mode {mode}"
        case SessionEnded(how=how, reason=reason):
            return f"Session {how}{_because(reason)}"
        case _:
            return ""


def _passing(event: Any) -> str:
    match event:
        case TurnEnded(stop=stop, reason=reason, cost=cost):
            spent = f", {cost.amount:.4f} {cost.currency}" if cost is not None else ""
            return f"Turn ended: {stop}{_because(reason)}{spent}"
        case RateLimited(reason=reason):
            return f"Held back by the vendor{_because(reason)}"
        case RetryScheduled(delay=delay, reason=reason):
            return f"Trying again in {delay:.0f} s{_because(reason)}"
        case PermissionViolated(title=title, reason=reason):
            return f"Done without leave: {title}{_because(reason)}"
        case GrantRevoked(grant=grant, by=by):
            return f"Standing answer {grant} taken back by {_who(by)}"
        case _:
            return ""


def tell_answer(
    record: Record, answered: PermissionAnswered, asked: PermissionAsked | None
) -> Passage:
    """A decision about a tool call, with what was asked where a person was."""
    what = answered.kind or "answered" if isinstance(answered.outcome, Selected) else "cancelled"
    title = f"Permission: {what} by {_who(answered.by)}"
    question = asked.title if asked is not None else ""
    blocks = (
        Block(kind="text", text=question),
        Block(kind="text", label="feedback", text=answered.feedback or ""),
    )
    return Passage.of(record, "permission", title, *blocks)


def tell_reply(record: Record, answered: QuestionAnswered, asked: QuestionAsked | None) -> Passage:
    """An answered question, with its text."""
    title = f"Question: {answered.action} by {_who(answered.by)}"
    blocks = (
        Block(kind="text", text=asked.text if asked is not None else ""),
        Block(kind="text", label="answer", text=as_text(answered.content)),
    )
    return Passage.of(record, "question", title, *blocks)


def _who(by: Decider) -> str:
    return by.kind + (f" {by.name}" if by.name else "")


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
