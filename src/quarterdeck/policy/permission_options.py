"""The choices that a person is offered, and what each of them records.

What a choice means travels with the option, in its ``_meta``, so that the log alone is enough to
act on an answer. Only options that were offered count: an unknown id denies.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from quarterdeck.wire.events import PermissionAnswered, PermissionAsked
from quarterdeck.wire.permissions import PermissionKind, PermissionOption, Selected

from .call import Call
from .errors import RuleError
from .grammar import parse_pattern, print_pattern
from .grants import Grant
from .rules import SCOPES, Effect, Pattern, Scope
from .suggestions import Suggestion

__all__ = ["PermissionChoice", "choice_of", "grants_of", "options_for", "session_grants"]

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
    for scope, offer in _standing(offers, project):
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


def _standing(offers: tuple[Suggestion, ...], project: bool) -> Iterable[tuple[Scope, Suggestion]]:
    """Yield where each offer may be kept, the narrowest first; the wider one never everywhere."""
    for offer in offers:
        yield "session", offer
    for offer in offers if project else ():
        yield "project", offer
    for offer in offers[:1]:
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
    # What was said of one project holds for no other, also where a session moves to another.
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
