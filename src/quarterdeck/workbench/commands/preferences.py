"""Commands for keys and themes: bind keys, choose colours."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from ..preferences.keymap import (
    KEY_PLACES,
    MAIN,
    KeyBinding,
    KeyBindingError,
    check_key,
    normalize_key,
    save_key,
)
from ..preferences.themes.apply import ThemeError, apply_theme
from ..preferences.themes.files import FoundTheme, find_theme, find_themes

if TYPE_CHECKING:
    from ..app import Workbench

__all__ = [
    "bind_key",
    "copy_or_interrupt",
    "cycle_panels",
    "focus_place",
    "open_palette",
    "reset_key",
    "resize_panel",
    "save_theme_choice",
    "set_theme",
    "show_keys",
    "show_next_agent",
    "show_notices",
    "show_permissions",
    "show_previous_agent",
    "show_settings",
    "show_themes",
    "unbind_key",
]


async def bind_key(app: "Workbench", words: str) -> None:
    """Let a key do a command from now on, and keep that: ``KEY COMMAND [words] [@place]``.

    Raises:
        KeyBindingError: the key, the command or the place is none, or the file cannot be written.
    """
    from .registry import find_command

    key, _, typed = words.strip().partition(" ")
    typed, when = _place(typed.strip().removeprefix("/"))
    found = find_command(f"/{typed}") if typed else None
    if found is None:
        raise KeyBindingError(f"unknown command {typed!r}; example: /bind {key} mode plan")
    command, rest = found
    bound = KeyBinding(key=normalize_key(key), command=command.name, words=rest, when=when)
    check_key(bound.key, when, {MAIN, *KEY_PLACES})
    before = describe_key(app, bound.key)
    await _keep(app, bound, bound.key)
    replaced = f" (was: {before})" if before and before != bound.shown else ""
    app.show_message(f"{key} now runs {bound.shown}{replaced}")


async def unbind_key(app: "Workbench", words: str) -> None:
    """Let a key do nothing, also after a restart. Raises KeyBindingError."""
    key = normalize_key(words)
    check_key(key, MAIN, {MAIN})
    await _keep(app, KeyBinding(key=key, command=""), key)
    app.show_message(f"unbound {words.strip()}; /rebind {words.strip()} restores it")


async def reset_key(app: "Workbench", words: str) -> None:
    """Take a key out of the person's file. Raises KeyBindingError."""
    key = normalize_key(words)
    await _keep(app, None, key)
    app.show_message(f"{words.strip()} now runs {describe_key(app, key) or 'nothing'}")


def describe_key(app: "Workbench", key: str) -> str | None:
    """What a key does on the main screen at the moment, in words."""
    bound = app.preferences.keymap.find(key)
    if bound is not None:
        return bound.shown
    found = app.main.active_bindings.get(key)
    return (found.binding.description or found.binding.action) if found is not None else None


def show_keys(app: "Workbench", words: str) -> None:
    """Show every key and how to bind another."""
    from ..screens.help import HelpScreen, collect_key_help

    app.push_screen(
        HelpScreen(collect_key_help(app.preferences, app.main), title="keys", query=words)
    )


def show_next_agent(app: "Workbench", _: str) -> None:
    """The next agent."""
    app.action_beside(1)


def show_previous_agent(app: "Workbench", _: str) -> None:
    """The previous agent."""
    app.action_beside(-1)


def copy_or_interrupt(app: "Workbench", _: str) -> None:
    """Copy what is selected, else interrupt the agent in view."""
    app.action_stop()


def focus_place(app: "Workbench", place: str) -> None:
    """Move the focus. Raises KeyBindingError: there is no such place."""
    from textual.css.query import QueryError

    try:
        app.action_go(place.strip())
    except QueryError as error:
        raise KeyBindingError(f"no place {place!r}; choose agents, transcript or inbox") from error


def cycle_panels(app: "Workbench", words: str) -> None:
    """The next panel, or the previous."""
    app.action_cycle(-1 if words.strip() == "previous" else 1)


