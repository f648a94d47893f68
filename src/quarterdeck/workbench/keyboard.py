"""The application below the workbench: a person's colours and keys, and code that is not ours."""

import sys
from typing import TYPE_CHECKING, Any, cast

from textual import events
from textual.app import App
from textual.filter import Monochrome

from .preferences.keymap import find_key_places
from .preferences.store import Preferences
from .preferences.themes.files import DEFAULT, find_theme
from .sanitize import sanitize_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.dom import DOMNode
    from textual.widget import Widget

    from .preferences.keymap import KeyBinding
    from .widgets.terminal import TerminalView

__all__ = ["KeyboardApp"]

_DEEDS = (events.Key, events.Paste, events.MouseDown, events.MouseScrollUp, events.MouseScrollDown)


class KeyboardApp(App[None]):
    """Wears what a person chose, does what their keys say, and outlives custom widgets.

    Args:
        looks: what was chosen.
    """

    def __init__(self, looks: Preferences) -> None:
        super().__init__()
        self.looks = looks
        self.on_use: Callable[[], None] | None = None
        """Called when the person does something: a key, a click, a paste."""
        if not looks.has_colours and not any(isinstance(f, Monochrome) for f in self._filters):
            self._filters.append(Monochrome())
        self._start_theme()

    def on_mount(self) -> None:
        """Put on what needs the style sheet, and tell what was wrong."""
        self.call_after_refresh(self._finish_theme)

    async def on_event(self, event: events.Event) -> None:
        """Look for a person's own keys first."""
        if self.on_use is not None and isinstance(event, _DEEDS):
            self.on_use()
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            if self._type_through(event):
                return
            if isinstance(event, events.Key) and self._take(event):
                return
        await super().on_event(event)

    def forgives(self, error: Exception) -> bool:
        """Whether an error came from a custom widget, which is replaced by a box that tells it."""
        guard = sys.modules.get(f"{__package__}.custom_widgets.guard")
        return guard is not None and guard.blame_panel(self, error)

    def action_command(self, name: str, words: str = "") -> None:
        """Do a command by its name."""
        raise NotImplementedError

    def _handle_exception(self, error: Exception) -> None:
        if not self.forgives(error):
            super()._handle_exception(error)

    @property
    def is_typed_through(self) -> bool:
        """Whether somebody types into a terminal: every key is for what runs in it."""
        focused = self.focused if len(self.screen_stack) == 1 else None
        return bool(getattr(focused, "takes_every_key", False)) and hasattr(focused, "take_key")

    def _type_through(self, event: events.Key | events.Paste) -> bool:
        """Give a key to the terminal that has the focus; at once, so that none overtakes another.

        Of a person's own keys only those count that are bound for terminals.
        """
        if not self.is_typed_through:
            return False
        focused = cast("TerminalView", self.focused)
        if isinstance(event, events.Paste):
            focused.take_paste(event.text)
        elif (bound := self.looks.keymap.find(event.key, ("terminal",))) is not None:
            self._do_bound(bound)
        else:
            focused.take_key(event)
        self.app_focus = True
        return True

    def _do_bound(self, bound: "KeyBinding") -> None:
        if bound.command:
            # After what was typed before it: those keys may still be on their way to the focus.
            target = self.focused or self.screen
            target.call_later(self.action_command, bound.command, bound.words)

    def _take(self, event: events.Key) -> bool:
        """Do what the person has bound a key to; False: they have not."""
        focused, key = self.focused, event.key
        if len(self.screen_stack) != 1:
            return False
        bound = self.looks.keymap.find(key, find_key_places(focused))
        if bound is None:
            return False
        if focused is not None and focused.check_consume_key(key, event.character):
            return False  # it is typed
        self._do_bound(bound)
        return True

    def _start_theme(self) -> None:
        from .preferences.themes.apply import ThemeError, set_initial_theme

        default = find_theme(DEFAULT, ())
        assert default is not None
        self._default = default
        try:
            set_initial_theme(self, self.looks.theme or default)
        except ThemeError as error:
            self.looks.problems.append(str(error))
            self.looks.theme = default
            set_initial_theme(self, default)

    def _finish_theme(self) -> None:
        from .preferences.themes.apply import ThemeError, apply_theme

        wanted = self.looks.theme
        if wanted is not None and wanted.scope != "built-in":
            try:
                apply_theme(self, wanted)
            except ThemeError as error:
                self.looks.problems.append(str(error))
                apply_theme(self, self._default)
        problems, self.looks.problems = self.looks.problems, []
        for problem in problems:
            self.notify(sanitize_text(problem), severity="error", timeout=12, markup=False)

    def _register(self, parent: "DOMNode", *widgets: "Widget", **how: Any) -> "list[Widget]":
        registered = cast("Any", super())._register(parent, *widgets, **how)
        guard = sys.modules.get(f"{__package__}.custom_widgets.guard")
        if guard is not None:
            guard.guard_children(parent, widgets)
        return registered
