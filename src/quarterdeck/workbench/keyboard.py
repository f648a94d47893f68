"""The keys of the workbench, and keys that no widget sees: for the terminal that has the focus, or
bound by the person.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual import events
from textual.binding import Binding, BindingType

from .commands.registry import COMMANDS
from .preferences.keymap import find_key_places

if TYPE_CHECKING:
    from textual.app import App

    from .preferences.keymap import KeyBinding
    from .preferences.store import Preferences
    from .stores.discovery import DiscoveryStore
    from .widgets.terminal import TerminalView

__all__ = [
    "MAIN_SCREEN_ACTIONS",
    "WORKBENCH_BINDINGS",
    "KeyDispatcher",
    "find_command_of_action",
]

WORKBENCH_BINDINGS: list[BindingType] = [
    Binding("f1", "help", "show this help; also ? in the empty input"),
    Binding("ctrl+g", "answer", "answer the next pending request"),
    Binding("ctrl+n", "beside(1)", "next agent"),
    Binding("ctrl+b", "beside(-1)", "previous agent"),
    # With priority: what is typed right after is for that agent.
    *(
        Binding(
            f"alt+{number}",
            f"agent({number})",
            "go to agent 1 … 9 of the list",
            priority=True,
            key_display="alt+1 … alt+9",
        )
        for number in range(1, 10)
    ),
    Binding("ctrl+t", "spawn", "start an agent"),
    Binding("ctrl+c", "stop", "copy the selection, or interrupt the agent"),
    Binding("ctrl+o", "unfold", "expand or collapse all tool calls"),
    # With priority, as all that move the focus: a key that comes right after is for the new place.
    Binding("f2", "go('agents')", "focus the agents; again: the input", priority=True),
    Binding("f3", "go('transcript')", "focus the transcript; again: the input", priority=True),
    Binding("f4", "cycle(1)", "focus the next panel", priority=True),
    Binding("shift+f4,f16", "cycle(-1)", "focus the previous panel", priority=True),
    Binding("f5", "command('layouts')", "choose a layout"),
    # With priority: an input would select by these.
    Binding("f6", "tab(-1)", "previous tab", priority=True),
    Binding("f7", "tab(1)", "next tab", priority=True),
    Binding("ctrl+w", "command('close-panel')", "close the focused panel"),
    Binding("alt+left", "resize('left')", "resize the focused panel"),
    Binding("alt+right", "resize('right')", "resize the focused panel"),
    Binding("alt+shift+up", "resize('up')", "resize the focused panel"),
    Binding("alt+shift+down", "resize('down')", "resize the focused panel"),
    Binding("f8", "command('feed')", "show the feed of all agents"),
    Binding("f9", "command('themes')", "choose a theme"),
    Binding("f10", "command('keys')", "list all keys and how to rebind them"),
    Binding("alt+v", "command('review')", "review what this agent changed"),
    Binding("alt+n", "command('notices')", "show the last notices again"),
    Binding("f11", "command('settings')", "show and change settings"),
    Binding("ctrl+r", "command('retry')", "retry an agent that failed"),
    Binding("f12", "command('demo')", "run the demo; no API key needed"),
    # With priority: it quits from a dialog too.
    Binding("ctrl+q", "quit", "quit; agents keep running", priority=True),
]
MAIN_SCREEN_ACTIONS = frozenset(
    {"help", "answer", "beside", "agent", "spawn", "stop", "unfold", "go", "cycle", "tab", "resize"}
)
"""Actions that count on the main screen alone."""


def find_command_of_action(action: str) -> str | None:
    """The command that does the same as an action of a binding; None: there is none."""
    if action.startswith("command("):
        return action.removeprefix("command(").rstrip(")").replace("'", "").replace(",", " ")
    if action.startswith("go("):
        return "go " + action.removeprefix("go(").rstrip(")").strip("'")
    if action.startswith(("resize(", "agent(")):
        name, _, words = action.rstrip(")").partition("(")
        return f"{name} " + words.strip("'")
    named = {
        "beside(1)": "next",
        "beside(-1)": "previous",
        "cycle(1)": "panel next",
        "cycle(-1)": "panel previous",
        "tab(1)": "tab next",
        "tab(-1)": "tab previous",
        "command_palette": "palette",
    }
    known = {command.action: command.name for command in COMMANDS if command.action}
    return named.get(action) or known.get(action) or ("stop" if action == "stop" else None)


_USES = (events.Key, events.Paste, events.MouseDown, events.MouseScrollUp, events.MouseScrollDown)
"""Events that mean that the person is here."""


class KeyDispatcher:
    """Takes the keys that belong to no binding of Textual.

    Args:
        app: has the focus.
        preferences: the person's own key bindings.
        run_command: runs a command by its name, with the words after it.
    """

    def __init__(
        self, app: "App[None]", preferences: "Preferences", run_command: Callable[[str, str], None]
    ) -> None:
        self._app = app
        self._preferences = preferences
        self._run_command = run_command
        self.on_use: Callable[[], None] | None = None
        """Called when the person presses a key, clicks or pastes."""
        self.on_key: Callable[[str], bool] | None = None
        """Gets each key first; True: it was for it."""

    def take(self, event: events.Event) -> bool:
        """Handle an event before the focused widget gets it; False: Textual handles it."""
        if self.on_use is not None and isinstance(event, _USES):
            self.on_use()
        if isinstance(event, events.Click):
            self.click(event)
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            return False
        if self.is_typed_through:
            self._type_through(event)
            return True
        if self.on_key is not None and isinstance(event, events.Key) and self.on_key(event.key):
            return True
        return isinstance(event, events.Key) and self._run_bound_key(event)

    async def load_choice(self, discovery: "DiscoveryStore") -> None:
        """Find out which keys the settings want; after the first frame, as it takes time."""
        from .preferences.store import load_workbench_settings
        from .widgets.chat_input import ChatInput

        if discovery.places is not None:
            settings = await asyncio.to_thread(
                load_workbench_settings, discovery.places, discovery.environment
            )
            self._preferences.vim = settings.keys == "vim"
            for chat in self._app.query(ChatInput):
                chat.on_focus()

    def click(self, event: events.Click) -> None:
        """Press the key, or run the command, that was clicked where it is written."""
        from .mouse import press_clicked_key

        command = press_clicked_key(self._app, event)
        if command is not None:
            self._run_command(command, "")

    @property
    def is_typed_through(self) -> bool:
        """Whether keys go to a terminal: every key is for what runs in it."""
        focused = self._app.focused if len(self._app.screen_stack) == 1 else None
        return bool(getattr(focused, "takes_every_key", False)) and hasattr(focused, "take_key")

    def _type_through(self, event: events.Key | events.Paste) -> None:
        """Give a key to the terminal that has the focus; at once, so that none overtakes another.

        Of the person's own keys only those count that are bound for terminals.
        """
        focused = cast("TerminalView", self._app.focused)
        if isinstance(event, events.Paste):
            focused.take_paste(event.text)
        elif (bound := self._preferences.keymap.find(event.key, ("terminal",))) is not None:
            self._run(bound)
        else:
            focused.take_key(event)
        self._app.app_focus = True

    def _run_bound_key(self, event: events.Key) -> bool:
        """Run what the person has bound a key to; False: nothing."""
        focused, key = self._app.focused, event.key
        places = find_key_places(focused)
        if len(self._app.screen_stack) != 1:
            places &= {"permission"}  # the one place that a dialog can be
        bound = self._preferences.keymap.find(key, places)
        if bound is None:
            return False
        if focused is not None and focused.check_consume_key(key, event.character):
            return False  # it is typed
        self._run(bound)
        return True

    def _run(self, bound: "KeyBinding") -> None:
        if bound.command:
            # After what was typed before it: those keys may still be on their way to the focus.
            target = self._app.focused or self._app.screen
            target.call_later(self._run_command, bound.command, bound.words)
