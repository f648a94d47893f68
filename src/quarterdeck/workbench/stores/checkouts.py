"""Branches and sizes of changes, asked of git in threads and kept for a while."""

import asyncio
import os
import re
import time

from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError

from ..rendering import glyphs

__all__ = ["Checkout", "Checkouts"]

_AGE = 10.0
"""Seconds after which a directory is looked at again while someone works there."""
_MOST = 200
_AT_ONCE = 2
_SECONDS = 5.0
_COUNTS = r"(\d+) (insertion|deletion)"


class Checkout(Struct, frozen=True, kw_only=True):
    """What git says about a directory; empty where it is no checkout."""

    branch: str = ""
    added: int = 0
    removed: int = 0

    @property
    def changes(self) -> str:
        """Lines that came and went, against the last commit."""
        return f"+{self.added} {glyphs.MINUS}{self.removed}" if self.added or self.removed else ""


class Checkouts:
    """What is known of directories; asking never blocks, and is bounded."""

    def __init__(self) -> None:
        self._known: dict[str, Checkout] = {}
        self._asked: dict[str, float] = {}
        self._asking: set[str] = set()
        self._room = asyncio.Semaphore(_AT_ONCE)

    def get(self, cwd: str) -> Checkout:
        """What is known of a directory."""
        return self._known.get(cwd, _NOTHING)

    def is_due(self, cwd: str, *, is_stale: bool = False) -> bool:
        """Whether it is worth asking; ``is_stale``: something has just changed there."""
        if cwd in self._asking:
            return False
        asked = self._asked.get(cwd)
        return is_stale or asked is None or time.monotonic() - asked >= _AGE

    async def ask(self, cwd: str) -> bool:
        """Look at a directory; True if it is another than before."""
        if cwd in self._asking:
            return False
        self._asking.add(cwd)
        try:
            async with self._room:
                found = await asyncio.to_thread(_look, cwd)
        finally:
            self._asking.discard(cwd)
        self._asked[cwd] = time.monotonic()
        is_other = found != self._known.get(cwd)
        self._known[cwd] = found
        for old in list(self._known)[:-_MOST]:
            del self._known[old]
            self._asked.pop(old, None)
        return is_other


_NOTHING = Checkout()


def _look(cwd: str) -> Checkout:
    from quarterdeck.system.git.repository import find_repository

    try:
        repository = find_repository(cwd)
    except QuarterdeckError:
        return _NOTHING
    if repository is None:
        return _NOTHING
    branch = os.fsencode(repository.branch).decode("utf-8", "replace")
    try:
        answer = repository.ask(["diff", "--shortstat", "HEAD"], most=10_000, seconds=_SECONDS)
    except QuarterdeckError:
        return Checkout(branch=branch)
    output = answer.data.decode("utf-8", "replace")
    counts = {kind: int(number) for number, kind in re.findall(_COUNTS, output)}
    added, removed = counts.get("insertion", 0), counts.get("deletion", 0)
    return Checkout(branch=branch, added=added, removed=removed)
