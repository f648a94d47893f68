"""Agents in a fleet that change files when they are told to, in process and without tools."""

import asyncio
from pathlib import Path
from typing import Any

from quarterdeck.drivers.driver import DriverSession, EventSink
from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.fleet.agent_entry import is_own_agent
from quarterdeck.fleet.agent_runner import AgentStart
from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.native_driver import open_native
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.events import ToolCallEnded, ToolCallStarted
from quarterdeck.wire.ids import ToolCallId, new_request_id
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, PlayedLink, new_agent, places_in

__all__ = ["OwnAgents", "WorkingLink", "at_work", "begin_own", "end_own", "prompt", "workers"]

_SCRIPT = """
version = 1
default = "run"
[[scenes.run.replies]]
parts = [{ tool = "shell", arguments = { command = "{{args}}" } }]
[[scenes.run.replies]]
parts = [{ text = "Done." }]
[[scenes.stay.replies]]
parts = [{ tool = "shell", arguments = { command = "{{args}}" } }]
[[scenes.stay.replies]]
parts = [{ text = "tick ", repeat = 4000, pause = 0.1 }]
[[scenes.put.replies]]
parts = [{ tool = "write", arguments = { path = "{{args}}", content = "{{args}}\\n" } }]
[[scenes.put.replies]]
parts = [{ text = "Done." }]
"""


class WorkingLink(PlayedLink):
    """Runs the last text of a prompt as a shell command in its directory, as an agent's shell does.

    ``edit PATH TEXT`` writes a file and tells of it as a tool call. ``hold COMMAND`` runs it, then
    waits until the test lets it go.
    """

    def __init__(self, start: Any, casting: Casting) -> None:
        super().__init__(start, casting)
        self.go_on = asyncio.Event()
        self.holds = asyncio.Event()
        self.heard: list[tuple[ContentBlock, ...]] = []

    @property
    def cwd(self) -> str:
        return self.start_.spawn.options.cwd

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        self.heard.append(content)
        last = content[-1]
        assert isinstance(last, TextContent)
        words = last.text
        if words.startswith("hold "):
            await self._run(words.removeprefix("hold "))
            self.holds.set()
            await self.go_on.wait()
            self.go_on.clear()
            self.holds.clear()
        elif words.startswith("edit "):
            await self._edit(*words.split(" ", 2)[1:])
        elif words in ("crash", "wait"):
            return await super().prompt((last,))
        elif words != "nothing":
            await self._run(words)
        await self._say("done")
        return TurnOutcome(stop="end_turn")

    async def _edit(self, path: str, words: str) -> None:
        call = ToolCallId(f"call-{new_request_id()}")
        where = str(Path(self.cwd) / path)
        start = ToolCallStarted(
            call=call, title=f"Write {path}", kind="edit", raw_input={"file_path": where}
        )
        await self.host.emit(start)
        await asyncio.to_thread(Path(where).write_text, words.replace("\\n", "\n"))
        await self.host.emit(ToolCallEnded(call=call, status="completed"))

    async def _run(self, command: str) -> None:
        child = await asyncio.create_subprocess_exec("/bin/sh", "-c", command, cwd=self.cwd)
        assert await child.wait() == 0, command


class OwnAgents:
    """Opens our own agents, whose model has its commands from the prompt, beside played ones.

    ``scene:run COMMAND`` runs a command, ``scene:stay COMMAND`` too and then talks on,
    ``scene:put PATH`` writes a file with a tool.
    """

    def __init__(self, home: Path, casting: Casting) -> None:
        self._places = places_in(home)
        self._casting = casting
        self._script = home.parent / "working.toml"
        self.fleet: LocalFleet

    async def __call__(self, start: AgentStart, sink: EventSink) -> DriverSession:
        if is_own_agent(start.spawn.options):
            return await open_native(start, self._places, {}, self.fleet.journal)
        return await self._casting(start, sink)

    async def start(self, cwd: Path, name: str, **options: Any) -> AgentInfo:
        """One in full auto that is ready."""
        await asyncio.to_thread(self._script.write_text, _SCRIPT)
        options = {"model": f"scripted/{self._script}", "mode": "full-auto", **options}
        await self.fleet.spawn(SpawnOptions.of(cwd=str(cwd), name=name, **options))
        (info,) = await self.fleet.wait([name], timeout=SOON)
        return info


async def begin_own(fleet: LocalFleet, cwd: Path, name: str, command: str) -> None:
    """Have one of our own agents run a command, and hold its turn until ``end_own``.

    The directory must ignore ``*.flag``.
    """
    until = f"touch {name}-held.flag; until [ -e {name}-go.flag ]; do sleep 0.02; done"
    await fleet.send(name, (text(f"scene:run {command}; {until}"),))
    async with asyncio.timeout(SOON):
        while not await asyncio.to_thread((cwd / f"{name}-held.flag").exists):
            await asyncio.sleep(0.02)


async def end_own(fleet: LocalFleet, cwd: Path, name: str) -> None:
    """Let it end its turn."""
    await asyncio.to_thread((cwd / f"{name}-go.flag").touch)
    await fleet.wait([name], timeout=SOON)


def workers() -> Casting:
    casting = Casting()
    casting.make = WorkingLink
    return casting


async def at_work(
    fleet: LocalFleet, casting: Casting, cwd: Path, name: str, **options: Any
) -> WorkingLink:
    """An agent in full auto that is ready; its link."""
    await fleet.spawn(new_agent(cwd, name=name, mode="full-auto", **options))
    await fleet.wait([name], timeout=SOON)
    link = casting.links[-1]
    assert isinstance(link, WorkingLink)
    return link


async def prompt(fleet: LocalFleet, name: str, words: str) -> AgentInfo:
    """Have an agent do something, and wait until it is done."""
    await fleet.send(name, (text(words),))
    (info,) = await fleet.wait([name], timeout=SOON)
    return info
