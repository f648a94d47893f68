"""A workbench whose names, times and files are always the same, and states it can be in."""

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace
from textual.pilot import Pilot

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import InboxItem, SpawnOptions
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    PermissionAsked,
    Prompted,
    QuestionAsked,
    ToolCallEnded,
    ToolCallStarted,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, ToolCallId, TurnId
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.preferences.store import load_preferences

from .workbench_app import LostFleet, screen_text, until

__all__ = ["START", "STATES", "Stage", "StagedFleet", "State", "made_project", "staged", "state"]

START = 1_767_258_000_000_000
"""Microseconds: the first of January 2026, 09:00 UTC."""
_NOW = START + 754_000_000


class StagedFleet(LostFleet):
    """Two seconds pass from one event to the next, and agents are told apart by what they cost."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0
        self.clock = self._tick

    def _tick(self) -> int:
        self.passed += 2_000_000
        return START + self.passed

    async def agent_at_work(
        self, name: str, prompt: str = "", *, agent: str = "claude", model: str = "opus-5",
        parent: SessionId | None = None,
    ) -> SessionId:  # fmt: skip
        """An agent; with a prompt it is in the middle of a turn."""
        request = SpawnOptions(
            options=SessionOptions(agent=agent, cwd="/work/project", model=model),
            name=name,
            parent=parent,
        )
        session = (await self.spawn(request)).session
        number = len(self.infos)
        self.infos[session] = replace(
            self.infos[session],
            usage=TokenUsage(input=12_400 * number, output=2_310 * number),
            cost=Cost(amount=0.183 * number, currency="USD"),
            context=ContextUsage(used=31_000 * number, size=200_000),
            title=prompt or None,
        )
        if prompt:
            message = MessageId(f"msg_{number}")
            self.open_turns[session] = TurnId(f"turn_{number}")
            await self.append(session, Prompted(content=(text(prompt),), message=message))
            await self.append(session, TurnStarted(prompt=message))
        return session

    async def tool(
        self, session: SessionId, name: str, title: str, *, end: str | None = "completed",
        **fields: object,
    ) -> ToolCallId:  # fmt: skip
        """A tool call, ended unless ``end`` is None."""
        call = ToolCallId(f"call_{len(self.records)}")
        started = ToolCallStarted(call=call, title=title, name=name, status="in_progress", **fields)  # pyright: ignore[reportArgumentType]
        await self.append(session, started)
        if end is not None:
            await self.append(session, ToolCallEnded(call=call, status=end))  # pyright: ignore[reportArgumentType]
        return call

    async def ask(self, session: SessionId, asked: PermissionAsked | QuestionAsked) -> RequestId:
        """Put a request into the inbox."""
        is_permission = isinstance(asked, PermissionAsked)
        record = await self.append(session, asked)
        self.known.add(asked.request)
        self.open[asked.request] = InboxItem(
            request=asked.request,
            session=session,
            name=self.infos[session].name,
            since=record.time,
            seq=record.seq,
            permission=asked if is_permission else None,
            question=None if is_permission else asked,
        )
        return asked.request

    async def tell(self, session: SessionId, *events: Event) -> None:
        """Append events."""
        for event in events:
            await self.append(session, event)


@dataclass
class Stage:
    """A workbench that is open, and the world around it."""

    app: Workbench
    pilot: Pilot[None]
    fleet: StagedFleet
    project: Path

    async def until(self, *words: str) -> None:
        """Wait until these words stand on the screen, however they are wrapped."""
        try:
            await until(self.pilot, lambda: all(word in self.text for word in words))
        except TimeoutError:
            missing = [word for word in words if word not in self.text]
            raise AssertionError(f"{missing} in\n{screen_text(self.app)}") from None

    @property
    def text(self) -> str:
        return " ".join(screen_text(self.app).replace("│", " ").split())

    async def command(self, name: str, words: str = "") -> None:
        """Do a command as a person's key does."""
        self.app.action_command(name, words)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)


