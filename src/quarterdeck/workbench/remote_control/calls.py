"""Every call that changes the screen, by name, and where something new appears."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import field

from ..layout import edit
from ..layout.spec import Layout, PanelNode, describe_format, dump_layout, panels_of, parse_layout
from . import RefusedCallError
from .api import ScreenCallArguments, ScreenCallSpec, ScreenController, specify_call

if TYPE_CHECKING:
    from ..panels.kinds import PanelKind

__all__ = ["SCREEN_CALLS", "PanelPlace", "choose_file_panel", "open_panel", "resolve_path"]

PanelPlace: TypeAlias = Literal["auto", "right", "down", "tab"]

_CORE = frozenset({"agents", "chat", "inbox", "transcript"})
"""What is not covered by something that is opened."""
_WIDE = 100
"""Cells from which on there is room for another panel beside a chat."""
_BY_HOW = {"edit": "editor", "diff": "diff", "tail": "tail"}
_BY_ENDING = {".md": "markdown", ".markdown": "markdown", ".ipynb": "notebook", ".log": "tail"}


def resolve_path(cwd: str, path: str) -> str:
    """A path as it is meant by someone in a directory: absolute, with ``~``."""
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
    used: str | None = None,
    title: str | None = None,
) -> str:
    """Show something in a panel; returns its id.

    A panel of the kind that is there already is used, unless something in it is not saved or
    ``is_new``; ``used`` names one that is used. Else it comes behind something that was opened
    before, beside the panel with the focus, or in a tab of its own where there is no room for
    that; ``title`` is that tab's.

    Raises:
        LayoutError: the kind or its options are wrong; nothing has changed.
    """
    view = controller.app.main.view
    spec = view.spec
    used = used or (None if is_new else _usable(controller, widget, options))
    if used is not None:
        node = PanelNode(id=used, widget=widget, options=options)
        layout = edit.replace_panel(spec, used, node)
    else:
        node = PanelNode(id=edit.free_id(spec, widget), widget=widget, options=options)
        layout = _placed(controller, spec, node, where, beside, title)
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
    title: str | None,
) -> Layout:
    view = controller.app.main.view
    if where == "tab":
        return edit.add_tab(spec, title or node.widget, node)
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


class _SetLayout(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    layout: dict[str, Any]
    force: bool = False


class _Named(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    force: bool = False


class _Save(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    scope: Literal["user", "project"] = "user"


class _OpenTab(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str | None = None
    root: dict[str, Any] | None = None


class _Tab(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tab: str | int | None = None
    force: bool = False


class _RenameTab(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str
    tab: str | int | None = None


class _Panel(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    panel: str
    force: bool = False


class _OpenFile(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    line: int | None = None
    how: Literal["view", "edit", "diff", "tail"] = "view"


class _OpenDiff(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str | None = None
    agent: str | None = None


class _OpenReview(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: str
    file: str | None = None


class _OpenPanel(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    widget: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    where: Literal["auto", "right", "down", "tab"] = "auto"
    beside: str | None = None


class _Agent(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: str


class _Theme(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


class _BindKey(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    command: str
    words: str = ""


class _Key(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str


class _OfferWidget(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    source: str


class _Notify(ScreenCallArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str


# Layouts


async def _get_layout(controller: ScreenController, _: ScreenCallArguments) -> Any:
    view = controller.app.main.view
    return {
        "layout": dump_layout(view.spec),
        "tab": view.tab + 1,
        "focus": view.current,
        "size": [view.size.width, view.size.height],
        "format": describe_format(controller.app.kinds),
    }


async def _set_layout(controller: ScreenController, arguments: _SetLayout) -> Any:
    layout = parse_layout(arguments.layout, controller.app.kinds)
    await _show(controller, layout, is_base=True, force=arguments.force)
    return {"panels": [panel.id for panel in panels_of(layout)]}


async def _load_layout(controller: ScreenController, arguments: _Named) -> Any:
    layout = await asyncio.to_thread(
        controller.app.layouts.load, arguments.name, controller.app.kinds
    )
    await _show(controller, layout, tab=0, is_base=True, force=arguments.force)
    return {"panels": [panel.id for panel in panels_of(layout)]}


async def _save_layout(controller: ScreenController, arguments: _Save) -> Any:
    spec = controller.app.main.view.spec
    path = await asyncio.to_thread(
        controller.app.layouts.save, arguments.name, spec, arguments.scope
    )
    return {"file": str(path)}


async def _delete_layout(controller: ScreenController, arguments: _Named) -> Any:
    await asyncio.to_thread(controller.app.layouts.delete, arguments.name)


async def _list_layouts(controller: ScreenController, _: ScreenCallArguments) -> Any:
    found = await asyncio.to_thread(controller.app.layouts.all)
    return {"layouts": [{"name": one.name, "scope": one.scope, "help": one.help} for one in found]}


async def _show(
    controller: ScreenController,
    layout: Layout,
    *,
    tab: int | None = None,
    is_base: bool = False,
    force: bool = False,
) -> None:
    """Apply a layout; the focus stays if its panel does, else it is where it was in the tab."""
    view = controller.app.main.view
    before = view.current
    await view.apply(layout, tab=tab, is_base=is_base, force=force and controller.is_person)
    known = {panel.id for panel in panels_of(view.root)}
    if controller.may_focus or before not in known:
        view.enter(before if before in known else view.current)


# Tabs and panels


async def _open_tab(controller: ScreenController, arguments: _OpenTab) -> Any:
    view = controller.app.main.view
    spec = view.spec
    root: Any = arguments.root
    if root is None:
        root = {"type": "panel", "id": edit.free_id(spec, "chat"), "widget": "chat"}
    title = arguments.title or str(len(spec.tabs) + 1)
    data = dump_layout(spec)
    layout = parse_layout(
        {**data, "tabs": [*data["tabs"], {"title": title, "root": root}]}, controller.app.kinds
    )
    await view.apply(layout, tab=len(spec.tabs) if controller.may_focus else None)
    if controller.may_focus:
        view.enter(None)
    return {"tab": len(layout.tabs), "panels": [p.id for p in panels_of(layout.tabs[-1])]}


async def _close_tab(controller: ScreenController, arguments: _Tab) -> Any:
    view = controller.app.main.view
    at = _tab_at(view.spec, arguments.tab, view.tab)
    layout = edit.close_tab(view.spec, at)
    shown = view.tab - 1 if at < view.tab else view.tab
    await _show(controller, layout, tab=max(0, shown), force=arguments.force)
    return {"tabs": [tab.title for tab in layout.tabs]}


async def _rename_tab(controller: ScreenController, arguments: _RenameTab) -> Any:
    view = controller.app.main.view
    layout = edit.rename_tab(
        view.spec, _tab_at(view.spec, arguments.tab, view.tab), arguments.title
    )
    await view.apply(layout)
    return {"tabs": [tab.title for tab in layout.tabs]}


async def _show_tab(controller: ScreenController, arguments: _Tab) -> Any:
    view = controller.app.main.view
    if not controller.may_focus:
        raise RefusedCallError("the user is typing; try again later")
    await view.show_tab(_tab_at(view.spec, arguments.tab, view.tab))


def _tab_at(layout: Layout, tab: str | int | None, current: int) -> int:
    """The index of a tab by its title or its number, which begins with 1.

    Raises RefusedCallError.
    """
    if tab is None:
        return current
    titles = [one.title for one in layout.tabs]
    if isinstance(tab, str) and tab in titles:
        return titles.index(tab)
    number = int(tab) if isinstance(tab, int) or (tab.isascii() and tab.isdigit()) else 0
    if not 1 <= number <= len(titles):
        raise RefusedCallError(f"no tab {tab!r}; choose from {', '.join(map(repr, titles))}")
    return number - 1


async def _focus(controller: ScreenController, arguments: _Panel) -> Any:
    edit.find_panel(controller.app.main.view.spec, arguments.panel)
    if not controller.may_focus:
        raise RefusedCallError("the user is typing; try again later")
    await controller.app.main.view.show_panel(arguments.panel)


async def _close_panel(controller: ScreenController, arguments: _Panel) -> Any:
    view = controller.app.main.view
    await _show(controller, edit.close_panel(view.spec, arguments.panel), force=arguments.force)


async def _open_panel(controller: ScreenController, arguments: _OpenPanel) -> Any:
    panel = await open_panel(
        controller,
        arguments.widget,
        arguments.options,
        where=arguments.where,
        beside=arguments.beside,
        is_new=True,
    )
    if controller.is_person:
        controller.app.main.view.panels[panel].opened()
    return {"panel": panel}


async def _reset_sizes(controller: ScreenController, _: ScreenCallArguments) -> Any:
    await controller.app.main.view.reset_sizes()


# Showing things


async def _open_file(controller: ScreenController, arguments: _OpenFile) -> Any:
    path = resolve_path(controller.app.context.cwd, arguments.path)
    if not await asyncio.to_thread(Path(path).exists) and arguments.how in ("view", "diff"):
        raise RefusedCallError(f"no file {path!r}")
    kind, options = choose_file_panel(controller.app.kinds, path, arguments.line, arguments.how)
    return {"panel": await open_panel(controller, kind, options)}


async def _open_diff(controller: ScreenController, arguments: _OpenDiff) -> Any:
    options: dict[str, Any] = {}
    if arguments.path is not None:
        options["path"] = resolve_path(controller.app.context.cwd, arguments.path)
    if arguments.agent is not None:
        options["agent"] = arguments.agent
    return {"panel": await open_panel(controller, "diff", options)}


async def _open_review(controller: ScreenController, arguments: _OpenReview) -> Any:
    """Show a review: where one of this agent is open, or in a tab of its own."""
    context, view = controller.app.context, controller.app.main.view
    session = context.find_session(arguments.agent)
    agent = context.roster.find(session)
    if session is None or agent is None:
        raise RefusedCallError(f"no agent {arguments.agent!r}")
    options: dict[str, Any] = {"agent": session, "full": True}
    if arguments.file is not None:
        options["file"] = arguments.file
    for node in panels_of(view.spec):
        if node.widget == "review" and node.options.get("agent") in (session, agent.name):
            own = {**options, "full": node.options.get("full") is True}
            return {"panel": await open_panel(controller, "review", own, used=node.id)}
    title = f"review {agent.name}"
    return {
        "panel": await open_panel(
            controller, "review", options, where="tab", title=title, is_new=True
        )
    }


async def _open_agent(controller: ScreenController, arguments: _Agent) -> Any:
    session = controller.app.context.find_session(arguments.agent)
    if session is None:
        raise RefusedCallError(f"no agent {arguments.agent!r}")
    if not controller.may_focus:
        raise RefusedCallError("the user is typing; try again later")
    await controller.app.show_agent(session)


async def _list_widgets(controller: ScreenController, _: ScreenCallArguments) -> Any:
    kinds = [kind for kind in controller.app.kinds.values() if kind.name != "missing"]
    return {"widgets": [{"name": kind.name, "help": kind.help} for kind in kinds]}


async def _offer_widget(controller: ScreenController, arguments: _OfferWidget) -> Any:
    from ..custom_widgets.kinds import offer_widget

    agent = controller.app.context.roster.find(controller.app.context.find_session(controller.by))
    by = None if controller.is_person else agent.name if agent is not None else controller.by
    next_step = await asyncio.to_thread(
        offer_widget, controller.app.context, arguments.name, arguments.source, by=by
    )
    return {"state": "needs approval", "next": next_step}


async def _notify(controller: ScreenController, arguments: _Notify) -> Any:
    agent = controller.app.context.roster.find(controller.app.context.find_session(controller.by))
    controller.app.show_message(
        f"{agent.name}: {arguments.text[:500]}" if agent is not None else arguments.text[:500]
    )


# Looks and keys: see those modules


async def _list_themes(controller: ScreenController, _: ScreenCallArguments) -> Any:
    from ..preferences.themes.files import find_themes

    found = await asyncio.to_thread(find_themes, controller.app.preferences.theme_folders)
    return {"themes": [{"name": one.name, "scope": one.scope} for one in found]}


async def _set_theme(controller: ScreenController, arguments: _Theme) -> Any:
    await controller.app.run_command("theme", arguments.name)


async def _get_keys(controller: ScreenController, _: ScreenCallArguments) -> Any:
    bound = [
        {"key": b.key, "does": b.shown, "where": b.when} for b in controller.app.preferences.keymap
    ]
    active = controller.app.main.active_bindings.items()
    own = [
        {"key": key, "does": a.binding.description or a.binding.action}
        for key, a in active
        if a.binding.description
    ]
    return {"bound": bound, "built_in": own}


async def _bind_key(controller: ScreenController, arguments: _BindKey) -> Any:
    await controller.app.run_command(
        "bind", f"{arguments.key} {arguments.command} {arguments.words}".strip()
    )


async def _unbind_key(controller: ScreenController, arguments: _Key) -> Any:
    # An agent gives a key back; to let it do nothing is for the person.
    await controller.app.run_command("unbind" if controller.is_person else "rebind", arguments.key)


SCREEN_CALLS: dict[str, ScreenCallSpec] = {
    "bind_key": specify_call(_BindKey, _bind_key),
    "close_panel": specify_call(_Panel, _close_panel),
    "close_tab": specify_call(_Tab, _close_tab),
    "delete_layout": specify_call(_Named, _delete_layout),
    "focus": specify_call(_Panel, _focus),
    "get_keys": specify_call(ScreenCallArguments, _get_keys),
    "get_layout": specify_call(ScreenCallArguments, _get_layout),
    "list_layouts": specify_call(ScreenCallArguments, _list_layouts),
    "list_themes": specify_call(ScreenCallArguments, _list_themes),
    "list_widgets": specify_call(ScreenCallArguments, _list_widgets),
    "load_layout": specify_call(_Named, _load_layout),
    "notify": specify_call(_Notify, _notify),
    "offer_widget": specify_call(_OfferWidget, _offer_widget),
    "open_agent": specify_call(_Agent, _open_agent),
    "open_diff": specify_call(_OpenDiff, _open_diff),
    "open_file": specify_call(_OpenFile, _open_file),
    "open_review": specify_call(_OpenReview, _open_review),
    "open_panel": specify_call(_OpenPanel, _open_panel),
    "open_tab": specify_call(_OpenTab, _open_tab),
    "rename_tab": specify_call(_RenameTab, _rename_tab),
    "reset_sizes": specify_call(ScreenCallArguments, _reset_sizes),
    "save_layout": specify_call(_Save, _save_layout),
    "set_layout": specify_call(_SetLayout, _set_layout),
    "set_theme": specify_call(_Theme, _set_theme),
    "show_tab": specify_call(_Tab, _show_tab),
    "unbind_key": specify_call(_Key, _unbind_key),
}
"""By name, in order."""
