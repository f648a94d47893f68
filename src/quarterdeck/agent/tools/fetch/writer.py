"""Text in lines with prefixes, gaps that do not add up, and marks that close what they open."""

from collections.abc import Iterable

__all__ = ["Writer"]

_DEEPEST = 16
"""Levels of quotes and lists that are drawn; hostile pages nest thousands."""
_MOST_OPEN = 32


class _Frame:
    """A block that is open: what stands before its first line and before its other lines."""

    __slots__ = ("first", "name", "rest")

    def __init__(self, name: str, first: str, rest: str) -> None:
        self.name = name
        self.first = first
        self.rest = rest


class _Mark:
    """Something inline that is open; it is written when there is text in it."""

    __slots__ = ("end", "is_written", "name", "start")

    def __init__(self, name: str, start: str, end: str) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.is_written = False


class Writer:
    """Collects the text of a page."""

    def __init__(self) -> None:
        self.is_inline = False
        """Gaps are spaces now: a table's cell has one line."""
        self._parts: list[str] = []
        self._frames: list[_Frame] = []
        self._marks: list[_Mark] = []
        self._gap = 0
        self._at_start = True
        self._owes_space = False

    def write(self, text: str) -> None:
        """Write a piece of a line; spaces at the beginning of a line are left out."""
        stripped = text.strip(" ")
        if not stripped:
            self._owes_space = self._owes_space or bool(text)
            return
        if self._gap or not self._parts:
            self._break()
        elif (self._owes_space or text.startswith(" ")) and not self._at_start:
            self._parts.append(" ")
        for mark in self._marks:
            if not mark.is_written:
                mark.is_written = True
                self._parts.append(mark.start)
        self._parts.append(stripped)
        self._at_start = False
        self._owes_space = text.endswith(" ")

    def lines(self, lines: Iterable[str]) -> None:
        """Write whole lines as they are."""
        for line in lines:
            self._break(at_least=1)
            self._parts.append(line)
            self._at_start = False
        self._owes_space = False

    def gap(self, newlines: int) -> None:
        """End the line, and with 2 leave one empty; several gaps in a row are the largest."""
        if self.is_inline:
            self._owes_space = True
        else:
            self._gap = max(self._gap, newlines)

    def enter(self, name: str, first: str, rest: str) -> None:
        """Put ``first`` before the next line and ``rest`` before the following ones."""
        if len(self._frames) >= _MOST_OPEN:
            return
        drawn = sum(bool(frame.rest) for frame in self._frames)
        shown = drawn < _DEEPEST
        self._frames.append(_Frame(name, first if shown else "", rest if shown else ""))

    def leave(self, name: str, within: tuple[str, ...] = ()) -> None:
        """End the innermost ``name`` with all in it, unless one of ``within`` is further in."""
        for index in range(len(self._frames) - 1, -1, -1):
            if self._frames[index].name == name:
                del self._frames[index:]
                return
            if self._frames[index].name in within:
                return

    def mark(self, name: str, start: str, end: str) -> None:
        """Begin something inline."""
        if len(self._marks) < _DEEPEST:
            self._marks.append(_Mark(name, start, end))

    def unmark(self, name: str) -> None:
        """End the innermost ``name``, with what was begun in it."""
        if not any(mark.name == name for mark in self._marks):
            return
        while self._marks:
            mark = self._marks.pop()
            if mark.is_written:
                self._parts.append(mark.end)
            if mark.name == name:
                return

    def finished(self) -> str:
        """Everything, with marks closed."""
        while self._marks:
            self.unmark(self._marks[-1].name)
        return "".join(self._parts).strip()

    def _break(self, at_least: int = 0) -> None:
        """Go to the next line, if one is due, and write its prefix."""
        newlines = max(self._gap, at_least) if self._parts else 0
        if newlines > 1:
            blank = "".join(frame.rest for frame in self._frames if not frame.first).rstrip()
            self._parts.append("\n" + blank)
        if newlines:
            self._parts.append("\n")
        for frame in self._frames:
            self._parts.append(frame.first or frame.rest)
            frame.first = ""
        self._gap = 0
        self._owes_space = False
        self._at_start = True
