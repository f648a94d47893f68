"""Every deed to the screen, by the name that calls use."""

import asyncio
from pathlib import Path
from typing import Any, Literal

from msgspec import field, structs

from ..layout import edit
from ..layout.spec import Layout, describe_format, dump_layout, panels_of, parse_layout
from ..workspace.place_panel import choose_file_panel, open_panel, resolve_path
from .api import (
    ScreenCallArguments,
    ScreenCallSpec,
    ScreenController,
    specify_call,
)
from .errors import RefusedCallError

__all__ = ["SCREEN_CALLS"]


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


async def _get_layout(desk: ScreenController, _: ScreenCallArguments) -> Any:
    view = desk.app.main.view
    return {
        "layout": dump_layout(view.spec),
        "tab": view.tab + 1,
        "focus": view.current,
        "size": [view.size.width, view.size.height],
        "format": describe_format(desk.app.kinds),
    }


async def _set_layout(desk: ScreenController, wish: _SetLayout) -> Any:
    layout = parse_layout(wish.layout, desk.app.kinds)
    await _show(desk, layout, is_base=True, force=wish.force)
    return {"panels": [panel.id for panel in panels_of(layout)]}


async def _load_layout(desk: ScreenController, wish: _Named) -> Any:
    layout = await asyncio.to_thread(desk.app.layouts.load, wish.name, desk.app.kinds)
    if wish.name == "grid":
        layout = _with_agents(layout, [agent.session for agent in desk.app.desk.roster.agents])
    await _show(desk, layout, tab=0, is_base=True, force=wish.force)
    return {"panels": [panel.id for panel in panels_of(layout)]}


def _with_agents(layout: Layout, sessions: list[str]) -> Layout:
    """Give each chat that has none an agent of its own, as far as there are some."""
    for node in list(panels_of(layout)):
        if node.widget == "chat" and not node.options and sessions:
            own = structs.replace(node, options={"agent": sessions.pop(0)})
            layout = edit.replace_panel(layout, node.id, own)
    return layout


async def _save_layout(desk: ScreenController, wish: _Save) -> Any:
    spec = desk.app.main.view.spec
    path = await asyncio.to_thread(desk.app.layouts.save, wish.name, spec, wish.scope)
    return {"file": str(path)}


async def _delete_layout(desk: ScreenController, wish: _Named) -> Any:
    await asyncio.to_thread(desk.app.layouts.delete, wish.name)


async def _list_layouts(desk: ScreenController, _: ScreenCallArguments) -> Any:
    found = await asyncio.to_thread(desk.app.layouts.all)
    return {"layouts": [{"name": one.name, "scope": one.scope, "help": one.help} for one in found]}


async def _show(
    desk: ScreenController,
    layout: Layout,
    *,
    tab: int | None = None,
    is_base: bool = False,
    force: bool = False,
) -> None:
    """Apply a layout; the focus stays if its panel does."""
    view = desk.app.main.view
    before = view.current
    await view.apply(layout, tab=tab, is_base=is_base, force=force and desk.is_person)
    known = {panel.id for panel in panels_of(view.root)}
    if desk.may_focus or before not in known:
        view.enter(before if before in known else None)


# Tabs and panels


async def _open_tab(desk: ScreenController, wish: _OpenTab) -> Any:
    view = desk.app.main.view
    spec = view.spec
    root: Any = wish.root
    if root is None:
        root = {"type": "panel", "id": edit.free_id(spec, "chat"), "widget": "chat"}
    title = wish.title or str(len(spec.tabs) + 1)
    data = dump_layout(spec)
    layout = parse_layout(
        {**data, "tabs": [*data["tabs"], {"title": title, "root": root}]}, desk.app.kinds
    )
    await view.apply(layout, tab=len(spec.tabs) if desk.may_focus else None)
    if desk.may_focus:
        view.enter(None)
    return {"tab": len(layout.tabs), "panels": [p.id for p in panels_of(layout.tabs[-1])]}


async def _close_tab(desk: ScreenController, wish: _Tab) -> Any:
    view = desk.app.main.view
    at = _tab_at(view.spec, wish.tab, view.tab)
    layout = edit.close_tab(view.spec, at)
    shown = view.tab - 1 if at < view.tab else view.tab
    await _show(desk, layout, tab=max(0, shown), force=wish.force)
    return {"tabs": [tab.title for tab in layout.tabs]}


async def _rename_tab(desk: ScreenController, wish: _RenameTab) -> Any:
    view = desk.app.main.view
    layout = edit.rename_tab(view.spec, _tab_at(view.spec, wish.tab, view.tab), wish.title)
    await view.apply(layout)
    return {"tabs": [tab.title for tab in layout.tabs]}


