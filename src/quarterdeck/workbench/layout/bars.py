"""The lines between panels: dividers, titles and tab strips, and which of them a layout needs."""

from collections.abc import Callable, Iterator
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip as TextualStrip
from textual.widget import Widget

from ..rendering import glyphs
from ..rendering.lines import Line, Span, clip, width_of
from ..sanitize import sanitize_line
from .geometry import LayoutPlan, NodePath, Rect
from .spec import Node, PanelNode, TabsNode, children_of, panels_of

__all__ = ["Divider", "LayoutFrame", "TabStrip"]


class _Line(Widget):
    """One line, or one column, with few roles.

    Textual works each role out for each widget, and there are many of these at the start.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lined--text", "lined--faint", "lined--strong"}

    def line(self) -> Line:
        """What stands there."""
        raise NotImplementedError

    def render_line(self, y: int) -> TextualStrip:
        """Draw a line of the screen."""
        line = self.line()
        segments = [
            Segment(text, self.get_component_rich_style(f"lined--{role}")) for text, role in line
        ]
        base = self.get_component_rich_style("lined--text")
        return TextualStrip(segments, width_of(line)).adjust_cell_length(self.size.width, base)


class Divider(_Line):
    """The line between two panels, or above one; it can be dragged if something is on both sides.

    Its text is the title of the panel below it, if that has none of its own.
    """

    class Dragged(Message):
        """Someone holds it at a place of the screen."""

        def __init__(self, divider: "Divider", x: int, y: int) -> None:
            super().__init__()
            self.divider = divider
            self.x = x
            self.y = y

    def __init__(self, path: NodePath, child: int | None) -> None:
        super().__init__(classes="divider")
        self.path = path
        """The container that it is in; for the head of a panel, the panel."""
        self.child = child
        """The child that it is before; None: it only tells a title."""
        self._title = ""
        self._is_active = False
        self._is_held = False

    def show(self, title: str, is_active: bool) -> None:
        """Tell a title, and whether the panel below has the focus."""
        if (title, is_active) != (self._title, self._is_active):
            self._title, self._is_active = title, is_active
            self.set_class(is_active, "-active")
            self.refresh()

    def line(self) -> Line:
        """See ``_Line``."""
        width = self.size.width
        if width == 1 and self.size.height > 1:
            return ((glyphs.WALL, "faint"),)
        if not self._title:
            return ((glyphs.RULE * width, "faint"),)
        sign = glyphs.FOLDED if self._is_active else glyphs.RULE
        title = sanitize_line(self._title, max(1, width - 4))
        role = "strong" if self._is_active else "text"
        line: Line = ((f"{glyphs.RULE}{sign} ", "faint"), (title, role), (" ", "faint"))
        rest = max(0, width - width_of(line))
        return clip((*line, (glyphs.RULE * rest, "faint")), width)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of it."""
        if self.child is not None:
            self._is_held = True
            self.capture_mouse()
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move it."""
        if self._is_held:
            self.post_message(self.Dragged(self, int(event.screen_x), int(event.screen_y)))
            event.stop()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let it go."""
        if self._is_held:
            self._is_held = False
            self.capture_mouse(False)
            event.stop()