Prepare: TypeAlias = Callable[[StagedFleet, Path], Awaitable[None]]
Play: TypeAlias = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class State:
    """A state that a person can be in: what was before, and what the person does then."""

    name: str
    prepare: Prepare
    play: Play
    needs_files: bool = False
    reach: Callable[[bool], Awaitable[None]] | None = None


STATES: dict[str, State] = {}


async def _nothing(fleet: StagedFleet, home: Path) -> None:
    del fleet, home


def state(
    before: Prepare = _nothing,
    *,
    files: bool = False,
    reach: Callable[[bool], Awaitable[None]] | None = None,
) -> Callable[[Play], Play]:
    """Name a state by the function that brings it about."""

    def named(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        assert name not in STATES
        STATES[name] = State(name=name, prepare=before, play=play, needs_files=files, reach=reach)
        return play

    return named


@asynccontextmanager
async def staged(wanted: State, home: Path, size: tuple[int, int]) -> AsyncGenerator[Stage]:
    """The workbench in a state."""
    fleet = StagedFleet()
    project = home / "project"
    if wanted.needs_files:
        await asyncio.to_thread(made_project, project)
    await wanted.prepare(fleet, home)
    places = Places(
        config=home / "config", state=home / "state", cache=home / "c", runtime=home / "r"
    )
    cwd = str(project) if wanted.needs_files else "/work/project"
    looks = await asyncio.to_thread(load_preferences, places, cwd, {})
    desk = WorkbenchContext(
        fleet=fleet, drafts=Drafts(home / "drafts"), cwd=cwd, clock=lambda: _NOW, preferences=looks
    )
    app = await asyncio.to_thread(Workbench, desk, wanted.reach or fleet.reach)
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            if wanted.reach is None:
                await until(pilot, lambda: desk.roster.is_known)
            stage = Stage(app, pilot, fleet, project)
            await wanted.play(stage)
            yield stage
    finally:
        await fleet.stop()


def made_project(top: Path) -> None:
    """A small repository with a change. Blocks."""
    (top / "src").mkdir(parents=True)
    (top / "docs").mkdir()
    code = "".join(f"def step_{n}(x):\n    return x + {n}\n\n\n" for n in range(1, 21))
    (top / "src" / "parser.py").write_text(code)
    (top / "src" / "wide.py").write_text('NAME = "你好 wörld"\n')
    (top / "README.md").write_text(
        "# Parser\n\nReads *almost* everything, see [the guide](docs/guide.md).\n\n"
        "- one\n- two\n\n| what | where |\n|---|---|\n| code | `src` |\n\n"
        "```python\nprint('hello')\n```\n"
    )
    (top / "docs" / "guide.md").write_text("# Guide\n")
    (top / "build.log").write_text("".join(f"step {n}: ok\n" for n in range(1, 61)))
    (top / "work.ipynb").write_text(_NOTEBOOK)
    words = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main"]
    then = "2026-01-01T08:00:00Z"  # so that the commit has always the same name
    environment = {"PATH": os.environ["PATH"], "HOME": str(top.parent)}
    environment |= {"GIT_AUTHOR_DATE": then, "GIT_COMMITTER_DATE": then}
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words, *command], cwd=top, check=True, env=environment)
    changed = code.replace("return x + 7\n", "return x + 70\n").replace(
        "step_12(x)", "step_12(x, y)"
    )
    (top / "src" / "parser.py").write_text(changed)
    (top / "notes.txt").write_text("new to git\n")


_NOTEBOOK = """
{"cells": [
 {"cell_type": "markdown", "metadata": {}, "source": ["# Counting\\n", "How many are there?"]},
 {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": ["print(6 * 7)"],
  "outputs": [{"output_type": "stream", "name": "stdout", "text": ["42\\n"]}]},
 {"cell_type": "code", "execution_count": 2, "metadata": {}, "source": ["1 / 0"],
  "outputs": [{"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero",
   "traceback": ["\\u001b[31mZeroDivisionError\\u001b[0m: division by zero"]}]}],
 "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
 "nbformat": 4, "nbformat_minor": 5}
"""
