"""What a person does about custom widgets."""

import asyncio
from typing import TYPE_CHECKING

from ..custom_widgets.library import CustomWidgetError, WidgetLibrary
from ..sanitize import sanitize_line

if TYPE_CHECKING:
    from ..app import Workbench

__all__ = ["decide_on_widget", "list_widgets"]


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
    from ..screens.widget_approval import ApproveScreen

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