async def _show_tab(desk: ScreenController, wish: _Tab) -> Any:
    view = desk.app.main.view
    if not desk.may_focus:
        raise RefusedCallError("the user is typing; try again later")
    await view.show_tab(_tab_at(view.spec, wish.tab, view.tab))


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


async def _focus(desk: ScreenController, wish: _Panel) -> Any:
    edit.find_panel(desk.app.main.view.spec, wish.panel)
    if not desk.may_focus:
        raise RefusedCallError("the user is typing; try again later")
    await desk.app.main.view.show_panel(wish.panel)


async def _close_panel(desk: ScreenController, wish: _Panel) -> Any:
    view = desk.app.main.view
    await _show(desk, edit.close_panel(view.spec, wish.panel), force=wish.force)


async def _open_panel(desk: ScreenController, wish: _OpenPanel) -> Any:
    panel = await open_panel(
        desk, wish.widget, wish.options, where=wish.where, beside=wish.beside, is_new=True
    )
    if desk.is_person:
        desk.app.main.view.panels[panel].opened()
    return {"panel": panel}


async def _reset_sizes(desk: ScreenController, _: ScreenCallArguments) -> Any:
    await desk.app.main.view.reset_sizes()


# Showing things


async def _open_file(desk: ScreenController, wish: _OpenFile) -> Any:
    path = resolve_path(desk.app.desk.cwd, wish.path)
    if not await asyncio.to_thread(Path(path).exists) and wish.how in ("view", "diff"):
        raise RefusedCallError(f"no file {path!r}")
    kind, options = choose_file_panel(desk.app.kinds, path, wish.line, wish.how)
    return {"panel": await open_panel(desk, kind, options)}


async def _open_diff(desk: ScreenController, wish: _OpenDiff) -> Any:
    options: dict[str, Any] = {}
    if wish.path is not None:
        options["path"] = resolve_path(desk.app.desk.cwd, wish.path)
    if wish.agent is not None:
        options["agent"] = wish.agent
    return {"panel": await open_panel(desk, "diff", options)}


async def _open_agent(desk: ScreenController, wish: _Agent) -> Any:
    session = desk.app.desk.find_session(wish.agent)
    if session is None:
        raise RefusedCallError(f"no agent {wish.agent!r}")
    if not desk.may_focus:
        raise RefusedCallError("the user is typing; try again later")
    await desk.app.show_agent(session)


async def _list_widgets(desk: ScreenController, _: ScreenCallArguments) -> Any:
    kinds = [kind for kind in desk.app.kinds.values() if kind.name != "missing"]
    return {"widgets": [{"name": kind.name, "help": kind.help} for kind in kinds]}


async def _offer_widget(desk: ScreenController, wish: _OfferWidget) -> Any:
    from ..custom_widgets.kinds import offer_widget

    agent = desk.app.desk.roster.find(desk.app.desk.find_session(desk.by))
    by = None if desk.is_person else agent.name if agent is not None else desk.by
    told = await asyncio.to_thread(offer_widget, desk.app.desk, wish.name, wish.source, by=by)
    return {"state": "needs approval", "next": told}


async def _notify(desk: ScreenController, wish: _Notify) -> Any:
    agent = desk.app.desk.roster.find(desk.app.desk.find_session(desk.by))
    desk.app.tell(f"{agent.name}: {wish.text[:500]}" if agent is not None else wish.text[:500])


# Looks and keys: see those modules


async def _list_themes(desk: ScreenController, _: ScreenCallArguments) -> Any:
    from ..preferences.themes.files import find_themes

    found = await asyncio.to_thread(find_themes, desk.app.looks.theme_folders)
    return {"themes": [{"name": one.name, "scope": one.scope} for one in found]}


async def _set_theme(desk: ScreenController, wish: _Theme) -> Any:
    await desk.app.run_command("theme", wish.name)


async def _get_keys(desk: ScreenController, _: ScreenCallArguments) -> Any:
    bound = [{"key": b.key, "does": b.shown, "where": b.when} for b in desk.app.looks.keymap]
    active = desk.app.main.active_bindings.items()
    own = [
        {"key": key, "does": a.binding.description or a.binding.action}
        for key, a in active
        if a.binding.description
    ]
    return {"bound": bound, "built_in": own}


async def _bind_key(desk: ScreenController, wish: _BindKey) -> Any:
    await desk.app.run_command("bind", f"{wish.key} {wish.command} {wish.words}".strip())


async def _unbind_key(desk: ScreenController, wish: _Key) -> Any:
    # An agent gives a key back; to let it do nothing is for the person.
    await desk.app.run_command("unbind" if desk.is_person else "rebind", wish.key)


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
