"""Grants: answers of a person that stay in force, where and for how long, and their store.

A grant is a value. Storing it is the caller's; ``grants_to_json`` and ``grants_from_json`` give
the stored form, which has a version.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import NewerVersionError
from quarterdeck.wire.filelock import hold_lock
from quarterdeck.wire.private_files import close_to_others, make_private_directory, open_private
from quarterdeck.wire.values import Value

from .errors import GrantsError, RuleError
from .modes import Effect, Scope

if TYPE_CHECKING:
    from .rules import Rule

__all__ = [
    "GRANTS_VERSION",
    "Grant",
    "GrantStore",
    "GrantSubject",
    "applicable_rules",
    "grants_from_json",
    "grants_to_json",
]

GRANTS_VERSION = 3
"""Version 2 added ``agent``, version 3 ``tree`` and uses that are counted: an older program would
let such a grant hold for every agent, for every session, or for any number of calls.
"""
GrantSubject: TypeAlias = Literal["agent", "tree", "project", "all"]
"""Who a grant is for: one session, a session with all below it, a project, everything."""


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
    tree: str | None = None
    """The session that it is for with every agent below it, also later ones; while it is live."""
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
    """How many more calls it may allow; None: any number."""
    kept_in: Literal["user", "project"] = "user"
    """Where it is stored: with the person's data, or in a file of the project."""

    @property
    def subject(self) -> GrantSubject:
        """Who it is for."""
        if self.session is not None:
            return "agent"
        if self.tree is not None:
            return "tree"
        return "all" if self.project is None else "project"

    @property
    def is_counted(self) -> bool:
        """Whether each call that it allows uses it up a little."""
        return self.uses is not None and self.effect == "allow"

    def has_ended(self, now: int) -> bool:
        """Whether it can never hold again: its time is over, or it is used up."""
        is_over = self.expires is not None and now >= self.expires
        return is_over or (self.uses is not None and self.uses <= 0)


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
    leads: Collection[str] = (),
    now: int = 0,
    trusted: bool = True,
) -> "Iterator[Rule]":
    """Yield the rules of those grants that hold here and now.

    A grant for a project, session or agent holds for that one only, one for a tree below its
    session: ``leads`` are the live sessions that the call is below of, its own included. One whose
    pattern cannot be read holds for nothing if it allows, and for everything if it denies or asks.
    """
    # Imported where grants are read: code that only passes them on does not need the grammar.
    from .grammar import parse_pattern
    from .rules import Rule, RuleSource

    for grant in grants:
        if not _holds(grant, project, session, now) or grant.agent not in (None, agent):
            continue
        if grant.tree is not None and grant.tree not in leads:
            continue
        if grant.kept_in == "project" and not trusted:
            continue
        try:
            pattern = parse_pattern(grant.pattern)
        except RuleError:
            if grant.effect == "allow":
                continue
            pattern = parse_pattern("*")
        source = RuleSource(origin="grant", where=grant.id, is_counted=grant.is_counted)
        yield Rule(effect=grant.effect, pattern=pattern, scope=grant.scope, source=source)


def _holds(grant: Grant, project: str | None, session: str | None, now: int) -> bool:
    if grant.has_ended(now):
        return False
    # By a clock that was set back no one knows how long it has been in force.
    if grant.effect == "allow" and grant.expires is not None and now < grant.created:
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
        version = decode_json(data, _Version).version
        if version > GRANTS_VERSION:
            raise NewerVersionError("the file of grants", version, GRANTS_VERSION)
        stored = decode_json(data, _Stored)
    except msgspec.MsgspecError as error:
        raise GrantsError(f"cannot read the stored grants: {error}") from None
    for grant in stored.grants:
        try:
            parse_pattern(grant.pattern)
        except RuleError as error:
            raise GrantsError(f"grant {grant.id!r}: {error}; correct or remove it") from None
    return stored.grants


