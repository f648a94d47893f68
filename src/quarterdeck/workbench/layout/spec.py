"""The value that says what is on the screen, and how foreign data becomes one.

A layout has tabs; each tab has a tree of nodes: ``horizontal`` and ``vertical`` lay their children
beside or below each other, ``tabs`` shows one of them at a time, ``panel`` is a leaf.
``parse_layout`` is the only way in for data that someone else wrote: it accepts what can be shown,
and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from ..panels.kinds import PanelKind

__all__ = [
    "DEPTH",
    "PANELS",
    "VERSION",
    "Horizontal",
    "Layout",
    "LayoutError",
    "Node",
    "PanelNode",
    "Tab",
    "TabsNode",
    "Vertical",
    "children_of",
    "describe_format",
    "dump_layout",
    "panels_of",
    "parse_layout",
    "read_size",
]

VERSION = 1
DEPTH = 8
"""How many nodes can be inside each other."""
PANELS = 64
"""How many panels a layout can have."""
_TABS = 32
_VALUES = 20_000
"""How many values the data of a layout can have, options included."""
_NESTING = 40
_SIZE = re.compile(r"(?P<number>[0-9]{1,4})(?P<unit>%|fr|)\Z")
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}\Z")
_TITLE = 60


class LayoutError(QuarterdeckError):
    """A layout that cannot be: the text begins with the field at fault.

    Attributes:
        field: the path of the field, such as ``tabs[0].root.children[1].size``.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field


class _Node(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="type",
):
    size: str = "1fr"
    """Its part of the container: ``30%``, ``2fr``, ``24`` cells, or ``auto``: what it fills."""
    stacked_size: str | None = None
    """The size that counts when the horizontal it is in has become vertical; None: ``size``."""
    title: str | None = None
    """What a tab or a border calls it; None: the panel says."""


class PanelNode(_Node, frozen=True, kw_only=True, tag="panel"):
    """A panel: a widget of some kind, with options."""

    id: str
    """Unique in the layout; a panel whose id and widget stay is kept with all its state."""
    widget: str
    options: dict[str, Any] = {}


class Horizontal(_Node, frozen=True, kw_only=True, tag="horizontal"):
    """Children beside each other."""

    children: tuple["Node", ...]
    stack_below: int | None = None
    """Below so many cells of width it is laid out as a vertical; None: never."""


class Vertical(_Node, frozen=True, kw_only=True, tag="vertical"):
    """Children below each other."""

    children: tuple["Node", ...]


class TabsNode(_Node, frozen=True, kw_only=True, tag="tabs"):
    """One child at a time, below a strip of their titles."""

    children: tuple["Node", ...]
    active: int = 0


Node: TypeAlias = PanelNode | Horizontal | Vertical | TabsNode


