"""Finds quickly which files cannot match, from pieces of text that every match contains.

Nothing here decides that a file matches. Where ripgrep is installed it looks for the pieces; the
answer is the same, sooner.
"""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quarterdeck.system.api import CommandSpec, DirectoryEntry, EndingDeadlines, Process, System
from quarterdeck.system.environment import find_own_program
from quarterdeck.system.errors import SpawnError
from quarterdeck.wire.errors import LinkError

from .search import GrepQuery

__all__ = ["WORTH", "LiteralFilter", "find_candidates", "make_literal_filter"]

_SHORTEST = 2
"""Characters; a shorter piece is in nearly every file."""
_PLAIN_ESCAPES = frozenset("bBdDsSwWAZntrfva")
"""Letters that need nothing after them, and stand for no character that we look for."""
_UNFOLDED = frozenset("iksIKS")
"""Letters for which characters outside of ASCII count too when case is ignored."""
_REPEAT = re.compile(r"\{\d*,?\d*\}")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_GROUP = re.compile(r"\((?!\?(?!P?<|[:=!]))")
"""An opening bracket, but not one that changes the rules: flags, comments, conditions."""


@dataclass(frozen=True, slots=True)
class LiteralFilter:
    """At least one of the pieces is in every file that matches."""

    pieces: tuple[bytes, ...]
    ignore_case: bool = False

    def passes(self, data: bytes) -> bool:
        """Whether a file of this content may match."""
        if self.ignore_case:
            data = data.lower()
        return any(piece in data for piece in self.pieces)


def make_literal_filter(query: GrepQuery) -> LiteralFilter | None:
    """The sieve for a query; None where its matches need have nothing in common."""
    branches = _branches(query.pattern)
    if branches is None:
        return None
    pieces: list[bytes] = []
    for runs in branches:
        folded = [part for run in runs for part in _folded(run)] if query.ignore_case else runs
        longest = max(folded, key=len, default="")
        if len(longest) < _SHORTEST:
            return None
        pieces.append(longest.encode())
    return LiteralFilter(tuple(pieces), query.ignore_case)


def _folded(run: str) -> list[str]:
    """The parts of a run whose letters have one other form only, in small letters."""
    parted = "".join("\n" if sign in _UNFOLDED else sign for sign in run)
    return parted.lower().split("\n")


def _branches(pattern: str) -> list[list[str]] | None:
    """For each alternative, the texts that are in every match of it; None if that is unclear."""
    reader = _Reader(pattern)
    while reader.position < len(pattern):
        if not reader.step():
            return None
    reader.cut()
    return reader.branches


class _Reader:
    """Reads a valid pattern from left to right; what it does not know, it leaves out."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0
        self.branches: list[list[str]] = [[]]
        self._run = ""
        self._depth = 0
        self._is_repeated = False
        """The last thing read was a repetition: a sign after it is about how greedy it is."""

    def cut(self) -> None:
        """End the text that was gathered."""
        self.branches[-1].append(self._run)
        self._run = ""

    def step(self) -> bool:
        """Take the next thing; False if the pattern is not for this reader."""
        sign = self._pattern[self.position]
        was_repeated, self._is_repeated = self._is_repeated, False
        match sign:
            case "*" | "?" | "+" | "{":
                return self._repeat(sign, was_repeated)
            case "(" | ")":
                return self._bracket(sign)
            case "\\":
                return self._escape()
            case "[":
                return self._class()
            case "|":
                self.position += 1
                if not self._depth:
                    self.cut()
                    self.branches.append([])
            case _:
                self.position += 1
                self._take(sign, is_known=sign not in ".^$")
        return True

    def _take(self, sign: str, *, is_known: bool) -> None:
        if self._depth:
            return
        if is_known and sign.isascii() and sign not in "\r\n\0":
            self._run += sign
        else:
            self.cut()

    def _repeat(self, sign: str, was_repeated: bool) -> bool:
        repeat = _REPEAT.match(self._pattern, self.position)
        self.position = repeat.end() if repeat else self.position + 1
        self._is_repeated = sign != "{" or repeat is not None
        if not self._depth:
            if sign != "+" and not was_repeated:
                self._run = self._run[:-1]
            self.cut()
        return True

    def _bracket(self, sign: str) -> bool:
        if sign == "(" and not _GROUP.match(self._pattern, self.position):
            return False
        if not self._depth:
            self.cut()
        self._depth += 1 if sign == "(" else -1
        self.position += 1
        # What is left of the opening, such as "?P<name>", is within the group and left out.
        return True

    def _escape(self) -> bool:
        sign = self._pattern[self.position + 1 : self.position + 2]
        if sign.isalnum() and sign not in _PLAIN_ESCAPES:
            return False
        self.position += 2
        self._take(sign, is_known=not sign.isalnum())
        return True

    def _class(self) -> bool:
        found = _CLASS.match(self._pattern, self.position)
        if found is None:
            return False
        self.position = found.end()
        self._take("", is_known=False)
        return True


WORTH = 4_000_000
"""Bytes of files below which reading them is quicker than starting a program."""
_ARGUMENT_BYTES = 500_000
"""Systems allow one to two million for arguments and environment together."""
_OPTIONS = (
    "--no-config",
    "--files-with-matches",
    "--fixed-strings",
    "--null",
    "--text",
    "--no-messages",
    "--color=never",
    "--encoding=none",
)
_AT_ONCE = EndingDeadlines(ask=0, terminate=0)


async def find_candidates(
    system: System, top: str, entries: Sequence[DirectoryEntry], sieve: LiteralFilter
) -> frozenset[str] | None:
    """The paths of those entries that may match; None where ripgrep cannot tell.

    It cannot where it is not installed, where any file could not be read (our own search counts
    those), and where what we read is not what is on the disk.
    """
    if not system.files.is_disk:
        return None
    found: set[str] = set()
    for paths in _portions([f"{top.rstrip('/')}/{entry.path}" for entry in entries]):
        portion = await _search(system, paths, sieve)
        if portion is None:
            return None
        found |= portion
    start = len(top.rstrip("/")) + 1
    return frozenset(path[start:] for path in found)


async def _search(system: System, paths: Sequence[str], sieve: LiteralFilter) -> set[str] | None:
    case = ("--ignore-case",) if sieve.ignore_case else ("--case-sensitive",)
    pieces = (word for piece in sieve.pieces for word in ("-e", piece.decode()))
    program = await asyncio.to_thread(find_own_program, "rg", system.roots)
    if program is None:
        return None
    command = CommandSpec(argv=(program, *_OPTIONS, *case, *pieces, "--", *paths))
    try:
        process = await system.processes.spawn(command)
    except SpawnError:
        return None
    try:
        printed = await _printed(process)
        code = (await process.wait()).code
    except LinkError:
        return None
    finally:
        await process.end(_AT_ONCE)
    if code not in (0, 1):  # 2: something could not be read
        return None
    return {os.fsdecode(name) for name in printed.split(b"\0") if name}


async def _printed(process: Process) -> bytes:
    printed = bytearray()
    while piece := await process.receive():
        printed += piece
    return bytes(printed)


def _portions(paths: Sequence[str]) -> Iterator[list[str]]:
    """The paths in lists that a command line has room for."""
    portion: list[str] = []
    size = 0
    for path in paths:
        length = len(os.fsencode(path)) + 9
        if portion and size + length > _ARGUMENT_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(path)
        size += length
    if portion:
        yield portion
