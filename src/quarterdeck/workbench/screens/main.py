"""The screen that is there all the time: panels as the layout says, and the line of states."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.screen import Screen

from ..layout.view import LayoutView
from ..panels.chat import ChatPanel
from ..widgets.bars import StatusBar

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext
    from ..feed import HostState
    from ..widgets.chat_input import ChatInput
    from ..widgets.transcript import TranscriptView

__all__ = ["MainScreen"]


class MainScreen(Screen[None]):
    """Shows a layout; what a person wants done goes to the application."""

    AUTO_FOCUS = "#chat"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as Textual has it

    def __init__(self, desk: "WorkbenchContext", view: LayoutView) -> None:
        super().__init__()
        self._desk = desk
        self.view = view
        self._status_bar = StatusBar(desk.roster, id="status")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.view
        yield self._status_bar

    def on_mount(self) -> None:
        """Follow whether the workspace is trusted."""
        self._unwatch = self._desk.watch(self._show_trust)

    def on_unmount(self) -> None:
        """Let go of the desk."""
        self._unwatch()

    def _show_trust(self) -> None:
        trust = self._desk.ground.trust
        is_untrusted = trust is not None and trust.state == "untrusted"
        self._status_bar.show_trust(is_untrusted)

    def show_host(self, state: "HostState", reason: str) -> None:
        """Tell how the way to the host is."""
        self._status_bar.show_host(state)
        self._desk.show_host(state, reason)

    def show_agent(self, session: "SessionId | None") -> None:
        """Select an agent: chats that have none of their own show it."""
        self._desk.select(session)

    def chats(self) -> Iterator[ChatPanel]:
        """Every chat that was shown at least once."""
        return (panel for panel in self.view.panels.values() if isinstance(panel, ChatPanel))

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
