"""The choices that a person is offered, the rules they suggest, and what each of them records.

What a choice means travels with the option, in its ``_meta``, so that the log alone is enough to
act on an answer. Only options that were offered count: an unknown id denies.

Nothing is offered that covers more than the command's own leading words, that file or its
directory, or that host; nothing for a command that can do lasting harm, for a doubt, or where an
ask rule wants to be asked each time.
"""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from quarterdeck.wire.events import PermissionAnswered, PermissionAsked
from quarterdeck.wire.permissions import PermissionKind, PermissionOption, Selected

from .call import Access, Call, PathUse
from .call_parts import CallPart, CommandPart, FetchPart, McpPart, NamedToolPart, PathPart
from .decision import Ask, examine_call
from .domains import HostPattern
from .errors import RuleError
from .grammar import parse_pattern, print_pattern
from .grants import Grant
from .matching import covers
from .modes import DEFAULT_MODE, NO_SANDBOX, Mode, SandboxState
from .rules import (
    SCOPES,
    Effect,
    FetchPattern,
    McpPattern,
    NamedTool,
    PathPattern,
    Pattern,
    Rule,
    Scope,
    ShellPattern,
)
from .shell.hazards import leading_words, never_lasting

__all__ = [
    "PermissionChoice",
    "Suggestion",
    "choice_of",
    "grants_of",
    "options_for",
    "session_grants",
    "suggest_grants",
    "suggest_refusal",
]

_MOST_PATTERNS = 5
"""Parts of one line beyond which a person could not judge what is offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Patterns that together would have answered the question."""

    patterns: tuple[Pattern, ...]

    @property
    def is_exact(self) -> bool:
        """Whether they cover nothing but the very commands, files, hosts and tools."""
        return not any(map(_is_wide, self.patterns))

    def __str__(self) -> str:
        return ", ".join(print_pattern(pattern) for pattern in self.patterns)


def suggest_grants(
    call: Call,
    mode: Mode = DEFAULT_MODE,
    rules: Iterable[Rule] = (),
    grants: Iterable[Grant] = (),
    *,
    sandbox: SandboxState = NO_SANDBOX,
    trusted: bool = True,
    now: int = 0,
) -> tuple[Suggestion, ...]:
    """Return at most two offers for a call that is asked about, the narrowest useful one first.

    A command with a text in it, such as a commit's message, does not come a second time: where an
    open end is known to be useful, the words before the text are offered with one.
    """
    decision, parts = examine_call(
        call, mode, rules, grants, sandbox=sandbox, trusted=trusted, now=now
    )
    if not isinstance(decision, Ask) or not decision.can_last or mode in ("plan", "read-only"):
        return ()
    choices = [_patterns(part, call) for part in parts]
    if not choices or not all(choices):
        return ()
    offers = (
        Suggestion(patterns=tuple(dict.fromkeys(p for choice in choices for p in choice[0]))),
        Suggestion(patterns=tuple(dict.fromkeys(p for choice in choices for p in choice[-1]))),
    )
    return tuple(offer for offer in dict.fromkeys(offers) if len(offer.patterns) <= _MOST_PATTERNS)


def _is_wide(pattern: Pattern) -> bool:
    match pattern:
        case ShellPattern(open_ended=is_open):
            return is_open
        case PathPattern(glob=glob):
            return glob is None or glob.endswith("/**")
        case _:
            return False


def suggest_refusal(
    call: Call,
    mode: Mode = DEFAULT_MODE,
    rules: Iterable[Rule] = (),
    grants: Iterable[Grant] = (),
) -> Pattern | None:
    """Return a pattern for "never": what nothing decided about the call, at its narrowest."""
    _, parts = examine_call(call, mode, rules, grants)
    for part in parts:
        found = _command_patterns(part) if isinstance(part, CommandPart) else _patterns(part, call)
        for patterns in found[:1]:
            return patterns[0]
    return None


_Choices = tuple[tuple[Pattern, ...], ...]
"""Ways to cover one part, the narrowest first; each may need several patterns."""


def _patterns(part: CallPart, call: Call) -> _Choices:
    match part:
        case CommandPart(action="run reading outside"):
            found = _path_patterns(part.reads, "read", call)
        case CommandPart(command=command):
            found = () if never_lasting(command) else _useful_patterns(part)
        case PathPart(use=use):
            found = _path_patterns((use,), use.access, call)
        case FetchPart(target=target):
            if target.address_class == "metadata":
                return ()
            port = None if target.has_default_port else target.port
            found = ((FetchPattern(host=HostPattern(host=target.host, port=port)),),)
        case McpPart(server=server, tool=tool):
            found = ((McpPattern(server=server, tool=tool),),)
        case NamedToolPart(name=name):
            found = ((NamedTool(name=name),),)
        case _:
            found = ()
    return tuple(patterns for patterns in found if _works(patterns, part, call))


