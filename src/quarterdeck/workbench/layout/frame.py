"""What stands between panels: the lines, titles and tabs that a tree of nodes needs."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .bars import Divider, Strip
from .geometry import Path, Plan, Rect
from .spec import Node, PanelNode, TabsNode, children_of, panels_of

if TYPE_CHECKING:
    from textual.widget import Widget

__all__ = ["Frame"]


class Frame:
    """Makes and names the widgets around panels; has no widget more than a tree needs."""

    def __init__(self) -> None:
        self._bars: dict[tuple[Path, int], Divider] = {}
        self._heads: dict[str, Divider] = {}
        self._strips: dict[Path, Strip] = {}

    def fit(
        self, root: Node, has_head: Callable[[PanelNode], bool]
    ) -> "tuple[list[Widget], list[Widget]]":
        """Have what a tree needs; returns what is new and to be mounted, and what is not used."""
        bars, strips = set(_bars(root, ())), set(_strips(root, ()))
        heads = {node.id for node in panels_of(root) if has_head(node)}
        old: list[Widget] = [self._bars.pop(key) for key in set(self._bars) - bars]
        old += [self._strips.pop(path) for path in set(self._strips) - strips]
        old += [self._heads.pop(panel) for panel in set(self._heads) - heads]
        new: list[Widget] = []
        new += [self._bars.setdefault(key, Divider(*key)) for key in bars - set(self._bars)]
        new += [self._strips.setdefault(p, Strip(p)) for p in strips - set(self._strips)]
        new += [self._heads.setdefault(p, Divider((), None)) for p in heads - set(self._heads)]
        return new, old

    def places(self, plan: Plan) -> "dict[Widget, Rect]":
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


def _node(node: Node, path: Path) -> Node:
    for at in path:
        node = children_of(node)[at]
    return node


def _bars(node: Node, path: Path) -> Iterator[tuple[Path, int]]:
    for at, child in enumerate(children_of(node)):
        if at > 0 and not isinstance(node, TabsNode):
            yield path, at
        yield from _bars(child, (*path, at))


def _strips(node: Node, path: Path) -> Iterator[Path]:
    if isinstance(node, TabsNode):
        yield path
    for at, child in enumerate(children_of(node)):
        yield from _strips(child, (*path, at))
