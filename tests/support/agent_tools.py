"""Tools that do nothing but what a test wants of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from quarterdeck.agent.tools.tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    ToolOutcome,
    text_outcome,
)
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.wire.tool_calls import ToolCallContent, ToolKind

__all__ = ["FakeTool", "Gathering", "NumberArguments", "returns"]


class NumberArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    n: int = 0
    word: str = ""


Run = Callable[[NumberArguments, LiveCall], Awaitable[ToolOutcome]]


class FakeTool:
    """A tool that runs a function; of kind ``think`` it needs no leave, of ``edit`` it does.

    ``writes`` is the file that it says it changes, with ``{n}`` for the number it is given.
    """

    arguments = NumberArguments
    description = "Does what a test wants."

    def __init__(
        self,
        run: Run,
        *,
        name: str = "fake",
        kind: ToolKind = "think",
        timeout: float | None = None,
        prepare: Callable[[NumberArguments], Awaitable[None]] | None = None,
        writes: str | None = None,
        content: tuple[ToolCallContent, ...] = (),
    ) -> None:
        self.name = name
        self.kind: ToolKind = kind
        self.ran: list[NumberArguments] = []
        self._run = run
        self._timeout = timeout
        self._prepare = prepare
        self._writes = writes
        self._content = content

    async def prepare(self, arguments: NumberArguments, workspace: ToolWorkspace) -> PreparedCall:
        if self._prepare is not None:
            await self._prepare(arguments)
        name = (self._writes or "").format(n=arguments.n)
        writes = [f"{workspace.cwd}/{name}"] if name else []
        paths = tuple(workspace.path(path, "write", path) for path in writes)

        async def run(live: LiveCall) -> ToolOutcome:
            self.ran.append(arguments)
            return await self._run(arguments, live)

        return PreparedCall(
            title=f"{self.name} {arguments.n}",
            call=workspace.call(self.name, self.kind, paths=paths),
            run=run,
            content=self._content,
            timeout=self._timeout,
            shows={"cwd": workspace.cwd},
        )


def returns(words: str) -> Run:
    async def run(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        return text_outcome(f"{words} {arguments.n}")

    return run


class Gathering:
    """Counts who is inside; nobody leaves before the door is opened."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.entered: list[int] = []
        self.door = asyncio.Event()
        self._changed = asyncio.Condition()

    async def run(self, arguments: NumberArguments, live: Any) -> ToolOutcome:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered.append(arguments.n)
        async with self._changed:
            self._changed.notify_all()
        try:
            await self.door.wait()
        finally:
            self.inside -= 1
        return text_outcome(f"done {arguments.n}")

    async def wait_for(self, count: int) -> None:
        """Wait until so many have entered."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.entered) >= count)
