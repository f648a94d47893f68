"""Events that are told in a line."""

from typing import Any, Literal, TypeAlias

from quarterdeck.wire.events import (
    Checkpointed,
    ChildEnded,
    CompactionChanged,
    GoalEnded,
    GoalSet,
    GrantRevoked,
    ModeChanged,
    ModelCallFinished,
    NoticePosted,
    PermissionViolated,
    PromptDropped,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    Redone,
    RetryScheduled,
    Rewound,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    TurnEnded,
    UnknownEvent,
)

__all__ = ["Severity", "describe_event"]

Severity: TypeAlias = Literal["quiet", "info", "warning", "error", "question"]


def describe_event(event: Any) -> tuple[Severity, str] | None:
    """How bad it is and what to say; None: nothing a person needs to see."""
    match event:
        case SessionOpened(agent=agent, cwd=cwd):
            return "quiet", f"{agent} works in {cwd}"
        case SessionResumed():
            return "quiet", "resumed"
        case SessionEnded(how=how, reason=reason, stderr=stderr):
            words = f"the session is over: {how}{_because(reason)}"
            if how == "broken" and stderr:
                words += f"\n{stderr.strip()}"
            return ("error" if how == "broken" else "quiet"), words
        case PermissionViolated(title=title, reason=reason):
            return "error", f"done without leave: {title}{_because(reason)}"
        case TurnEnded(stop=stop, reason=reason) if stop != "end_turn":
            severity: Severity = "error" if stop in ("failed", "refusal") else "warning"
            return severity, f"the turn ended: {stop.replace('_', ' ')}{_because(reason)}"
        case _:
            return _asides(event)


def _asides(event: Any) -> tuple[Severity, str] | None:
    match event:
        case ModelCallFinished(error=str(error)):
            return "warning", f"the model's answer failed: {error}"
        case RetryScheduled(delay=delay, reason=reason):
            return "warning", f"trying again in {delay:.0f} s{_because(reason)}"
        case RateLimited(reason=reason):
            return "warning", f"held back by the vendor{_because(reason)}"
        case NoticePosted(title=title, severity=level, description=description):
            return level, title + _because(description)
        case PromptDropped(reason=reason):
            return "quiet", f"a prompt that waited was dropped{_because(reason)}"
        case ModeChanged(mode=mode):
            return "quiet", f"mode: {mode}"
        case GrantRevoked(grant=grant):
            return "quiet", f"the standing answer {grant} was taken back"
        case QuestionAsked(text=text, to=None):
            return "question", text
        case QuestionAsked(text=text):
            return "quiet", f"asks another agent: {text}"
        case _:
            return _ends(event)


def _ends(event: Any) -> tuple[Severity, str] | None:
    match event:
        case QuestionAnswered(action=action, by=by, content=content):
            told = ", ".join(f"{name}: {value}" for name, value in (content or {}).items())
            return "quiet", f"{action} by {by.kind}{_because(told)}"
        case CompactionChanged(status="in_progress"):
            return "quiet", "the conversation is being shortened"
        case CompactionChanged(status="completed", summary=summary):
            return "info", "the conversation was shortened" + _because(summary)
        case CompactionChanged(status="failed", error=error):
            return "warning", "the conversation could not be shortened" + _because(error)
        case Checkpointed() | Rewound() | Redone():
            return _steps_back(event)
        case ChildEnded() | GoalSet() | GoalEnded():
            return _ways(event)
        case UnknownEvent(origin=origin, reason=reason):
            return "quiet", f"something unknown from {origin}{_because(reason)}"
        case _:
            return None


def _steps_back(event: Checkpointed | Rewound | Redone) -> tuple[Severity, str]:
    files = f"{event.changed} file{'s' * (event.changed != 1)}"
    match event:
        case Checkpointed(paths=paths):
            return "quiet", f"{files} changed{_because(', '.join(paths[:5]))}"
        case Rewound(conversation=conversation):
            also = ", and what was said since is no longer told" if conversation else ""
            return "info", f"went back: {files} restored{also}"
        case Redone():
            return "info", f"went forward again: {files} restored"


def _ways(event: ChildEnded | GoalSet | GoalEnded) -> tuple[Severity, str] | None:
    match event:
        case ChildEnded(how="completed"):
            return None  # its call, or its answer, is shown
        case ChildEnded(how=how):
            return "quiet", f"an agent that was started here is over: {how}"
        case GoalSet(goal=goal):
            return "info", f"goal: {goal}"
        case GoalEnded(how="reached", summary=summary):
            return "info", f"the goal is reached{_because(summary)}"
        case GoalEnded(how=how, reason=reason):
            return "warning", f"the goal is not reached ({how}){_because(reason)}"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
