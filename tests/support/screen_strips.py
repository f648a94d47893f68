"""What an application shows, taken at any moment."""

from typing import Any

from textual._context import visible_screen_stack
from textual.app import App
from textual.strip import Strip

__all__ = ["render_screen"]


def render_screen(app: App[Any]) -> list[Strip]:
    """The lines of the screen, with the screens behind it.

    Textual draws the screens behind from a context variable that only its own frames set. Without
    it, a picture between a change and its frame draws nothing behind, and the frame takes that
    from the cache: the screen then stays blank behind the one in front.
    """
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()
