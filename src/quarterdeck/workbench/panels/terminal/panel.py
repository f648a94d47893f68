"""A terminal in a panel: a program of the host's that goes on when the panel is gone.

A panel starts a program only when a person says so: by opening it, or by a key in it. A command
that a layout asks for, no matter who wrote that, is shown and asked about first; one that was
started before and whose terminal is gone waits for a key.
"""

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.wire.errors import QuarterdeckError

from ...rendering.lines import Line
from ...sanitize import sanitize_line, sanitize_text
from ...screens.key_guard import KeyGuard
from ...terminal.command_line import format_command_line, name_terminal, parse_command_line
from ...widgets.terminal import LEAVE, TerminalView
from ..components import AskBar, PanelPage
from ..panel import Panel, PanelOptions
from ..paths import format_path, make_absolute
from .view import TitleLine, foot_spans, head_spans, offer_lines

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.wire.ids import SessionId

    from ...context import WorkbenchContext

__all__ = ["TerminalOptions", "TerminalPanel"]

_LEAST = 2
"""Cells that a program gets each way when it starts."""
_USUAL = (80, 24)
"""What it gets where no one sees it yet."""
_LAID_OUT = 0.5
"""Seconds in which a panel has its size."""


class TerminalOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a terminal can be given."""

    command: str | tuple[str, ...] = ()
    """The program and its words; empty: the person's shell."""
    cwd: str | None = None
    """Where it runs; None: in the directory that the person is in."""
    terminal: str | None = None
    """One that runs already, by its id."""
    agent: str | None = None
    """An agent whose screen is shown instead."""


