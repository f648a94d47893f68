"""The demo: two agents of two vendors change the same function of a scratch project.

Needs no key and no network. Everything but the words of the models is real: files, tests, git
worktrees, permission requests, the radar, the landing queue, the log.

A demo has a folder of its own: the project, and a home with settings, log and host, so that the
agents, settings and log of the person are not touched. ``scratch`` makes it and removes it again.
"""

import asyncio
from typing import TYPE_CHECKING

from quarterdeck.wire.session_options import SessionOptions, WorktreeOptions

from ..api import SpawnOptions
from .scratch import DemoError, DemoScratch, find_stale, sweep_stale

if TYPE_CHECKING:
    from ..api import AgentInfo, Fleet

__all__ = [
    "FIRST",
    "SECOND",
    "DemoError",
    "DemoScratch",
    "find_stale",
    "start_agents",
    "sweep_stale",
]

FIRST = "tide"
"""Our own agent, on the scripted model."""
SECOND = "guard"
"""The agent of another vendor: a fake that speaks ACP."""
_FIRST_TASK = "A test fails: high water of tomorrow is wrong. Fix it."
_SECOND_TASK = "until_high must refuse a list without tides."


async def start_agents(fleet: "Fleet", scratch: DemoScratch) -> "tuple[AgentInfo, AgentInfo]":
    """Start both agents, each in a worktree of the project.

    Raises:
        QuarterdeckError: one of them cannot be started.
    """
    project = str(scratch.project)
    first = SessionOptions(
        cwd=project, model=scratch.model, mode="accept-edits", worktree=WorktreeOptions()
    )
    second = SessionOptions(
        cwd=project, agent=scratch.second_agent, mode="ask", worktree=WorktreeOptions()
    )
    # At the same time: the second has a program to start.
    started = await asyncio.gather(
        fleet.spawn(SpawnOptions(options=first, name=FIRST, prompt=_FIRST_TASK)),
        fleet.spawn(SpawnOptions(options=second, name=SECOND, prompt=_SECOND_TASK)),
    )
    return started[0], started[1]
