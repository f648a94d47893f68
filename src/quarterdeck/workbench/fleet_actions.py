"""What a person does to the fleet: prompts, commands, new agents, answers. Errors are shown, and
no text is lost. A request is shown when that interrupts no work, and closed when it is answered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from quarterdeck.wire.errors import QuarterdeckError

from .sanitize import sanitize_text

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.fleet.api import AgentInfo, InboxItem, SpawnOptions
    from quarterdeck.wire.ids import SessionId

    from .commands.registry import WorkbenchCommand
    from .context import WorkbenchContext
    from .screens.permission import PermissionScreen
    from .screens.question import QuestionScreen

__all__ = ["FleetActions", "RequestPresenter", "ShowMessage", "list_usable_agents"]


class ShowMessage(Protocol):
    """Shows a line to the person."""

    def __call__(self, words: str, is_bad: bool = False, /) -> None:
        """``is_bad``: something went wrong."""
        ...


class FleetActions:
    """Does what a person wants, and tells what came of it."""

    def __init__(
        self, context: "WorkbenchContext", show_message: ShowMessage, changed: Callable[[], None]
    ) -> None:
        """Args:
        context: where the person is.
        show_message: shows what happened.
        changed: called after each deed; the agents may be others now.
        """
        self._app_context = context
        self._show_message = show_message
        self._changed = changed

    async def send(self, agent: "AgentInfo", text: str, *, steers: bool = False) -> bool:
        """Send a prompt, or a message for the running turn; False if it was not taken."""
        from .commands.registry import find_command
        from .mentions import build_prompt

        if text.startswith("//") and find_command(text[1:]) is not None:
            text = text[1:]  # the agent's own command of a name that is ours too
        takes_images = agent.takes_images is not False
        content, notices = await asyncio.to_thread(
            build_prompt, text, agent.cwd, takes_images=takes_images
        )
        for notice in notices:
            self._show_message(notice, False)
        fleet = self._app_context.fleet
        send = fleet.steer if steers else fleet.send
        done = await self._try(send(agent.session, content))
        if steers and done is not None and not done.steered:
            self._show_message(f"{agent.name} has no running turn; sent as a prompt", False)
        if done is None and not agent.is_live and agent.can_resume:
            self._show_message(f"{agent.name} is not running; /resume restarts it", True)
        return done is not None

    async def do(self, command: "WorkbenchCommand", agent: "AgentInfo", words: str) -> None:
        """Do a command to an agent."""
        assert command.agent_action is not None
        text = await self._try(command.agent_action(self._app_context.fleet, agent, words))
        if text is not None:
            self._show_message(text, False)

    async def spawn(self, options: "SpawnOptions") -> "SessionId | None":
        """Start an agent; None if it was refused."""
        info = await self._try(self._app_context.fleet.spawn(options))
        return info.session if info is not None else None

    async def interrupt(self, agent: "AgentInfo") -> None:
        """End the turn of an agent."""
        await self._try(self._app_context.fleet.interrupt(agent.session))

    async def answer(self, item: "InboxItem", choice: str, feedback: str | None) -> bool:
        """Answer a permission request; False if that did not work and it is still open."""
        answering = self._app_context.fleet.answer(
            item.request, choice, by="workbench", feedback=feedback
        )
        return self._answered(await self._try(answering))

    async def reply(self, item: "InboxItem", content: dict[str, Any] | None) -> bool:
        """Answer a question, or decline it; like ``answer``."""
        action = "decline" if content is None else "accept"
        answering = self._app_context.fleet.reply(
            item.request, action, by="workbench", content=content
        )
        return self._answered(await self._try(answering))

    def _answered(self, counted: bool | None) -> bool:
        if counted is False:
            self._show_message("this request was already answered", False)
        return counted is not None

    async def _try(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (QuarterdeckError, ValueError) as error:
            self._show_message(str(error), True)
            return None
        finally:
            self._changed()


def list_usable_agents() -> list[str]:
    """The agents whose program is here, our own first. Blocks on files."""
    import shutil

    from quarterdeck.drivers.catalogue import load_catalogue

    try:
        agents = load_catalogue().agents.values()
    except QuarterdeckError:
        agents = ()
    found = [agent.name for agent in agents if agent.program and shutil.which(agent.program)]
    return ["native", *(sanitize_text(name) for name in found if name != "native")]


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
