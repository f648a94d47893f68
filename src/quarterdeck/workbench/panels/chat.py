"""A chat with an agent: its transcript, what waits to be sent, and the input."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Label

from ..completion import CompletionSource
from ..drafts import NEW
from ..widgets.bars import AgentBar, QueueBar, TroubleBar
from ..widgets.chat_input import ChatInput
from ..widgets.transcript import TranscriptView
from .transcript import TranscriptPanel

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

__all__ = ["ChatPanel"]


class ChatPanel(TranscriptPanel):
    """One of maybe several chats, each with its agent, its draft and its place in the transcript.

    What is typed stays with the agent it was typed for. Two chats with the same agent have a
    draft each: the one that came first has that of the agent.
    """

    @dataclass
    class PromptSubmitted(Message):
        """A text is to be sent, or a command done."""

        panel: "ChatPanel"
        text: str
        steers: bool = False
        """It is for the turn that runs, not for the queue."""

    class Drafted(Message):
        """What is typed is another now, and not on disk."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield AgentBar(classes="agent-bar")
        yield TranscriptView(id="transcript")
        yield TroubleBar(self.context, lambda: self.session)
        yield QueueBar(classes="queue")
        with Horizontal(classes="chat-row"):
            yield Label("❯", classes="chat-sign")
            yield ChatInput(self._past, CompletionSource(self.context, self), id="chat")

    def on_mount(self) -> None:
        """Begin with what was typed before."""
        self.chat = self.query_one(ChatInput)
        self._queue = self.query_one(QueueBar)
        self._draft = ""

    def on_unmount(self) -> None:
        """Keep the draft; another chat may have it from now on."""
        self.keep_draft()
        self.context.drafts.release(str(self.id))

    def on_resize(self) -> None:
        """Where there is hardly room, the input stays."""
        self.set_class(self.size.height < 5, "-tiny")

    @property
    def kind(self) -> str:
        """See ``TranscriptPanel``."""
        return "chat"

    def enter(self) -> None:
        """See ``Panel``."""
        self.screen.set_focus(self.chat)

    def show(self, session: "SessionId | None") -> None:
        """See ``TranscriptPanel``; the draft changes with the agent."""
        self.keep_draft()
        self._draft = self.context.drafts.hold(session or NEW, str(self.id))
        self.chat.set_text(self.context.drafts.get(self._draft))
        super().show(session)

    def show_facts(self) -> None:
        """See ``TranscriptPanel``."""
        super().show_facts()
        self._queue.show(self.context.roster.find(self._shown))

    def keep_draft(self) -> bool:
        """Note what is typed; True if it is another than before."""
        return bool(self._draft) and self.context.drafts.put(self._draft, self.chat.draft)

    @property
    def draft(self) -> str:
        """The key of what is typed here."""
        return self._draft

    def show_draft(self) -> None:
        """Take the draft as it is known elsewhere, after it was on its way."""
        self.chat.set_text(self.context.drafts.get(self._draft))

    @on(ChatInput.Changed, "#chat")
    def _typed(self, event: ChatInput.Changed) -> None:
        event.stop()
        if self.keep_draft():
            self.post_message(self.Drafted())

    @on(ChatInput.Submitted)
    def _submitted(self, event: ChatInput.Submitted) -> None:
        event.stop()
        self.post_message(self.PromptSubmitted(self, event.text, event.steers))

    def _past(self) -> list[str]:
        session = self._shown
        return self.context.pages.store(session).prompts() if session is not None else []
