"""Where everything of a layout stands: numbers only, so that it can be reasoned about.

What is placed fills the room without a gap or an overlap. Where the room is too small for
everything, what is least wanted goes first: the panel to keep is the last.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from .spec import Horizontal, Node, PanelNode, TabsNode, children_of, panels_of, read_size

__all__ = ["Axis", "Bar", "LayoutPlan", "LayoutSpan", "NodePath", "Rect", "Wants", "place_nodes"]

NodePath: TypeAlias = tuple[int, ...]
"""Which child of which child of the root."""
Axis: TypeAlias = Literal["across", "down"]
"""Children beside each other, or below each other."""
Wants: TypeAlias = Callable[[PanelNode, int], int | None]
"""How many lines a panel fills at a width; 0: it has nothing to show; None: as many as it gets."""

_LEAST = {"across": 8, "down": 3}
"""Cells that are worth showing a child in, if there are others."""
_AUTO = 0.4
"""The largest part of its container that an ``auto`` child takes."""


class Rect(NamedTuple):
    """A part of the screen, in cells."""

    x: int
    y: int
    width: int
    height: int

    def moved(self, down: int) -> "Rect":
        """The same, so many lines further down."""
        return self._replace(y=self.y + down)


class Bar(NamedTuple):
    """The line between two children, by which they are resized."""

    rect: Rect
    axis: Axis
    above: int
    """The child before it."""
    below: int
    """The child after it."""


class LayoutSpan(Struct, frozen=True):
    """How the children of a container share its length."""

    axis: Axis
    is_stacked: bool
    shown: tuple[int, ...]
    """Which children are there."""
    lengths: tuple[int, ...]
    """Of those that are there, in cells."""


class LayoutPlan(Struct):
    """Where everything stands."""

    panels: dict[str, Rect] = field(default_factory=dict[str, Rect])
    heads: dict[str, Rect] = field(default_factory=dict[str, Rect])
    """The line with the title above a panel; it can be the bar at the same place."""
    bars: dict[tuple[NodePath, int], Bar] = field(default_factory=dict[tuple[NodePath, int], Bar])
    strips: dict[NodePath, Rect] = field(default_factory=dict[NodePath, Rect])
    spans: dict[NodePath, LayoutSpan] = field(default_factory=dict[NodePath, LayoutSpan])

    def moved(self, down: int) -> "LayoutPlan":
        """The same, so many lines further down."""
        return LayoutPlan(
            panels={panel: rect.moved(down) for panel, rect in self.panels.items()},
            heads={panel: rect.moved(down) for panel, rect in self.heads.items()},
            bars={k: bar._replace(rect=bar.rect.moved(down)) for k, bar in self.bars.items()},
            strips={path: rect.moved(down) for path, rect in self.strips.items()},
            spans=self.spans,
        )


class _Placing:
    def __init__(self, wants: Wants, heads: Callable[[PanelNode], bool], keep: str | None) -> None:
        self._wants = wants
        self._heads = heads
        self._keep = keep
        self.plan = LayoutPlan()

    def node(self, node: Node, rect: Rect, path: NodePath, has_head: bool = False) -> None:
        if rect.width <= 0 or rect.height <= 0:
            return
        match node:
            case PanelNode():
                self._panel(node, rect, has_head)
            case TabsNode():
                self._tabs(node, rect, path)
            case _:
                self._line(node, rect, path)

    def _panel(self, node: PanelNode, rect: Rect, has_head: bool) -> None:
        if not has_head and self._heads(node) and rect.height > 2:
            self.plan.heads[node.id] = Rect(rect.x, rect.y, rect.width, 1)
            rect = Rect(rect.x, rect.y + 1, rect.width, rect.height - 1)
        self.plan.panels[node.id] = rect

    def _tabs(self, node: TabsNode, rect: Rect, path: NodePath) -> None:
        if rect.height > 2:
            self.plan.strips[path] = Rect(rect.x, rect.y, rect.width, 1)
            rect = Rect(rect.x, rect.y + 1, rect.width, rect.height - 1)
        child = node.children[node.active]
        self.node(child, rect, (*path, node.active), has_head=isinstance(child, PanelNode))

    def _line(self, node: Node, rect: Rect, path: NodePath) -> None:
        is_stacked = isinstance(node, Horizontal) and rect.width < (node.stack_below or 0)
        axis: Axis = "across" if isinstance(node, Horizontal) and not is_stacked else "down"
        room = rect.width if axis == "across" else rect.height
        children = children_of(node)
        shown = self._that_fit(children, rect.width, axis, room)
        sizes = [_size(children[at], is_stacked) for at in shown]
        wanted = [
            self._wanted(children[at], rect.width) if size == "auto" else None
            for at, size in zip(shown, sizes, strict=True)
        ]
        lengths = _share(sizes, wanted, room - len(shown) + 1, axis)
        self.plan.spans[path] = LayoutSpan(axis, is_stacked, tuple(shown), tuple(lengths))
        at = 0
        for number, (child, length) in enumerate(zip(shown, lengths, strict=True)):
            has_bar = number > 0
            if has_bar:
                bar = _part(rect, axis, at, 1)
                self._bar(children[child], path, Bar(bar, axis, shown[number - 1], child))
                at += 1
            is_titled = has_bar and axis == "down" and isinstance(children[child], PanelNode)
            self.node(children[child], _part(rect, axis, at, length), (*path, child), is_titled)
            at += length

    def _bar(self, after: Node, path: NodePath, bar: Bar) -> None:
        self.plan.bars[path, bar.below] = bar
        if bar.axis == "down" and isinstance(after, PanelNode) and self._heads(after):
            self.plan.heads[after.id] = bar.rect

    def _that_fit(self, children: Sequence[Node], width: int, axis: Axis, room: int) -> list[int]:
        """The children that are shown, in order."""
        shown = [
            at for at, child in enumerate(children) if self._wanted(child, width) != 0
        ] or list(range(len(children)))
        fit = max(1, (room + 1) // (_LEAST[axis] + 1))
        ranked = sorted(shown, key=lambda at: (-self._rank(children[at]), at))
        return sorted(ranked[:fit])

    def _rank(self, node: Node) -> int:
        panels = list(panels_of(node))
        if any(panel.id == self._keep for panel in panels):
            return 2
        return int(any(panel.widget == "chat" for panel in panels))

    def _wanted(self, node: Node, width: int) -> int | None:
        """The lines that a node fills; None: as many as it gets."""
        if isinstance(node, PanelNode):
            return self._wants(node, width)
        if isinstance(node, TabsNode):
            return None
        wants = [want for child in node.children if (want := self._wanted(child, width)) != 0]
        known = [want for want in wants if want is not None]
        if len(known) < len(wants):
            return None
        if not known:
            return 0
        return max(known) if isinstance(node, Horizontal) else sum(known) + len(known) - 1


def place_nodes(
    root: Node,
    width: int,
    height: int,
    *,
    wants: Wants = lambda panel, width: None,
    heads: Callable[[PanelNode], bool] = lambda panel: False,
    keep: str | None = None,
) -> LayoutPlan:
    """Place a tree of nodes.

    Args:
        root: of the tab that is shown.
        width: of the room, in cells.
        height: likewise.
        wants: how much panels fill, for the size ``auto`` and to hide who has nothing to show.
        heads: whether a panel gets a line with its title.
        keep: the panel that is shown in any case, if it is in a tab that is shown.
    """
    placing = _Placing(wants, heads, keep)
    placing.node(root, Rect(0, 0, width, height), ())
    return placing.plan


def _size(node: Node, is_stacked: bool) -> str:
    return node.stacked_size or node.size if is_stacked else node.size


def _part(rect: Rect, axis: Axis, at: int, length: int) -> Rect:
    if axis == "across":
        return Rect(rect.x + at, rect.y, length, rect.height)
    return Rect(rect.x, rect.y + at, rect.width, length)


def _share(sizes: list[str], wanted: list[int | None], room: int, axis: Axis) -> list[int]:
    """Lengths that together are the room; each at least 1 if the room is that large."""
    lengths, weights = [0] * len(sizes), [0] * len(sizes)
    are_auto = axis == "down" and all(size == "auto" for size in sizes) and None not in wanted
    most = room if are_auto else int(room * _AUTO)
    for at, (size, want) in enumerate(zip(sizes, wanted, strict=True)):
        number, unit = read_size(size)
        if unit == "auto" and axis == "down" and want is not None:
            lengths[at] = max(1, min(want, most))
        elif unit == "%":
            lengths[at] = max(1, round(room * number / 100))
        elif unit == "":
            lengths[at] = number
        else:
            weights[at] = number or 1
    rest = room - sum(lengths)
    flexible = sum(weights)
    if flexible and rest >= sum(map(bool, weights)):
        for at, part in _divide(rest, weights).items():
            lengths[at] = part
        return lengths
    if not flexible and rest > 0:
        lengths[-1] += rest
        return lengths
    for at, weight in enumerate(weights):
        lengths[at] = lengths[at] or bool(weight)
    return _shrink(lengths, room)


def _divide(total: int, weights: list[int]) -> dict[int, int]:
    """A total by weights: whole numbers, each at least 1; the total has to suffice for that."""
    parts: dict[int, int] = {}
    left, weight_left = total, sum(weights)
    flexible = [at for at, weight in enumerate(weights) if weight]
    for number, at in enumerate(flexible):
        others = len(flexible) - number - 1
        part = round(left * weights[at] / weight_left)
        parts[at] = max(1, min(part, left - others))
        left -= parts[at]
        weight_left -= weights[at]
    return parts


def _shrink(lengths: list[int], room: int) -> list[int]:
    """Take from the longest until they fit."""
    over = sum(lengths) - room
    while over > 0:
        longest = max(range(len(lengths)), key=lambda at: lengths[at])
        second = max([length for at, length in enumerate(lengths) if at != longest], default=0)
        step = max(1, min(over, lengths[longest] - second))
        lengths[longest] -= step
        over -= step
    return lengths
