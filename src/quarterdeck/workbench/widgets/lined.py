"""A view made of lines with roles; looks come from the style sheet, never from the text."""

from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..rendering.lines import Line, width_of

__all__ = ["ROLES", "Lined", "LinesView"]

ROLES = (
    "text", "faint", "strong", "emphasis", "struck", "link", "heading", "bullet", "prompt",
    "prompt-sign", "thought", "tool", "running", "good", "bad", "warning", "asking", "terminal",
    "diff-added", "diff-removed", "code", "code-comment", "code-keyword", "code-string",
    "code-number", "code-name", "cursor", "key",
)  # fmt: skip
"""What a span can be; each has a class ``lined--ROLE`` in the style sheet."""


class Lined(ScrollView):
    """Draws lines; a subclass says which line stands where."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"lined--{role}" for role in ROLES}

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._looks: dict[tuple[str, bool], Style] = {}

    def line_at(self, y: int) -> tuple[Line, bool]:
        """The line at a place of the whole, and whether it is marked."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Draw a line of the screen."""
        width = self.scrollable_content_region.width
        line, is_marked = self.line_at(self.scroll_offset.y + y)
        segments = [Segment(text, self.look(role, is_marked)) for text, role in line]
        base = self.look("cursor" if is_marked else "text", is_marked)
        return Strip(segments, width_of(line)).adjust_cell_length(width, base)

    def look(self, role: str, is_marked: bool = False) -> Style:
        """The style of a role."""
        found = self._looks.get((role, is_marked))
        if found is None:
            found = self.get_component_rich_style(f"lined--{role}")
            if is_marked:
                cursor = self.get_component_rich_style("lined--cursor")
                found = found + Style(bgcolor=cursor.bgcolor, bold=cursor.bold)
            self._looks[role, is_marked] = found
        return found

    def _scroll_to(self, *place: Any, **how: Any) -> bool:
        # An animation would go on from a place that is none any more after lines were measured.
        return super()._scroll_to(*place, **{**how, "animate": False})

    def notify_style_update(self) -> None:
        """Forget looks when the style sheet or the theme changed."""
        self._looks.clear()
        super().notify_style_update()


class LinesView(Lined):
    """A text of lines that is wrapped anew for each width."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[Line] = []

    def lines(self, width: int) -> list[Line]:
        """The lines for a width; a subclass knows them."""
        raise NotImplementedError

    def update(self) -> None:
        """Work the lines out anew."""
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        self._lines = self.lines(width)
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``Lined``."""
        return (self._lines[y] if y < len(self._lines) else ()), False

    def on_resize(self) -> None:
        """Wrap anew."""
        self.update()
