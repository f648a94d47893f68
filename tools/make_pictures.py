"""Make the pictures of docs/pictures: real runs of the workbench on scripted models, as SVG.

    python -m tools.make_pictures [NAME ...]

Each picture is a run of its own: a fleet in this process, the workbench without a terminal, keys
pressed as a person does. Names, sizes and paths are fixed, so that a picture changes when the
workbench does.
"""

import asyncio
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.demo import DemoScratch
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import WorktreeOptions
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.panels.editor.view import EditorArea
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.permission import PermissionCard
from quarterdeck.workbench.screens.question import QuestionForm
from quarterdeck.workbench.stores.blocks import ToolBlock

from .record_demo import draw, record

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
SCRIPT = "pictures.toml"
"""In the directory that we work in, so that its name has no path."""
HERE = Path("/tmp/you")
"""The same on every machine: paths are in the pictures."""
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SIZE = (120, 36)
_WIDE = (160, 36)
_WIDE_SCENES = ("review-sides",)
"""Where two sides need room."""
_DEMO_SCENES = ("demo", "permission", "transcript")
"""What the demo shows."""
RECORDING = "recording"
"""The animated one, see ``record_demo``."""
WORK = "/home/you/tides"
_PATIENCE = 60.0
_AGENTS = {
    "parser": "Dates with a time zone are read wrong. Find out why.",
    "docs": "Write a page about tides for the guide.",
    "lint": "See what the linter says, and fix it.",
    "cache": "Keep tide tables for a day.",
    "release": "Bring the changelog up to date.",
    "api": "Version the endpoints.",
    "types": "Type the harbour module strictly.",
    "flaky": "test_high_water fails now and then. Why?",
    "search": "Make the search faster; measure first.",
    "mobile": "Check that the table fits on a phone.",
}


@dataclass
class Stage:
    """A workbench at work."""

    app: Workbench
    pilot: Pilot[None]
    fleet: LocalFleet
    folder: Path

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(_PATIENCE):
            while not holds():
                await self.pilot.pause(0.02)
        await self.pilot.pause(0.15)

    @property
    def request(self) -> str | None:
        """The permission request that has the keys."""
        card = self.app.requests.current
        is_read = isinstance(card, PermissionCard) and bool(card.summary.heading)
        return card.item.request if is_read and card is not None else None

    async def asked(self) -> str:
        """Wait for a permission request on the screen."""
        await self.until(lambda: self.request is not None)
        await self.pilot.pause(QUIET + 0.1)
        assert self.request is not None
        return self.request

    async def allow(self) -> None:
        """Allow what is asked for."""
        request = await self.asked()
        await self.pilot.press("y")
        await self.until(lambda: self.request != request)

    async def do(self, command: str) -> None:
        """Do a command as if it were typed."""
        name, _, words = command.removeprefix("/").partition(" ")
        self.app.action_command(name, words)
        await self.pilot.pause(0.8)

    async def spawn(self, *names: str) -> None:
        """Start agents that play a scene of ours."""
        project = self.folder / "tides"
        project.mkdir(exist_ok=True)
        (project / "tides.py").write_text("DAY = 24 * 60\n")
        for name in names:
            request = SpawnOptions(
                options=SessionOptions(cwd=str(project), model=f"scripted/{SCRIPT}"),
                name=name,
                prompt=_AGENTS[name],
            )
            await self.fleet.spawn(request)
        await self.until(lambda: len(self.app.context.roster.agents) >= len(names))
        await self.pilot.pause(1.0)


async def welcome(stage: Stage) -> None:
    await stage.until(lambda: stage.app.context.host == "connected")


async def demo(stage: Stage) -> None:
    await stage.until(lambda: len(stage.app.context.roster.agents) == 2)
    await stage.until(lambda: stage.request is not None)


async def permission(stage: Stage) -> None:
    await stage.allow()
    await stage.asked()


