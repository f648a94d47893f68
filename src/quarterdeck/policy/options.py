"""The choices that a person is offered, and what each of them records.

What a choice means travels with the option, in its ``_meta``, so that the log alone is enough to
act on an answer. Only options that were offered count: an unknown id denies.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from quarterdeck.wire.permissions import PermissionKind, PermissionOption

from .call import Call
from .errors import RuleError
from .grammar import parse_pattern, print_pattern
from .grants import Grant
from .rules import SCOPES, Effect, Pattern, Scope
from .suggest import Suggestion

__all__ = ["Choice", "choice_of", "grants_of", "options_for"]

_META = "quarterdeck"
_WHERE: dict[Scope, str] = {
    "session": "for this session",
    "project": "in this project",
    "user": "everywhere",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a chosen option means: the effect on the call, and what to record."""

    effect: Effect
    scope: Scope = "call"
    patterns: tuple[Pattern, ...] = ()
    known: bool = True
    """False: the id was not among those offered, or its kind is unknown."""


_UNKNOWN = Choice(effect="deny", known=False)


def options_for(
    suggestions: Iterable[Suggestion] = (), *, refusal: Pattern | None = None, project: bool = True
) -> tuple[PermissionOption, ...]:
    """Return the options for a question.

    ``suggestions`` come from ``suggest``, the narrowest first; ``refusal`` from ``refusal``. With
    no ``project`` nothing is offered for one.
    """
    offers = tuple(suggestions)
    options = [_option("allow_once", "Allow once", "allow-once", Choice(effect="allow"))]
    for scope, offer in _standing(offers, project):
        choice = Choice(effect="allow", scope=scope, patterns=offer.patterns)
        number = offers.index(offer) + 1
        name = f"Always allow {_WHERE[scope]}: {offer}"
        options.append(_option("allow_always", name, f"allow-{scope}-{number}", choice))
    options.append(_option("reject_once", "Reject", "reject-once", Choice(effect="deny")))
    if refusal is not None:
        scope: Scope = "project" if project else "session"
        choice = Choice(effect="deny", scope=scope, patterns=(refusal,))
        name = f"Never allow {_WHERE[scope]}: {print_pattern(refusal)}"
        options.append(_option("reject_always", name, f"reject-{scope}", choice))
    return tuple(options)


def _standing(offers: tuple[Suggestion, ...], project: bool) -> Iterable[tuple[Scope, Suggestion]]:
    """Yield where each offer may be kept: the wider one never for everywhere."""
    if not offers:
        return
    yield "session", offers[-1]
    if project:
        for offer in offers:
            yield "project", offer
    yield "user", offers[0]


def _option(kind: PermissionKind, name: str, option_id: str, choice: Choice) -> PermissionOption:
    meaning = {
        "effect": choice.effect,
        "scope": choice.scope,
        "patterns": [print_pattern(pattern) for pattern in choice.patterns],
    }
    return PermissionOption(option_id=option_id, name=name, kind=kind, meta={_META: meaning})


def choice_of(options: Iterable[PermissionOption], option_id: str) -> Choice:
    """Return what an answer means. Never raises; an option that was not offered denies.

    An option of a foreign agent means its kind, for this call: what the agent itself then
    remembers is the agent's.
    """
    for option in options:
        if option.option_id == option_id:
            return _recorded(option) or _by_kind(option.kind)
    return _UNKNOWN


def _recorded(option: PermissionOption) -> Choice | None:
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
    return Choice(effect=effect, scope=scope, patterns=read)


def _by_kind(kind: str) -> Choice:
    match kind:
        case "allow_once" | "allow_always":
            return Choice(effect="allow")
        case "reject_once" | "reject_always":
            return Choice(effect="deny")
        case _:
            return _UNKNOWN


def grants_of(
    choice: Choice,
    call: Call,
    *,
    new_id: Callable[[], str],
    by: str,
    now: int,
    request: str | None = None,
    reason: str | None = None,
) -> tuple[Grant, ...]:
    """Return the grants that a choice records; none for "once", nor where the scope is unknown."""
    place = {"session": call.session, "project": call.project, "user": ""}.get(choice.scope)
    if place is None:
        return ()
    return tuple(
        Grant(
            id=new_id(),
            pattern=print_pattern(pattern),
            effect=choice.effect,
            scope=choice.scope,
            project=call.project if choice.scope == "project" else None,
            session=call.session if choice.scope == "session" else None,
            created=now,
            by=by,
            request=request,
            reason=reason,
        )
        for pattern in choice.patterns
    )