def _works(patterns: tuple[Pattern, ...], part: CallPart, call: Call) -> bool:
    """Say whether the patterns can be written down and would have answered the question."""
    for pattern in patterns:
        try:
            if parse_pattern(print_pattern(pattern)) != pattern:
                return False
        except RuleError:
            return False
    if isinstance(part, CommandPart) and part.action == "run reading outside":
        return True
    return any(covers(pattern, part, call) for pattern in patterns)


def _command_patterns(run: CommandPart) -> _Choices:
    command = run.command
    words = (*command.assignments, *command.words)
    exact = tuple(word.exact for word in words)
    found: list[tuple[Pattern, ...]] = []
    if None not in exact:
        found.append((ShellPattern(words=tuple(word or "" for word in exact)),))
    leading = leading_words(command)
    if leading:
        kept = exact[: len(command.assignments) + leading]
        if None not in kept:
            first = tuple(word or "" for word in kept)
            found.append((ShellPattern(words=first, open_ended=True),))
    return tuple(found)


def _useful_patterns(run: CommandPart) -> _Choices:
    """As ``_command_patterns``, with the words before a text in place of the whole command."""
    found = _command_patterns(run)
    if len(found) != 2:
        return found
    ((exact,), (wide,)) = found
    assert isinstance(exact, ShellPattern)
    assert isinstance(wide, ShellPattern)
    text = next((at for at, word in enumerate(exact.words) if any(map(str.isspace, word))), 0)
    if text <= len(wide.words):
        return found
    return ((ShellPattern(words=exact.words[:text], open_ended=True),), (wide,))


def _path_patterns(uses: Iterable[PathUse], access: Access, call: Call) -> _Choices:
    files: list[Pattern] = []
    directories: list[Pattern] = []
    for use in uses:
        files.append(PathPattern(access=access, glob=_written(use.path, call)))
        directory = posixpath.dirname(use.path)
        wide = directory in ("/", call.home, call.project_root, "/etc", "/home", "/Users")
        if wide:
            directories.append(files[-1])
        else:
            glob = _written(directory, call) + "/**"
            directories.append(PathPattern(access=access, glob=glob))
    return (tuple(dict.fromkeys(files)), tuple(dict.fromkeys(directories)))


def _written(path: str, call: Call) -> str:
    """Return a path as a pattern that means just it, from the project's root if it is below."""
    root = call.project_root.rstrip("/")
    text = path[len(root) + 1 :] if path.startswith(root + "/") else path
    for sign in "\\*?":
        text = text.replace(sign, "\\" + sign)
    return "./" + text if text.startswith("~") else text


