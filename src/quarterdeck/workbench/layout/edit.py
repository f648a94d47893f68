"""Changes of a layout, as functions from one value to another; each result is a valid layout."""

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from .geometry import LayoutSpan, NodePath
from .spec import (
    Horizontal,
    Layout,
    LayoutError,
    Node,
    PanelNode,
    Tab,
    TabsNode,
    Vertical,
    children_of,
    panels_of,
    read_size,
)

__all__ = [
    "PanelLocation",
    "ResizeDirection",
    "Side",
    "activate",
    "add_tab",
    "close_panel",
    "close_tab",
    "find_panel",
    "free_id",
    "rename_tab",
    "replace_panel",
    "reset_sizes",
    "resize",
    "resize_beside",
    "split",
]

Side: TypeAlias = Literal["right", "down", "tabs"]
"""Where a new panel goes: beside one, below it, or behind it as a tab."""
ResizeDirection: TypeAlias = Literal["left", "right", "up", "down"]
"""Where a line is moved to."""


class PanelLocation(Struct, frozen=True, kw_only=True):
    """A panel and where it is."""

    node: PanelNode
    tab: int
    path: NodePath


def find_panel(layout: Layout, panel: str) -> PanelLocation:
    """Where a panel is.

    Raises:
        LayoutError: no panel has this id.
    """
    for at, tab in enumerate(layout.tabs):
        found = _search(tab.root, panel, ())
        if found is not None:
            return PanelLocation(node=found[0], tab=at, path=found[1])
    names = ", ".join(one.id for one in panels_of(layout))
    raise LayoutError("", f"no panel {panel!r}; open panels: {names}")


def free_id(layout: Layout, widget: str) -> str:
    """An id for another panel of a kind."""
    taken = {panel.id for panel in panels_of(layout)}
    stem = re.sub(r"[^A-Za-z0-9_-]", "-", widget.rpartition("/")[2])[:30] or "panel"
    stem = stem if stem[0].isalpha() else f"panel-{stem}"
    return next(
        name for n in range(1, 1000) if (name := stem if n == 1 else f"{stem}-{n}") not in taken
    )


def split(layout: Layout, beside: str, node: PanelNode, side: Side) -> Layout:
    """Open a panel next to another; they share its room.

    Raises:
        LayoutError: there is no such panel.
    """
    found = find_panel(layout, beside)

    def with_node(old: Node) -> Node:
        kids = (structs.replace(old, size="1fr", stacked_size=None), node)
        size = "1fr" if old.size == "auto" else old.size
        stacked = None if old.stacked_size == "auto" else old.stacked_size
        if side == "tabs":
            return TabsNode(children=kids, active=1, size=size, stacked_size=stacked)
        if side == "right":
            return Horizontal(children=kids, stack_below=60, size=size, stacked_size=stacked)
        return Vertical(children=kids, size=size, stacked_size=stacked)

    def behind(around: Node) -> Node:
        assert isinstance(around, TabsNode)
        return structs.replace(
            around, children=(*around.children, node), active=len(around.children)
        )

    root = layout.tabs[found.tab].root
    if side == "tabs" and found.path and isinstance(_node(root, found.path[:-1]), TabsNode):
        return _in_tab(layout, found.tab, lambda root: _at(root, found.path[:-1], behind))
    return _in_tab(layout, found.tab, lambda root: _at(root, found.path, with_node))


def close_panel(layout: Layout, panel: str) -> Layout:
    """Take a panel out; a tab that would be empty goes with it.

    Raises:
        LayoutError: there is no such panel, or it is the last chat.
    """
    found = find_panel(layout, panel)
    _keep_a_chat(layout, {panel})
    root = _without(layout.tabs[found.tab].root, panel)
    if root is None:
        tabs = (*layout.tabs[: found.tab], *layout.tabs[found.tab + 1 :])
        return structs.replace(layout, tabs=tabs)
    return _in_tab(layout, found.tab, lambda _: root)


