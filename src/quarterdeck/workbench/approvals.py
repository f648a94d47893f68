"""Requests come up when that disturbs nobody, and go when they are answered, here or elsewhere."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.fleet.api import InboxItem

    from .context import WorkbenchContext
    from .fleet_actions import FleetActions
    from .screens.permission import PermissionScreen
    from .screens.question import QuestionScreen

__all__ = ["RequestPresenter"]


class RequestPresenter:
    """Shows one request at a time over everything else.

    Args:
        app: shows screens.
        context: the requests and the agent in view.
        actions: sends the answers.
    """

    def __init__(
        self, app: "App[None]", context: "WorkbenchContext", actions: "FleetActions"
    ) -> None:
        self._app = app
        self._app_context = context
        self._actions = actions
        self._opened: PermissionScreen | QuestionScreen | None = None

    @property
    def current(self) -> "PermissionScreen | QuestionScreen | None":
        """The request on the screen."""
        return self._opened if self._app.screen is self._opened else None

    def open_next(self) -> bool:
        """Show what to answer next; False if nothing waits."""
        item = self._app_context.inbox.next(self._app_context.focused)
        if item is None or self.current is not None:
            return item is not None
        self._open(item)
        return True

    def open(self, request: str) -> None:
        """Show a request by its id."""
        for item in self._app_context.inbox.items:
            if item.request == request and self.current is None:
                self._open(item)

    def offer(self, is_typing: bool) -> None:
        """Show a new request of the agent in view, unless the person is busy with something."""
        if is_typing or len(self._app.screen_stack) > 1:
            return
        item = self._app_context.inbox.offered(self._app_context.focused)
        if item is not None:
            self._open(item)

    def check(self) -> None:
        """Take a request off the screen that is answered already."""
        screen = self.current
        if screen is not None and self._app_context.inbox.find(screen.item.request) is None:
            self._app_context.drafts.put(_key(screen.item), "")
            self._app.pop_screen()

    def keep(self, item: "InboxItem", text: str) -> bool:
        """Note what is filled in; True if it is other than before."""
        return self._app_context.drafts.put(_key(item), text)

    def put_off(self, item: "InboxItem") -> None:
        """Leave a request open."""
        self._app_context.inbox.put_off(item.request)
        if self.current is not None:
            self._app.pop_screen()

    async def answer(self, event: "PermissionScreen.Answered") -> None:
        """Send a person's decision."""
        if await self._actions.answer(event.item, event.choice, event.feedback):
            self._settle(event.item)

    async def reply(self, event: "QuestionScreen.Replied") -> None:
        """Send a person's answer to a question."""
        if await self._actions.reply(event.item, event.content):
            self._settle(event.item)

    def _settle(self, item: "InboxItem") -> None:
        """A request was answered here; the agent's next one comes."""
        self._app_context.inbox.drop(item.request)
        self._app_context.drafts.put(_key(item), "")
        self.check()
        following = self._app_context.inbox.offered(item.session)
        if following is not None and len(self._app.screen_stack) == 1:
            self._open(following)

    def _open(self, item: "InboxItem") -> None:
        self._opened = self._screen_of(item)
        self._app.push_screen(self._opened)

    def _screen_of(self, item: "InboxItem") -> "PermissionScreen | QuestionScreen":
        if item.permission is None:
            from .screens.question import QuestionScreen

            return QuestionScreen(item, self._app_context.drafts.get(_key(item)))
        from .screens.permission import PermissionScreen

        agent = self._app_context.roster.find(item.session)
        count = len(self._app_context.inbox.items)
        place = f" · 1 of {count}" if count > 1 else ""
        return PermissionScreen(item, agent.cwd if agent else None, place)


def _key(item: "InboxItem") -> str:
    """Where what is filled in for a question is kept."""
    return f"question-{item.request}"
