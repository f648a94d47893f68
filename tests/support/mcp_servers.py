"""MCP servers for tests: the one of ours that misbehaves, and the reference one from npm."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from quarterdeck.agent.mcp.protocol import Progress
from quarterdeck.agent.tool_servers import ServerDefinition
from quarterdeck.wire.events import QuestionAnswered
from quarterdeck.wire.ids import new_request_id
from quarterdeck.wire.permissions import Decider

__all__ = ["Person", "definition", "hostile", "http_hostile", "serving"]

PROGRAM = (sys.executable, "-m", "quarterdeck.testing.mcp_server")
CLEAN = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}


def definition(name: str = "bad", *command: str, **rest: Any) -> ServerDefinition:
    return ServerDefinition(name=name, command=command, **rest)


def hostile(*quirks: str, name: str = "bad", **rest: Any) -> ServerDefinition:
    """The one of ours, over pipes."""
    return definition(name, *PROGRAM, *quirks, **rest)


@asynccontextmanager
async def serving(*command: str, env: dict[str, str] | None = None) -> AsyncIterator[str]:
    """Run a server over HTTP; gives the first line that it prints."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**CLEAN, **(env or {})},
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.stdout.read()
        await process.wait()


@asynccontextmanager
async def http_hostile(
    *quirks: str, name: str = "bad", **rest: Any
) -> AsyncIterator[ServerDefinition]:
    """The one of ours, over HTTP."""
    async with serving(*PROGRAM, "--http", *quirks) as url:
        yield ServerDefinition(name=name, url=url, **rest)


class Person:
    """Who makes a call in a test: answers what is asked and hears of progress."""

    def __init__(self, name: str | None = "Ada") -> None:
        self.asked: list[str] = []
        self.heard: list[Progress] = []
        self._name = name

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        self.asked.append(text)
        return QuestionAnswered(
            request=new_request_id(),
            action="decline" if self._name is None else "accept",
            by=Decider(kind="person"),
            content=None if self._name is None else {"name": self._name},
        )

    def progressed(self, progress: Progress) -> None:
        self.heard.append(progress)
