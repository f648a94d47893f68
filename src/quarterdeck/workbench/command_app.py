"""The part of the application that does commands, and the keys of the workbench."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from .commands.registry import COMMANDS, WorkbenchCommand, find_command
from .workspace.store import LAYOUT_BINDINGS, WorkspaceApp

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

    from .feed import WorkbenchFeed
    from .fleet_actions import FleetActions

__all__ = ["WORKBENCH_BINDINGS", "CommandApp"]

WORKBENCH_BINDINGS: list[BindingType] = [
    Binding("f1", "help", "show this help; also ? in the empty input"),
    Binding("ctrl+g", "answer", "answer the next pending request"),
    Binding("ctrl+n", "beside(1)", "next agent"),
    Binding("ctrl+b", "beside(-1)", "previous agent"),
    Binding("ctrl+t", "spawn", "start an agent"),
    Binding("ctrl+c", "stop", "copy the selection, or interrupt the agent"),
    Binding("ctrl+o", "unfold", "expand or collapse all tool calls"),
    Binding("f2", "go('agents')", "focus the agents; again: the input", priority=True),
    Binding("f3", "go('transcript')", "focus the transcript; again: the input", priority=True),
    *LAYOUT_BINDINGS,
    Binding("f8", "command('feed')", "show the feed of all agents"),
    Binding("f9", "command('themes')", "choose a theme"),
    Binding("f10", "command('keys')", "list all keys and how to rebind them"),
    Binding("ctrl+r", "command('retry')", "retry an agent that failed"),
    Binding("f12", "command('demo')", "run the demo; no API key needed"),
    Binding("ctrl+q", "quit", "quit; agents keep running"),
]


class CommandApp(WorkspaceApp):
    """Does commands, wherever they come from: a key, the palette, the input."""

    steering: "FleetActions"
    """Does what is done to agents."""
    feed: "WorkbenchFeed"
    """Brings what the fleet reports."""

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers."""
        for command in COMMANDS:
            yield SystemCommand(command.name, command.help, partial(self.do, command))

    def action_command(self, name: str, words: str = "") -> None:
        """Do a command by its name; what keys are bound to."""
        found = find_command(f"/{name} {words}")
        if found is None:
            self.tell(f"unknown command {name!r}; press f1 for the list", True)
        else:
            self.do(*found)

    def do(self, command: WorkbenchCommand, words: str = "") -> None:
        """Do a command, with what was typed after its name."""
        if command.target is not None:
            self.work(self._call(command, words))
        elif command.deed is None:
            self.call_later(self.run_action, command.action or "help")
        elif self.desk.agent is None:
            self.tell("no agents yet; press ctrl+t to start one", True)
        else:
            self.work(self._do(command, words))

    async def run_command(self, name: str, words: str) -> None:
        """Do a command that has a function of its own, and wait for it. Raises QuarterdeckError."""
        found = find_command(f"/{name} {words}")
        assert found is not None
        await self._call(*found)

    async def do_to_agent(self, session: "SessionId", name: str) -> None:
        """Do a command to an agent, asking first where there is no way back."""
        from .screens.dialogs import AskLineScreen, ConfirmScreen

        agent = self.desk.roster.find(session)
        found = find_command(f"/{name}")
        if name == "here":
            await self.run_command("here", "")
        if agent is None or found is None or found[0].deed is None:
            return
        words = ""
        if name == "kill" and not await self.push_screen_wait(
            ConfirmScreen(
                f"kill {agent.name}",
                "This ends the agent, its child agents and all their processes now.",
            )
        ):
            return
        if name == "rename":
            words = await self.push_screen_wait(AskLineScreen("new name", agent.name)) or ""
            if not words:
                return
        await self.steering.do(found[0], agent, words)

    async def _call(self, command: WorkbenchCommand, words: str) -> None:
        asked = await self._asked(command, words)
        if asked is not None and (done := command.call(self, asked)) is not None:
            await done

    async def _do(self, command: WorkbenchCommand, words: str) -> None:
        agent = self.desk.agent
        asked = await self._asked(command, words)
        if asked is not None and agent is not None:
            await self.steering.do(command, agent, asked)

    async def _asked(self, command: WorkbenchCommand, words: str) -> str | None:
        """The words for a command, asked for where it needs some; None: the person left."""
        if command.asks is None or words:
            return words

        from .screens.dialogs import AskLineScreen

        return await self.push_screen_wait(AskLineScreen(command.asks)) or None