async def transcript(stage: Stage) -> None:
    await permission(stage)
    await stage.allow()
    roster = stage.app.context.roster
    await stage.until(lambda: sum(bool(agent.conflicts) for agent in roster.everyone) == 2)
    await stage.until(lambda: all(agent.state == "idle" for agent in roster.everyone))
    for agent in roster.everyone:
        store = stage.app.context.pages.store(agent.session)
        for block in store.blocks:
            if isinstance(block, ToolBlock) and block.title == "Edit tides.py":
                store.toggle(block)
    await stage.pilot.pause(1.0)


async def question(stage: Stage) -> None:
    await stage.spawn("cache")
    await stage.until(lambda: isinstance(stage.app.requests.current, QuestionForm))
    await stage.pilot.pause(QUIET + 0.1)


async def agents(stage: Stage) -> None:
    await stage.spawn(*_AGENTS)
    await stage.until(lambda: len(stage.app.context.inbox.items) >= 4)
    await _put_off(stage)
    shown = next(agent for agent in stage.app.context.roster.agents if agent.name == "parser")
    stage.app.main.show_agent(shown.session)
    await stage.pilot.pause(0.5)


async def inbox(stage: Stage) -> None:
    await agents(stage)
    await stage.pilot.press("ctrl+g")
    await stage.asked()


async def help_screen(stage: Stage) -> None:
    await stage.pilot.press("f1")
    await stage.pilot.pause(0.3)


async def spawn_form(stage: Stage) -> None:
    await stage.app.move(str(await asyncio.to_thread(_tide_project, stage.folder / "tides")))
    await stage.pilot.press("ctrl+t")
    await stage.until(lambda: len(stage.app.screen_stack) > 1)
    await stage.pilot.press(*"Fix the failing test of the tide table.", *["tab"] * 6, "down")
    await stage.pilot.pause(0.3)


async def palette(stage: Stage) -> None:
    await stage.pilot.press("ctrl+p")
    await stage.until(lambda: len(stage.app.screen_stack) > 1)
    await stage.pilot.pause(0.5)


async def layout(stage: Stage) -> None:
    """The files of a project, what has changed, and the chat."""
    project = await asyncio.to_thread(_changed_project, stage.folder / "project")
    await stage.spawn("parser", "release")
    shown = next(agent for agent in stage.app.context.roster.agents if agent.name == "parser")
    stage.app.main.show_agent(shown.session)
    await stage.app.move(str(project))
    await stage.do("/layout review")
    await stage.do("/focus chat")
    await stage.pilot.pause(1.0)


async def terminal(stage: Stage) -> None:
    """A shell of the host's beside a chat."""
    project = await asyncio.to_thread(_changed_project, stage.folder / "project")
    await stage.spawn("parser", "release")
    shown = next(agent for agent in stage.app.context.roster.agents if agent.name == "parser")
    stage.app.main.show_agent(shown.session)
    await stage.app.move(str(project))
    await stage.do("/terminal bash --norc --noprofile")
    await stage.pilot.pause(1.0)
    for line in _TYPED:
        await stage.pilot.press(*line, "enter")
        await stage.pilot.pause(0.6)


def _editor_areas(stage: Stage) -> list[EditorArea]:
    return list(stage.app.main.query(EditorArea).results())


async def editor(stage: Stage) -> None:
    project = await asyncio.to_thread(_changed_project, stage.folder / "project")
    await stage.spawn("parser")
    await stage.app.move(str(project))
    await stage.do("/edit tides.py")
    await stage.until(lambda: any("TIDE" in area.text for area in _editor_areas(stage)))
    area = _editor_areas(stage)[0]
    area.focus()
    await stage.until(lambda: stage.app.focused is area and not area.read_only)
    await stage.pilot.press("down", "end", *"  # a tide")
    await stage.pilot.pause(0.5)


async def changes(stage: Stage) -> None:
    project = await asyncio.to_thread(_changed_project, stage.folder / "project")
    await stage.app.move(str(project))
    await stage.do("/diff")
    await stage.do("/zoom")
    await stage.pilot.pause(0.5)