class TabStrip(_Line):
    """The titles of tabs, in a line; a click shows another."""

    class Chosen(Message):
        """A tab was clicked, or something that can be done with tabs."""

        def __init__(self, strip: "TabStrip", tab: int | None, closes: bool = False) -> None:
            super().__init__()
            self.strip = strip
            self.tab = tab
            """None: a new one is wanted."""
            self.closes = closes

    def __init__(self, path: NodePath | None, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="strip")
        self.path = path
        """Of the node whose tabs it shows; None: the tabs of the layout."""
        self._titles: tuple[str, ...] = ()
        self._active = 0
        self._spots: list[tuple[int, TabStrip.Chosen]] = []

    def show(self, titles: tuple[str, ...], active: int) -> None:
        """Show other titles."""
        if (titles, active) != (self._titles, self._active):
            self._titles, self._active = titles, active
            self.refresh()

    def line(self) -> Line:
        """See ``_Line``."""
        width = self.size.width
        is_whole = self.path is None
        room = max(3, (width - 4) // max(1, len(self._titles)) - (3 if is_whole else 1))
        spans: list[Span] = []
        self._spots = []
        for at, title in enumerate(self._titles):
            is_active = at == self._active
            words = f"{at + 1} {title}" if is_whole else title
            sides = ("[", "]") if is_active else (" ", " ")
            spans.append(
                (f"{sides[0]}{sanitize_line(words, room)}", "strong" if is_active else "faint")
            )
            self._spots.append((width_of(tuple(spans)), self.Chosen(self, at)))
            if is_active and is_whole:
                spans.append((" ×", "faint"))
                self._spots.append((width_of(tuple(spans)), self.Chosen(self, at, closes=True)))
            spans.append((sides[1], "strong" if is_active else "faint"))
        if is_whole:
            self._spots.append((width_of(tuple(spans)), self.Chosen(self, self._active)))
            spans.append((" + ", "faint"))
            self._spots.append((width_of(tuple(spans)), self.Chosen(self, None)))
        return clip(tuple(spans), width)

    def on_click(self, event: events.Click) -> None:
        """Show the tab that was clicked."""
        event.stop()
        for end, message in self._spots:
            if event.x < end:
                self.post_message(message)
                return


class LayoutFrame:
    """Makes and names the widgets around panels; has no widget more than a tree needs."""

    def __init__(self) -> None:
        self._bars: dict[tuple[NodePath, int], Divider] = {}
        self._heads: dict[str, Divider] = {}
        self._strips: dict[NodePath, TabStrip] = {}

    def fit(
        self, root: Node, has_head: Callable[[PanelNode], bool]
    ) -> "tuple[list[Widget], list[Widget]]":
        """Have what a tree needs; returns what is new and to be mounted, and what is not used."""
        bars, strips = set(_dividers(root, ())), set(_strips(root, ()))
        heads = {node.id for node in panels_of(root) if has_head(node)}
        old: list[Widget] = [self._bars.pop(key) for key in set(self._bars) - bars]
        old += [self._strips.pop(path) for path in set(self._strips) - strips]
        old += [self._heads.pop(panel) for panel in set(self._heads) - heads]
        new: list[Widget] = []
        new += [self._bars.setdefault(key, Divider(*key)) for key in bars - set(self._bars)]
        new += [self._strips.setdefault(p, TabStrip(p)) for p in strips - set(self._strips)]
        new += [self._heads.setdefault(p, Divider((), None)) for p in heads - set(self._heads)]
        return new, old

    def places(self, plan: LayoutPlan) -> "dict[Widget, Rect]":
        """Where they stand."""
        places: dict[Widget, Rect] = {
            self._bars[key]: bar.rect for key, bar in plan.bars.items() if key in self._bars
        }
        taken = set(places.values())
        for panel, rect in plan.heads.items():
            if rect not in taken and panel in self._heads:
                places[self._heads[panel]] = rect
        for path, rect in plan.strips.items():
            if path in self._strips:
                places[self._strips[path]] = rect
        return places

    def show(self, root: Node, title: Callable[[Node], str], current: str | None) -> None:
        """Tell titles, and which panel has the focus."""
        for (path, child), divider in self._bars.items():
            node = children_of(_node(root, path))[child]
            is_head = isinstance(node, PanelNode) and node.id in self._heads
            is_current = is_head and isinstance(node, PanelNode) and node.id == current
            divider.show(title(node) if is_head else "", is_current)
        for node in panels_of(root):
            if node.id in self._heads:
                self._heads[node.id].show(title(node), node.id == current)
        for path, strip in self._strips.items():
            tabs = _node(root, path)
            assert isinstance(tabs, TabsNode)
            strip.show(tuple(map(title, tabs.children)), tabs.active)


def _node(node: Node, path: NodePath) -> Node:
    for at in path:
        node = children_of(node)[at]
    return node


def _dividers(node: Node, path: NodePath) -> Iterator[tuple[NodePath, int]]:
    for at, child in enumerate(children_of(node)):
        if at > 0 and not isinstance(node, TabsNode):
            yield path, at
        yield from _dividers(child, (*path, at))


def _strips(node: Node, path: NodePath) -> Iterator[NodePath]:
    if isinstance(node, TabsNode):
        yield path
    for at, child in enumerate(children_of(node)):
        yield from _strips(child, (*path, at))
