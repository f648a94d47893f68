"""The screen that is there all the time: panels as the layout says, and the line of states."""

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.screen import Screen

from ..layout.spec import panels_of
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

    def __init__(self, context: "WorkbenchContext", view: LayoutView) -> None:
        super().__init__()
        self._app_context = context
        self.view = view
        self._status_bar = StatusBar(context.roster, context.clock, id="status")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.view
        yield self._status_bar

    def on_mount(self) -> None:
        """Follow whether the workspace is trusted."""
        self._unwatch = self._app_context.watch(self._show_trust)

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
