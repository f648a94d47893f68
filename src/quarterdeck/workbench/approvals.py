"""Requests come up when that disturbs nobody, and go when they are answered, here or elsewhere."""

from functools import partial
from typing import TYPE_CHECKING

from textual.widgets import Input, TextArea

from .stores.inbox import draft_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from quarterdeck.fleet.api import InboxItem

    from .context import WorkbenchContext
    from .fleet_actions import FleetActions
    from .layout.spec import Layout
    from .screens.main import MainScreen
    from .screens.permission import PermissionCard, PermissionScreen
    from .screens.question import QuestionForm, QuestionScreen

__all__ = ["RequestPresenter"]

_STAYED = 0.3
"""Seconds after which an agent is looked at, and not only passed."""
_LISTS = frozenset(("agents", "inbox"))
"""The ids of the lists of agents and of what they need."""


class RequestPresenter:
    """Brings one request at a time under the person's fingers.

    A request of an agent whose chat is on the screen stands in that chat, above the input; one of
    another agent, and one for which the chat has no room, comes in a dialog.

    Args:
        app: shows screens.
        find_main: the screen with the chats.
        is_typed_through: whether keys go to a terminal.
        context: the requests and the agent in view.
        actions: sends the answers.
    """

    def __init__(
        self,
        app: "App[None]",
        find_main: "Callable[[], MainScreen]",
        is_typed_through: "Callable[[], bool]",
        context: "WorkbenchContext",
        actions: "FleetActions",
    ) -> None:
        self._app = app
        self._find_main = find_main
        self._is_typed_through = is_typed_through
        self._app_context = context
        self._actions = actions
        self._opened: PermissionScreen | QuestionScreen | None = None
        self._in_view = context.shown
        self._offered_in: Layout | None = None
        """The layout in which a request of the agent in view came up."""

    @property
    def dialog(self) -> "PermissionScreen | QuestionScreen | None":
        """The dialog with a request, while it is on top."""
        screens = self._app.screen_stack  # empty while the workbench ends
        return self._opened if screens and screens[-1] is self._opened else None

    @property
    def current(self) -> "PermissionCard | QuestionForm | None":
        """What the keys are for, if that is a request."""
        if (dialog := self.dialog) is not None:
            # It has none before it is mounted, and while it is taken away.
            found = dialog.query("PermissionCard, QuestionForm")
            return next(iter(found), None)  # pyright: ignore[reportReturnType]
        slot = self._find_main().panel.requests
        is_there = len(self._app.screen_stack) == 1 and slot.has_focus_within
        return slot.card if is_there else None

    def open_next(self) -> bool:
        """Show what to answer next; False if nothing waits."""
        item = self._app_context.inbox.next(self._app_context.focused)
        if item is None or self.dialog is not None or self.current is not None:
            return item is not None
        self._present(item)
        return True

    def open(self, request: str) -> None:
        """Show a request by its id."""
        for item in self._app_context.inbox.items:
            if item.request == request and self.dialog is None:
                self._present(item)

    def look(self) -> None:
        """Bring up a request of another agent that is in view, if it stays there."""
        session = self._app_context.shown
        if session != self._in_view:
            self._in_view, self._offered_in = session, None
            self._app.set_timer(_STAYED, partial(self.offer, once=True))

    def offer(self, *, once: bool = False) -> None:
        """Bring up a request of the agent in view, unless the person is busy with something.

        ``once``: not over a layout that was put in place of the one in which it came up.
        """
        # A timer may fire while the workbench closes and has no screen any more.
        is_busy = len(self._app.screen_stack) != 1 or self.current is not None
        if is_busy or self._is_typed_through() or self._is_typing or self._is_choosing:
            return
        if once and self._is_covered:
            return
        item = self._app_context.inbox.offered(self._app_context.focused)
        if item is not None:
            self._offered_in = self._find_main().view.spec
            self._present(item)

    def move(self, item: "InboxItem") -> None:
        """Bring up again what had the keys in a chat that has become too small for it."""
        is_open = self._app_context.inbox.is_offered(item.request)
        if is_open and len(self._app.screen_stack) == 1 and not self._is_covered:
            self._present(item)

    @property
    def _is_covered(self) -> bool:
        """Whether the person took another layout after a request came up."""
        return self._offered_in not in (None, self._find_main().view.spec)

    @property
    def _is_typing(self) -> bool:
        """Whether there is text in the input, or some other place to type in has the focus."""
        chat, focused = self._find_main().chat, self._app.focused
        return bool(chat.text) or (isinstance(focused, Input | TextArea) and focused is not chat)

    @property
    def _is_choosing(self) -> bool:
        """Whether the person goes through the agents: arrows are for the list then."""
        focused = self._app.focused
        return focused is not None and focused.id in _LISTS

    def check(self) -> None:
        """Take a request off the screen that is answered already."""
        dialog = self.dialog
        if dialog is None:
            return
        item = self._app_context.inbox.find(dialog.item.request)
        if item is None:
            self._app_context.drafts.put(draft_key(dialog.item), "")
            self._app.pop_screen()
        elif item.permission is not None:
            from .screens.permission import PermissionScreen, describe_queue

            if isinstance(dialog, PermissionScreen):
                card = dialog.card
                card.show(item, card.setting, describe_queue(self._app_context, item))

    def keep(self, item: "InboxItem", text: str) -> bool:
        """Note what is filled in; True if it is other than before."""
        return self._app_context.drafts.put(draft_key(item), text)

    def put_off(self, item: "InboxItem") -> None:
        """Leave a request open."""
        self._app_context.inbox.put_off(item.request)
        if self.dialog is not None:
            self._app.pop_screen()

    async def answer(self, event: "PermissionCard.Answered") -> None:
        """Send a person's decision, for all requests that it names; a rule is recorded first."""
        item = event.item
        is_done = True
        if event.rule:
            agent = self._app_context.roster.find(item.session)
            is_done = await self._actions.add_rule(event.rule, event.scope, agent)
        needs_people = item.permission is not None and bool(item.permission.approvals)
        if is_done and (event.requests or needs_people):
            is_done = await self._answer_group(event)
        elif is_done:
            is_done = await self._actions.answer(item, event.choice, event.feedback)
        self._settle(item, is_done=is_done)

    async def _answer_group(self, event: "PermissionCard.Answered") -> bool:
        """Answer all that the card showed; what others have to allow too is put off."""
        first, inbox = event.item.request, self._app_context.inbox
        requests = (first, *(one for one in event.requests if one != first))
        done = await self._actions.answer_group(requests, event.choice, event.feedback)
        if done is None:
            return False
        inbox.drop(*(one for one in (*done.answered, *done.skipped) if one != first))
        for request in done.waiting:
            inbox.put_off(request)
        return True

    async def reply(self, event: "QuestionForm.Replied") -> None:
        """Send a person's answer to a question."""
        self._settle(event.item, is_done=await self._actions.reply(event.item, event.content))

    def _settle(self, item: "InboxItem", *, is_done: bool) -> None:
        """A request was answered here, and the next comes; or it was not, and stays."""
        current = self.current
        if not is_done:
            if current is not None and current.item.request == item.request:
                current.reopen()
            return
        self._app_context.drafts.put(draft_key(item), "")
        if self._app_context.inbox.is_offered(item.request):
            self._app_context.inbox.drop(item.request)
            self.check()
        elif self.dialog is not None and self.dialog.item.request == item.request:
            self._app.pop_screen()  # others have to allow it too
        following = self._app_context.inbox.following(item.session)
        if following is not None and len(self._app.screen_stack) == 1:
            self._present(following)

    def _present(self, item: "InboxItem") -> None:
        """Bring up a request where it belongs, and give it the keys."""
        self._app_context.inbox.take_up(item.request)
        main = self._find_main()
        chats = [main.panel, *main.chats()]
        panel = next((one for one in chats if one.session == item.session), main.panel)
        if panel.session == item.session and panel.display and panel.show_request(item):
            assert panel.requests.card is not None
            panel.requests.card.take_focus()
            return
        self._opened = self._screen_of(item)
        self._app.push_screen(self._opened)

    def _screen_of(self, item: "InboxItem") -> "PermissionScreen | QuestionScreen":
        from .screens.permission import PermissionScreen, describe_queue, describe_setting

        queue = describe_queue(self._app_context, item)
        if item.permission is None:
            from .screens.question import QuestionScreen

            return QuestionScreen(item, self._app_context.drafts.get(draft_key(item)), queue)
        return PermissionScreen(item, describe_setting(self._app_context, item), queue)