def resize_panel(app: "Workbench", words: str) -> None:
    """Move the line beside the panel with the focus.

    Raises KeyBindingError: there is no such way.
    """
    way = words.strip()
    if way not in ("left", "right", "up", "down"):
        raise KeyBindingError(f"no direction {way!r}; choose left, right, up or down")
    app.action_resize(way)


def show_notices(app: "Workbench", _: str) -> None:
    """Show the last notices again, the latest first."""
    from ..screens.dialogs import ReadingScreen

    rows = app.context.notices.list_rows()
    section = ("latest first", rows) if rows else ("no notices yet", ())
    app.push_screen(ReadingScreen("notices", [section]))


def open_palette(app: "Workbench", _: str) -> None:
    """Every command by name."""
    app.action_command_palette()


def _place(typed: str) -> tuple[str, str]:
    """The command, and where its key counts."""
    rest, _, last = typed.rpartition(" ")
    return (rest.strip(), last[1:]) if last.startswith("@") and rest else (typed, MAIN)


async def _keep(app: "Workbench", bound: KeyBinding | None, key: str) -> None:
    path = app.preferences.keys_file
    if path is not None:
        await asyncio.to_thread(save_key, path, bound, key)
    if bound is None:
        app.preferences.keymap.drop(key)
    else:
        app.preferences.keymap.put(bound)


async def set_theme(app: "Workbench", words: str) -> None:
    """Put a theme on and keep it: ``NAME``, or ``NAME here`` for this directory alone.

    Raises:
        ThemeError: there is none of that name, or it does not fit; nothing has changed.
    """
    name, _, where = words.strip().partition(" ")
    if where.strip() not in ("", "here"):
        raise ThemeError(f"no theme {words!r}; example: /theme {name} here")
    folders = app.preferences.theme_folders
    found_theme = await asyncio.to_thread(find_theme, name, folders)
    if found_theme is None:
        names = [one.name for one in await asyncio.to_thread(find_themes, folders)]
        raise ThemeError(f"no theme {name!r}; choose one of {', '.join(names)}")
    apply_theme(app, found_theme)
    await save_theme_choice(app, found_theme, here=bool(where))


async def show_themes(app: "Workbench", _: str) -> None:
    """Show every theme; the one under the cursor is put on at once."""
    from ..screens.pickers import ThemesScreen

    found_theme = await asyncio.to_thread(find_themes, app.preferences.theme_folders)
    chosen = await app.push_screen_wait(ThemesScreen(found_theme))
    if chosen is not None:
        await save_theme_choice(app, chosen.found_theme, here=chosen.here)


def show_settings(app: "Workbench", words: str) -> None:
    """Show every setting that counts here; words search for some."""
    places = app.context.discovery.places or app.preferences.places
    if places is None:
        app.show_message("there are no settings here", True)
        return
    from ..screens.settings import SettingsFiles, SettingsScreen

    environment = app.context.discovery.environment
    files = SettingsFiles(places=places, directory=Path(app.context.cwd), environment=environment)
    app.push_screen(SettingsScreen(files, words))


def show_permissions(app: "Workbench", _: str) -> None:
    """Show the rules, people and grants that count where the shown agent works."""
    places = app.context.discovery.places or app.preferences.places
    if places is None:
        app.show_message("there are no settings here", True)
        return
    from ..screens.permissions import PermissionsScreen

    agent = app.context.roster.find(app.context.focused)
    directory = agent.cwd if agent is not None else app.context.cwd
    environment = app.context.discovery.environment
    app.push_screen(PermissionsScreen(app.context.fleet, places, environment, directory))


async def save_theme_choice(app: "Workbench", found_theme: FoundTheme, *, here: bool) -> None:
    """Keep a theme for later starts."""
    app.preferences.theme = found_theme
    app.preferences.choose_theme(found_theme.name, here=here)
    try:
        await asyncio.to_thread(app.preferences.save)
    except OSError as error:
        app.show_message(f"cannot save this choice: {error}", True)
    else:
        app.show_message(f"theme {found_theme.name}" + (" for this directory" if here else ""))
