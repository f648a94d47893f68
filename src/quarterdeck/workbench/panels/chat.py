"""A chat with an agent: its transcript, what waits to be sent, and the input."""

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Label

from quarterdeck.wire.errors import QuarterdeckError

from ..completion import CompletionSource
from ..drafts import NEW
from ..input_lines import describe_sign, find_sign
from ..rendering import glyphs
from ..sanitize import sanitize_line, sanitize_text
from ..stores.inbox import draft_key
from ..widgets.bars import AgentBar, QueueBar, TroubleBar
from ..widgets.chat_input import ChatInput
from ..widgets.transcript import TranscriptView
from .transcript import TranscriptPanel

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.fleet.api import InboxItem
    from quarterdeck.wire.ids import SessionId

    from ..screens.permission import PermissionCard
    from ..screens.question import QuestionForm
    from ..stores.home import RecentSession
    from ..widgets.home import HomeView

    RequestCard: TypeAlias = PermissionCard | QuestionForm

__all__ = ["ChatPanel", "RequestSlot"]

_CARD_ROOM = 12
"""Lines of a chat below which a request has no room in it, and is shown in a dialog."""
_AROUND_CARD = 4
"""Lines of a chat that are neither the transcript nor a request, when one line is typed."""


class RequestSlot(Vertical):
    """Where the open request of the agent stands, above the input; hidden while there is none.

    Args:
        show: makes what shows a request, or has the old one show it.
    """

    def __init__(
        self,
        show: "Callable[[InboxItem, RequestCard | None], RequestCard]",
    ) -> None:
        super().__init__(classes="request-slot")
        self._make = show
        self.card: RequestCard | None = None
        """What shows the request; None: there is none."""

    @property
    def item(self) -> "InboxItem | None":
        """The request that is shown."""
        return self.card.item if self.card is not None else None

    def on_mount(self) -> None:
        """Begin without any."""
        self.display = self.card is not None

    def show(self, item: "InboxItem | None") -> None:
        """Show a request, or none. Whatever has the focus here keeps it."""
        before, has_focus = self.card, self.has_focus_within
        self.card = self._make(item, before) if item is not None else None
        self.display = self.card is not None
        if self.card is before:
            return
        if self.card is not None:
            self.mount(self.card)
            if has_focus:
                self.card.take_focus()
        if before is not None:
            before.remove()


