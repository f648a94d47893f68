r"""A terminal on the screen: what a program draws there, and every key that is typed into it.

While one types, every key goes to the program but one: ``ctrl+\`` ends the typing. After that
keys are the workbench's again, and some move in what is above the screen; the same key once more
sends it to the program.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from ..screens.key_guard import QUIET
from ..terminal.connection import TerminalFollower, TerminalInput, TerminalSizer, TerminalViewState
from ..terminal.display import load_emulator
from ..terminal.input_sequences import encode_key
from .terminal_mouse import TerminalMouse
from .terminal_page import TerminalPage

if TYPE_CHECKING:
    from textual.strip import Strip
    from textual.timer import Timer
    from textual.worker import Worker

    from ..context import WorkbenchContext

__all__ = ["LEAVE", "TerminalView"]

LEAVE = "ctrl+backslash"
"""The one key that does not go to the program while one types."""
_SETTLED = 0.08
"""Seconds after which a size is reported."""
_UNSEEN = 5.0
"""Seconds after which a terminal that no one sees is not followed any more."""
_PAUSE = 0.5
"""Seconds between two tries to reach a terminal that was lost."""
_SCROLLED = {"shift+pageup": -1, "shift+pagedown": 1}


class TerminalView(Widget, can_focus=True):
    """Shows a terminal of the host and types into it.

    Args:
        context: the fleet, and how the way to it is.
        guarded: it is an agent's: keeps its size, and one types into it only after ``enter``.
        show_message: shows what went wrong.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = TerminalPage.COMPONENT_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(LEAVE, "leave", "stop typing; again: send the key to the program"),
        Binding("enter", "type", "type into it"),
        Binding("shift+pageup", "scroll_page(-1)", "a page up, also while you type"),
        Binding("shift+pagedown", "scroll_page(1)", "a page down, also while you type"),
        Binding("pageup", "scroll_page(-1)", "a page up", show=False),
        Binding("pagedown", "scroll_page(1)", "a page down", show=False),
        Binding("up,k", "scroll_rows(-1)", "a line up", show=False),
        Binding("down,j", "scroll_rows(1)", "a line down", show=False),
        Binding("home", "scroll_far(-1)", "to the first line", show=False),
        Binding("end", "scroll_far(1)", "to the end", show=False),
        Binding("left", "shift(-8)", "scroll left", show=False),
        Binding("right", "shift(8)", "scroll right", show=False),
    ]

    @dataclass
    class FactsChanged(Message):
        """Its title, how it stands or how far up it is, is another now."""

        view: "TerminalView"

    def __init__(
        self,
        context: "WorkbenchContext",
        *,
        guarded: bool = False,
        show_message: Callable[[str], None],
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._app_context = context
        self.guarded = guarded
        self._show_message = show_message
        self.page = TerminalPage(
            self,
            has_cursor=lambda: self.state == "live",
            takes_every_key=lambda: self.takes_every_key,
            changed=self._report_facts,
        )
        self._mouse = TerminalMouse(self, self.page, can_type=lambda: self.can_type, send=self.send)
        self._following: TerminalFollower | None = None
        self._typing: TerminalInput | None = None
        self._workers: list[Worker[None]] = []
        self.is_typing = False
        """Whether keys go to the program."""
        self._reach = asyncio.Event()
        self._sizing: TerminalSizer | None = None
        self._settling: Timer | None = None
        self._hiding: Timer | None = None
        self.is_seen = False
        self._facts: object = None
        self._quiet_since = float("-inf")
        """Seconds; when the program left, or the last key came that was still meant for it."""
        self._stays = False

    # Which terminal

    @property
    def terminal(self) -> str | None:
        """The id of the terminal, or the name of the agent."""
        return self._following.terminal if self._following is not None else None

    @property
    def state(self) -> TerminalViewState:
        """How the terminal stands."""
        return self._following.state if self._following is not None else "coming"

    @property
    def reason(self) -> str:
        """How its program ended, or why it cannot be seen; foreign text."""
        return self._following.reason if self._following is not None else ""

    @property
    def program_title(self) -> str:
        """What the program calls its window; foreign text, may be empty."""
        return self.page.shown.screen.title if self.page.shown.screen is not None else ""

    @property
    def can_type(self) -> bool:
        """Whether the program may be sent something: an agent's only what is meant for it."""
        return self.state == "live" and (self.is_typing or not self.guarded)

    def attach(self, terminal: str) -> None:
        """Show a terminal from now on."""
        self.detach()
        self.page.shown.close()
        self.page.back = self.page.left = 0
        self._following = self._follower(terminal)
        self._typing = TerminalInput(self._app_context.fleet, terminal, self._show_message)
        self._sizing = TerminalSizer(self._app_context.fleet, terminal)
        self._run()
        if self.has_focus:
            self.begin_typing()
        self.page.redraw()

    def detach(self) -> None:
        """Stop looking; what was seen last stays."""
        self.end_typing()
        for worker in self._workers:
            worker.cancel()
        self._workers.clear()
        self.page.stop_frames()

    def on_mount(self) -> None:
        """Follow how the way to the host is."""
        self._unwatch = self._app_context.watch(self._reach.set)

    def on_unmount(self) -> None:
        """Let go."""
        self._unwatch()
        self.detach()
        self.page.shown.close()

    def on_show(self) -> None:
        """Look again."""
        self.is_seen = True
        if self._hiding is not None:
            self._hiding.stop()
            self._hiding = None
        if self._following is not None and not self._workers and self.state != "ended":
            self._following = self._follower(self._following.terminal)
            self._run()
        self._ask_size_soon()

    def on_hide(self) -> None:
        """Follow no more if no one looks for some time; the terminal goes on."""
        self.is_seen = False
        if self._hiding is None:
            self._hiding = self.set_timer(_UNSEEN, self._rest)

    def _rest(self) -> None:
        self._hiding = None
        self.detach()

    def _follower(self, terminal: str) -> TerminalFollower:
        return TerminalFollower(
            self._app_context.fleet, terminal, self.page.take, self._state_changed, self._reached
        )

    def _run(self) -> None:
        following, typing = self._following, self._typing
        assert following is not None and typing is not None
        self._workers = [
            self.run_worker(partial(self._follow, following), name="terminal"),
            self.run_worker(typing.run, name="typing"),
        ]

    async def _follow(self, following: TerminalFollower) -> None:
        await asyncio.to_thread(load_emulator)
        await following.run()

    async def _reached(self) -> None:
        if self.state == "lost":
            await asyncio.sleep(_PAUSE)
        while self._app_context.host != "connected":
            self._reach.clear()
            await self._reach.wait()

    def _state_changed(self) -> None:
        if self.state in ("ended", "gone", "lost"):
            if self.is_typing:
                self._quiet_since = time.monotonic()
            self.end_typing()
        elif self.state == "live":
            if self.has_focus and not self.guarded:
                self.begin_typing()
            self._ask_size_soon()
        self._report_facts()
        self.refresh()

    # How large it is

    def on_resize(self) -> None:
        """Show as much as there is room for, and tell the terminal."""
        self.page.redraw()
        self._ask_size_soon()

    def _ask_size_soon(self) -> None:
        if self._settling is not None:
            self._settling.stop()
        if not self.guarded:
            self._settling = self.set_timer(_SETTLED, self._ask_size)

    def _ask_size(self) -> None:
        self._settling = None
        screen, sizing = self.page.shown.screen, self._sizing
        if screen is None or sizing is None or self.state != "live":
            return
        size = self.size.width, self.size.height
        if sizing.wants(size, screen.size, insists=self.has_focus):
            self.run_worker(partial(sizing.ask, size), group="size")

    # Drawing and the mouse

    def render_line(self, y: int) -> "Strip":
        """Draw a line of the screen."""
        return self.page.render_line(y)

    def notify_style_update(self) -> None:
        """Forget colours when the style sheet or the theme changed."""
        self.page.forget_styles()
        super().notify_style_update()

    def watch_has_focus(self, has_focus: bool) -> None:
        """See Textual; the colours may be others with the focus."""
        super().watch_has_focus(has_focus)
        self.page.forget_styles()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press, or begin to select."""
        self._mouse.press(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move, or select."""
        self._mouse.move(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Release, or copy what is selected."""
        self._mouse.release(event)

    def on_click(self, event: events.Click) -> None:
        """A double click selects a word, one more the row."""
        self._mouse.click(event)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """What is above."""
        self._mouse.turn("up", event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """What is below."""
        self._mouse.turn("down", event)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        """What is left."""
        self._mouse.turn("left", event)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        """What is right."""
        self._mouse.turn("right", event)

    def action_scroll_page(self, pages: int) -> None:
        """A page up or down."""
        self.page.scroll_pages(pages)

    def action_scroll_rows(self, rows: int) -> None:
        """Some rows down; up, if negative."""
        self.page.scroll_rows(rows)

    def action_scroll_far(self, direction: int) -> None:
        """To the beginning, or to the end."""
        self.page.scroll_far(direction)

    def action_shift(self, columns: int) -> None:
        """Show what is left or right, where the terminal is wider than this."""
        self.page.scroll_columns(columns)

    # Typing

    @property
    def takes_every_key(self) -> bool:
        """Whether no key is for anybody else.

        Also for a moment after the program has left: who types on means no one else by it, and
        least of all an agent that ``ctrl+c`` would interrupt.
        """
        return self.has_focus and (self.is_typing or self._is_quiet)

    @property
    def _is_quiet(self) -> bool:
        return time.monotonic() - self._quiet_since < QUIET

    def begin_typing(self) -> None:
        """Let keys go to the program."""
        if self.is_typing or self._typing is None or self.state not in ("coming", "live"):
            return
        self.is_typing, self._quiet_since = True, float("-inf")
        self._ask_size_soon()
        self.page.redraw()

    def end_typing(self) -> None:
        """Let keys be the workbench's."""
        if self.is_typing:
            self.is_typing = False
            self.page.redraw()

    def take_key(self, event: events.Key) -> bool:
        """Take a key while one types; the application asks before it looks at any binding."""
        if not self.is_typing:
            self._quiet_since = time.monotonic()
            return True
        if event.key == LEAVE:
            self.end_typing()
            return True
        if event.key in _SCROLLED and not self.page.modes.alternate_screen:
            self.action_scroll_page(_SCROLLED[event.key])
            return True
        self.send(encode_key(event.key, event.character, self.page.modes))
        return True

    def take_paste(self, text: str) -> None:
        """Paste a text while one types."""
        if not self.is_typing:
            return
        self.page.go_to_end()
        if self._typing is not None:
            self._typing.paste(text)

    def send(self, data: bytes) -> None:
        """Type bytes; what is seen goes to the end."""
        if data and self._typing is not None and self.state in ("coming", "live"):
            self.page.go_to_end()
            self._typing.type(data)

    def on_paste(self, event: events.Paste) -> None:
        """A paste without typing is nothing; see ``take_paste``."""
        event.stop()
        event.prevent_default()

    def keep_looking(self) -> None:
        """Do not type when the focus comes back."""
        self._stays = True

    def on_focus(self) -> None:
        """Who comes here types, unless it is an agent's."""
        self._report_focus("I")
        stays, self._stays = self._stays, False
        if not self.guarded and not stays:
            self.begin_typing()
        self.refresh()

    def on_blur(self) -> None:
        """Who goes does not."""
        self._report_focus("O")
        self.end_typing()
        self.refresh()

    def action_leave(self) -> None:
        """Send the key that ends typing, and go on typing."""
        self.begin_typing()
        if self.is_typing:
            self.send(encode_key(LEAVE, "\x1c", self.page.modes))

    def action_type(self) -> None:
        """Type."""
        self.begin_typing()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where nothing runs, enter is for others."""
        return action != "type" or self.state in ("coming", "live")

    def _report_focus(self, way: str) -> None:
        is_wanted = self.state == "live" and self.page.modes.focus and not self.guarded
        if is_wanted and self._typing is not None:
            self._typing.type(f"\x1b[{way}".encode())

    def _report_facts(self) -> None:
        """Tell the panel if something that it shows about the terminal is another now."""
        facts = (self.program_title, self.state, self.reason, self.page.back, self.is_typing)
        if facts != self._facts:
            self._facts = facts
            self.post_message(self.FactsChanged(self))