class GrantStore:
    """Every grant that may hold for a session.

    Lasting grants (project, user) are kept in ``path``; several processes may add to it. A file
    that cannot be read raises ``GrantsError`` from ``load`` and ``refresh``, and nothing is
    overwritten.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lasting: tuple[Grant, ...] = ()
        self._session: tuple[Grant, ...] = ()
        self._state: _State = None
        self._looking = asyncio.Lock()
        self._ended: set[str] = set()

    @property
    def all(self) -> "tuple[Grant, ...]":
        """All of them, as they were when last loaded, refreshed or changed here."""
        return (*self._session, *self._lasting)

    def current(self, now: int) -> "tuple[Grant, ...]":
        """All of them but those that allowed something and whose time was over at an earlier
        look: a clock that is set back does not bring them back.
        """
        timed = (one for one in self.all if one.effect == "allow" and one.expires is not None)
        self._ended |= {one.id for one in timed if one.has_ended(now)}
        return tuple(one for one in self.all if one.id not in self._ended)

    async def load(self) -> None:
        """Read the file anew; there need not be one."""
        if self._path is not None:
            self._lasting, self._state = await asyncio.to_thread(_load, self._path)

    async def refresh(self) -> None:
        """Read the file if it has changed, so that what was taken back elsewhere ends here.

        Callers go on in the order in which they came: calls of one step are asked about in the
        model's order.
        """
        if self._path is None:
            return
        async with self._looking:
            if await asyncio.to_thread(_state, self._path) != self._state:
                await self.load()

    async def add(self, grants: "Iterable[Grant]") -> None:
        """Remember grants, each as long as its scope says; durable when this returns."""
        new = tuple(grants)
        self._session += tuple(grant for grant in new if grant.scope == "session")
        lasting = tuple(grant for grant in new if grant.scope in ("project", "user"))
        if lasting and self._path is not None:
            self._lasting = await asyncio.to_thread(
                _change, self._path, lambda known: (*known, *lasting)
            )
        else:
            self._lasting += lasting

    async def revoke(self, id_: str) -> bool:
        """Take a grant back, durably where it was lasting; False if there is none of that id."""
        await self.refresh()
        known = any(grant.id == id_ for grant in self.all)
        self._session = tuple(grant for grant in self._session if grant.id != id_)
        if self._path is not None:
            self._lasting = await asyncio.to_thread(
                _change, self._path, lambda known: tuple(one for one in known if one.id != id_)
            )
        else:
            self._lasting = tuple(grant for grant in self._lasting if grant.id != id_)
        return known

    async def spend(self, ids: Collection[str], now: int) -> frozenset[str]:
        """Use each of these lasting grants for one call: all of them, or none.

        Durable when this returns, and counted once however many processes use them at a time.
        Returns those that cannot be used any more, because another call was first or they were
        taken back; empty: all are used.

        Raises:
            GrantsError, OSError: the file of grants cannot be read or written; nothing is used.
        """
        gone: frozenset[str] = frozenset()

        def use(known: "tuple[Grant, ...]") -> "tuple[Grant, ...]":
            nonlocal gone
            usable = {one.id for one in known if one.is_counted and not one.has_ended(now)}
            gone = frozenset(ids) - usable
            return known if gone else tuple(_use(one) if one.id in ids else one for one in known)

        if self._path is not None:
            self._lasting = await asyncio.to_thread(_change, self._path, use)
        else:
            self._lasting = use(self._lasting)
        return gone


def _use(grant: Grant) -> Grant:
    return msgspec.structs.replace(grant, uses=(grant.uses or 0) - 1)


_State: TypeAlias = tuple[int, int, int] | None
"""What distinguishes one content of a file from another; None where there is no file."""


def _state(path: Path) -> _State:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _load(path: Path) -> "tuple[tuple[Grant, ...], _State]":
    close_to_others(path)
    # The state first: a change in between is then seen at the next look.
    state = _state(path)
    return _read(path), state


def _read(path: Path) -> "tuple[Grant, ...]":
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()

    return grants_from_json(data)


def _change(
    path: Path, change: "Callable[[tuple[Grant, ...]], tuple[Grant, ...]]"
) -> "tuple[Grant, ...]":
    """Rewrite the file in one step, under a lock that other processes respect."""
    make_private_directory(path.parent)
    with hold_lock(path.with_suffix(".lock")):
        known = _read(path)
        kept = change(known)
        if kept == known:
            return kept
        fresh = path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(open_private(fresh, flags), "wb") as file:
            file.write(grants_to_json(kept))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    return kept
