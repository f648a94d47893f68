"""Events described in one line."""

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

__all__ = ["REQUEST_PREFIXES", "Severity", "describe_event", "describe_request"]

Severity: TypeAlias = Literal["quiet", "info", "warning", "error", "question"]


REQUEST_PREFIXES = ("wants to ", "needs permission: ", "question: ")
"""How the line of a pending request begins."""
_VERBS = frozenset(
    [
        "add",
        "apply",
        "call",
        "change",
        "commit",
        "copy",
        "create",
        "delete",
        "download",
        "edit",
        "execute",
        "fetch",
        "install",
        "list",
        "make",
        "modify",
        "move",
        "open",
        "overwrite",
        "patch",
        "push",
        "read",
        "remove",
        "rename",
        "replace",
        "run",
        "search",
        "start",
        "update",
        "use",
        "write",
    ]
)


def describe_request(title: str) -> str:
    """A permission request in one line: "wants to edit tides.py", if its title is a verb phrase."""
    verb, _, rest = title.partition(" ")
    if rest and verb.istitle() and verb.lower() in _VERBS:
        return f"wants to {verb.lower()} {rest}"
    return f"needs permission: {title}"


def describe_event(event: Any) -> tuple[Severity, str] | None:
    """How bad it is and what to say; None: nothing a person needs to see."""
    match event:
        case SessionOpened(agent=agent, cwd=cwd):
            return "quiet", f"{agent} started in {cwd}"
        case SessionResumed():
            return "quiet", "resumed"
        case SessionEnded(how=how, reason=reason, stderr=stderr):
            words = f"session ended: {how}{_because(reason)}"
            if how == "broken" and stderr:
                words += f"\n{stderr.strip()}"
            return ("error" if how == "broken" else "quiet"), words
        case PermissionViolated(title=title, reason=reason):
            return "error", f"done without permission: {title}{_because(reason)}"
        case TurnEnded(stop=stop, reason=reason) if stop != "end_turn":
            severity: Severity = "error" if stop in ("failed", "refusal") else "warning"
            return severity, f"turn ended: {stop.replace('_', ' ')}{_because(reason)}"
        case _:
            return _asides(event)


def _asides(event: Any) -> tuple[Severity, str] | None:
    match event:
        case ModelCallFinished(error=str(error)):
            return "warning", f"model call failed: {error}"
        case RetryScheduled(delay=delay, reason=reason):
            return "warning", f"retrying in {delay:.0f} s{_because(reason)}"
        case RateLimited(reason=reason):
            return "warning", f"rate limited by the vendor{_because(reason)}"
        case NoticePosted(title=title, severity=level, description=description):
            return level, title + _because(description)
        case PromptDropped(reason=reason):
            return "quiet", f"queued prompt removed{_because(reason)}"
        case ModeChanged(mode=mode):
            return "quiet", f"mode: {mode}"
        case GrantRevoked(grant=grant):
            return "quiet", f"grant {grant} revoked"
        case QuestionAsked(text=text, to=None):
            return "question", text
        case QuestionAsked(text=text):
            return "quiet", f"question for another agent: {text}"
        case _:
            return _ends(event)


def _ends(event: Any) -> tuple[Severity, str] | None:
    match event:
        case QuestionAnswered(action=action, by=by, content=content):
            answers = ", ".join(f"{name}: {value}" for name, value in (content or {}).items())
            return "quiet", f"{action} by {by.kind}{_because(answers)}"
        case CompactionChanged(status="in_progress"):
            return "quiet", "compacting the conversation"
        case CompactionChanged(status="completed", summary=summary):
            return "info", "compacted the conversation" + _because(summary)
        case CompactionChanged(status="failed", error=error):
            return "warning", "cannot compact the conversation" + _because(error)
        case Checkpointed() | Rewound() | Redone():
            return _steps_back(event)
        case ChildEnded() | GoalSet() | GoalEnded():
            return _ways(event)
        case UnknownEvent(origin=origin, reason=reason):
            return "quiet", f"unknown event from {origin}{_because(reason)}"
        case _:
            return None


def _steps_back(event: Checkpointed | Rewound | Redone) -> tuple[Severity, str]:
    files = f"{event.changed} file{'s' * (event.changed != 1)}"
    match event:
        case Checkpointed(paths=paths):
            return "quiet", f"{files} changed{_because(', '.join(paths[:5]))}"
        case Rewound(conversation=conversation):
            also = ", later messages removed from the context" if conversation else ""
            return "info", f"rewound: {files} restored{also}"
        case Redone():
            return "info", f"undid the rewind: {files} restored"


def _ways(event: ChildEnded | GoalSet | GoalEnded) -> tuple[Severity, str] | None:
    match event:
        case ChildEnded(how="completed"):
            return None  # its call, or its answer, is shown
        case ChildEnded(how=how):
            return "quiet", f"child agent ended: {how}"
        case GoalSet(goal=goal):
            return "info", f"goal: {goal}"
        case GoalEnded(how="reached", summary=summary):
            return "info", f"goal reached{_because(summary)}"
        case GoalEnded(how=how, reason=reason):
            return "warning", f"goal not reached ({how}){_because(reason)}"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
