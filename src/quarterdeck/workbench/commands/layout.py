"""Commands for layouts, tabs, panels, the feed and custom widgets."""

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import QuarterdeckError

from ..custom_widgets.library import CustomWidgetError, WidgetLibrary
from ..layout.panel_set import UnsavedPanelsError
from ..layout.spec import panels_of
from ..panels.feed_model import FEED_MODES
from ..remote_control import RefusedCallError
from ..sanitize import sanitize_line

if TYPE_CHECKING:
    from ..app import Workbench

__all__ = [
    "FeedModeError",
    "change_directory",
    "choose_layout",
    "close_panel",
    "control_layout",
    "control_tab",
    "decide_on_widget",
    "edit_file",
    "focus_panel",
    "list_widgets",
    "open_diff",
    "open_file",
    "open_plan",
    "open_widget",
    "show_feed",
    "split_panel",
    "tail_file",
    "toggle_zoom",
]


async def control_layout(app: "Workbench", words: str) -> None:
    """Load, show, save, list, delete or reset a layout. Raises QuarterdeckError."""
    action, _, name = words.strip().partition(" ")
    name = name.strip()
    match action:
        case "":
            await choose_layout(app, "")
        case "list":
            await _list(app)
        case "show":
            await _show(app)
        case "save":
            name, _, scope = (name or await _ask(app, "name of the layout")).partition(" ")
            if name:
                arguments = {"name": name, "scope": scope.strip() or "user"}
                saved = await app.screen_controller.call("save_layout", arguments)
                app.show_message(f"saved the layout in {saved['file']}")
        case "delete":
            await app.screen_controller.call("delete_layout", {"name": name})
            app.show_message(f"deleted layout {name}")
        case "reset":
            await app.screen_controller.call("reset_sizes", {})
        case "load":
            await _unless_lost(app, "load_layout", {"name": name})
        case _:
            await _unless_lost(app, "load_layout", {"name": action})


async def choose_layout(app: "Workbench", _: str) -> None:
    """Let the person choose one of the layouts. Raises QuarterdeckError."""
    from ..screens.pickers import LayoutsScreen

    found = await app.screen_controller.call("list_layouts", {})
    name = await app.push_screen_wait(LayoutsScreen(found["layouts"]))
    if name is not None:
        await _unless_lost(app, "load_layout", {"name": name})


async def split_panel(app: "Workbench", words: str) -> None:
    """Open a panel right of the one with the focus, or below it. Raises QuarterdeckError."""
    where, _, rest = words.strip().partition(" ")
    if where not in ("right", "down"):
        raise RefusedCallError(
            f"no side {where!r}; usage: /split right WIDGET or /split down WIDGET"
        )
    widget, options = _widget(app, rest or "chat")
    current = app.main.view.current
    arguments = {"widget": widget, "options": options, "where": where, "beside": current}
    await app.screen_controller.call("open_panel", arguments)


async def open_widget(app: "Workbench", words: str) -> None:
    """Open a panel where there is room for it. Raises QuarterdeckError."""
    widget, options = _widget(app, words)
    arguments = {"widget": widget, "options": options, "where": "auto"}
    await app.screen_controller.call("open_panel", arguments)


async def control_tab(app: "Workbench", words: str) -> None:
    """Do something with tabs. Raises QuarterdeckError."""
    action, _, rest = words.strip().partition(" ")
    rest = rest.strip()
    view = app.main.view
    match action:
        case "new":
            await app.screen_controller.call("open_tab", {"title": rest} if rest else {})
        case "close":
            await _unless_lost(app, "close_tab", {"tab": rest} if rest else {})
        case "rename":
            title = rest or await _ask(app, "title of the tab")
            if title:
                await app.screen_controller.call("rename_tab", {"title": title})
        case "next" | "previous":
            await view.show_tab(view.tab + (1 if action == "next" else -1))
        case _:
            await app.screen_controller.call("show_tab", {"tab": words.strip()})


async def focus_panel(app: "Workbench", words: str) -> None:
    """Go to a panel. Raises QuarterdeckError."""
    await app.screen_controller.call("focus", {"panel": words.strip()})


