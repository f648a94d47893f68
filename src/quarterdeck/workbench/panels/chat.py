"""A chat with an agent: its transcript, what waits to be sent, the input, and its sender."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Label

from ..commands.registry import find_command
from ..completion import CompletionSource
from ..drafts import NEW
from ..fleet_actions import list_usable_agents
from ..widgets.bars import AgentBar, QueueBar, TroubleBar
from ..widgets.chat_input import ChatInput
from ..widgets.transcript import TranscriptView
from .transcript import TranscriptPanel

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.wire.ids import SessionId

    from ..commands.registry import WorkbenchCommand
    from ..commands.runner import CommandQueue
    from ..context import WorkbenchContext
    from ..fleet_actions import FleetActions

__all__ = ["ChatPanel", "PromptSender"]


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


class PromptSender:
    """Sends what people write, and keeps it until it has arrived.

    Args:
        app: shows screens.
        context: the agents and the drafts.
        actions: sends prompts and starts agents.
        queue: sends in the order in which things were written.
        run_command: runs a command with the words after its name.
        save: puts drafts on disk.
    """

    def __init__(
        self,
        app: "App[None]",
        context: "WorkbenchContext",
        actions: "FleetActions",
        *,
        queue: "CommandQueue",
        run_command: "Callable[[WorkbenchCommand, str], None]",
        save: Callable[[], None],
    ) -> None:
        self._app = app
        self._app_context = context
        self._actions = actions
        self._queue = queue
        self._run_command = run_command
        self._save = save

    def submit(self, panel: "ChatPanel", text: str, *, steers: bool = False) -> None:
        """Do what was written in a chat; ``steers``: a message is for the running turn."""
        found = find_command(text)
        if found is not None:
            panel.chat.set_text("")
            panel.keep_draft()
            self._run_command(*found)
        elif self._app_context.roster.find(panel.session) is None:
            self._queue.add(partial(self.spawn, panel))
        else:
            self._send(panel, text, steers=steers)

    def _send(self, panel: "ChatPanel", text: str, *, steers: bool) -> None:
        context = self._app_context
        agent, key, drafts = context.roster.find(panel.session), panel.draft, context.drafts
        if agent is None:
            return
        drafts.begin_sending(key, text)
        panel.chat.set_text("")
        panel.keep_draft()
        panel.transcript.action_follow()
        deliver = partial(self._deliver, panel, agent, key, text, steers=steers)
        self._queue.add(deliver, agent.session)

    async def _deliver(
        self, panel: "ChatPanel", agent: "AgentInfo", key: str, text: str, *, steers: bool
    ) -> None:
        is_sent = await self._actions.send(agent, text, steers=steers)
        self._app_context.drafts.end_sending(key, text, is_sent=is_sent)
        if panel.is_attached and panel.draft == key:
            panel.show_draft()
        self._save()

    async def spawn(self, panel: "ChatPanel") -> None:
        """Ask for a new agent, with what is typed if that is for no one yet."""
        from ..screens.spawn import SpawnScreen

        context = self._app_context
        is_free = context.roster.find(panel.session) is None
        typed = panel.chat.full_text if is_free else ""
        names = await asyncio.to_thread(list_usable_agents)
        options = await self._app.push_screen_wait(SpawnScreen(context.cwd, typed, names))
        if options is None:
            return
        session = await self._actions.spawn(options)
        if session is None:
            return
        if options.prompt == typed.strip() and panel.draft.startswith(NEW):
            panel.chat.set_text("")
        context.select(session)