_META = "quarterdeck"
_WHERE: dict[Scope, str] = {
    "session": "for this session",
    "project": "in this project",
    "user": "everywhere",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionChoice:
    """What a chosen option means: the effect on the call, and what to record."""

    effect: Effect
    scope: Scope = "call"
    patterns: tuple[Pattern, ...] = ()
    known: bool = True
    """False: the id was not among those offered, or its kind is unknown."""
    session: str | None = None
    """Where the question was asked; recorded with what would hold for the session."""
    project: str | None = None


_UNKNOWN = PermissionChoice(effect="deny", known=False)


def options_for(
    suggestions: Iterable[Suggestion] = (),
    *,
    refusal: Pattern | None = None,
    project: bool = True,
    call: Call | None = None,
) -> tuple[PermissionOption, ...]:
    """Return the options for a question.

    ``suggestions`` come from ``suggest``, the narrowest first; ``refusal`` from ``refusal``. With
    no ``project`` nothing is offered for one. With ``call`` an answer for the session can be
    found again in the log.
    """
    offers = tuple(suggestions)
    options = [_option("allow_once", "Allow once", "allow-once", PermissionChoice(effect="allow"))]
    for scope, offer in _lasting_offers(offers, project):
        choice = _placed(
            PermissionChoice(effect="allow", scope=scope, patterns=offer.patterns), call
        )
        number = offers.index(offer) + 1
        name = f"Always allow {_WHERE[scope]}: {offer}"
        options.append(_option("allow_always", name, f"allow-{scope}-{number}", choice))
    options.append(_option("reject_once", "Reject", "reject-once", PermissionChoice(effect="deny")))
    if refusal is not None:
        scope: Scope = "project" if project else "session"
        choice = _placed(PermissionChoice(effect="deny", scope=scope, patterns=(refusal,)), call)
        name = f"Never allow {_WHERE[scope]}: {print_pattern(refusal)}"
        options.append(_option("reject_always", name, f"reject-{scope}", choice))
    return tuple(options)


def _lasting_offers(
    offers: tuple[Suggestion, ...], project: bool
) -> Iterable[tuple[Scope, Suggestion]]:
    """Yield where each offer may be kept, the narrowest first; only an exact one everywhere."""
    for offer in offers:
        yield "session", offer
    for offer in offers if project else ():
        yield "project", offer
    for offer in offers[:1]:
        if offer.is_exact:
            yield "user", offer


def _placed(choice: PermissionChoice, call: Call | None) -> PermissionChoice:
    if call is None or choice.scope != "session":
        return choice
    return replace(choice, session=call.session, project=call.project)


def _option(
    kind: PermissionKind, name: str, option_id: str, choice: PermissionChoice
) -> PermissionOption:
    meaning = {
        "effect": choice.effect,
        "scope": choice.scope,
        "patterns": [print_pattern(pattern) for pattern in choice.patterns],
    }
    meaning |= {"session": choice.session, "project": choice.project} if choice.session else {}
    return PermissionOption(option_id=option_id, name=name, kind=kind, meta={_META: meaning})


def choice_of(options: Iterable[PermissionOption], option_id: str) -> PermissionChoice:
    """Return what an answer means. Never raises; an option that was not offered denies.

    An option of a foreign agent means its kind, for this call: what the agent itself then
    remembers is the agent's.
    """
    for option in options:
        if option.option_id == option_id:
            return _recorded(option) or _by_kind(option.kind)
    return _UNKNOWN


def _recorded(option: PermissionOption) -> PermissionChoice | None:
    meaning = (option.meta or {}).get(_META)
    if not isinstance(meaning, dict):
        return None
    found = cast("dict[str, Any]", meaning)
    effect, scope, patterns = found.get("effect"), found.get("scope"), found.get("patterns")
    if effect not in ("allow", "deny") or scope not in SCOPES or not isinstance(patterns, list):
        return _UNKNOWN
    try:
        read = tuple(parse_pattern(str(text)) for text in cast("list[Any]", patterns))
    except RuleError:
        return _UNKNOWN
    session, project = (_text(found.get(key)) for key in ("session", "project"))
    return PermissionChoice(
        effect=effect, scope=scope, patterns=read, session=session, project=project
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _by_kind(kind: str) -> PermissionChoice:
    match kind:
        case "allow_once" | "allow_always":
            return PermissionChoice(effect="allow")
        case "reject_once" | "reject_always":
            return PermissionChoice(effect="deny")
        case _:
            return _UNKNOWN


def grants_of(
    choice: PermissionChoice,
    call: Call,
    *,
    by: str,
    now: int,
    request: str,
    reason: str | None = None,
) -> tuple[Grant, ...]:
    """Return the grants that a choice records; none for "once", nor where the scope is unknown.

    Their ids come from ``request``, so that they are the same when the log is read again.
    """
    place = {"session": call.session, "project": call.project, "user": ""}.get(choice.scope)
    if place is None:
        return ()
    # An answer for one project applies to no other, also where a session moves to another.
    within = call.project if choice.scope in ("project", "session") else None
    return tuple(
        Grant(
            id=f"{request}.{number}",
            pattern=print_pattern(pattern),
            effect=choice.effect,
            scope=choice.scope,
            project=within,
            session=call.session if choice.scope == "session" else None,
            created=now,
            by=by,
            request=request,
            reason=reason,
        )
        for number, pattern in enumerate(choice.patterns, 1)
    )


def session_grants(
    asked: PermissionAsked, answered: PermissionAnswered, *, now: int
) -> tuple[Grant, ...]:
    """Return the grants for the session that an answer in the log recorded, as it was then."""
    if not isinstance(answered.outcome, Selected):
        return ()
    choice = choice_of(asked.options, answered.outcome.option_id)
    if choice.scope != "session" or choice.session is None:
        return ()
    call = Call(tool=asked.name or "", session=choice.session, project=choice.project)
    by = answered.by.name or answered.by.kind
    request, reason = asked.request, answered.feedback
    return grants_of(choice, call, by=by, now=now, request=request, reason=reason)
