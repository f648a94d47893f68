"""The home screen: where a chat has no agent, what is here, what to continue, what to begin with.

The input keeps the focus, and every letter goes there. Up or down in the empty input moves the
focus to the list; there a key that a line shows does what the line says, and any other letter is
typed into the input. With alt, the same keys work from the empty input.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message

from quarterdeck.wire.errors import QuarterdeckError

from ..rendering import glyphs
from ..rendering.home_lines import HomePage, head_line, home_lines
from ..rendering.lines import Line
from ..stores.discovery import find_versions
from ..stores.home import (
    FIRST_STEPS,
    HomeStore,
    RecentSession,
    choose_tips,
    current_step,
    find_done_steps,
    list_recent_sessions,
)
from .picker import Picker

if TYPE_CHECKING:
    from ..context import WorkbenchContext
    from ..stores.home import FirstStep

__all__ = ["HomeView", "find_command_key"]

_TICK = 20.0
"""Seconds between two looks at the ages of sessions."""
_TIPS = 4
"""Tips that are chosen for a start; a small screen shows the first of them."""
_SHOWN_KEYS = (
    ("spawn", "start an agent, with all choices"),
    ("answer", "answer who needs you"),
    ("next", "show the next agent"),
    ("review", "review what an agent changed"),
    ("feed", "see what all agents do"),
    ("layouts", "arrange panels"),
    ("settings", "change settings"),
    ("help", "list every key and command"),
)
"""Commands whose keys a large screen lists."""
_TASKS = {
    "f": "Find a test that fails and fix what it shows. If none fails, say so.",
    "r": "Review my uncommitted changes: bugs first, then what is unclear. Change nothing.",
    "e": "Explain this project to me: what it does, how it is built, where to begin reading. "
    "Change nothing.",
    "b": "Look for bugs in this project, worst first, and show me where. Change nothing.",
    "t": "Find what no test covers, and write tests for the most important of it.",
}


class HomeView(Picker):
    """The home screen of a chat.

    Args:
        context: the agents, and what was found on this machine.
        type_on: takes what is typed here, and the focus with it.
    """

    @dataclass
    class Continued(Message):
        """A recent session is to be continued."""

        recent: RecentSession

    @dataclass
    class TaskChosen(Message):
        """A text is to be put into the input."""

        text: str

    @dataclass
    class Wanted(Message):
        """A command is to be run."""

        command: str

    @dataclass
    class ModeChosen(Message):
        """A mode is to be written into the settings."""

        mode: str

    def __init__(self, context: "WorkbenchContext", type_on: Callable[[str], None]) -> None:
        super().__init__(classes="home")
        self._app_context = context
        self._type_on = type_on
        self.store = HomeStore()
        """What was found so far."""
        self._tips: list[str] = []
        self._keys_shown: list[tuple[str, str]] = []
        self._cwd = context.cwd
        self._recent: list[RecentSession] = []
        self._step: FirstStep | None = None
        self._saving = Lock()

    def on_mount(self) -> None:
        """Look for what there is, beside the loop."""
        choices = self._app_context.preferences.choices
        self._tips = choose_tips(choices.starts, self._find_key, _TIPS)
        found = ((self._find_key(command), does) for command, does in _SHOWN_KEYS)
        self._keys_shown = [(key, does) for key, does in found if key]
        choices.starts += 1
        self._keep()
        self.set_interval(_TICK, self.update)
        self.look_again()

    def look_again(self) -> None:
        """Look at the project and for sessions, now."""
        self._cwd = self._app_context.cwd
        self.run_worker(self._look_at_all, group="look", exclusive=True)

    async def _look_at_all(self) -> None:
        await self.store.look(self._app_context)
        self.check()
        if await find_versions(self._app_context.discovery):
            self._app_context.changed()

    def check(self) -> None:
        """Something that is shown may be another now."""
        if self._app_context.cwd != self._cwd:
            self.store = HomeStore()
            self.look_again()
        self.update()

    def update(self) -> None:
        """See ``Picker``."""
        context, home = self._app_context, self.store
        roots = [context.cwd, *([home.project.root] if home.project is not None else [])]
        self._recent = list_recent_sessions(context.roster.everyone, home.past or (), roots)
        self._check_steps()
        super().update()

    def head(self, width: int) -> list[Line]:
        """See ``Picker``."""
        return [head_line(self._page(), width), ((glyphs.RULE * width, "faint"),)]

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return home_lines(self._page(), width)

    def _page(self) -> HomePage:
        context = self._app_context
        user = context.discovery.environment.get("HOME", "")
        is_below = bool(user) and (context.cwd + "/").startswith(user.rstrip("/") + "/")
        return HomePage(
            cwd="~" + context.cwd[len(user.rstrip("/")) :] if is_below else context.cwd,
            now=context.clock(),
            home=self.store,
            discovery=context.discovery,
            recent=self._recent,
            step=self._step,
            done=frozenset(self._find_done()),
            tips=self._tips,
            keys=self._keys_shown,
            height=max(0, self.size.height - 2),
        )

    # Keys

    def take_key(self, key: str) -> bool:
        """Do what a key says in the empty input; False: it says nothing here."""
        if key in ("up", "down"):
            self.enter(at_end=key == "up")
            return True
        if key == "escape" and self._step is not None:
            self.skip_step()
            return True
        if key == "enter" and self._step not in (None, "prompt"):
            self.choose(f"step {self._step}")
            return True
        return key.startswith("alt+") and self.choose(key.removeprefix("alt+"))

    def enter(self, *, at_end: bool = False) -> None:
        """Take the focus, with the cursor on what is most likely wanted."""
        keys = self._keys()
        first = f"mode {self.store.mode}" if self._step == "mode" else ""
        if first in keys:
            self.place(first)
        elif keys and self.cursor not in keys:
            self.place(keys[-1] if at_end else keys[0])
        self.screen.set_focus(self)

    def on_key(self, event: events.Key) -> None:
        """Do what the line with this key says; letters that no line has are typed."""
        if event.key == "escape":
            if self._step is not None:
                self.skip_step()
            self._type_on("")
        elif event.key == "down" and self._keys()[-1:] == [self.cursor]:
            self._type_on("")
        elif event.key.removeprefix("alt+") in self._keys():
            self.choose(event.key.removeprefix("alt+"))
        elif event.is_printable and event.character and event.character != " ":
            self._type_on(event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted goes to the input."""
        event.stop()
        self._type_on(event.text)

    def action_choose(self) -> None:
        """See ``Picker``."""
        self.choose(self.cursor or "")

    def on_picker_chosen(self, event: Picker.Chosen) -> None:
        """A line was clicked."""
        event.stop()
        self.choose(event.key)

    def choose(self, key: str) -> bool:
        """Do what the line with a key says; False: no line has it."""
        if key not in self._keys():
            return False
        kind, _, word = key.partition(" ")
        if kind.isdigit():
            self.post_message(self.Continued(self._recent[int(kind) - 1]))
        elif kind in _TASKS:
            self.post_message(self.TaskChosen(_TASKS[kind]))
        elif kind == "mode":
            self.post_message(self.ModeChosen(word))
            self.store.mode = word
            self._note_step("mode")
            self._type_on("")
        elif kind == "step":
            self._do_step(word)
        else:
            self.post_message(self.Wanted({"a": "doctor", "d": "demo", "trust": "trust"}[kind]))
        return True

    def _keys(self) -> list[str]:
        return list(dict.fromkeys(key for key, _ in self._rows if key))

    # The first run

    def _do_step(self, step: str) -> None:
        if step == "agent":
            self.post_message(self.Wanted("doctor"))
        elif step == "trust":
            self.post_message(self.Wanted("trust"))
        elif step == "mode" and self._step == "mode":
            self.enter()
        else:
            self._type_on("")

    def skip_step(self) -> None:
        """Go on to the next step; this one is not shown again."""
        if self._step is not None:
            self._note_step(self._step)

    def _find_done(self) -> set[str]:
        context = self._app_context
        has_agents = bool(context.roster.everyone)
        return find_done_steps(context.preferences, context.discovery, has_agents)

    def _check_steps(self) -> None:
        """Find the step that is next, and note what is done by now."""
        context = self._app_context
        noted = context.preferences.choices.first_steps
        if context.discovery.places is None or set(noted) >= set(FIRST_STEPS):
            self._step = None
            return
        done = self._find_done()
        self._step = current_step(done) if context.discovery.found is not None else None
        if self._step is None and done >= set(FIRST_STEPS):
            context.preferences.choices.first_steps = FIRST_STEPS
            self._keep()

    def _note_step(self, step: str) -> None:
        self._app_context.preferences.note_step(step)
        self._keep()
        self.update()

    def _keep(self) -> None:
        """Save the preferences in a thread; if that fails, the next start shows this again."""

        def save() -> None:
            with self._saving, suppress(OSError, QuarterdeckError):  # the last has the newest
                self._app_context.preferences.save()

        self.run_worker(save, thread=True, group="keep", exit_on_error=False)

    def _find_key(self, command: str) -> str | None:
        return find_command_key(self._app_context, command)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """See Textual: it takes what it gets."""
        return container.height


def find_command_key(context: "WorkbenchContext", command: str) -> str | None:
    """The key that runs a command on the main screen or in the input, as it is now; None: none."""
    from ..keyboard import WORKBENCH_BINDINGS, find_command_of_action
    from .chat_input import ChatInput

    keymap = context.preferences.keymap
    for bound in keymap:
        if bound.command == command and not bound.words and bound.when in ("main", "chat"):
            return bound.key
    if command == "palette":
        return "ctrl+p" if keymap.find("ctrl+p") is None else None
    for binding in (*WORKBENCH_BINDINGS, *ChatInput.BINDINGS):
        if not isinstance(binding, Binding):
            continue
        if find_command_of_action(binding.action.removeprefix("app.")) == command:
            key = binding.key.split(",")[0]
            if keymap.find(key, ("main", "chat")) is None:
                return key
    return None
