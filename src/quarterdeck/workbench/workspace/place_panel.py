"""Where something new appears: in a panel that shows the like already, else beside one."""

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..layout import edit
from ..layout.spec import Layout, PanelNode, dump_layout, panels_of, parse_layout

if TYPE_CHECKING:
    from ..panels.kinds import PanelKind
    from ..remote_control.api import ScreenController

__all__ = ["PanelPlace", "choose_file_panel", "open_panel", "resolve_path"]

PanelPlace: TypeAlias = Literal["auto", "right", "down", "tab"]

_CORE = frozenset({"agents", "chat", "inbox", "transcript"})
"""What is not covered by something that is opened."""
_WIDE = 100
"""Cells from which on there is room for another panel beside a chat."""
_BY_HOW = {"edit": "editor", "diff": "diff", "tail": "tail"}
_BY_ENDING = {".md": "markdown", ".markdown": "markdown", ".ipynb": "notebook", ".log": "tail"}


def resolve_path(cwd: str, path: str) -> str:
    """A path as it is meant by somebody in a directory: absolute, with ``~``."""
    return os.path.normpath(PurePath(cwd, os.path.expanduser(path)))  # noqa: PTH111 - a string


def choose_file_panel(
    kinds: "Mapping[str, PanelKind]", path: str, line: int | None, how: str
) -> tuple[str, dict[str, Any]]:
    """The kind of panel that shows a file, and its options."""
    kind = _BY_HOW.get(how)
    if kind is None:
        by_ending = _BY_ENDING.get(PurePath(path).suffix.lower(), "file")
        # A line is a place in the text: what a renderer makes of it has others.
        kind = by_ending if line is None and by_ending in kinds else "file"
    options: dict[str, Any] = {"path": path}
    if line is not None and kind in ("file", "editor"):
        options["line"] = line
    return kind, options


async def open_panel(
    controller: "ScreenController",
    widget: str,
    options: dict[str, Any],
    *,
    where: PanelPlace = "auto",
    beside: str | None = None,
    is_new: bool = False,
) -> str:
    """Show something in a panel; returns its id.

    A panel of the kind that is there already is used, unless something in it is not saved or
    ``is_new``. Else it comes behind something that was opened before, beside the panel with the
    focus, or in a tab of its own where there is no room for that.

    Raises:
        LayoutError: the kind or its options are wrong; nothing has changed.
    """
    view = controller.app.main.view
    spec = view.spec
    used = None if is_new else _usable(controller, widget, options)
    if used is not None:
        node = PanelNode(id=used, widget=widget, options=options)
        layout = edit.replace_panel(spec, used, node)
    else:
        node = PanelNode(id=edit.free_id(spec, widget), widget=widget, options=options)
        layout = _placed(controller, spec, node, where, beside)
    checked = parse_layout(dump_layout(layout), controller.app.kinds)
    if controller.may_focus:
        checked = edit.activate(checked, node.id)
    elif view.current is not None:  # where the person types stays in front
        checked = edit.activate(checked, view.current)
    await view.apply(checked)
    if controller.may_focus:
        await view.show_panel(node.id)
    return node.id


def _usable(controller: "ScreenController", widget: str, options: Mapping[str, Any]) -> str | None:
    view = controller.app.main.view
    mine = [node for node in panels_of(view.spec) if node.widget == widget]
    here = {node.id for node in panels_of(view.root)}

    def rank(node: PanelNode) -> tuple[bool, bool]:
        return node.options.get("path") != options.get("path"), node.id not in here

    for node in sorted(mine, key=rank):
        panel = view.panels.get(node.id)
        is_same = node.options.get("path") == options.get("path")
        if is_same or panel is None or panel.unsaved is None:
            return node.id
    return None


def _placed(
    controller: "ScreenController",
    spec: Layout,
    node: PanelNode,
    where: PanelPlace,
    beside: str | None,
) -> Layout:
    view = controller.app.main.view
    if where == "tab":
        return edit.add_tab(spec, node.widget, node)
    current = beside or view.current or next(panels_of(view.root)).id
    if where != "auto":
        return edit.split(spec, current, node, where)
    others = [one for one in panels_of(view.root) if one.widget not in _CORE]
    if others:
        return edit.split(spec, others[-1].id, node, "tabs")
    if view.size.width < _WIDE:
        return edit.add_tab(spec, node.widget, node)
    chats = [one.id for one in panels_of(view.root) if one.widget == "chat"]
    if beside is None and chats and current not in chats:
        current = chats[0]
    return edit.split(spec, current, node, "right")