def replace_panel(layout: Layout, panel: str, node: PanelNode) -> Layout:
    """Put other options, or another kind, where a panel is.

    Raises:
        LayoutError: there is no such panel, or it was the last chat.
    """
    found = find_panel(layout, panel)
    if node.widget != "chat":
        _keep_a_chat(layout, {panel})
    new = structs.replace(node, size=found.node.size, stacked_size=found.node.stacked_size)
    return _in_tab(layout, found.tab, lambda root: _at(root, found.path, lambda _: new))


def add_tab(layout: Layout, title: str, root: Node) -> Layout:
    """Open a tab after the others; it is not shown by that."""
    return structs.replace(layout, tabs=(*layout.tabs, Tab(title=title, root=root)))


def close_tab(layout: Layout, at: int) -> Layout:
    """Take a tab out.

    Raises:
        LayoutError: there is no such tab, it is the only one, or it has the last chat.
    """
    _known_tab(layout, at)
    if len(layout.tabs) == 1:
        raise LayoutError("", "cannot close the only tab")
    _keep_a_chat(layout, {panel.id for panel in panels_of(layout.tabs[at])})
    return structs.replace(layout, tabs=(*layout.tabs[:at], *layout.tabs[at + 1 :]))


def rename_tab(layout: Layout, at: int, title: str) -> Layout:
    """Give a tab another title.

    Raises:
        LayoutError: there is no such tab, or the title is none.
    """
    _known_tab(layout, at)
    if not title.strip() or len(title) > 60:
        raise LayoutError("title", "use 1 to 60 characters")
    tabs = list(layout.tabs)
    tabs[at] = structs.replace(tabs[at], title=title)
    return structs.replace(layout, tabs=tuple(tabs))


def activate(layout: Layout, panel: str) -> Layout:
    """Bring a panel to the front of every ``tabs`` node that it is in.

    Raises:
        LayoutError: there is no such panel.
    """
    found = find_panel(layout, panel)

    def front(node: Node, path: NodePath) -> Node:
        if isinstance(node, PanelNode) or not path:
            return node
        kids = list(node.children)
        kids[path[0]] = front(kids[path[0]], path[1:])
        node = structs.replace(node, children=tuple(kids))
        return structs.replace(node, active=path[0]) if isinstance(node, TabsNode) else node

    return _in_tab(layout, found.tab, lambda root: front(root, found.path))


def resize(
    layout: Layout, tab: int, path: NodePath, span: LayoutSpan, bar: int, step: int
) -> Layout:
    """Move the line before the child ``bar`` of a container by so many cells.

    Children with a size in cells keep one in cells; the others share what is left as they do now.
    Does nothing where there is no room for it.
    """
    at = span.shown.index(bar)
    lengths = list(span.lengths)
    step = max(1 - lengths[at - 1], min(lengths[at] - 1, step))
    lengths[at - 1] += step
    lengths[at] -= step

    def sized(node: Node) -> Node:
        kids = list(children_of(node))
        for number, (child, length) in enumerate(zip(span.shown, lengths, strict=True)):
            kids[child] = _sized(kids[child], length, span.is_stacked, number in (at - 1, at))
        assert not isinstance(node, PanelNode)
        return structs.replace(node, children=tuple(kids))

    return _in_tab(layout, tab, lambda root: _at(root, path, sized)) if step else layout


def resize_beside(
    layout: Layout, panel: str, spans: Mapping[NodePath, LayoutSpan], way: ResizeDirection
) -> Layout:
    """Move the nearest line beside a panel by a step; the layout as it is if there is none.

    Raises:
        LayoutError: there is no such panel.
    """
    axis = "across" if way in ("left", "right") else "down"
    step = {"left": -2, "right": 2, "up": -1, "down": 1}[way]
    found = find_panel(layout, panel)
    for depth in range(len(found.path) - 1, -1, -1):
        path, child = found.path[:depth], found.path[depth]
        span = spans.get(path)
        if span is None or span.axis != axis or child not in span.shown or len(span.shown) < 2:
            continue
        at = span.shown.index(child)
        bar = span.shown[min(at + 1, len(span.shown) - 1)]
        return resize(layout, found.tab, path, span, bar, step)
    return layout


