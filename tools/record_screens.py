"""Record what agents draw, for the tests of ``drivers/pty/screens``: raw bytes and what they mean.

``python -m tools.record_screens claude codex …`` runs each against the scripted model in a home of
its own and writes ``tests/fixtures/screens/<agent>/session.bin.gz`` and ``session.json``.
"""

import asyncio
import gzip
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.description import launch_of
from quarterdeck.drivers.pty.knowledge import screens_of
from quarterdeck.drivers.pty.reading import Reader, Reading
from quarterdeck.drivers.pty.seen import Written
from quarterdeck.drivers.pty.terminal import Terminal
from quarterdeck.drivers.pty.watching import Watch
from quarterdeck.system.port import Command
from quarterdeck.testing.model_server import ModelServer
from tests.support import real_agents

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "screens"
PROSE = (
    "please say: Do you want to create hello.txt? 1. Yes 2. No; esc to interrupt; "
    "Would you like to run the following command? Press enter to confirm or esc to cancel; "
    "Allow execution of [Shell]? Permission required; Allow once   Allow always   Reject"
)
"""Words of every agent's dialogs; the scripted model says them again."""


@dataclass
class Recording:
    """One session as it is recorded."""

    watch: Watch
    raw: bytearray = field(default_factory=bytearray)
    moments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def note(self, name: str, *states: str, seconds: float = 30.0) -> Reading:
        """Wait until the screen shows one of the states, calmly, and write that moment down."""
        watch = self.watch
        reading = await watch.until(lambda one: one.state in states, within=seconds)
        while reading is not None and reading.state != "busy":
            await watch.settled(1.2, within=10)
            if (reading := watch.now).state in states:
                break
            reading = await watch.until(lambda one: one.state in states, within=seconds)
        if reading is None:
            rows = "\n".join(row.text for row in watch.terminal.screen.rows() if row.text)
            raise SystemExit(f"{name}: {watch.now.state} instead of {states}\n{rows}")
        moment: dict[str, Any] = {"name": name, "at": len(self.raw), "state": reading.state}
        if reading.request is not None:
            kinds = [choice.option.kind for choice in reading.request.choices]
            moment["request"] = {"detail": reading.request.detail, "kinds": kinds}
        self.moments.append(moment)
        print(f"  {name}: {reading.state} {moment.get('request', '')}")
        return reading

    async def press(self, *keys: str) -> None:
        """Press keys, not all at once."""
        for key in keys:
            await self.watch.terminal.press(key)
            await asyncio.sleep(0.2)

    async def send(self, prompt: str) -> None:
        """Paste a prompt and send it."""
        await self.watch.terminal.paste(prompt)
        await self.watch.settled(0.3, within=5)
        for _ in range(3):  # some take an enter that follows a paste for a part of it
            await self.press("enter")
            begun = self.watch.until(lambda one: one.state in ("busy", "asking"), within=4)
            if await begun is not None:
                return


async def play(recording: Recording, agent: str) -> None:
    """Every state, one after another."""
    reading = await recording.note("start", "ready", "trust", "update", "login", seconds=60)
    while reading.state in ("trust", "update"):
        assert reading.rule is not None
        keys = reading.rule.accept if reading.state == "trust" else reading.rule.decline
        await recording.press(*keys)
        reading = await recording.note("start", "ready", "trust", "update")
    asks = "scene:escalate go" if agent == "codex" else "scene:shell go"
    await recording.send("scene:text hello")
    await recording.note("said", "ready")
    for name, wanted in (("allow", "allow_once"), ("deny", "reject_once")):
        await recording.send(asks)
        reading = await recording.note(f"{name}-asked", "asking")
        assert reading.request is not None
        found = [one for one in reading.request.choices if one.option.kind == wanted]
        await recording.press(*found[0].keys)
        await recording.note(f"{name}-done", "ready")
    await recording.send(PROSE)
    await recording.note("prose", "ready")
    await recording.send("scene:slow")
    await recording.note("slow", "busy")
    await asyncio.sleep(2.5)
    await recording.note("streaming", "busy")
    await recording.press(*screens_of(agent).interrupt)
    await recording.note("interrupted", "ready")


async def record(agent: str) -> None:
    """Run one agent and write down what it draws."""
    knowledge = screens_of(agent)
    launch = launch_of(find_agent(agent), "pty")
    with tempfile.TemporaryDirectory() as place:
        project = Path(place) / "project"
        project.mkdir()
        async with ModelServer() as server:
            own = real_agents.environment(agent, Path(place) / "home", server.url)
            environment = {**launch.environment, **own}
            version = await asyncio.to_thread(_version, launch.command[0], own)
            command = Command(
                argv=(*launch.command, *launch.words.get("ask", ())),
                cwd=str(project),
                env=environment,
            )
            terminal = await Terminal.start(command, size=(knowledge.columns, knowledge.rows))
            recording = Recording(Watch(terminal, Reader(knowledge)))
            following = asyncio.create_task(_follow(terminal, recording))
            try:
                await play(recording, agent)
            finally:
                await terminal.close()
                await following
    raw = bytes(recording.raw).replace(place.encode(), b"/home/dev/lab")
    if len(raw) != len(recording.raw):
        raw = bytes(recording.raw).replace(place.encode(), b"/home/dev/lab".ljust(len(place), b"_"))
    folder = FOLDER / agent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.bin.gz").write_bytes(gzip.compress(raw, mtime=0))
    meta = {
        "agent": agent,
        "version": version,
        "size": [knowledge.columns, knowledge.rows],
        "moments": recording.moments,
    }
    (folder / "session.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False) + "\n")
    print(f"{agent} {version}: {len(raw)} bytes, {len(gzip.compress(raw))} compressed")


def _version(program: str, environment: dict[str, str]) -> str:
    command = [program, "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


async def _follow(terminal: Terminal, recording: Recording) -> None:
    async for seen in terminal.follow():
        if isinstance(seen, Written):
            recording.raw += seen.data


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name)
        asyncio.run(record(name))
