"""Grants: standing answers that a person gave, with where and for how long they hold.

A grant is a value. Storing it is the caller's; ``grants_to_json`` and ``grants_from_json`` give
the stored form, which has a version.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from quarterdeck.wire.errors import NewerVersionError
from quarterdeck.wire.values import Value

from .effects import Effect, Scope
from .errors import GrantsError, RuleError

if TYPE_CHECKING:
    from .rules import Rule

__all__ = [
    "GRANTS_VERSION",
    "Grant",
    "applicable_rules",
    "grants_from_json",
    "grants_to_json",
]

GRANTS_VERSION = 2
"""Version 2 added ``agent``; an older program would let such a grant hold for every agent."""


class Grant(Value, frozen=True, kw_only=True):
    """A standing answer."""

    id: str
    pattern: str
    """The rule's pattern as text, such as ``bash(git log:*)``."""
    effect: Effect = "allow"
    scope: Scope
    """``session`` needs ``session`` set, ``project`` needs ``project``."""
    project: str | None = None
    session: str | None = None
    agent: str | None = None
    """The agent of the catalogue whose calls it is for; None: every agent's."""
    created: int
    """Microseconds since the epoch."""
    by: str
    """Who gave it."""
    request: str | None = None
    """The permission request that it answered."""
    reason: str | None = None
    expires: int | None = None
    """Microseconds since the epoch; None: it does not expire."""
    uses: int | None = None
    """How many more calls it may decide; None: any number."""
    kept_in: Literal["user", "project"] = "user"
    """Where it is stored: with the person's data, or in a file of the project."""


class _Stored(Value, frozen=True, kw_only=True):
    version: int
    grants: tuple[Grant, ...] = ()


class _Version(msgspec.Struct):
    version: int


def applicable_rules(
    grants: Iterable[Grant],
    *,
    project: str | None,
    session: str | None,
    agent: str | None = None,
    now: int = 0,
    trusted: bool = True,
) -> "Iterator[Rule]":
    """Yield the rules of those grants that hold here and now.

    A grant for a project, session or agent holds for that one only. One whose pattern cannot be
    read holds for nothing if it allows, and for everything if it denies or asks.
    """
    # Imported where grants are read: whoever only passes them on need not know the grammar.
    from .grammar import parse_pattern
    from .rules import Rule, RuleSource

    for grant in grants:
        if not _holds(grant, project, session, now) or grant.agent not in (None, agent):
            continue
        if grant.kept_in == "project" and not trusted:
            continue
        try:
            pattern = parse_pattern(grant.pattern)
        except RuleError:
            if grant.effect == "allow":
                continue
            pattern = parse_pattern("*")
        source = RuleSource(origin="grant", where=grant.id)
        yield Rule(effect=grant.effect, pattern=pattern, scope=grant.scope, source=source)


def _holds(grant: Grant, project: str | None, session: str | None, now: int) -> bool:
    if grant.expires is not None and now >= grant.expires:
        return False
    if grant.uses is not None and grant.uses <= 0:
        return False
    # What names a project or a session never holds elsewhere, whatever its scope says.
    if grant.project is not None and grant.project != project:
        return False
    if grant.session is not None and grant.session != session:
        return False
    needed = {"call": grant.session, "session": grant.session, "project": grant.project}
    return needed.get(grant.scope, "") is not None


def grants_to_json(grants: Iterable[Grant]) -> bytes:
    """Return the stored form of grants."""
    stored = _Stored(version=GRANTS_VERSION, grants=tuple(grants))
    return msgspec.json.format(msgspec.json.encode(stored), indent=2)


def grants_from_json(data: bytes) -> tuple[Grant, ...]:
    """Read grants from their stored form.

    Raises:
        NewerVersionError: a later version of this program wrote them.
        GrantsError: it is no stored form of grants, or a pattern in it cannot be read.
    """
    from .grammar import parse_pattern

    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version > GRANTS_VERSION:
            raise NewerVersionError("the file of grants", version, GRANTS_VERSION)
        stored = msgspec.json.decode(data, type=_Stored)
    except msgspec.MsgspecError as error:
        raise GrantsError(f"cannot read the stored grants: {error}") from None
    for grant in stored.grants:
        try:
            parse_pattern(grant.pattern)
        except RuleError as error:
            raise GrantsError(f"grant {grant.id!r}: {error}; correct or remove it") from None
    return stored.grants