async def _two_in_worktrees(stage: Stage) -> None:
    """Two agents that change one function, each in a worktree of its own."""
    project = await asyncio.to_thread(_tide_project, stage.folder / "tides")
    await stage.app.move(str(project))
    for name, prompt in (("tide", _TIDE_TASK), ("guard", _GUARD_TASK)):
        options = SessionOptions(
            cwd=str(project),
            model=f"scripted/{SCRIPT}",
            mode="full-auto",
            worktree=WorktreeOptions(),
        )
        await stage.fleet.spawn(SpawnOptions(options=options, name=name, prompt=prompt))
        await stage.until(lambda: len(stage.app.context.roster.agents) > 0)
        await stage.fleet.wait([name], timeout=_PATIENCE)
    roster = stage.app.context.roster
    await stage.until(lambda: sum(bool(agent.conflicts) for agent in roster.everyone) == 2)


async def review(stage: Stage) -> None:
    await _two_in_worktrees(stage)
    await stage.fleet.comment("tide", "tides.py", 8, "Name it: what is 745?")
    await stage.do("/review tide tides.py")
    await stage.pilot.press("j", "j")
    await stage.pilot.pause(1.0)


async def review_sides(stage: Stage) -> None:
    await review(stage)
    await stage.pilot.press("u")
    await stage.pilot.pause(1.0)


async def conflicts(stage: Stage) -> None:
    await _two_in_worktrees(stage)
    await stage.do("/conflicts")
    await stage.pilot.pause(1.5)


async def radar(stage: Stage) -> None:
    await _two_in_worktrees(stage)
    guard = next(one for one in stage.app.context.roster.agents if one.name == "guard")
    stage.app.main.show_agent(guard.session)
    await stage.pilot.pause(1.0)


async def feed(stage: Stage) -> None:
    await agents(stage)
    await stage.pilot.press("f8")
    await stage.pilot.pause(1.0)


async def themes(stage: Stage) -> None:
    await stage.spawn("parser")
    await stage.pilot.press("f9")
    await stage.until(lambda: len(stage.app.screen_stack) > 1)
    await stage.pilot.pause(0.3)


_TYPED = (
    r"""PS1='\[\e]0;tides\a\e[32m\]tides\[\e[0m\] $ '""",
    'git() { command git -c color.ui=always --no-pager "$@"; }; clear',
    "git status --short",
    "git diff tides.py",
    "python3 -c 'import tides; print(tides.TIDE)'",
)
_BEFORE = """\
DAY = 24 * 60


def next_high_water(minutes):
    return DAY - minutes
"""
_AFTER = """\
DAY = 24 * 60
TIDE = 12 * 60 + 25


def next_high_water(minutes: int) -> int:
    \"\"\"Minutes until the water is highest.\"\"\"
    return TIDE - minutes % TIDE
"""


_TIDES = '''"""When the water is high."""

DAY = 24 * 60


def rise(minutes):
    return DAY - minutes


def low(minutes):
    return rise(minutes) + 6 * 60


def describe(minutes):
    """In words, for people on the beach."""
    hours = minutes // 60
    return f"in {hours} hours"
'''
_TIDE_TASK = "High water comes twice a day. Count from the tide."
_GUARD_TASK = "Refuse negative minutes."
_GUIDE = "# Tides\n\nThe sea comes twice a day, 25 minutes later each time.\n"


def _commit_project(folder: Path, files: dict[str, str]) -> Path:
    """A repository with one commit."""
    folder.mkdir()
    git = ("git", "-c", "user.name=You", "-c", "user.email=you@example.com")
    for name, text in files.items():
        (folder / name).write_text(text)
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "Begin")):
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
        subprocess.run([*git, *words], cwd=folder, env=environment, check=True)
    return folder


def _tide_project(folder: Path) -> Path:
    return _commit_project(folder, {"tides.py": _TIDES, "guide.md": "# Tides\n"})


def _changed_project(folder: Path) -> Path:
    """A work tree with a change that is not committed."""
    _commit_project(folder, {"tides.py": _BEFORE, "guide.md": "# Tides\n"})
    (folder / "tides.py").write_text(_AFTER)
    (folder / "guide.md").write_text(_GUIDE)
    return folder


