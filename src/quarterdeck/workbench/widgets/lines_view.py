"""A view made of lines with roles; looks come from the style sheet, never from the text."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.dom import DOMNode
from textual.filter import Monochrome
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from ..preferences.themes.files import FEW_COLOURS, NO_COLOUR
from ..rendering.glyphs import SHADES
from ..rendering.lines import Line, LinkRole, PixelRole, text_of, width_of
from ..terminal_features import SignFilter
from .vim_keys import find_list_step

if TYPE_CHECKING:
    from textual.app import App
    from textual.css.stylesheet import Stylesheet
    from textual.reactive import Reactive

__all__ = ["ROLES", "LineCanvas", "LinesView"]

ROLES = (
    "text", "faint", "strong", "emphasis", "struck", "link", "heading", "bullet", "prompt",
    "prompt-sign", "thought", "tool", "running", "good", "bad", "warning", "asking", "terminal",
    "diff-added", "diff-removed", "code", "code-comment", "code-keyword", "code-string",
    "code-number", "code-name", "cursor", "key", "match", "hunk", "diff-line-added",
    "diff-line-removed", "diff-word-added", "diff-word-removed",
)  # fmt: skip
"""What a span can be; each has a class ``lined--ROLE`` in the style sheet. A role and
another after a slash, as in ``code-string/diff-line-added``: the first on the second's ground."""
_MOST_STYLES = 2_000
_MOST_SELECTED = 20_000
"""Lines that are copied at once."""


@lru_cache(maxsize=8_192)
def _pixel_style(colours: tuple[int, ...]) -> Style:
    upper, lower = colours[:3], colours[3:]
    return Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower))


def _copyable(line: Line) -> str:
    """The text of a line; a line of a picture has none."""
    return "" if any(isinstance(role, PixelRole) for _, role in line) else text_of(line)


