"""The screen that is there all the time: agents, one of their transcripts, and the input."""

from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Label

from ..drafts import NEW
from ..hints import empty_lines
from ..widgets.agents import AgentTable
from ..widgets.bars import AgentBar, QueueBar, StatusBar
from ..widgets.chat import ChatInput
from ..widgets.inbox import InboxPanel
from ..widgets.picker import Picker
from ..widgets.transcript import TranscriptView

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

    from ..desk import Desk
    from ..feed import HostState

__all__ = ["MainScreen"]


class MainScreen(Screen[None]):
    """Shows the desk; what a person wants done goes to the application."""

    AUTO_FOCUS = "#chat"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as Textual has it

    def __init__(self, desk: "Desk") -> None:
        super().__init__()
        self._desk = desk
        self._host: HostState = "connecting"
        self._reason = ""

    def compose(self) -> ComposeResult:
        """The parts."""
        desk = self._desk
        with Container(id="body"):
            with Vertical(id="side"):
                yield AgentTable(desk.roster, desk.clock, id="agents")
                yield InboxPanel(desk.inbox, desk.clock, id="inbox")
            with Vertical(id="main"):
                yield AgentBar(id="agent-bar")
                yield TranscriptView(id="transcript")
                yield QueueBar(id="queue")
                with Horizontal(id="chat-row"):
                    yield Label("❯", id="chat-sign")
                    yield ChatInput(self._past, id="chat")
        yield StatusBar(desk.roster, id="status")

    def on_mount(self) -> None:
        """Say that there is nothing yet."""
        self.transcript = self.query_one(TranscriptView)
        self.chat = self.query_one(ChatInput)
        self.table = self.query_one(AgentTable)
        self.show_host("connecting", "")
        self.show_agent(None)

    def show_host(self, state: "HostState", reason: str) -> None:
        """Tell how the way to the host is."""
        self._host, self._reason = state, reason
        self.query_one(StatusBar).show_host(state)
        self._show_empty()

    def show_agent(self, session: "SessionId | None") -> None:
        """Show an agent; what is typed stays with the one it was typed for."""
        self.keep_draft()
        self._desk.shown = session
        self.chat.set_text(self._desk.drafts.get(session or NEW))
        store = self._desk.pages.store(session) if session is not None else None
        self.transcript.show(store)
        self.table.place(session)
        self.update_agent()
        if store is not None and not store.is_loaded:
            self.post_message(TranscriptView.Wanted(store.session, "first"))

    def update_agent(self) -> None:
        """Show the facts about the agent as they are now."""
        agent = self._desk.agent
        self.query_one(AgentBar).show(agent)
        self.query_one(QueueBar).show(agent)
        self.table.place(self._desk.shown)

    def keep_draft(self) -> bool:
        """Note what is typed; True if it is another than before."""
        return self._desk.drafts.put(self._desk.shown or NEW, self.chat.text)

    def on_resize(self) -> None:
        """Fit the hints."""
        self._show_empty()

    @on(Picker.Moved, "#agents")
    @on(Picker.Chosen, "#agents")
    def _agent_chosen(self, event: Picker.Moved | Picker.Chosen) -> None:
        agent = next((a for a in self._desk.roster.agents if a.session == event.key), None)
        if agent is not None and agent.session != self._desk.shown:
            self.show_agent(agent.session)
        if isinstance(event, Picker.Chosen):
            self.chat.focus()

    def _past(self) -> list[str]:
        session = self._desk.shown
        return self._desk.pages.store(session).prompts() if session is not None else []

    def _show_empty(self) -> None:
        width = max(20, self.transcript.size.width - 2)
        self.transcript.empty = empty_lines(self._host, self._reason, self._desk.cwd, width)
        self.transcript.refresh()