def reset_sizes(layout: Layout, base: Layout) -> Layout:
    """Give every node the size that it has in another layout, or an equal share.

    Nodes are the same if they have the same panels.
    """
    sizes = {_panels(node): (node.size, node.stacked_size) for node in _nodes_of(base)}

    def again(node: Node) -> Node:
        if not isinstance(node, PanelNode):
            node = structs.replace(node, children=tuple(map(again, node.children)))
        size, stacked = sizes.get(_panels(node), ("1fr", None))
        return structs.replace(node, size=size, stacked_size=stacked)

    tabs = tuple(structs.replace(tab, root=again(tab.root)) for tab in layout.tabs)
    return structs.replace(layout, tabs=tabs)


def _sized(node: Node, length: int, is_stacked: bool, is_beside: bool) -> Node:
    size = node.stacked_size or node.size if is_stacked else node.size
    _, unit = read_size(size)
    if unit in ("", "auto"):
        new = str(max(1, length)) if is_beside else size
    else:
        new = f"{max(1, length)}fr"
    if is_stacked:
        return structs.replace(node, stacked_size=new)
    return structs.replace(node, size=new)


def _search(node: Node, panel: str, path: NodePath) -> tuple[PanelNode, NodePath] | None:
    if isinstance(node, PanelNode):
        return (node, path) if node.id == panel else None
    for at, child in enumerate(node.children):
        if (found := _search(child, panel, (*path, at))) is not None:
            return found
    return None


def _node(node: Node, path: NodePath) -> Node:
    for at in path:
        node = children_of(node)[at]
    return node


def _at(node: Node, path: NodePath, change: Callable[[Node], Node]) -> Node:
    if not path:
        return change(node)
    assert not isinstance(node, PanelNode)
    kids = list(node.children)
    kids[path[0]] = _at(kids[path[0]], path[1:], change)
    return structs.replace(node, children=tuple(kids))


def _in_tab(layout: Layout, at: int, change: Callable[[Node], Node]) -> Layout:
    tabs = list(layout.tabs)
    tabs[at] = structs.replace(tabs[at], root=change(tabs[at].root))
    return structs.replace(layout, tabs=tuple(tabs))


def _without(node: Node, panel: str) -> Node | None:
    if isinstance(node, PanelNode):
        return None if node.id == panel else node
    kids = [kid for child in node.children if (kid := _without(child, panel)) is not None]
    if not kids:
        return None
    if len(kids) == 1:
        return structs.replace(kids[0], size=node.size, stacked_size=node.stacked_size)
    node = structs.replace(node, children=tuple(kids))
    if isinstance(node, TabsNode):
        return structs.replace(node, active=min(node.active, len(kids) - 1))
    return node


def _keep_a_chat(layout: Layout, gone: set[str]) -> None:
    if not any(p.widget == "chat" and p.id not in gone for p in panels_of(layout)):
        raise LayoutError("", "cannot close the last chat")


def _known_tab(layout: Layout, at: int) -> None:
    if not 0 <= at < len(layout.tabs):
        raise LayoutError("", f"no tab {at + 1}; there are {len(layout.tabs)}")


def _panels(node: Node) -> tuple[int, tuple[str, ...]]:
    """What tells a node from others: its panels, and how many nodes are inside each other."""
    return _depth(node), tuple(sorted(panel.id for panel in panels_of(node)))


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, children_of(node)), default=0)


def _nodes_of(layout: Layout) -> list[Node]:
    found: list[Node] = []
    waiting = [tab.root for tab in layout.tabs]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += children_of(node)
    return found
