"""Runs commands, wherever they come from: a key, the palette, the input, an agent."""

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand

from .registry import COMMANDS, WorkbenchCommand, find_command

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext
    from ..fleet_actions import FleetActions, ShowMessage

__all__ = ["CommandRunner"]


class CommandRunner:
    """Runs the commands of the registry.

    Args:
        app: the workbench; functions of commands get it.
        context: knows the agent that commands are for.
        actions: carries out commands to agents.
        work: runs a coroutine in the background.
        show_message: shows a line.
    """

    def __init__(
        self,
        app: "App[None]",
        context: "WorkbenchContext",
        actions: "FleetActions",
        *,
        work: Callable[[Coroutine[Any, Any, object]], None],
        show_message: "ShowMessage",
    ) -> None:
        self._app = app
        self._app_context = context
        self._actions = actions
        self._work = work
        self._show_message = show_message

    def list_palette(self) -> Iterator[SystemCommand]:
        """What the command palette offers."""
        for command in COMMANDS:
            yield SystemCommand(command.name, command.help, partial(self.run, command))

    def run(self, command: WorkbenchCommand, words: str = "") -> None:
        """Run a command with what was typed after its name."""
        if command.target is not None:
            self._work(self._call(command, words))
        elif command.agent_action is None:
            self._app.call_later(self._app.run_action, command.action or "help")
        elif self._app_context.agent is None:
            self._show_message("no agents yet; press ctrl+t to start one", True)
        else:
            self._work(self._call_for_agent(command, words))

    def run_named(self, name: str, words: str = "") -> None:
        """Run a command by its name; keys are bound to names."""
        found = find_command(f"/{name} {words}")
        if found is None:
            self._show_message(f"unknown command {name!r}; press f1 for the list", True)
        else:
            self.run(*found)

    async def call(self, name: str, words: str) -> None:
        """Run a command that has a function, and wait for it. Raises QuarterdeckError."""
        found = find_command(f"/{name} {words}")
        assert found is not None
        await self._call(*found)

    async def call_for_agent(self, session: "SessionId", name: str) -> None:
        """Run a command for an agent; asks first if it cannot be undone."""
        from ..screens.dialogs import AskLineScreen, ConfirmScreen

        agent = self._app_context.roster.find(session)
        found = find_command(f"/{name}")
        if name == "here":
            await self.call("here", "")
        if agent is None or found is None or found[0].agent_action is None:
            return
        words = ""
        if name == "kill" and not await self._app.push_screen_wait(
            ConfirmScreen(
                f"kill {agent.name}",
                "This ends the agent, its child agents and all their processes now.",
            )
        ):
            return
        if name == "rename":
            words = await self._app.push_screen_wait(AskLineScreen("new name", agent.name)) or ""
            if not words:
                return
        await self._actions.do(found[0], agent, words)

    async def _call(self, command: WorkbenchCommand, words: str) -> None:
        given = await self._ask_words(command, words)
        if given is not None and (done := command.call(self._app, given)) is not None:
            await done

    async def _call_for_agent(self, command: WorkbenchCommand, words: str) -> None:
        agent = self._app_context.agent
        given = await self._ask_words(command, words)
        if given is not None and agent is not None:
            await self._actions.do(command, agent, given)

    async def _ask_words(self, command: WorkbenchCommand, words: str) -> str | None:
        """The words for a command, asked for where it needs some; None: the person cancelled."""
        if command.asks is None or words:
            return words

        from ..screens.dialogs import AskLineScreen

        return await self._app.push_screen_wait(AskLineScreen(command.asks)) or None
