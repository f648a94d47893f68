"""Replacing text: all of what was asked, or a reason why not."""

import difflib
import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..tool import ToolError
from ..truncate import shorten
from .matching import Found, Span, find

__all__ = ["Applied", "Replacement", "apply"]

_LISTED = 20
_SHOWN_LINES = 12
_SEARCHED_LINES = 20_000
_COMPARED = 200
_TRIED_LINES = 3
_CANDIDATES = 20


class Replacement(Protocol):
    """One replacement, as the model asks for it."""

    @property
    def old(self) -> str:
        """The text to replace."""
        ...

    @property
    def new(self) -> str:
        """What comes in its place."""
        ...

    @property
    def replace_all(self) -> bool:
        """Whether every place is meant."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The text after all replacements."""

    text: str
    changes: tuple[tuple[str, str], ...]
    """What was taken out and put in, in order."""
    notes: tuple[str, ...] = ()
    """How tolerantly a text was found, for the model."""


def apply(text: str, replacements: Sequence[Replacement], shown: str) -> Applied:
    """Make the replacements one after the other, each in the result of the one before.

    Takes time for large texts; call it in a thread. ``shown`` names the file in errors.

    Raises:
        ToolError: one of them cannot be made; then none is.
    """
    changes: list[tuple[str, str]] = []
    notes: list[str] = []
    for number, one in enumerate(replacements, 1):
        which = f"edit {number} of {len(replacements)}: " if len(replacements) > 1 else ""
        spans, note = _spans(text, one, which, shown)
        changes += ((text[span.start : span.end], span.new) for span in spans)
        text = _replaced(text, spans)
        if note:
            notes.append(which + note)
    return Applied(text=text, changes=tuple(changes), notes=tuple(notes))


def _spans(text: str, one: Replacement, which: str, shown: str) -> tuple[list[Span], str]:
    if not one.old:
        raise ToolError(f"{which}'old' is empty; use write to create or replace a whole file.")
    if one.old == one.new:
        raise ToolError(f"{which}'old' and 'new' are the same; there is nothing to change.")
    found = find(text, one.old, one.new)
    if not found.spans:
        raise ToolError(_not_found(text, one.old, which, shown))
    if len(found.spans) > 1 and not (one.replace_all and found.is_exact):
        raise ToolError(_ambiguous(text, found, which, shown))
    note = f"matched ignoring {found.ignoring}" if found.ignoring else ""
    return _without_overlaps(found.spans), note


def _without_overlaps(spans: Sequence[Span]) -> list[Span]:
    kept: list[Span] = []
    for span in spans:
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _replaced(text: str, spans: Sequence[Span]) -> str:
    pieces: list[str] = []
    position = 0
    for span in spans:
        pieces += (text[position : span.start], span.new)
        position = span.end
    return "".join([*pieces, text[position:]])


def _ambiguous(text: str, found: Found, which: str, shown: str) -> str:
    numbers = [text.count("\n", 0, span.start) + 1 for span in found.spans[:_LISTED]]
    listed = ", ".join(map(str, numbers)) + (", …" if len(found.spans) > _LISTED else "")
    loosely = f" (ignoring {found.ignoring})" if found.ignoring else ""
    advice = "Give more surrounding lines so that it is unique"
    advice += ", or set replace_all." if found.is_exact else "."
    return (
        f"{which}'old' is in {shown!r} {len(found.spans)} times{loosely}, at lines {listed}; "
        f"nothing was changed. {advice}"
    )


def _not_found(text: str, old: str, which: str, shown: str) -> str:
    told = f"{which}'old' is not in {shown!r}; nothing was changed."
    if re.match(r"\s*\d+\t", old):
        return f"{told} Leave out the line numbers that read shows before each line."
    lines = text.split("\n")
    near = _nearest(lines, old)
    if near is None:
        return f"{told} No line of the file is like it. Read the file again."
    end = min(near + min(old.count("\n") + 1, _SHOWN_LINES), len(lines))
    rows = [f"{i + 1:>5}\t{shorten(lines[i].rstrip(), 300)}" for i in range(near, end)]
    return "\n".join([f"{told} The nearest lines are:", *rows])


def _nearest(lines: Sequence[str], old: str) -> int | None:
    """The line where something most like ``old`` begins; None if nothing is like it."""
    places: dict[str, int] = {}
    for index, line in enumerate(lines[:_SEARCHED_LINES]):
        places.setdefault(line.strip()[:_COMPARED], index)
    places.pop("", None)
    pairs = {line: _pairs(line) for line in places}
    wanted = [line.strip()[:_COMPARED] for line in old.split("\n")]
    for offset, line in list(enumerate(wanted))[:_TRIED_LINES]:
        close = difflib.get_close_matches(line, _candidates(pairs, line), n=1) if line else []
        if close:
            return max(places[close[0]] - offset, 0)
    return None


def _candidates(pairs: Mapping[str, set[str]], line: str) -> list[str]:
    """The few lines that share most pairs of letters: comparing all of them takes seconds."""
    wanted = _pairs(line)
    return heapq.nlargest(
        _CANDIDATES, pairs, key=lambda one: len(pairs[one] & wanted) / len(pairs[one] | wanted)
    )


def _pairs(line: str) -> set[str]:
    return {line[index : index + 2] for index in range(max(len(line) - 1, 1))}
