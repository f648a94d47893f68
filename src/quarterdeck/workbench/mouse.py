"""Clicks on keys that are written on the screen: in a line of hints, at the lower edge of a dialog.
A click does what the key does, with the same guards.
"""

import re
from typing import TYPE_CHECKING, Any, cast

from rich.cells import cell_len
from textual import events
from textual.geometry import Region

from .rendering.lines import Line
from .widgets.lines_view import LineCanvas

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget

__all__ = ["find_edge_key", "find_key_at", "make_key", "press_clicked_key"]

_NAMES = {"esc": "escape", "⏎": "enter", "↵": "enter"}
_KEY = re.compile(r"(?:ctrl|alt|shift)\+\S+|f\d{1,2}|escape|enter|tab|space|[A-Za-z0-9?,.]")
_GAP = re.compile(r"\s{2,}|\s·\s")


def find_key_at(line: Line, x: int) -> str | None:
    """The key whose name or words stand at a cell; None: none do."""
    found: list[tuple[str, int, int]] = []
    place, is_open = 0, False
    for words, role in line:
        size = cell_len(words)
        if role == "key":
            found.append((words.strip(), place, place + size))
            is_open = True
        elif is_open:  # the words of a key go on up to a gap
            gap = _GAP.search(words)
            key, begin, end = found[-1]
            found[-1] = (key, begin, end + (cell_len(words[: gap.start()]) if gap else size))
            is_open = gap is None
        place += size
    return next((key for key, begin, end in found if begin <= x < end), None)


def find_edge_key(hints: str, x: int) -> str | None:
    """The key at a cell of hints such as ``enter send · esc cancel``."""
    place = 0
    for part in hints.split(" · "):
        size = cell_len(part)
        if place <= x < place + size:
            return part.split(" ")[0]
        place += size + 3
    return None


def make_key(name: str) -> events.Key | None:
    """What pressing a key of this name sends; None: it is no name of a key."""
    from textual.keys import _character_to_key  # pyright: ignore[reportPrivateUsage]

    name = _NAMES.get(name, name)
    if not _KEY.fullmatch(name):
        return None
    if len(name) == 1:
        return events.Key(_character_to_key(name), name)
    return events.Key(name, {"enter": "\r", "space": " ", "tab": "\t"}.get(name))


def press_clicked_key(app: "App[Any]", event: events.Click) -> str | None:
    """Press the key that was clicked, if one was; returns a command that was clicked instead."""
    x, y = int(event.screen_x), int(event.screen_y)
    try:
        widget, region = app.screen.get_widget_at(x, y)
    except LookupError:
        return None
    name = _find_name(widget, x - region.x, y - region.y)
    if name is None:
        return None
    if name.startswith("/"):
        return name[1:]
    if (key := make_key(name)) is not None:
        _focus_panel(widget)
        app.post_message(key)
    return None


def _find_name(widget: "Widget", x: int, y: int) -> str | None:
    if isinstance(widget, LineCanvas) and widget.HAS_KEYS:
        line, _ = widget.line_at(widget.scroll_offset.y + y - widget.gutter.top)
        return find_key_at(line, x - widget.gutter.left)
    if y != widget.outer_size.height - 1 or not widget.border_subtitle:
        return None
    hints = str(widget.border_subtitle)
    edge = widget.render_lines(Region(0, y, widget.outer_size.width, 1))[0].text
    at = edge.find(hints)
    return find_edge_key(hints, x - cell_len(edge[:at])) if at >= 0 else None


def _focus_panel(widget: "Widget") -> None:
    """Keys of a panel's hints are for that panel."""
    from .panels.panel import Panel

    for node in widget.ancestors:
        if isinstance(node, Panel):
            if not node.has_focus_within:
                cast("Any", node).enter()
            return
