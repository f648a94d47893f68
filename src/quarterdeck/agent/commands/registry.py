"""The commands of a session: which there are, and which one a prompt is."""

import re
from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import CommandsChanged, Event, Prompted
from quarterdeck.wire.settings import Command as Listed
from quarterdeck.wire.settings import CommandInput

from .command import AnsweredCommand, Command

__all__ = ["CommandCall", "CommandRegistry", "CommandSource", "FoundCommands"]

_SPEAKERS = ("person", "schedule")
"""Whose prompts can be commands."""


class CommandCall(Struct, frozen=True):
    """A prompt that is a command, and what was typed after its name."""

    command: Command
    words: str


class FoundCommands(Struct, frozen=True):
    """The commands of a library as they are now, and what a person should know about them."""

    commands: tuple[Command, ...]
    notices: tuple[Event, ...] = ()


CommandSource = Callable[[], Awaitable["FoundCommands | None"]]
"""Looks for commands that come and go, such as those in files; None: nothing has changed."""


async def _nothing() -> FoundCommands | None:
    return None


class CommandRegistry:
    """Commands by name. Ours win over a library's; the first of a library's wins over others."""

    def __init__(self, commands: Iterable[Command], library: CommandSource = _nothing) -> None:
        self._ours = {command.name: command for command in commands}
        self._theirs: tuple[Command, ...] = ()
        self._library = library

    def add(self, *commands: Command) -> None:
        """Add commands of ours, or replace those of the same name; before the session begins."""
        self._ours |= {command.name: command for command in commands}

    async def refresh(self) -> tuple[Event, ...]:
        """Look again for commands that come and go; the events that tell what has changed."""
        found = await self._library()
        if found is None:
            return ()
        self._theirs = found.commands
        return (*found.notices, self.changed())

    @property
    def all(self) -> tuple[Command, ...]:
        """Those that can be called, ours first, each name once."""
        named = {command.name: command for command in reversed(self._theirs)}
        theirs = [named[name] for name in sorted(named) if name not in self._ours]
        return (*self._ours.values(), *theirs)

    @property
    def hidden(self) -> tuple[Command, ...]:
        """Those that cannot be called because another has their name."""
        called = self.all
        return tuple(command for command in self._theirs if command not in called)

    @property
    def listed(self) -> tuple[Listed, ...]:
        """The commands as clients are told of them."""
        return tuple(
            Listed(
                name=command.name,
                description=command.description,
                input=CommandInput(hint=command.hint) if command.hint else None,
            )
            for command in self.all
        )

    def changed(self) -> CommandsChanged:
        """The event that tells all commands."""
        return CommandsChanged(commands=self.listed)

    def find(self, prompted: Prompted) -> CommandCall | None:
        """The command that a prompt is; None for any other prompt.

        Its first block must begin with the name. What we answer takes words alone: with a file
        attached it is a prompt as any other. So is what another agent says: it must not change
        what this one may do.
        """
        content = prompted.content
        if prompted.origin not in _SPEAKERS or not content:
            return None
        if not isinstance(content[0], TextContent) or not content[0].text.startswith("/"):
            return None
        name, *words = re.split(r"\s+", content[0].text[1:], maxsplit=1)
        command = next((each for each in self.all if each.name == name), None)
        if command is None or (len(content) > 1 and isinstance(command, AnsweredCommand)):
            return None
        return CommandCall(command, "".join(words).strip())

    def answers(self, prompted: Prompted) -> bool:
        """Whether a prompt is a command that the model never hears of."""
        call = self.find(prompted)
        return call is not None and isinstance(call.command, AnsweredCommand)
