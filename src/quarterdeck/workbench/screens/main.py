"""The screen that is there all the time: panels as the layout says, and the line of states."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from ..layout.spec import panels_of
from ..layout.view import LayoutView
from ..panels.chat import ChatPanel
from ..widgets.bars import StatusBar

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext
    from ..feed import HostState
    from ..widgets.chat_input import ChatInput
    from ..widgets.transcript import TranscriptView

__all__ = ["MainScreen"]

_FIRST_PANELS = frozenset(("agents", "chat", "inbox"))
"""Kinds of panels whose looks are in ``workbench.tcss``; those of others are in ``late.tcss``."""
_LATE_STYLES = Path(__file__).parents[1] / "late.tcss"
"""Rules that the first frame does not need; to parse them takes 15 ms."""


class MainScreen(Screen[None]):
    """Shows a layout; what a person wants done goes to the application."""

    AUTO_FOCUS = "#chat"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as Textual has it

    def __init__(self, context: "WorkbenchContext", view: LayoutView) -> None:
        super().__init__()
        self._first_frame: ExitStack | None = ExitStack()
        """Holds the first frame back; None: it was drawn."""
        self._late_styles = _LATE_STYLES.read_text("utf-8")
        self._app_context = context
        self.view = view
        self._status_bar = StatusBar(
            context.roster, context.clock, remote=context.remote, id="status"
        )

    def compose(self) -> ComposeResult:
        """The parts."""
        # Textual would set these classes behind the first frame, and work out all styles anew.
        width, height = self._typed_app.size
        for cells, points in (
            (width, self.HORIZONTAL_BREAKPOINTS or ()),
            (height, self._typed_app.VERTICAL_BREAKPOINTS or ()),
        ):
            for _, name in sorted(point for point in points if point[0] <= cells)[-1:]:
                self.add_class(name, update=False)
        if any(node.widget not in _FIRST_PANELS for node in panels_of(self.view.spec)):
            self.add_late_styles()
        yield self.view
        yield self._status_bar

    @property
    def _typed_app(self) -> "App[object]":
        return cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]

    def add_late_styles(self) -> None:
        """Have the looks of everything from now on."""
        self._typed_app.stylesheet.add_source(self._late_styles, (str(_LATE_STYLES), ""))

    def on_mount(self) -> None:
        """Follow whether the workspace is trusted."""
        self._unwatch = self._app_context.watch(self._show_trust)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Hold the first frame back until all widgets know their size; it would be blank."""
        if self._first_frame is not None:
            event.refresh_styles = False  # all have got their styles a moment ago
            self._first_frame.enter_context(self._typed_app.batch_update())

    async def on_resize(self) -> None:
        """Draw the first frame: Textual lays out and draws after this."""
        if self._first_frame is not None:
            await asyncio.sleep(0)  # the others, who were told their size before us, are ready now
            self._first_frame.close()
            self._first_frame = None

    def on_unmount(self) -> None:
        """Stop watching."""
        self._unwatch()

    def _show_trust(self) -> None:
        trust = self._app_context.discovery.trust
        is_untrusted = trust is not None and trust.state == "untrusted"
        is_untrusted = is_untrusted and self._app_context.shown is not None  # else home tells it
        self._status_bar.show_trust(is_untrusted)

    def show_host(self, state: "HostState", reason: str) -> None:
        """Tell how the way to the host is."""
        self._status_bar.show_host(state)
        self._app_context.show_host(state, reason)

    def show_agent(self, session: "SessionId | None") -> None:
        """Select an agent: chats that have none of their own show it."""
        self._app_context.select(session)

    def chats(self) -> Iterator[ChatPanel]:
        """Every chat that was shown at least once."""
        return (panel for panel in self.view.panels.values() if isinstance(panel, ChatPanel))

    def toggle_transcript_focus(self) -> None:
        """Focus the transcript, or the input if the transcript has the focus."""
        panel = self.panel
        if panel.is_home and panel.home is not None:
            self.set_focus(self.chat if panel.home.has_focus else panel.home)
        else:
            self.set_focus(self.chat if self.transcript.has_focus else self.transcript)

    def focus_kind(self, kind: str, work: Callable[[Coroutine[Any, Any, object]], None]) -> bool:
        """Move the focus to a panel of a kind, or from there to the input; False: none is open.

        At once where it is on the screen: the next key is meant for it already. ``work`` runs what
        takes longer.
        """
        view = self.view
        found = [node.id for node in panels_of(view.spec) if node.widget == kind]
        shown = [panel for panel in found if panel in view.plan.panels and panel in view.panels]
        if any(view.panels[panel].has_focus_within for panel in shown):
            self.panel.enter()
        elif shown:
            view.enter(shown[0])
        elif found:
            work(view.show_panel(found[0]))
        return bool(found)

    @property
    def panel(self) -> ChatPanel:
        """The chat that has the focus, or had it last, or is the first of the tab that is shown."""
        current = self.view.panels.get(self.view.current or "")
        if isinstance(current, ChatPanel):
            return current
        chats = list(self.chats())
        return next(iter([chat for chat in chats if chat.display] + chats))

    @property
    def chat(self) -> "ChatInput":
        """The input of that chat."""
        return self.panel.chat

    @property
    def transcript(self) -> "TranscriptView":
        """The transcript of that chat."""
        return self.panel.transcript
