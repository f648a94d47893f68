"""Every deed to the screen, by the name that calls use."""

import asyncio
from pathlib import Path
from typing import Any, Literal

from msgspec import field, structs

from .layout import edit
from .layout.spec import Layout, describe, dump, panels_of, parse
from .opening_panels import file_kind, open_panel, relative
from .screening import Deed, RefusedCall, ScreenDesk, Wish, deed

__all__ = ["DEEDS"]


class _SetLayout(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    layout: dict[str, Any]
    force: bool = False


class _Named(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    force: bool = False


class _Save(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    scope: Literal["user", "project"] = "user"


class _OpenTab(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str | None = None
    root: dict[str, Any] | None = None


class _Tab(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tab: str | int | None = None
    force: bool = False


class _RenameTab(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str
    tab: str | int | None = None


class _Panel(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    panel: str
    force: bool = False


class _OpenFile(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    line: int | None = None
    how: Literal["view", "edit", "diff", "tail"] = "view"


class _OpenDiff(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str | None = None
    agent: str | None = None


class _OpenPanel(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    widget: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    where: Literal["auto", "right", "down", "tab"] = "auto"
    beside: str | None = None


class _Agent(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: str


class _Theme(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


class _BindKey(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    command: str
    words: str = ""


class _Key(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str


class _OfferWidget(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    source: str


class _Notify(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str


# Layouts


async def _get_layout(desk: ScreenDesk, _: Wish) -> Any:
    view = desk.app.main.view
    return {
        "layout": dump(view.spec),
        "tab": view.tab + 1,
        "focus": view.current,
        "size": [view.size.width, view.size.height],
        "format": describe(desk.app.kinds),
    }


async def _set_layout(desk: ScreenDesk, wish: _SetLayout) -> Any:
    layout = parse(wish.layout, desk.app.kinds)
    await _show(desk, layout, is_base=True, force=wish.force)
    return {"panels": [panel.id for panel in panels_of(layout)]}


async def _load_layout(desk: ScreenDesk, wish: _Named) -> Any:
    layout = await asyncio.to_thread(desk.app.keeping.layouts.load, wish.name, desk.app.kinds)
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


async def _save_layout(desk: ScreenDesk, wish: _Save) -> Any:
    spec = desk.app.main.view.spec
    path = await asyncio.to_thread(desk.app.keeping.layouts.save, wish.name, spec, wish.scope)
    return {"file": str(path)}


async def _delete_layout(desk: ScreenDesk, wish: _Named) -> Any:
    await asyncio.to_thread(desk.app.keeping.layouts.delete, wish.name)


async def _list_layouts(desk: ScreenDesk, _: Wish) -> Any:
    found = await asyncio.to_thread(desk.app.keeping.layouts.all)
    return {"layouts": [{"name": one.name, "scope": one.scope, "help": one.help} for one in found]}


async def _show(
    desk: ScreenDesk,
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


async def _open_tab(desk: ScreenDesk, wish: _OpenTab) -> Any:
    view = desk.app.main.view
    spec = view.spec
    root: Any = wish.root
    if root is None:
        root = {"type": "panel", "id": edit.free_id(spec, "chat"), "widget": "chat"}
    title = wish.title or str(len(spec.tabs) + 1)
    data = dump(spec)
    layout = parse(
        {**data, "tabs": [*data["tabs"], {"title": title, "root": root}]}, desk.app.kinds
    )
    await view.apply(layout, tab=len(spec.tabs) if desk.may_focus else None)
    if desk.may_focus:
        view.enter(None)
    return {"tab": len(layout.tabs), "panels": [p.id for p in panels_of(layout.tabs[-1])]}


async def _close_tab(desk: ScreenDesk, wish: _Tab) -> Any:
    view = desk.app.main.view
    at = _tab_at(view.spec, wish.tab, view.tab)
    layout = edit.close_tab(view.spec, at)
    shown = view.tab - 1 if at < view.tab else view.tab
    await _show(desk, layout, tab=max(0, shown), force=wish.force)
    return {"tabs": [tab.title for tab in layout.tabs]}


async def _rename_tab(desk: ScreenDesk, wish: _RenameTab) -> Any:
    view = desk.app.main.view
    layout = edit.rename_tab(view.spec, _tab_at(view.spec, wish.tab, view.tab), wish.title)
    await view.apply(layout)
    return {"tabs": [tab.title for tab in layout.tabs]}


async def _show_tab(desk: ScreenDesk, wish: _Tab) -> Any:
    view = desk.app.main.view
    if not desk.may_focus:
        raise RefusedCall("the person is typing; try again later")
    await view.show_tab(_tab_at(view.spec, wish.tab, view.tab))


def _tab_at(layout: Layout, tab: str | int | None, current: int) -> int:
    """The index of a tab by its title or its number, which begins with 1. Raises RefusedCall."""
    if tab is None:
        return current
    titles = [one.title for one in layout.tabs]
    if isinstance(tab, str) and tab in titles:
        return titles.index(tab)
    number = int(tab) if isinstance(tab, int) or (tab.isascii() and tab.isdigit()) else 0
    if not 1 <= number <= len(titles):
        raise RefusedCall(f"there is no tab {tab!r}; there are {', '.join(map(repr, titles))}")
    return number - 1


async def _focus(desk: ScreenDesk, wish: _Panel) -> Any:
    edit.find_panel(desk.app.main.view.spec, wish.panel)
    if not desk.may_focus:
        raise RefusedCall("the person is typing; try again later")
    await desk.app.main.view.show_panel(wish.panel)


async def _close_panel(desk: ScreenDesk, wish: _Panel) -> Any:
    view = desk.app.main.view
    await _show(desk, edit.close_panel(view.spec, wish.panel), force=wish.force)


async def _open_panel(desk: ScreenDesk, wish: _OpenPanel) -> Any:
    panel = await open_panel(
        desk, wish.widget, wish.options, where=wish.where, beside=wish.beside, is_new=True
    )
    if desk.is_person:
        desk.app.main.view.panels[panel].opened()
    return {"panel": panel}


async def _reset_sizes(desk: ScreenDesk, _: Wish) -> Any:
    await desk.app.main.view.reset_sizes()


# Showing things


async def _open_file(desk: ScreenDesk, wish: _OpenFile) -> Any:
    path = relative(desk.app.desk.cwd, wish.path)
    if not await asyncio.to_thread(Path(path).exists) and wish.how in ("view", "diff"):
        raise RefusedCall(f"there is no file {path!r}")
    kind, options = file_kind(desk.app.kinds, path, wish.line, wish.how)
    return {"panel": await open_panel(desk, kind, options)}


async def _open_diff(desk: ScreenDesk, wish: _OpenDiff) -> Any:
    options: dict[str, Any] = {}
    if wish.path is not None:
        options["path"] = relative(desk.app.desk.cwd, wish.path)
    if wish.agent is not None:
        options["agent"] = wish.agent
    return {"panel": await open_panel(desk, "diff", options)}


async def _open_agent(desk: ScreenDesk, wish: _Agent) -> Any:
    session = desk.app.desk.find_session(wish.agent)
    if session is None:
        raise RefusedCall(f"there is no agent {wish.agent!r}")
    if not desk.may_focus:
        raise RefusedCall("the person is typing; try again later")
    await desk.app.show_agent(session)


async def _list_widgets(desk: ScreenDesk, _: Wish) -> Any:
    kinds = [kind for kind in desk.app.kinds.values() if kind.name != "missing"]
    return {"widgets": [{"name": kind.name, "help": kind.help} for kind in kinds]}


async def _offer_widget(desk: ScreenDesk, wish: _OfferWidget) -> Any:
    from .custom.kinds import offer_widget

    agent = desk.app.desk.roster.find(desk.app.desk.find_session(desk.by))
    by = None if desk.is_person else agent.name if agent is not None else desk.by
    told = await asyncio.to_thread(offer_widget, desk.app.desk, wish.name, wish.source, by=by)
    return {"state": "waits for approval", "next": told}


async def _notify(desk: ScreenDesk, wish: _Notify) -> Any:
    agent = desk.app.desk.roster.find(desk.app.desk.find_session(desk.by))
    desk.app.tell(f"{agent.name}: {wish.text[:500]}" if agent is not None else wish.text[:500])


# Looks and keys: see those modules


async def _list_themes(desk: ScreenDesk, _: Wish) -> Any:
    from .themes.shelf import find_all

    found = await asyncio.to_thread(find_all, desk.app.looks.theme_folders)
    return {"themes": [{"name": one.name, "scope": one.scope} for one in found]}


async def _set_theme(desk: ScreenDesk, wish: _Theme) -> Any:
    await desk.app.run_command("theme", wish.name)


async def _get_keys(desk: ScreenDesk, _: Wish) -> Any:
    bound = [{"key": b.key, "does": b.shown, "where": b.when} for b in desk.app.looks.keymap]
    active = desk.app.main.active_bindings.items()
    own = [
        {"key": key, "does": a.binding.description or a.binding.action}
        for key, a in active
        if a.binding.description
    ]
    return {"bound": bound, "built_in": own}


async def _bind_key(desk: ScreenDesk, wish: _BindKey) -> Any:
    await desk.app.run_command("bind", f"{wish.key} {wish.command} {wish.words}".strip())


async def _unbind_key(desk: ScreenDesk, wish: _Key) -> Any:
    # An agent gives a key back; to let it do nothing is for the person.
    await desk.app.run_command("unbind" if desk.is_person else "rebind", wish.key)


DEEDS: dict[str, Deed] = {
    "bind_key": deed(_BindKey, _bind_key),
    "close_panel": deed(_Panel, _close_panel),
    "close_tab": deed(_Tab, _close_tab),
    "delete_layout": deed(_Named, _delete_layout),
    "focus": deed(_Panel, _focus),
    "get_keys": deed(Wish, _get_keys),
    "get_layout": deed(Wish, _get_layout),
    "list_layouts": deed(Wish, _list_layouts),
    "list_themes": deed(Wish, _list_themes),
    "list_widgets": deed(Wish, _list_widgets),
    "load_layout": deed(_Named, _load_layout),
    "notify": deed(_Notify, _notify),
    "offer_widget": deed(_OfferWidget, _offer_widget),
    "open_agent": deed(_Agent, _open_agent),
    "open_diff": deed(_OpenDiff, _open_diff),
    "open_file": deed(_OpenFile, _open_file),
    "open_panel": deed(_OpenPanel, _open_panel),
    "open_tab": deed(_OpenTab, _open_tab),
    "rename_tab": deed(_RenameTab, _rename_tab),
    "reset_sizes": deed(Wish, _reset_sizes),
    "save_layout": deed(_Save, _save_layout),
    "set_layout": deed(_SetLayout, _set_layout),
    "set_theme": deed(_Theme, _set_theme),
    "show_tab": deed(_Tab, _show_tab),
    "unbind_key": deed(_Key, _unbind_key),
}
"""By name, in order."""
