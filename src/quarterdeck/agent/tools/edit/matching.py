"""Where a text to be replaced is in a file: exactly, or as near as leaves no doubt.

Four ways are tried, from strict to tolerant: the exact text; the text whatever its line ends;
whole lines but for blanks at their ends; whole lines but for their indentation. The first way that
finds anything decides.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Indents", "TextMatches", "TextSpan", "find_text", "indents_of"]


@dataclass(frozen=True, slots=True)
class Indents:
    """Which indentation of the file stands for which one of the text that was looked for."""

    known: dict[str, str]

    def move(self, line: str) -> str:
        """Give a line of the new text the file's indentation."""
        indent = _indent(line)
        body = line[len(indent) :]
        if not body.strip():
            return line
        return self._moved(indent) + body

    def _moved(self, indent: str) -> str:
        if indent in self.known:
            return self.known[indent]
        shorter = [one for one in self.known if indent.startswith(one)]
        if shorter:
            nearest = max(shorter, key=len)
            return self.known[nearest] + self._deeper(indent[len(nearest) :])
        longer = [one for one in self.known if one.startswith(indent)]
        if not longer:
            return indent
        nearest = min(longer, key=len)
        surplus = nearest[len(indent) :]
        there = self.known[nearest]
        return there.removesuffix(surplus) if there.endswith(surplus) else indent

    def _deeper(self, step: str) -> str:
        """A further step inwards: in tabs if the file has tabs where the text has blanks."""
        pairs = [(a, b) for a, b in self.known.items() if a and b and set(b) == {"\t"}]
        for blanks, tabs in pairs:
            width, rest = divmod(len(blanks), len(tabs))
            if set(blanks) == {" "} and not rest and not len(step) % width:
                return "\t" * (len(step) // width)
        return step


def indents_of(wanted: Sequence[str], there: Sequence[str]) -> Indents | None:
    """Compare the indentation of equal lines; None if one of the text means two of the file."""
    known: dict[str, str] = {}
    for ours, theirs in zip(wanted, there, strict=True):
        if ours.strip() and known.setdefault(_indent(ours), _indent(theirs)) != _indent(theirs):
            return None
    return Indents(known)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A piece of the file and what comes in its place."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatches:
    """Where the text is; no spans: nowhere."""

    spans: tuple[TextSpan, ...] = ()
    """In order, without overlaps."""
    ignoring: str = ""
    """What was not compared, for the model; empty for an exact match."""
    is_exact: bool = True
    """Whether several places may be replaced together."""


_LINE_END = r"(?:\r\n|(?<!\r)\n)"
_Way: TypeAlias = Callable[[str, str, str], TextMatches]


def find_text(text: str, old: str, new: str) -> TextMatches:
    """Find every place of ``old`` in ``text``; what comes in its place has the file's form."""
    ways: tuple[_Way, ...] = (_exact, _any_line_ends, _trailing_blanks, _indentation)
    return next((found for way in ways if (found := way(text, old, new)).spans), TextMatches())


def _exact(text: str, old: str, new: str) -> TextMatches:
    """Exactly as written, where line ends were written as CR LF: then they are meant."""
    if "\r\n" not in old:
        return TextMatches()
    places = re.finditer(f"(?={re.escape(old)})", text)
    spans = (TextSpan(place.start(), place.start() + len(old), new) for place in places)
    return TextMatches(spans=tuple(spans))


def _any_line_ends(text: str, old: str, new: str) -> TextMatches:
    """Exactly, but for line ends, which are those of the file; places that overlap count too."""
    lines = old.replace("\r\n", "\n").split("\n")
    wanted = _LINE_END.join(map(re.escape, lines))
    as_written = "\r\n" in new and "\r\n" not in old
    spans: list[TextSpan] = []
    for place in re.finditer(f"(?=({wanted}))", text):
        start, end = place.span(1)
        told = new if as_written else _with_ends(new, _is_crlf(text, start, end))
        spans.append(TextSpan(start, end, told))
    return TextMatches(spans=tuple(spans))


def _is_crlf(text: str, start: int, end: int) -> bool:
    """Whether the first line end within the place, or else after it, is CR LF."""
    first = text.find("\n", start, end)
    return text[first - 1 : first] == "\r" if first > 0 else _is_crlf_at(text, start)


def _with_ends(text: str, crlf: bool) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n" if crlf else "\n")


def _is_crlf_at(text: str, position: int) -> bool:
    """Whether the line of this position ends in CR LF, or the one before, if it is the last."""
    end = text.find("\n", position)
    if end < 0:
        end = text.rfind("\n")
    return end > 0 and text[end - 1] == "\r"


def _trailing_blanks(text: str, old: str, new: str) -> TextMatches:
    lines = _Lines(text)
    wanted = _split(old)
    spans = [
        lines.span(first, len(wanted), old, new)
        for first in lines.windows([line.rstrip() for line in wanted], str.rstrip)
    ]
    return TextMatches(spans=tuple(spans), ignoring="trailing whitespace", is_exact=False)


def _indentation(text: str, old: str, new: str) -> TextMatches:
    lines = _Lines(text)
    wanted = _split(old)
    spans: list[TextSpan] = []
    for first in lines.windows([line.strip() for line in wanted], str.strip):
        there = lines.contents[first : first + len(wanted)]
        indents = indents_of(wanted, there)
        if indents is not None:
            spans.append(lines.span(first, len(wanted), old, _moved(new, indents)))
    return TextMatches(spans=tuple(spans), ignoring="indentation", is_exact=False)


def _moved(new: str, indents: Indents) -> str:
    return "\n".join(map(indents.move, new.split("\n")))


def _split(text: str) -> list[str]:
    """The lines of a text to look for, without line ends."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


class _Lines:
    """The lines of a file and where they are."""

    def __init__(self, text: str) -> None:
        self._text = text
        parts = text.split("\n")
        self.contents = [part.removesuffix("\r") for part in parts]
        self._starts = [0]
        for part in parts:
            self._starts.append(self._starts[-1] + len(part) + 1)

    def windows(self, wanted: list[str], form: Callable[[str], str]) -> list[int]:
        """The first line of each window whose lines, brought into ``form``, are the wanted ones."""
        if not any(wanted):
            return []
        anchor = next(index for index, line in enumerate(wanted) if line)
        formed = [form(line) for line in self.contents]
        count = len(wanted)
        return [
            index - anchor
            for index, line in enumerate(formed)
            if line == wanted[anchor]
            and index >= anchor
            and formed[index - anchor : index - anchor + count] == wanted
        ]

    def span(self, first: int, count: int, old: str, new: str) -> TextSpan:
        """The text of these lines; with the last line's end only if ``old`` has one."""
        start, last = self._starts[first], first + count - 1
        end = self._starts[last] + len(self.contents[last])
        if old.endswith("\n") and count > 0 and self._starts[last + 1] <= len(self._text):
            end = self._starts[last + 1]
        return TextSpan(start, end, _with_ends(new, _is_crlf_at(self._text, start)))
