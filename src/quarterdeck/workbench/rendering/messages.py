"""An agent's words as lines, while they come and when they are whole."""

from ..literal import literal
from ..stores.blocks import TextBlock
from .lines import Line
from .markdown import markdown_lines
from .streaming import GrowingLines

__all__ = ["MessageLines"]


class MessageLines:
    """The lines of one message at one width.

    While it grows, paragraphs that are complete are rendered as Markdown once, and only the one
    that is being written is wrapped as it comes; when it is whole, all of it is rendered together.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._taken = 0
        self._ended: list[Line] = []
        self._paragraph: list[str] = []
        self._tail = ""
        self._is_fenced = False
        self._growing = GrowingLines(width)

    def lines(self, block: TextBlock) -> list[Line]:
        """All lines of the message at this moment."""
        if block.is_whole:
            return markdown_lines(literal(block.text).strip("\n"), self._width)
        for part in block.parts[self._taken :]:
            self._add(literal(part))
        self._taken = len(block.parts)
        return [*self._ended, *self._growing.lines]

    def _add(self, text: str) -> None:
        first, *others = text.split("\n")
        self._tail += first
        self._growing.add(first)
        for line in others:
            self._growing.add("\n")
            self._end_line()
            self._tail = line
            self._growing.add(line)

    def _end_line(self) -> None:
        line, self._tail = self._tail, ""
        if line.lstrip().startswith(("```", "~~~")):
            self._is_fenced = not self._is_fenced
        if line.strip() or self._is_fenced:
            self._paragraph.append(line)
            return
        if self._paragraph:
            self._ended += [*markdown_lines("\n".join(self._paragraph), self._width), ()]
            self._paragraph.clear()
        self._growing = GrowingLines(self._width)