async def close_panel(app: "Workbench", words: str) -> None:
    """Close the panel with the focus, or the one that is named. Raises QuarterdeckError."""
    panel = words.strip() or app.main.view.current
    shown = app.main.view.panels.get(panel or "")
    if panel is not None and (shown is None or await shown.leave()):
        await _unless_lost(app, "close_panel", {"panel": panel})


def toggle_zoom(app: "Workbench", _: str) -> None:
    """Show the panel with the focus alone, or everything again."""
    app.main.view.zoom()


async def open_file(app: "Workbench", words: str) -> None:
    """Show a file, at a line if ``:LINE`` follows its path. Raises QuarterdeckError."""
    path, line = _with_line(words.strip())
    await app.screen_controller.call("open_file", {"path": path, "line": line})


async def open_plan(app: "Workbench", words: str) -> None:
    """Show a run of a plan, the latest if none is named. Raises QuarterdeckError."""
    options = {"run": words.strip()} if words.strip() else {}
    await app.screen_controller.call(
        "open_panel", {"widget": "plan", "options": options, "where": "tab"}
    )


async def edit_file(app: "Workbench", words: str) -> None:
    """Edit a file. Raises QuarterdeckError."""
    path, line = _with_line(words.strip())
    await app.screen_controller.call("open_file", {"path": path, "line": line, "how": "edit"})


async def tail_file(app: "Workbench", words: str) -> None:
    """Follow a file. Raises QuarterdeckError."""
    await app.screen_controller.call("open_file", {"path": words.strip(), "how": "tail"})


async def open_diff(app: "Workbench", words: str) -> None:
    """Show what an agent changed. Raises QuarterdeckError."""
    agent = words.strip() or (app.context.agent.name if app.context.agent is not None else None)
    await app.screen_controller.call("open_diff", {"agent": agent})


async def change_directory(app: "Workbench", words: str) -> None:
    """Go to another directory. Raises QuarterdeckError."""
    from ..remote_control.calls import resolve_path

    path = resolve_path(app.context.cwd, words.strip())
    is_here = app.context.remote is None  # else its host says whether it exists
    if is_here and not await asyncio.to_thread(Path(path).is_dir):
        raise RefusedCallError(f"no directory {path!r}")
    if path == app.context.cwd:
        return
    try:
        await app.move(path)
    except UnsavedPanelsError as error:
        if not await _confirmed(app, error):
            return
        await app.move(path, force=True)
    app.show_message(f"now in {path}")
    await app.first_run.discover()


async def _unless_lost(app: "Workbench", name: str, arguments: Mapping[str, Any]) -> None:
    """Do a call; where something would be lost, the person decides."""
    try:
        await app.screen_controller.call(name, arguments)
    except UnsavedPanelsError as error:
        if await _confirmed(app, error):
            await app.screen_controller.call(name, {**arguments, "force": True})


async def _confirmed(app: "Workbench", error: UnsavedPanelsError) -> bool:
    from ..screens.dialogs import ConfirmScreen

    words = "\n".join(f"{panel}: {what}" for panel, what in error.lost.items())
    asked = ConfirmScreen("discard unsaved changes?", words, "discard")
    return await app.push_screen_wait(asked)


async def _ask(app: "Workbench", what: str) -> str:
    from ..screens.dialogs import AskLineScreen

    return await app.push_screen_wait(AskLineScreen(what)) or ""


async def _list(app: "Workbench") -> None:
    from ..screens.dialogs import ReadingScreen

    found = await app.screen_controller.call("list_layouts", {})
    rows = [(one["name"], f"{one['scope']}  {one['help']}") for one in found["layouts"]]
    open_now = [(p.id, p.widget) for p in panels_of(app.main.view.spec)]
    app.push_screen(ReadingScreen("layouts", [("Layouts", rows), ("Open panels", open_now)]))


async def _show(app: "Workbench") -> None:
    from ..screens.dialogs import ReadingScreen

    got = await app.screen_controller.call("get_layout", {})
    text = msgspec.json.format(msgspec.json.encode(got["layout"]), indent=2).decode()
    parts = [("This layout", [("", text)]), ("Format", [("", got["format"])])]
    app.push_screen(ReadingScreen("layout", parts))


def _with_line(words: str) -> tuple[str, int | None]:
    path, _, line = words.rpartition(":")
    if path and line.isascii() and line.isdigit() and int(line) > 0:
        return path, int(line)
    return words, None


