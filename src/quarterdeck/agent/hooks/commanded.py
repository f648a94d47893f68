"""A hook that is a program: JSON on its standard input, an answer on its standard output."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quarterdeck.system.errors import SystemFault
from quarterdeck.system.port import Command, Ending
from quarterdeck.system.process import spawn
from quarterdeck.wire.errors import Broken, Closed

from .hook import Hook, HookFailed, Reply, read_reply, refusal

if TYPE_CHECKING:
    from quarterdeck.system.process import LocalProcess

__all__ = ["run_command"]

_MOST_OUTPUT = 1_000_000
_MOST_WORDS = 10_000
"""Characters of standard error that are told."""
_ENDING = Ending(ask=0.0, terminate=0.5, kill=5.0)
_REFUSES = 2


@dataclass(slots=True)
class _Printed:
    data: bytearray
    total: int = 0


async def run_command(hook: Hook, facts: bytes, cwd: str, variables: Mapping[str, str]) -> Reply:
    """Run the program, in a process group of its own that is ended whatever happens.

    Raises:
        HookFailed: it could not be started, failed, took too long, or printed no answer.
    """
    command = Command(argv=hook.argv, cwd=cwd, env=variables)
    try:
        process = await spawn(command)
    except (SystemFault, ValueError) as error:
        raise HookFailed(f"it could not be started: {error}") from error
    printed = _Printed(bytearray())
    try:
        async with asyncio.timeout(hook.timeout):
            await _talk(process, facts, printed)
            left = await process.wait()
    except TimeoutError as error:
        raise HookFailed(f"it did not end within {hook.timeout:g} s and was killed") from error
    finally:
        await process.end(_ENDING)
    words = process.stderr()[-_MOST_WORDS:]
    if left.code == _REFUSES:
        return refusal(hook, words)
    if left.code != 0:
        said = f": {words.strip()}" if words.strip() else ""
        raise HookFailed(f"it ended with {left}{said}")
    if printed.total > _MOST_OUTPUT:
        raise HookFailed(f"it printed {printed.total} bytes, more than {_MOST_OUTPUT}")
    return read_reply(bytes(printed.data))


async def _talk(process: "LocalProcess", facts: bytes, printed: _Printed) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_listen(process, printed))
        group.create_task(_tell(process, facts))


async def _tell(process: "LocalProcess", facts: bytes) -> None:
    try:
        await process.send(facts)
    except (Broken, Closed):
        return  # one that does not want to know is fine
    process.close_input()


async def _listen(process: "LocalProcess", printed: _Printed) -> None:
    while data := await process.receive():
        printed.total += len(data)
        printed.data += data[: max(0, _MOST_OUTPUT - len(printed.data))]