class LineCanvas(ScrollView):
    """Draws lines; a subclass says which line stands where.

    The roles are no component classes: Textual would work out thirty styles for each widget
    whenever one is mounted, which was a fifth of the time until the first frame. A role's style is
    worked out when it is first drawn, by the same rules of the style sheet.
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._role_styles: dict[tuple[str, bool], Style] = {}
        self._role_rules: object = None
        """The rules of the style sheet that the looks are from."""

    def line_at(self, y: int) -> tuple[Line, bool]:
        """The line at a place of the whole, and whether it is marked."""
        raise NotImplementedError

    HAS_KEYS: ClassVar[bool] = False
    """Spans with the role ``key`` name keys or commands, and a click on one does the same."""
    VIM_KEYS: ClassVar[frozenset[str]] = frozenset()
    """Keys of vim that count here whatever else they are bound to."""

    def on_key(self, event: events.Key) -> None:
        """Take keys of vim, where the person wants them."""
        rows = self.scrollable_content_region.height
        step = find_list_step(self, event.key, rows, takes=self.VIM_KEYS)
        if step is not None:
            self.step_lines(step)
            event.prevent_default()
            event.stop()

    def step_lines(self, step: int) -> None:
        """Go so many lines down, or up."""
        self.scroll_relative(y=step, animate=False)

    def render_line(self, y: int) -> Strip:
        """Draw a line of the screen."""
        line, is_marked = self.line_at(self.scroll_offset.y + y)
        return self._selected(self.draw_line(line, is_marked), line, self.scroll_offset.y + y)

    def draw_line(self, line: Line, is_marked: bool = False) -> Strip:
        """A line as it looks, in the width of the view."""
        width = self.scrollable_content_region.width
        if any(isinstance(role, PixelRole) for _, role in line):
            segments = self._draw_pixels(line)
        else:
            segments = [Segment(text, self.look(role, is_marked)) for text, role in line]
        base = self.look("cursor" if is_marked else "text", is_marked)
        return Strip(segments, width_of(line)).adjust_cell_length(width, base)

    def _draw_pixels(self, line: Line) -> list[Segment]:
        """A line of a picture; by shades where half blocks in two colours cannot be shown."""
        app = cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]
        is_plain = app.theme in (NO_COLOUR, FEW_COLOURS) or any(
            isinstance(one, SignFilter | Monochrome) for one in app.get_line_filters()
        )
        shades = SHADES if app.current_theme.dark else SHADES[::-1]
        segments: list[Segment] = []
        for text, role in line:
            if not isinstance(role, PixelRole):
                segments.append(Segment(text, self.look(role)))
            elif not is_plain:
                segments.append(Segment(text, _pixel_style(role.colours)))
            else:
                shade = shades[min(len(shades) - 1, int(role.brightness * len(shades)))]
                segments.append(Segment(shade * len(text), self.look("text")))
        return segments

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that was selected with the mouse, line by line as it is shown."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self.virtual_size.height - 1
        lines: list[str] = []
        for y in range(first, min(last, first + _MOST_SELECTED) + 1):
            text = _copyable(self.line_at(y)[0])
            begin, end = selection.get_span(y) or (0, -1)
            lines.append((text[begin:] if end < 0 else text[begin:end]).rstrip())
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show what is selected now."""
        self.refresh()

    def _selected(self, strip: Strip, line: Line, y: int) -> Strip:
        """The strip as something that can be selected, with what is selected marked."""
        selection = self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is not None:
            text = text_of(line)
            begin = cell_len(text[: span[0]])
            end = strip.cell_length if span[1] < 0 else cell_len(text[: span[1]])
            style = self.screen.get_component_rich_style("screen--selection", partial=True)
            chosen = [(segment.text, segment.style) for segment in strip.crop(begin, end)]
            middle = Strip(
                [Segment(words, (look + style) if look else style) for words, look in chosen],
                max(0, end - begin),
            )
            strip = Strip.join([strip.crop(0, begin), middle, strip.crop(end)])
        return strip.apply_offsets(0, y)

    def look(self, role: str, is_marked: bool = False) -> Style:
        """The style of a role."""
        rules = self._stylesheet.rules
        if self._role_rules is not rules:
            self._role_rules = rules
            self._role_styles.clear()
        found = self._role_styles.get((role, is_marked))
        if found is None:
            found = self._compute_style(role)
            if isinstance(role, LinkRole):
                found = found + Style(link=role.target)
            if is_marked:
                cursor = self._compute_style("cursor")
                # Reversed where the theme has too few colours for a background of its own.
                found = found + Style(
                    bgcolor=cursor.bgcolor, bold=cursor.bold, reverse=cursor.reverse
                )
                found = found + Style(bgcolor=cursor.bgcolor, bold=cursor.bold)
            if len(self._role_styles) > _MOST_STYLES:  # each link has its own
                self._role_styles.clear()
            self._role_styles[role, is_marked] = found
        return found

    @property
    def _stylesheet(self) -> "Stylesheet":
        return cast("App[object]", self.app).stylesheet  # pyright: ignore[reportUnknownMemberType]

    def _compute_style(self, role: str) -> Style:
        role, _, background = role.partition("/")
        found = self._style_of(role)
        if not background:
            return found
        under = self._style_of(background)
        return found + Style(
            bgcolor=under.bgcolor, bold=under.bold or None, underline=under.underline or None
        )

    def _style_of(self, role: str) -> Style:
        name = f"lined--{role}"
        node = DOMNode(classes=name)
        node._attach(self)  # pyright: ignore[reportPrivateUsage]
        self._stylesheet.apply(node)  # pyright: ignore[reportUnknownMemberType]
        self._component_styles[name] = node.styles
        self._rich_style_cache.clear()
        return self.get_component_rich_style(name)

    def take_room(self, size: Size) -> None:
        """Be as long as the lines are, where the size on the screen does not follow from that.

        Textual would lay out and draw the whole screen anew (25 ms at 120×40) each time that a
        line comes; only the scrollbar needs that, when it comes or goes.
        """
        if (size.height > self.container_size.height) is not self.show_vertical_scrollbar:
            self.virtual_size = size
            return
        self.set_reactive(cast("Reactive[Size]", LineCanvas.virtual_size), size)
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = size.height

    def _scroll_to(self, *place: Any, **how: Any) -> bool:
        # An animation would go on from a place that is none any more after lines were measured.
        return super()._scroll_to(*place, **{**how, "animate": False})

    def notify_style_update(self) -> None:
        """Forget looks when the style sheet or the theme changed."""
        self._role_styles.clear()
        super().notify_style_update()


class LinesView(LineCanvas):
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
        """See ``LineCanvas``."""
        return (self._lines[y] if y < len(self._lines) else ()), False

    def on_resize(self) -> None:
        """Wrap anew."""
        self.update()

    def watch_show_vertical_scrollbar(self) -> None:
        """Wrap beside the scrollbar, or where it was."""
        self.call_after_refresh(self.update)
