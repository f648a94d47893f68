"""An event or a tool call in one line, for people and for models: one description, used by every
output.

The text is as the agent wrote it: its user escapes what a terminal would act on, cuts it
and puts a sign before it. A text may have further lines where a reason has.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET

from .budgets import BudgetScope, describe_limit
from .content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from .events import (
    BudgetChanged,
    BudgetReached,
    ChangesLanded,
    Checkpointed,
    ChildEnded,
    CommandRan,
    CommandStarted,
    CompactionChanged,
    ConflictChanged,
    Event,
    GoalEnded,
    GoalSet,
    GrantRevoked,
    LandingFailed,
    ModeChanged,
    ModelCallFinished,
    NoticePosted,
    PermissionAnswered,
    PermissionApproved,
    PermissionAsked,
    PermissionViolated,
    PromptDropped,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    Redone,
    RetryScheduled,
    ReviewCommented,
    Rewound,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UnknownEvent,
    WorktreeAssigned,
    WorktreeReleased,
)
from .ids import SessionId
from .permissions import Decider, QuestionAction, Selected
from .tool_calls import ContentItem, ToolKind
from .worktrees import ConflictFile

__all__ = [
    "REQUEST_PREFIXES",
    "CallTense",
    "CallText",
    "EventText",
    "NameFinder",
    "Severity",
    "describe_call",
    "describe_content",
    "describe_event",
    "describe_exit",
    "describe_request",
    "find_exit_status",
]

Severity: TypeAlias = Literal["quiet", "info", "warning", "error", "question"]


NameFinder: TypeAlias = Callable[[SessionId], str | None]
"""Finds the name of an agent; None: nobody knows it."""


def _no_name(session: SessionId) -> str | None:
    del session
    return None


class EventText(NamedTuple):
    """An event as it is shown."""

    severity: Severity
    text: str


REQUEST_PREFIXES = ("wants to ", "needs permission: ", "question: ")
"""How the line of a pending request begins."""
_VERBS = frozenset(
    (
        *("add", "apply", "call", "change", "commit", "copy", "create", "delete", "download"),
        *("edit", "execute", "fetch", "install", "list", "make", "modify", "move", "open"),
        *("overwrite", "patch", "push", "read", "remove", "rename", "replace", "run", "search"),
        *("start", "update", "use", "write"),
    )
)

_KIND_VERBS = {
    "execute": "run",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "read": "read",
    "search": "search for",
    "fetch": "fetch",
}


def describe_request(title: str, kind: str = "other") -> str:
    """A permission request in one line: "wants to edit tides.py".

    That is so if its title is a verb phrase, or its kind has a verb.
    """
    verb, _, rest = title.partition(" ")
    if rest and verb.istitle() and verb.lower() in _VERBS:
        return f"wants to {verb.lower()} {rest}"
    if kind in _KIND_VERBS and title:
        return f"wants to {_KIND_VERBS[kind]} {title}"
    return f"needs permission: {title}"


def describe_content(content: ContentBlock) -> str:
    """The text of a block; of another kind what it is."""
    match content:
        case TextContent(text=text):
            return text
        case ImageContent(mime_type=kind, data=data):
            return f"[image {kind}, {len(data) * 3 // 4:,} bytes]"
        case AudioContent(mime_type=kind, data=data):
            return f"[sound {kind}, {len(data) * 3 // 4:,} bytes]"
        case ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case EmbeddedResource(resource=resource):
            return f"[{resource.uri}]" + (f"\n{resource.text}" if resource.text else "")


def describe_event(event: Event, find_name: NameFinder = _no_name) -> EventText | None:
    """What to say of an event and how bad it is; None: nothing that a person needs to see.

    ``find_name``: the name of another agent that the event is about.
    """
    match event:
        case ConflictChanged(files=files, other=other):
            return _conflict(files, find_name(other))
        case Prompted():
            return EventText("info", _prompt(event))
        case PromptDropped(reason=reason):
            return EventText("quiet", f"queued prompt removed{_because(reason)}")
        case TurnStarted() | TurnEnded():
            return _turn(event)
        case ToolCallStarted(title=title, name=name, kind=kind):
            return EventText("info", f"{name or (kind if kind != 'other' else 'tool')}: {title}")
        case CommandStarted(command=command):
            return EventText("info", f"you ran: {command}")
        case ToolCallEnded():
            return _call_end(event)
        case _:
            text = _session(event) or _request(event) or _worktree(event)
            return text or _budget(event) or _aside(event)


def _call_end(event: ToolCallEnded) -> EventText:
    failure = describe_exit(find_exit_status(event))
    is_good = event.status == "completed" and not failure
    status = "failed" if event.status == "completed" and failure else event.status
    words = f"call {status}" + (f", {failure}" if failure else "")
    return EventText("info" if is_good else "warning", words + _because(event.reason or None))


def _prompt(event: Prompted) -> str:
    facts = [event.origin] if event.origin != "person" else []
    facts += ["steering"] if event.steers else []
    text = "\n".join(map(describe_content, event.content))
    return f"({', '.join(facts)}) {text}" if facts else text


def _turn(event: TurnStarted | TurnEnded) -> EventText:
    match event:
        case TurnStarted():
            return EventText("quiet", "turn started")
        case TurnEnded(stop="end_turn"):
            return EventText("quiet", "turn finished")
        case TurnEnded(stop=stop, reason=reason):
            severity: Severity = "error" if stop in ("failed", "refusal") else "warning"
            return EventText(severity, f"turn ended: {stop.replace('_', ' ')}{_because(reason)}")


def _session(event: Event) -> EventText | None:
    match event:
        case SessionSpawned(options=options, parent_session=parent):
            whose = " by another agent" if parent else ""
            return EventText("info", f"spawned{whose}: {options.agent} in {options.cwd}")
        case SessionOpened(agent=agent, cwd=cwd):
            return EventText("quiet", f"{agent} started in {cwd}")
        case SessionResumed():
            return EventText("quiet", "resumed")
        case SessionChanged():
            return EventText("quiet", _changes(event))
        case ModeChanged(mode=mode):
            return EventText("quiet", f"mode: {mode}")
        case SessionEnded(how=how, reason=reason, stderr=stderr):
            words = f"session ended: {how}{_because(reason)}"
            if how == "broken" and stderr:
                words += f"\n{stderr.strip()}"
            return EventText("error" if how == "broken" else "quiet", words)
        case _:
            return None


def _changes(event: SessionChanged) -> str:
    facts: dict[str, Any] = msgspec.to_builtins(event)
    return ", ".join(_change(key, value) for key, value in facts.items() if key != "type")


def _change(key: str, value: object) -> str:
    name = key.replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name}: {value}"


_REPLIES: dict[QuestionAction, str] = {
    "accept": "answered",
    "decline": "declined",
    "cancel": "cancelled",
}


def _request(event: Event) -> EventText | None:
    match event:
        case PermissionAsked(title=title, reason=reason):
            why = f" ({reason})" if reason else ""
            return EventText("question", describe_request(title) + why)
        case PermissionApproved(by=by):
            return EventText("info", f"approved by {_who(by)}")
        case PermissionAnswered():
            return _decision(event)
        case PermissionViolated(title=title, reason=reason):
            return EventText("error", f"done without permission: {title}{_because(reason)}")
        case GrantRevoked(grant=grant, by=by):
            return EventText("quiet", f"grant {grant} revoked by {_who(by)}")
        case QuestionAsked(text=text, to=None):
            return EventText("question", text)
        case QuestionAsked(text=text):
            return EventText("quiet", f"question for another agent: {text}")
        case QuestionAnswered(action=action, by=by, content=content):
            reply = ", ".join(f"{name}: {value}" for name, value in (content or {}).items())
            return EventText("quiet", f"question {_REPLIES[action]} by {_who(by)}{_because(reply)}")
        case _:
            return None


def _decision(event: PermissionAnswered) -> EventText:
    kind, who, why = event.kind, _who(event.by), _because(event.feedback)
    if not isinstance(event.outcome, Selected):
        return EventText("warning", f"request cancelled by {who}{why}")
    is_denied = (kind or "").startswith("reject")
    how = f" ({kind.replace('_', ' ')})" if kind else ""
    severity: Severity = "warning" if is_denied else "info"
    return EventText(severity, f"{'denied' if is_denied else 'allowed'} by {who}{how}{why}")


def _aside(event: Event) -> EventText | None:
    match event:
        case ModelCallFinished(error=str(error)):
            return EventText("warning", f"model call failed: {error}")
        case RetryScheduled(delay=delay, reason=reason):
            when = f" in {delay:.0f} s" if delay else ""
            return EventText("warning", f"retrying{when}{_because(reason)}")
        case RateLimited(reason=reason):
            return EventText("warning", f"rate limited by the vendor{_because(reason)}")
        case NoticePosted(title=title, severity=level, description=description):
            return EventText(level, title + _because(description))
        case UnknownEvent(origin=origin, reason=reason):
            return EventText("quiet", f"unknown event from {origin}{_because(reason)}")
        case CompactionChanged():
            return _compaction(event)
        case Checkpointed() | Rewound() | Redone():
            return _rewind(event)
        case ChildEnded() | GoalSet() | GoalEnded():
            return _end(event)
        case _:
            return None


def _worktree(event: Event) -> EventText | None:
    match event:
        case WorktreeAssigned(worktree=tree):
            branch = f" on {tree.branch}" if tree.branch else ""
            return EventText("quiet", f"works in the worktree {_last(tree.path)}{branch}")
        case WorktreeReleased(path=path, how=how, trash=trash):
            kept = f", kept as {trash}" if trash else ""
            return EventText("info", f"worktree {how}: {path}{kept}")
        case CommandRan(purpose=purpose, command=command, exit_code=code):
            end = "stopped" if code is None else f"exit {code}"
            severity: Severity = "quiet" if code == 0 else "warning"
            return EventText(severity, f"{purpose} command: {command} ({end})")
        case ChangesLanded(into=into, method=method, commit=commit):
            return EventText("info", f"landed on {into} ({method}, {commit[:10]})")
        case LandingFailed(into=into, reason=reason):
            return EventText("warning", f"not landed on {into}{_because(reason)}")
        case ReviewCommented(comment=comment):
            where = f"{comment.path}:{comment.line}"
            return EventText("info", f"comment on {where} ({comment.state}): {comment.text}")
        case _:
            return None


def _budget(event: Event) -> EventText | None:
    match event:
        case BudgetChanged(scope=scope, unit=unit, amount=None):
            return EventText("info", f"budget removed: {unit} for {_SCOPE_WORDS[scope]}")
        case BudgetChanged(scope=scope, unit=unit, amount=float(amount)):
            words = f"{describe_limit(unit, amount)} for {_SCOPE_WORDS[scope]}"
            return EventText("info", f"budget: {words}")
        case BudgetReached(unit=unit, amount=amount, used=used, level=level, reason=reason):
            most, so_far = describe_limit(unit, amount), describe_limit(unit, used)
            words = reason or f"budget {level}: {so_far} of {most} used"
            return EventText("warning", words)
        case _:
            return None


_SCOPE_WORDS: dict[BudgetScope, str] = {
    "agent": "this agent",
    "tree": "this agent and all that it starts",
    "project": "the project",
    "day": "the day",
    "all": "everything",
}


def _last(path: str) -> str:
    """The name of a worktree: the start of the session tells where it is."""
    return path.rstrip("/").rpartition("/")[2] or path


def _conflict(files: tuple[ConflictFile, ...], other: str | None) -> EventText:
    if not files:
        return EventText("quiet", f"no longer conflicts with {other or 'the other agent'}")
    named = ", ".join(_conflict_file(file) for file in files[:5])
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""
    hard = any(file.kind == "text" for file in files)
    name = other or "another agent"
    words = f"conflicts with {name} in" if hard else f"changes the same as {name}:"
    return EventText("warning", f"{words} {named}{more}")


def _conflict_file(file: ConflictFile) -> str:
    return f"{file.path} ({', '.join(file.symbols[:3])})" if file.symbols else file.path


def _compaction(event: CompactionChanged) -> EventText | None:
    match event.status:
        case "in_progress":
            return EventText("quiet", "compacting the conversation")
        case "completed":
            return EventText("info", "compacted the conversation" + _because(event.summary))
        case "failed":
            return EventText("warning", "cannot compact the conversation" + _because(event.error))
        case "cancelled":
            return None


def _rewind(event: Checkpointed | Rewound | Redone) -> EventText:
    files = f"{event.changed} file{'s' * (event.changed != 1)}"
    match event:
        case Checkpointed(paths=paths):
            return EventText("quiet", f"{files} changed{_because(', '.join(paths[:5]))}")
        case Rewound(conversation=conversation):
            also = ", later messages removed from the context" if conversation else ""
            return EventText("info", f"rewound: {files} restored{also}")
        case Redone():
            return EventText("info", f"undid the rewind: {files} restored")


def _end(event: ChildEnded | GoalSet | GoalEnded) -> EventText | None:
    match event:
        case ChildEnded(how="completed"):
            return None  # its call, or its answer, is shown
        case ChildEnded(how=how):
            return EventText("quiet", f"child agent ended: {how}")
        case GoalSet(goal=goal):
            return EventText("info", f"goal: {goal}")
        case GoalEnded(how="reached", summary=summary):
            return EventText("info", f"goal reached{_because(summary)}")
        case GoalEnded(how=how, reason=reason):
            return EventText("warning", f"goal not reached ({how}){_because(reason)}")


def _who(by: Decider) -> str:
    return f"{by.kind} {by.name}" if by.name else by.kind


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


CallTense: TypeAlias = Literal["past", "present", "wanted"]


class CallText(NamedTuple):
    """What a call does; the verb of a command is empty, as the command says it."""

    verb: str
    object: str

    @property
    def words(self) -> str:
        """Both."""
        return f"{self.verb} {self.object}".strip()


_FORMS: dict[str, tuple[str, str]] = {
    "apply": ("applied", "applying"),
    "ask": ("asked", "asking"),
    "copy": ("copied", "copying"),
    "create": ("created", "creating"),
    "delete": ("deleted", "deleting"),
    "edit": ("edited", "editing"),
    "fetch": ("fetched", "fetching"),
    "find": ("found", "finding"),
    "list": ("listed", "listing"),
    "load": ("loaded", "loading"),
    "modify": ("modified", "modifying"),
    "move": ("moved", "moving"),
    "open": ("opened", "opening"),
    "overwrite": ("overwrote", "overwriting"),
    "patch": ("patched", "patching"),
    "read": ("read", "reading"),
    "remove": ("removed", "removing"),
    "rename": ("renamed", "renaming"),
    "replace": ("replaced", "replacing"),
    "run": ("ran", "running"),
    "search": ("searched", "searching"),
    "start": ("started", "starting"),
    "stop": ("stopped", "stopping"),
    "update": ("updated", "updating"),
    "use": ("used", "using"),
    "view": ("viewed", "viewing"),
    "wait": ("waited", "waiting"),
    "watch": ("watched", "watching"),
    "write": ("wrote", "writing"),
}
"""Verbs that titles begin with, as past and as present."""
_BY_KIND: dict[str, str] = {
    "read": "read",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "fetch": "fetch",
}
_EXIT = r"(?i)\s*(?:Error: )?Exit code:? (-?\d+)\b"


def describe_call(
    title: str,
    *,
    name: str | None = None,
    kind: ToolKind | str = "other",
    tense: CallTense = "past",
) -> CallText:
    """The words of a call from what its agent says of it.

    A verb at the beginning of the title counts; else the kind says the verb. A tool of no known
    kind keeps its name before its title, unless that is there already. ``tense``: that of a call
    that did its work, of one that is at it, or of one that was only wanted.
    """
    first, _, rest = title.strip().partition(" ")
    verb = first.rstrip(":").lower()
    is_verb = first[:1].isupper() or (rest != "" and verb == _BY_KIND.get(kind))
    if is_verb and verb in _FORMS and (rest or verb == kind):
        return CallText(_form(verb, tense), _bare(rest))
    if kind in _BY_KIND:
        object_ = _without(name, title.strip())
        return CallText(_form(_BY_KIND[kind], tense), _bare(object_))
    if kind == "execute" or not name:
        return CallText("", _bare(title.strip()) or (name or ""))
    rest = _without(name, title.strip())
    shown = name if "__" in name else name.replace("_", " ")
    return CallText("", f"{shown} {rest}".strip() if rest != name else shown)


def _form(verb: str, tense: CallTense) -> str:
    past, present = _FORMS[verb]
    return {"past": past, "present": present, "wanted": verb}[tense]


def _bare(text: str) -> str:
    """Without the backquotes that some agents put around all of it."""
    is_quoted = len(text) > 1 and text[0] == text[-1] == "`" and "`" not in text[1:-1]
    return text[1:-1] if is_quoted else text


def _without(name: str | None, title: str) -> str:
    """A title that does not begin with the tool's name."""
    rest = title.removeprefix(name) if name else title
    return rest.lstrip(": ") if rest != title and not rest[:1].isalnum() else title


def find_exit_status(ended: ToolCallEnded) -> str | None:
    """The exit code or signal that the end of a call reports; None: it reports none."""
    raw = ended.raw_output
    if isinstance(raw, Mapping):
        facts = cast("Mapping[str, Any]", raw)
        for field in ("signal", "exit_code", "exitCode"):
            found = facts.get(field)
            if isinstance(found, str | int) and not isinstance(found, bool) and found != "":
                return str(found)
    if ended.status == "failed" and ended.content is not UNSET:
        for item in ended.content:
            if isinstance(item, ContentItem) and isinstance(item.content, TextContent):
                match = re.match(_EXIT, item.content.text[:200])
                return match[1] if match else None
    return None


def describe_exit(status: str | None) -> str:
    """How a command ended that did not end well: ``exit 1``, ``SIGTERM``; else nothing."""
    if status is None or status == "0":
        return ""
    return f"exit {status}" if status.lstrip("-").isdigit() else status
