"""Telling quickly that a file cannot match, from pieces of text that every match contains.

Nothing here decides that a file matches. A piece is plain ASCII without line ends, so that it is
found in a file's bytes wherever it would be found in its text.
"""

import re
from dataclasses import dataclass

from .search import Query

__all__ = ["Sieve", "sieve_of"]

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
class Sieve:
    """At least one of the pieces is in every file that matches."""

    pieces: tuple[bytes, ...]
    ignore_case: bool = False

    def passes(self, data: bytes) -> bool:
        """Whether a file of this content may match."""
        if self.ignore_case:
            data = data.lower()
        return any(piece in data for piece in self.pieces)


def sieve_of(query: Query) -> Sieve | None:
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
    return Sieve(tuple(pieces), query.ignore_case)


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
