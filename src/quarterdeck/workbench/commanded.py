"""The application between what is open and agents: commands by their name."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.app import SystemCommand
from textual.screen import Screen

from .arranged import Arranged
from .commands import COMMANDS, Command, find_command

if TYPE_CHECKING:
    from .app import Workbench
    from .steering import Steering

__all__ = ["Commanded"]


class Commanded(Arranged):
    """Does commands, wherever they come from: a key, the palette, the input."""

    steering: "Steering"
    """Does what is done to agents."""

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers."""
        for command in COMMANDS:
            yield SystemCommand(command.name, command.help, partial(self.do, command))

    def action_command(self, name: str, words: str = "") -> None:
        """Do a command by its name; what keys are bound to."""
        found = find_command(f"/{name} {words}")
        if found is None:
            self.tell(f"there is no command {name!r}; f1 lists them", True)
        else:
            self.do(*found)

    def do(self, command: Command, words: str = "") -> None:
        """Do a command, with what was typed after its name."""
        if command.target is not None:
            self.work(self._call(command, words))
        elif command.deed is None:
            self.call_later(self.run_action, command.action or "help")
        elif self.desk.agent is None:
            self.tell("there is no agent yet; ctrl+t starts one", True)
        else:
            self.work(self._do(command, words))

    async def run_command(self, name: str, words: str) -> None:
        """Do a command that has a function of its own, and wait for it. Raises QuarterdeckError."""
        found = find_command(f"/{name} {words}")
        assert found is not None
        await self._call(*found)

    async def _call(self, command: Command, words: str) -> None:
        asked = await self._asked(command, words)
        if asked is not None and (done := command.call(cast("Workbench", self), asked)) is not None:
            await done

    async def _do(self, command: Command, words: str) -> None:
        agent = self.desk.agent
        asked = await self._asked(command, words)
        if asked is not None and agent is not None:
            await self.steering.do(command, agent, asked)

    async def _asked(self, command: Command, words: str) -> str | None:
        """The words for a command, asked for where it needs some; None: the person left."""
        if command.asks is None or words:
            return words

        from .screens.ask_line import AskLine

        return await self.push_screen_wait(AskLine(command.asks)) or None
