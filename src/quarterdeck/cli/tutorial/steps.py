"""The steps of the tutorial: what they explain, what they run, and how their effect is checked."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.client import HostClient

__all__ = ["PROJECT_FILES", "STEPS", "StepCheck", "TutorialStep"]

StepCheck: TypeAlias = Callable[["HostClient", Path], Awaitable[str | None]]
"""Says what is missing for a step to be done, given the fleet and the project; None: nothing."""

PROJECT_FILES = {
    "greeting.py": (
        '"""What the harbour says to ships."""\n\n\n'
        'def greet(name):\n    return "Hello " + name\n\n\n'
        'def farewell(name):\n    return "Goodbye " + name\n'
    ),
    "README.md": "# Harbour\n\nGreets ships.\n",
}
_FILE = "greeting.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class TutorialStep:
    """One step: a title, an explanation, the commands, and the check of their effect."""

    title: str
    text: str
    commands: tuple[str, ...]
    check: StepCheck


async def _check_waiting(fleet: "HostClient", project: Path) -> str | None:
    info = await _find(fleet, "ann")
    if info is None:
        return "there is no agent called ann"
    is_edited = "Greet a ship" in await _read(project)
    return (
        None if info.needs_person or is_edited else f"ann has no open request: it is {info.state}"
    )


async def _check_edited(fleet: "HostClient", project: Path) -> str | None:
    del fleet
    if "Greet a ship" not in await _read(project):
        return f"{_FILE} has no docstring for greet()"
    return (
        None if not await asyncio.to_thread(_is_dirty, project) else "the change is not committed"
    )


async def _check_worktrees(fleet: "HostClient", project: Path) -> str | None:
    del project
    for name in ("bo", "cy"):
        info = await _find(fleet, name)
        if info is None or info.worktree is None:
            return f"there is no agent called {name} with a worktree"
        if "Hello" in await _read(Path(info.worktree.path)):
            return f"{name} has not changed {_FILE} yet"
    return None


async def _check_conflict(fleet: "HostClient", project: Path) -> str | None:
    return None if await _conflicts(fleet, project) else "bo and cy do not conflict"


async def _check_reviewed(fleet: "HostClient", project: Path) -> str | None:
    del project
    info = await _find(fleet, "bo")
    if info is None or info.worktree is None:
        return "bo has no worktree"
    return (
        None
        if "Good day" in await _read(Path(info.worktree.path))
        else "bo has not changed its work"
    )


async def _check_landed(fleet: "HostClient", project: Path) -> str | None:
    del fleet
    return (
        None if "Good day" in await _read(project) else f"{_FILE} in your checkout has not changed"
    )


async def _check_undone(fleet: "HostClient", project: Path) -> str | None:
    info = await _find(fleet, "cy")
    if info is None or info.worktree is None:
        return "cy has no worktree"
    if "AHOY" in await _read(Path(info.worktree.path)):
        return "the change of cy is still there"
    return "bo and cy still conflict" if await _conflicts(fleet, project) else None


async def _find(fleet: "HostClient", name: str) -> "AgentInfo | None":
    try:
        return await fleet.agent(name)
    except QuarterdeckError:
        return None


async def _conflicts(fleet: "HostClient", project: Path) -> bool:
    report = await fleet.conflicts(str(project))
    return any(
        file.kind == "text"
        for one in report.repositories
        for some in (*one.pairs, *one.against_base)
        for file in some.files
    )


async def _read(directory: Path) -> str:
    try:
        return await asyncio.to_thread((directory / _FILE).read_text, "utf-8")
    except OSError:
        return ""


def _is_dirty(project: Path) -> bool:
    from quarterdeck.system.git.command import GitPlaces, run_git

    top = str(project)
    places = GitPlaces(git_dir=f"{top}/.git", work_tree=top, cwd=top)
    return bool(run_git(places, ("status", "--porcelain"), seconds=20.0).data.strip())


STEPS = (
    TutorialStep(
        title="Start an agent",
        text=(
            "You are in a small project with a git repository. An agent gets a name and a prompt. "
            "It runs in the host, a process in the background, and stays there when your terminal "
            "is gone. --wait waits until it is done or needs you."
        ),
        commands=(
            'quarterdeck spawn -n ann --wait "Add a docstring to greet()"',
            "quarterdeck ps",
        ),
        check=_check_waiting,
    ),
    TutorialStep(
        title="Approve its first edit",
        text=(
            "In the mode ask, an agent needs your permission to change a file. The requests of all "
            "agents are in one inbox. Allow this one, look at the result, and commit it. "
            "`quarterdeck answer ann deny --feedback TEXT` would deny it and say why."
        ),
        commands=(
            "quarterdeck inbox",
            "quarterdeck answer ann allow",
            "quarterdeck wait ann",
            "git diff",
            'git commit -qam "Describe greet"',
        ),
        check=_check_edited,
    ),
    TutorialStep(
        title="Two agents, two worktrees",
        text=(
            "With --worktree an agent works in a git worktree on a branch of its own, so that "
            "agents do not disturb each other or you. The mode accept-edits allows edits without "
            "asking. Both get a task about the same function."
        ),
        commands=(
            'quarterdeck spawn -n bo --worktree --mode accept-edits --wait "Make greet() polite"',
            'quarterdeck spawn -n cy --worktree --mode accept-edits --wait "Make greet() loud"',
            "quarterdeck worktrees",
        ),
        check=_check_worktrees,
    ),
    TutorialStep(
        title="See conflicts early",
        text=(
            "Both changed the same line. The host compares the worktrees while agents work, so you "
            "see this before anything is committed."
        ),
        commands=("quarterdeck conflicts",),
        check=_check_conflict,
    ),
    TutorialStep(
        title="Review and comment",
        text=(
            "Look at what bo changed. Good morning is wrong in the evening: comment on the line, "
            "and send the comment to bo as a prompt."
        ),
        commands=(
            "quarterdeck diff bo",
            'quarterdeck review bo --comment greeting.py:6 "Say good day" --send',
            "quarterdeck wait bo",
            "quarterdeck diff bo",
        ),
        check=_check_reviewed,
    ),
    TutorialStep(
        title="Land the work",
        text=(
            "merge puts the work of bo on the branch that it started from. --checkout also updates "
            "your own files, because they have no other changes."
        ),
        commands=("quarterdeck merge bo --checkout", "git log --oneline"),
        check=_check_landed,
    ),
    TutorialStep(
        title="Undo a turn",
        text=(
            "The work of cy conflicts with what has landed and is not needed. undo reverts what a "
            "turn did to files, also by shell commands, and takes its messages out of the "
            "conversation. `quarterdeck redo cy` would bring it back."
        ),
        commands=("quarterdeck turns cy", "quarterdeck undo cy", "quarterdeck conflicts"),
        check=_check_undone,
    ),
)
"""In order; each builds on those before it."""
