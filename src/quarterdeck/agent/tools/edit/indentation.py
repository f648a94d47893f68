"""Text that was written with another indentation than the file's."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Indents", "indents_of"]


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
