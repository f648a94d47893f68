"""Opening the feed of what all agents do."""

from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

from .stores.activity import MODES

if TYPE_CHECKING:
    from .app import Workbench

__all__ = ["BadMode", "show_feed"]


class BadMode(QuarterdeckError):
    """A mode that there is not."""


async def show_feed(app: "Workbench", words: str) -> None:
    """Show the feed, in a mode if one is named; from the feed back to the input.

    Raises:
        BadMode: there is no such mode.
    """
    from .panels.feed import FeedPanel

    mode = words.strip()
    if mode and mode not in MODES:
        raise BadMode(f"there is no mode {mode!r}; one of {', '.join(MODES)}")
    focused = app.main.focused
    around = focused.ancestors_with_self if focused is not None else ()
    if not mode and any(isinstance(node, FeedPanel) for node in around):
        app.main.chat.focus()
        return
    shown = [panel for panel in app.main.query(FeedPanel) if panel.is_on_screen]
    options = {"mode": mode} if mode else {"mode": shown[0].activity.mode} if shown else {}
    wish = {"widget": "feed", "options": options, "where": "auto"}
    await app.screens_desk.call("open_panel", wish)