def _widget(app: "Workbench", words: str) -> tuple[str, dict[str, Any]]:
    """A widget's name and its options: ``name=value`` or JSON. Raises RefusedCallError."""
    widget, _, rest = words.strip().partition(" ")
    rest = rest.strip()
    if widget not in app.kinds:
        names = ", ".join(sorted(set(app.kinds) - {"missing"}))
        raise RefusedCallError(f"no widget {widget!r}; choose from {names}")
    if rest.startswith("{"):
        try:
            return widget, decode_json(rest, dict[str, Any])
        except msgspec.DecodeError as error:
            raise RefusedCallError(f"options are not valid JSON: {error}") from error
    options: dict[str, Any] = {}
    try:
        parts = shlex.split(rest)
    except ValueError as error:
        raise RefusedCallError(f"cannot parse options: {error}") from error
    for part in parts:
        name, sign, value = part.partition("=")
        if not sign:
            raise RefusedCallError(f"not an option: {part!r}; write name=value")
        options[name] = _value(value)
    return widget, options


def _value(text: str) -> Any:
    if text in ("true", "false", "null") or text.lstrip("-").isdigit():
        return msgspec.json.decode(text)
    return text


class FeedModeError(QuarterdeckError):
    """A mode that there is not."""


async def show_feed(app: "Workbench", words: str) -> None:
    """Show the feed, in a mode if one is named; from the feed back to the input.

    Raises:
        FeedModeError: there is no such mode.
    """
    from ..panels.feed import FeedPanel

    mode = words.strip()
    if mode and mode not in FEED_MODES:
        raise FeedModeError(f"no mode {mode!r}; choose one of {', '.join(FEED_MODES)}")
    focused = app.main.focused
    around = focused.ancestors_with_self if focused is not None else ()
    if not mode and any(isinstance(node, FeedPanel) for node in around):
        app.main.chat.focus()
        return
    shown = [panel for panel in app.main.query(FeedPanel) if panel.is_on_screen]
    options = {"mode": mode} if mode else {"mode": shown[0].activity.mode} if shown else {}
    arguments = {"widget": "feed", "options": options, "where": "auto"}
    await app.screen_controller.call("open_panel", arguments)


async def list_widgets(app: "Workbench", _: str) -> None:
    """List every custom widget and what became of it."""
    from ..screens.help import HelpScreen

    library = _library(app)
    await asyncio.to_thread(library.scan)
    rows: list[tuple[str, str]] = []
    for name in library.names:
        outcome, why = library.outcome(name)
        rows.append((f"custom/{name}", f"{outcome}{': ' if why else ''}{sanitize_line(why)}"))
        if name in library.offered and name in library.sources:
            rows.append((f"custom/{name}", "another version needs approval"))
    how = [
        ("/widget approve NAME", "show the source and allow it to run"),
        ("/widget forget NAME", "do not allow it to run"),
        ("folder", str(library.folder)),
    ]
    parts = [("Custom widgets", rows or [("none", "")]), ("Commands", how)]
    app.push_screen(HelpScreen(parts, title="widgets"))


async def decide_on_widget(app: "Workbench", words: str) -> None:
    """``approve NAME`` or ``forget NAME``. Raises CustomWidgetError."""
    from ..screens.trust import ApproveScreen

    what, _, name = words.strip().partition(" ")
    name = name.strip().removeprefix("custom/")
    library = _library(app)
    await asyncio.to_thread(library.scan)
    if what == "forget" and name:
        await asyncio.to_thread(library.forget, name)
        app.show_message(f"widget {name} is no longer allowed to run")
    elif what == "approve" and name:
        source = library.waiting(name)
        if not await app.push_screen_wait(ApproveScreen(source)):
            return
        await asyncio.to_thread(library.approve, source)
        app.show_message(f"approved widget {name}; use it in a layout as custom/{name}")
    else:
        raise CustomWidgetError("usage: /widget approve NAME or /widget forget NAME")
    library.notify_watchers()


def _library(app: "Workbench") -> WidgetLibrary:
    if app.preferences.library is None:
        raise CustomWidgetError("custom widgets are not available here")
    return app.preferences.library
