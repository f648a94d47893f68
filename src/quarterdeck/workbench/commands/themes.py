"""Choosing colours: by name, or from a list that shows each at once."""

import asyncio
from typing import TYPE_CHECKING

from ..preferences.themes.apply import ThemeError, apply_theme
from ..preferences.themes.files import FoundTheme, find_theme, find_themes

if TYPE_CHECKING:
    from ..app import Workbench

__all__ = ["save_theme_choice", "set_theme", "show_themes"]


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