async def _put_off(stage: Stage) -> None:
    await stage.pilot.pause(QUIET + 0.1)
    while len(stage.app.screen_stack) > 1:
        await stage.pilot.press("escape")
        await stage.pilot.pause(QUIET + 0.1)


SCENES: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "welcome": welcome,
    "demo": demo,
    "permission": permission,
    "transcript": transcript,
    "question": question,
    "agents": agents,
    "inbox": inbox,
    "help": help_screen,
    "spawn": spawn_form,
    "palette": palette,
    "layout": layout,
    "terminal": terminal,
    "editor": editor,
    "changes": changes,
    "review": review,
    "review-sides": review_sides,
    "conflicts": conflicts,
    "radar": radar,
    "feed": feed,
    "themes": themes,
}


@asynccontextmanager
async def staged(
    folder: Path, size: tuple[int, int] = SIZE, scratch: DemoScratch | None = None
) -> AsyncGenerator[Stage]:
    places = Places.find({"QUARTERDECK_HOME": str(folder / ".quarterdeck")})
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    await asyncio.to_thread(_furnish, folder)
    if scratch is not None:
        places, environment = scratch.places, scratch.environment

    async def reach(starts: bool) -> None:
        del starts

    async with LocalFleet.open(places, environment) as fleet:
        drafts = Drafts(folder / "drafts")
        context = WorkbenchContext(fleet=fleet, drafts=drafts, cwd=WORK, clock=read_wall_clock)
        context.discovery.places = places
        context.discovery.environment = {
            "PATH": str(folder / "bin"),
            "HOME": str(folder),
            "ANTHROPIC_API_KEY": "-",
        }
        context.discovery.demo = scratch
        app = Workbench(context, reach)
        async with app.run_test(size=size, notifications=False) as pilot:
            stage = Stage(app, pilot, fleet, folder)
            await stage.until(
                lambda: context.host == "connected" and context.discovery.trust is not None
            )
            yield stage
        for agent in await fleet.agents():
            await fleet.kill(agent.session)


@asynccontextmanager
async def _scratch_for(name: str) -> AsyncGenerator[DemoScratch | None]:
    """The folder of the demo, where a picture shows it."""
    if name not in _DEMO_SCENES:
        yield None
        return
    scratch = await asyncio.to_thread(DemoScratch().__enter__)
    try:
        yield scratch
    finally:
        await asyncio.to_thread(scratch.remove)


def _furnish(folder: Path) -> None:
    """A machine as many are: two agents are here, one of them logged in."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("claude", "codex"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)


def _tidy(svg: str) -> str:
    """Without a font from elsewhere, and with every space where it was."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: (Fira Code|arial)[^;]*;", f"font-family: {FONTS};", svg)
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE).rstrip() + "\n"


async def make(name: str, size: tuple[int, int] = SIZE) -> str:
    """Play a scene; the picture of its end."""
    await asyncio.to_thread(HERE.mkdir)
    try:
        # Temporary files have names that are the same each time.
        tempfile.tempdir = str(HERE)
        names = iter(f"{number:04}" for number in itertools.count(1))
        tempfile._name_sequence = names  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        async with _scratch_for(name) as scratch, staged(HERE, size, scratch) as stage:
            await SCENES[name](stage)
            return _tidy(stage.app.export_screenshot(title="quarterdeck"))
    finally:
        tempfile.tempdir = None
        await asyncio.to_thread(shutil.rmtree, HERE)


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT / "tools")
    for name in sys.argv[1:] or (*SCENES, RECORDING):
        if name == RECORDING:
            svg = draw(asyncio.run(record()))
        else:
            svg = asyncio.run(make(name, _WIDE if name in _WIDE_SCENES else SIZE))
        (PICTURES / f"{name}.svg").write_text(svg, "utf-8")
        print(f"docs/pictures/{name}.svg")


if __name__ == "__main__":
    main()
