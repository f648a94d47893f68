"""The grants that people gave: those of this session in memory, lasting ones in a file."""

import asyncio
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from quarterdeck.wire.private_files import (
    close_to_others,
    make_private_directory,
    open_private,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .grants import Grant

__all__ = ["GrantStore"]


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

    @property
    def all(self) -> "tuple[Grant, ...]":
        """All of them, as they were when last loaded, refreshed or changed here."""
        return (*self._session, *self._lasting)

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
            self._lasting = await asyncio.to_thread(_change, self._path, lasting, frozenset[str]())
        else:
            self._lasting += lasting

    async def revoke(self, id_: str) -> bool:
        """Take a grant back, durably where it was lasting; False if there is none of that id."""
        await self.refresh()
        known = any(grant.id == id_ for grant in self.all)
        self._session = tuple(grant for grant in self._session if grant.id != id_)
        if self._path is not None:
            self._lasting = await asyncio.to_thread(_change, self._path, (), frozenset({id_}))
        else:
            self._lasting = tuple(grant for grant in self._lasting if grant.id != id_)
        return known


_State: TypeAlias = tuple[int, int, int] | None
"""What tells one content of a file from another; None where there is no file."""


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
    from .grants import grants_from_json

    return grants_from_json(data)


def _change(path: Path, added: "tuple[Grant, ...]", revoked: frozenset[str]) -> "tuple[Grant, ...]":
    """Rewrite the file in one step, under a lock that other processes respect."""
    from .grants import grants_to_json

    make_private_directory(path.parent)
    lock = open_private(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = tuple(grant for grant in _read(path) if grant.id not in revoked) + added
        fresh = path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(open_private(fresh, flags), "wb") as file:
            file.write(grants_to_json(kept))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        os.close(lock)
    return kept