class TerminalPanel(Panel):
    """Shows a terminal of the host, or offers to start one."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = TerminalOptions
    options: TerminalOptions
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(LEAVE, "leave_typing", "stop typing; again: send the key"),
        Binding("enter", "start", "type into it, or start it"),
        Binding("r", "again", "restart it after it ended"),
        Binding("slash", "search", "search the scrollback"),
        Binding("n", "next(-1)", "next match above", show=False),
        Binding("N", "next(1)", "next match below", show=False),
        Binding("escape", "forget", "clear the matches", show=False),
    ]

    def __init__(
        self, context: "WorkbenchContext", options: TerminalOptions, *, id: str | None = None
    ) -> None:
        super().__init__(context, options, id=id)
        self.terminal: str | None = options.terminal
        """The id of the terminal that it shows."""
        self.argv = parse_command_line(options.command)
        self.cwd = make_absolute(context.cwd, options.cwd or context.cwd)
        self.head = TitleLine()
        self.view = TerminalView(
            context, guarded=self.is_agents, show_message=self._show_error, id="terminal"
        )
        self.offer = PanelPage(self._offer_lines, id="offer")
        self.bar = AskBar()
        self.foot = TitleLine()
        self._guard = KeyGuard(time.monotonic)
        self._is_starting = False
        self._is_theirs = not self.argv
        """Whether the person knows what would run here."""
        self._sized = asyncio.Event()

    def compose(self) -> ComposeResult:
        """The parts."""
        self.foot.add_class("terminal-foot")
        yield from (self.head, self.view, self.offer, self.foot, self.bar)

    def on_mount(self) -> None:
        """Show what there is."""
        self._show(self.options.agent or self.terminal)

    @property
    def is_agents(self) -> bool:
        """Whether it shows the screen of an agent."""
        return self.options.agent is not None

    @property
    def title(self) -> str:
        """See ``Panel``: what the program calls its window, else its name."""
        if self.options.agent is not None:
            return sanitize_line(f"{self.options.agent}: screen", 60)
        return sanitize_line(self.view.program_title, 60) or sanitize_line(
            format_command_line(self.argv), 60
        )

    @property
    def session(self) -> "SessionId | None":
        """See ``Panel``."""
        return self.context.find_session(self.options.agent) if self.options.agent else None

    @property
    def has_program(self) -> bool:
        """Whether there is a program of the person's that has not ended, as far as is known."""
        is_over = self.view.state in ("ended", "gone")
        return self.terminal is not None and not is_over

    def enter(self) -> None:
        """See ``Panel``."""
        self.screen.set_focus(self.offer if self.offer.display else self.view)

    def change(self, options: TerminalOptions) -> bool:
        """See ``Panel``: another terminal of the host can be shown in its place."""
        if options == self.options:
            return True
        if self.is_agents or options.agent or not options.terminal or not self.is_mounted:
            return False
        self.options = options
        self.argv = parse_command_line(options.command)
        self._is_theirs = not self.argv
        self._show(options.terminal)
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``: the terminal, which goes on without this workbench."""
        if self.terminal is None:
            return {}
        return {"terminal": self.terminal, "command": self.argv if self._is_theirs else None}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        if isinstance(state.get("terminal"), str) and not self.is_agents:
            self.terminal = state["terminal"]
            self._is_theirs |= state.get("command") == list(self.argv)

    # Starting and ending

    def opened(self) -> None:
        """See ``Panel``: who opens a terminal wants something to run in it."""
        self._is_theirs = True
        if self.terminal is None and not self.is_agents:
            self._start()

    async def leave(self) -> bool:
        """See ``Panel``: asks what is to become of a program that runs."""
        if self.terminal is None:
            return True
        if self.has_program:
            from ...screens.dialogs import LeaveTerminalScreen

            asked = LeaveTerminalScreen(self.title, format_path(self.context.cwd, self.cwd))
            choice = await self._app.push_screen_wait(asked)
            if choice is None:
                return False
            if choice == "keep":
                self._show_message(f"{self.title} keeps running; /terminals reopens it")
                return True
        with suppress(QuarterdeckError):  # it may be gone already
            await self.context.fleet.close_terminal(self.terminal)
        return True

    def action_start(self) -> None:
        """Start what is offered."""
        if self.offer.display and not self._guard.holds:
            self._start()

    def action_leave_typing(self) -> None:
        """The view takes the key before; here it is for the help."""

    def action_again(self) -> None:
        """Start the same once more, after it ended."""
        self._start()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is started beside something that runs, and searched where nothing does."""
        if action == "start":
            return self.offer.display
        if action in ("search", "next", "forget"):
            return not self.offer.display  # there is nothing to search
        if action == "again":
            return self.view.state in ("ended", "gone") and not self.is_agents
        return True

    def _start(self) -> None:
        if not self._is_starting:
            self._is_starting = True
            self.run_worker(self._starting, group="start")

    async def _is_wanted(self) -> bool:
        """Whether the person wants to run what a layout asks for."""
        from ...screens.dialogs import ConfirmScreen

        if not self._is_theirs:
            words = (
                f"{format_command_line(self.argv)}\nin {self.cwd}\n\nThe layout wants to start it."
            )
            asked = ConfirmScreen("run this?", words, "run")
            self._is_theirs = bool(await self._app.push_screen_wait(asked))
        return self._is_theirs

    async def _starting(self) -> None:
        try:
            if await self._is_wanted():
                await self._open()
        except QuarterdeckError as error:
            self._show_error(str(error))
        finally:
            self._is_starting = False

    async def _open(self) -> None:
        from quarterdeck.fleet.terminals.api import FleetTerminalOptions

        before = self.terminal
        columns, rows = await self._room()
        options = FleetTerminalOptions(
            cwd=self.cwd,
            command=self.argv,
            name=name_terminal(self.argv),
            columns=columns,
            rows=rows,
        )
        info = await self.context.fleet.open_terminal(options)
        if before is not None:
            with suppress(QuarterdeckError):
                await self.context.fleet.close_terminal(before)
        self._show(info.id)

    async def _room(self) -> tuple[int, int]:
        """How large the terminal will be; what draws at once must not be wrapped anew then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAID_OUT):
                await self._sized.wait()
        if not self._sized.is_set():
            return _USUAL
        return max(_LEAST, self.size.width), max(_LEAST, self.size.height - 1)

    def on_resize(self) -> None:
        """Know that there is room."""
        if self.size.width:
            self._sized.set()

    def _show(self, terminal: str | None) -> None:
        """Show a terminal, or offer one."""
        has_focus = self.has_focus_within
        if not self.is_agents:
            self.terminal = terminal
        self.offer.display = terminal is None
        self.view.display = terminal is not None
        if terminal is not None:
            self.view.attach(terminal)
        if has_focus:
            self.enter()
        self._guard.close()
        self._say()
        self.post_message(self.Altered())

    # Searching

    def action_search(self) -> None:
        """Search what is above."""
        self.view.keep_looking()
        self.bar.ask("search", "words", self.view.page.found, back=self.view)

    def action_next(self, step: int) -> None:
        """Go to another place with what was searched for."""
        if self.view.page.found and not self.view.page.find(self.view.page.found, step):
            self._show_message(f"{sanitize_line(self.view.page.found, 40)!r} not found")

    def action_forget(self) -> None:
        """Mark no places any more."""
        self.view.page.find("")

    @on(AskBar.Typed)
    def _typed(self, event: AskBar.Typed) -> None:
        event.stop()

    @on(AskBar.Given)
    def _given(self, event: AskBar.Given) -> None:
        event.stop()
        if event.text and not self.view.page.find(event.text):
            self._show_message(f"{sanitize_line(event.text, 40)!r} not found")

    # What is said about it

    @on(TerminalView.FactsChanged)
    def _facts_changed(self, event: TerminalView.FactsChanged) -> None:
        event.stop()
        self._say()
        self.post_message(self.Renamed(self))

    def on_descendant_focus(self) -> None:
        """What was typed elsewhere starts nothing here."""
        self._guard.close()
        self._say()

    def on_descendant_blur(self) -> None:
        """Say what is to be said to who is elsewhere."""
        self._say()

    def _say(self) -> None:
        keys = (("ctrl+w", "close"),)
        if not self.is_agents:
            keys = (("r", "restart"), *keys)
        foot = foot_spans(self.view, keys) if not self.offer.display else []
        self.foot.display = bool(foot)
        self.foot.show("", *foot)
        place = "" if self.offer.display else format_path(self.context.cwd, self.cwd)
        self.head.show(self.title, *head_spans(self.view, place))

    def _offer_lines(self, width: int) -> list[Line]:
        return offer_lines(self.argv, format_path(self.context.cwd, self.cwd) or ".", width)

    def _show_message(self, words: str) -> None:
        self.notify(sanitize_text(words), markup=False)

    def _show_error(self, words: str) -> None:
        self.notify(sanitize_text(words), severity="error", timeout=8, markup=False)

    @property
    def _app(self) -> "App[Any]":
        return self.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
