"""A server that we start: messages are lines on its standard input and output."""

import os
from collections.abc import Mapping

from quarterdeck.system.api import CommandSpec, EndingDeadlines, Process
from quarterdeck.system.environment import child_environment
from quarterdeck.system.errors import CommandNotFoundError, OperatingSystemError
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.redaction import mask_secrets

from ..tool_servers import ServerDefinition
from .protocol import Mirror, UnusableServerError

__all__ = ["StdioTransport"]

_LAST_WORDS = 2000
"""Characters of standard error that are reported."""
_ENDING = EndingDeadlines(ask=0.5, terminate=1.0, kill=5.0)


class StdioTransport:
    """A program in a process group of its own, with a clean environment. Made by ``start``."""

    def __init__(
        self, system: LocalSystem, process: Process, environment: Mapping[str, str]
    ) -> None:
        self._system = system
        self._process = process
        self._environment = environment

    @classmethod
    async def start(cls, definition: ServerDefinition, cwd: str) -> "StdioTransport":
        """Start the program.

        Raises:
            UnusableServerError: there is no such program, or it cannot be started.
        """
        directory = definition.cwd or cwd
        system = LocalSystem([directory])
        command = CommandSpec(argv=definition.command, cwd=directory, env=definition.env)
        try:
            process = await system.processes.spawn(command)
        except CommandNotFoundError as error:
            raise UnusableServerError(
                f"there is no program {definition.command[0]!r}; install it, or fix the command"
            ) from error
        except (OperatingSystemError, ValueError) as error:
            raise UnusableServerError(f"it could not be started: {error}") from error
        return cls(system, process, child_environment(definition.env, source=os.environ))

    async def receive(self) -> bytes:
        """See ``ByteStream``."""
        return await self._process.receive()

    async def send(self, data: bytes) -> None:
        """See ``ByteStream``."""
        await self._process.send(data)

    async def close(self) -> None:
        """Close its standard input and output, which well-behaved servers take as the end."""
        await self._process.close()

    def agreed(self, version: str, *, is_modern: bool) -> None:
        """Nothing to note: messages say it themselves."""

    def mirror(self, headers_of: Mirror) -> None:
        """Nothing to note: there is nothing outside of the messages."""

    async def end(self) -> str:
        """End the program with all that it started; return its exit and its last words."""
        try:
            exit_ = await self._process.end(_ENDING)
        finally:
            await self._system.close()
        words = mask_secrets(self._process.stderr()[-_LAST_WORDS:], self._environment).strip()
        return f"{exit_}; its output: {words}" if words else str(exit_)