class ChatPanel(TranscriptPanel):
    """One of maybe several chats, each with its agent, its draft and its place in the transcript.

    What is typed stays with the agent it was typed for. Two chats with the same agent have a
    draft each: the one that came first has that of the agent.
    """

    class PromptSubmitted(Message):
        """A text is to be sent, or a command done."""

        def __init__(self, panel: "ChatPanel", text: str, steers: bool = False) -> None:
            super().__init__()
            self.panel = panel
            self.text = text
            self.steers = steers
            """It is for the turn that runs, not for the queue."""

    class RequestCrowded(Message):
        """A request that had the keys has no room here any more."""

        def __init__(self, item: "InboxItem") -> None:
            super().__init__()
            self.item = item

    class Drafted(Message):
        """What is typed is another now, and not on disk."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield AgentBar(classes="agent-bar")
        yield TranscriptView(id="transcript")
        yield TroubleBar(self.context, lambda: self.session)
        yield QueueBar(classes="queue")
        yield RequestSlot(self._make_card)
        yield Label("", classes="chat-hint", markup=False)
        with Horizontal(classes="chat-row"):
            yield Label(glyphs.PROMPT, classes="chat-sign")
            yield ChatInput(self._past, CompletionSource(self.context, self), id="chat")
            yield Label("", classes="chat-start", markup=False)
            yield Label("", classes="chat-mode")

    def on_mount(self) -> None:
        """Begin with what was typed before."""
        self.chat = self.query_one(ChatInput)
        self.query_one(".chat-hint", Label).display = False
        self.query_one(".chat-mode", Label).display = False
        self._start_words = self.query_one(".chat-start", Label)
        self._start_words.display = False
        self.chat.take_empty_key = self._take_empty_key
        self._queue = self.query_one(QueueBar)
        self.requests = self.query_one(RequestSlot)
        self._draft = ""
        self._unwatch = self.context.inbox.watch(self.check_request)

    def on_unmount(self) -> None:
        """Keep the draft; another chat may have it from now on."""
        self._unwatch()
        self.keep_draft()
        self.context.drafts.release(str(self.id))

    def on_resize(self) -> None:
        """Where there is hardly room, the input stays."""
        self.set_class(self.size.height < 5, "-tiny")
        self.check_request()
        if self.requests.card is not None:
            self.call_after_refresh(self.requests.card.fit)

    # Requests

    def check_request(self) -> None:
        """Show the request that the agent waits with; the one that is shown stays while it is."""
        inbox, shown = self.context.inbox, self.requests.item
        is_same = shown is not None and shown.session == self.session
        item = inbox.find(shown.request) if shown is not None and is_same else None
        if item is None or not inbox.is_offered(item.request):
            item = inbox.offered(self.session)
        self.show_request(item)

    def show_request(self, item: "InboxItem | None") -> bool:
        """Show a request of this agent above the input; False: there is no room for it."""
        has_room = item is not None and self.size.height >= _CARD_ROOM
        had_focus = self.requests.has_focus_within
        self.requests.show(item if has_room else None)
        if had_focus and self.requests.card is None:
            self.enter()
            if item is not None:
                self.post_message(self.RequestCrowded(item))
        return has_room

    def _make_card(self, item: "InboxItem", card: "RequestCard | None") -> "RequestCard":
        """What shows a request: the card that is there already, if it can."""
        from ..screens.permission import PermissionCard, describe_queue, describe_setting
        from ..screens.question import QuestionForm

        queue = describe_queue(self.context, item)
        if item.permission is not None:
            setting = describe_setting(self.context, item, is_own=True)
            if isinstance(card, PermissionCard):
                card.show(item, setting, queue)
                return card
            return PermissionCard(item, setting, queue, self._card_room)
        if isinstance(card, QuestionForm) and card.item.request == item.request:
            card.show_queue(queue)
            return card
        saved = self.context.drafts.get(draft_key(item))
        return QuestionForm(item, saved, queue=queue, is_own=True, room=self._card_room)

    def _card_room(self) -> int:
        """Lines that a request may take: a few of the transcript stay, where there are many."""
        left = self.size.height - _AROUND_CARD
        return max(left - 3 if left > 15 else left, min(left, 8))

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
        self.check_request()

    def show_facts(self) -> None:
        """See ``TranscriptPanel``."""
        super().show_facts()
        self._queue.show(self.context.roster.find(self._shown))

    # The home screen

    home: "HomeView | None" = None
    """The home screen; None: it was not needed so far."""

    def show_hints(self) -> None:
        """See ``TranscriptPanel``: without an agent, the home screen is there."""
        context = self.context
        is_home = self._shown is None and self.follows and context.host == "connected"
        is_home = is_home and (context.roster.is_known or bool(context.roster.agents))
        if is_home and self.home is None:
            from ..widgets.home import HomeView  # not part of the first frame

            self.home = HomeView(context, self._type_on)
            self.mount(self.home, after=self.transcript)
        if self.home is not None:
            had_focus = self.home.has_focus and not is_home
            self.home.display = is_home
            self.transcript.display = not is_home and not self.query(".agent-screen")
            if had_focus:
                self.enter()
            if is_home and self.home.is_mounted:
                self.home.check()
        self._bar.display = self._shown is not None or not self.follows
        self.show_start()
        if not is_home:
            super().show_hints()

    def show_start(self, words: str = "") -> None:
        """Say beside the input which agent enter starts; ``words``: something else for now."""
        context = self.context
        chosen = context.preferences.choices.spawns.get(context.cwd, {})
        facts = [chosen.get(name, "") for name in ("agent", "model", "mode")]
        facts += ["worktree"] if chosen.get("worktree") == "new" else []
        last = f" {glyphs.BETWEEN} ".join(sanitize_line(fact, 30) for fact in facts if fact)
        key = "   ctrl+t other" if self.size.width >= 90 else ""
        words = words or (f"enter: {last}{key}" if last else "")
        self._start_words.display = bool(words) and self.is_home and self.size.width >= 60
        self._start_words.update(words)

    @property
    def is_home(self) -> bool:
        """Whether the home screen is shown."""
        return self.home is not None and bool(self.home.display)

    def _take_empty_key(self, key: str) -> bool:
        return self.is_home and self.home is not None and self.home.take_key(key)

    def _type_on(self, text: str) -> None:
        """Go to the input, with what was typed elsewhere."""
        self.screen.set_focus(self.chat)
        if text:
            self.chat.add_text(text)

    def on_home_view_task_chosen(self, event: "HomeView.TaskChosen") -> None:
        """Put a task into the input, to be changed or sent."""
        event.stop()
        self.chat.set_text(event.text)
        self.screen.set_focus(self.chat)

    def on_home_view_wanted(self, event: "HomeView.Wanted") -> None:
        """Run a command."""
        event.stop()
        self.post_message(self.CommandWanted(event.command))

    def on_home_view_mode_chosen(self, event: "HomeView.ModeChosen") -> None:
        """Keep the mode that was chosen."""
        event.stop()
        self.post_message(self.CommandWanted("default-mode", event.mode))

    def on_home_view_continued(self, event: "HomeView.Continued") -> None:
        """Continue a session."""
        event.stop()
        self.run_worker(partial(self._continue, event.recent), group="continue", exclusive=True)

    async def _continue(self, recent: "RecentSession") -> None:
        from ..fleet_actions import continue_session

        try:
            session = await continue_session(self.context, recent)
        except QuarterdeckError as error:
            self.notify(sanitize_text(str(error)), severity="error", markup=False)
        else:
            self.post_message(self.AgentWanted(session))

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
        self._show_sign()
        if self.keep_draft():
            self.post_message(self.Drafted())

    @on(ChatInput.ModeChanged)
    def _mode_changed(self, event: ChatInput.ModeChanged) -> None:
        event.stop()
        mode = self.query_one(".chat-mode", Label)
        mode.display = event.mode is not None
        mode.update(event.mode or "")

    def _show_sign(self) -> None:
        """Say what enter does with a line that begins with ``!`` or ``#``."""
        sign = find_sign(self.chat.text)
        hint = self.query_one(".chat-hint", Label)
        hint.display = sign is not None
        if sign is not None:
            agent = self.context.roster.find(self.session)
            where = agent.cwd if agent is not None else self.context.cwd
            home = self.context.discovery.environment.get("HOME", "")
            where = f"~{where[len(home) :]}" if home and where.startswith(f"{home}/") else where
            words = describe_sign(sign, sanitize_line(where, 60), has_agent=agent is not None)
            hint.update(words)

    @on(ChatInput.Submitted)
    def _submitted(self, event: ChatInput.Submitted) -> None:
        event.stop()
        self.post_message(self.PromptSubmitted(self, event.text, event.steers))

    def _past(self) -> list[str]:
        session = self._shown
        return self.context.pages.store(session).prompts() if session is not None else []