class Tab(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole screen of panels."""

    title: str
    root: Node


class Layout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that is open, on the screen or behind a tab."""

    tabs: tuple[Tab, ...]
    version: int = VERSION


def parse_layout(data: object, kinds: "Mapping[str, PanelKind] | None" = None) -> Layout:
    """The layout that data describes.

    Args:
        data: what came from JSON.
        kinds: the widgets that can be named; None: the built-in ones. The code of those that the
            layout names is imported, as they know their options.

    Raises:
        LayoutError: it is none, or none that can be shown; the text names the field.
    """
    if kinds is None:
        from ..panels.kinds import KINDS

        kinds = KINDS
    _bound(data)
    if not isinstance(data, dict):
        raise LayoutError("", "a layout is an object with `tabs`")
    version: object = data.get("version", VERSION)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(version, int) and version > VERSION:
        raise LayoutError(
            "version", f"{version} is newer than {VERSION}, the latest that this version supports"
        )
    try:
        layout = convert(data, Layout)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from error
    _check(layout, kinds)
    return layout


def dump_layout(layout: Layout) -> dict[str, Any]:
    """The layout as data for JSON; ``parse_layout`` gives the same layout back."""
    data: dict[str, Any] = msgspec.to_builtins(layout)
    return data


def describe_format(kinds: "Mapping[str, PanelKind] | None" = None) -> str:
    """The format in few words, for tools and people."""
    from ..panels.kinds import KINDS

    names = "\n".join(f"  {kind.name}: {kind.help}" for kind in (kinds or KINDS).values())
    return f"""\
{{"version": {VERSION}, "tabs": [{{"title": TEXT, "root": NODE}}, …]}}
NODE is one of
  {{"type": "horizontal", "children": [NODE, …], "stack_below": CELLS}}  vertical when narrower
  {{"type": "vertical", "children": [NODE, …]}}
  {{"type": "tabs", "children": [NODE, …], "active": INDEX}}  one at a time; give each a "title"
  {{"type": "panel", "id": ID, "widget": NAME, "options": {{…}}}}
Each NODE can have "size" ("30%", "2fr", "24" cells, "auto"; default "1fr"), "stacked_size" (the
size that applies when the horizontal around it becomes vertical) and "title".
An ID is unique: letters, digits, _ and -. A panel with the same id and widget keeps its state.
There is at least one chat; at most {PANELS} panels, {_TABS} tabs, {DEPTH} nodes inside each other.
Widgets:
{names}"""


def read_size(size: str) -> tuple[int, str]:
    """The number and the unit of a size: ``%``, ``fr``, ``auto``, or empty for cells.

    Raises:
        ValueError: it is none.
    """
    if size == "auto":
        return 0, "auto"
    found = _SIZE.match(size)
    number = int(found["number"]) if found else 0
    if not found or number == 0 or (found["unit"] == "%" and number > 100):
        raise ValueError(f'{size!r} is not a size; use "30%", "2fr", "24" or "auto"')
    return number, found["unit"]


def children_of(node: Node) -> tuple[Node, ...]:
    """The nodes directly inside a node."""
    return () if isinstance(node, PanelNode) else node.children


def panels_of(where: Layout | Tab | Node) -> Iterator[PanelNode]:
    """Every panel, in reading order."""
    if isinstance(where, Layout):
        for tab in where.tabs:
            yield from panels_of(tab.root)
    elif isinstance(where, Tab):
        yield from panels_of(where.root)
    elif isinstance(where, PanelNode):
        yield where
    else:
        for child in where.children:
            yield from panels_of(child)


def _bound(data: object) -> None:
    """Refuse what is too large to look at, before anything recurses into it."""
    left, waiting = _VALUES, [(data, 0)]
    while waiting:
        value, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > _NESTING:
            raise LayoutError("", "the layout is too large; use fewer nodes and smaller options")
        if isinstance(value, dict):
            waiting += [(inner, depth + 1) for inner in value.values()]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(value, list | tuple):
            waiting += [(inner, depth + 1) for inner in value]  # pyright: ignore[reportUnknownVariableType]


def _field_error(text: str) -> LayoutError:
    """An error of msgspec, ``reason - at `$.path` ``, the other way round."""
    reason, _, path = text.partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    if field.endswith("type"):
        reason += "; use horizontal, vertical, tabs or panel"
    return LayoutError(field, reason)


def _check(layout: Layout, kinds: "Mapping[str, PanelKind]") -> None:
    if not 1 <= len(layout.tabs) <= _TABS:
        raise LayoutError("tabs", f"there are {len(layout.tabs)}; use 1 to {_TABS}")
    seen: dict[str, str] = {}
    for at, tab in enumerate(layout.tabs):
        _check_title(f"tabs[{at}].title", tab.title)
        _check_node(tab.root, f"tabs[{at}].root", 1, seen, kinds)
    if all(panel.widget != "chat" for panel in panels_of(layout)):
        raise LayoutError("tabs", "no panel is a chat; keep at least one")


def _check_node(
    node: Node, path: str, depth: int, seen: dict[str, str], kinds: "Mapping[str, PanelKind]"
) -> None:
    if depth > DEPTH:
        raise LayoutError(path, f"more than {DEPTH} nodes inside each other")
    _check_sizes(node, path)
    if isinstance(node, PanelNode):
        _check_panel(node, path, seen, kinds)
        return
    if not node.children:
        raise LayoutError(f"{path}.children", "a node needs at least one child")
    if isinstance(node, TabsNode) and not 0 <= node.active < len(node.children):
        raise LayoutError(
            f"{path}.active",
            f"{node.active} is out of range; there are {len(node.children)} children",
        )
    if isinstance(node, Horizontal) and not 0 <= (node.stack_below or 0) <= 1000:
        raise LayoutError(f"{path}.stack_below", "use a number of cells from 0 to 1000")
    for at, child in enumerate(node.children):
        _check_node(child, f"{path}.children[{at}]", depth + 1, seen, kinds)


def _check_sizes(node: Node, path: str) -> None:
    for name, size in (("size", node.size), ("stacked_size", node.stacked_size)):
        try:
            read_size(size if size is not None else "auto")
        except ValueError as error:
            raise LayoutError(f"{path}.{name}", str(error)) from None
    if node.title is not None:
        _check_title(f"{path}.title", node.title)


def _check_title(path: str, title: str) -> None:
    if not title.strip() or len(title) > _TITLE:
        raise LayoutError(path, f"use 1 to {_TITLE} characters")


def _check_panel(
    node: PanelNode, path: str, seen: dict[str, str], kinds: "Mapping[str, PanelKind]"
) -> None:
    if not _ID.match(node.id):
        raise LayoutError(
            f"{path}.id", f"{node.id!r} is not a valid id; use letters, digits, _ and -, at most 40"
        )
    if node.id in seen:
        raise LayoutError(f"{path}.id", f"{node.id!r} is already the id of {seen[node.id]}")
    seen[node.id] = path
    if len(seen) > PANELS:
        raise LayoutError(path, f"more than {PANELS} panels")
    kind = kinds.get(node.widget)
    if kind is None:
        raise LayoutError(
            f"{path}.widget", f"no widget {node.widget!r}; choose from {', '.join(sorted(kinds))}"
        )
    try:
        convert(node.options, kind.load().options_type)
    except msgspec.ValidationError as error:
        wrong = _field_error(str(error))
        raise LayoutError(
            ".".join(filter(None, (f"{path}.options", wrong.field))),
            str(error).partition(" - at")[0],
        ) from error
