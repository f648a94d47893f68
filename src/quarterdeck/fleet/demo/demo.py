"""Beginning the demo, finding it again, and clearing it away: the same from screen and command."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.config.trust import TrustStore
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import PermissionAsked

from ..errors import NameTaken
from ..port import Spawn
from .scratch import NAME, is_kept, keep, make_project, remove, scratch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quarterdeck.config.places import Places

    from ..port import AgentInfo, Fleet

__all__ = ["PROMPT", "begin_demo", "demo_agents", "end_demo", "keep_demo"]

PROMPT = (
    "A test fails: high water of tomorrow is wrong. Mend it. README.md should say how the tests "
    "are run; let somebody else do that."
)
_NAME = "demo"
_MODEL = "scripted/demo"
_PAGE = 500


async def begin_demo(fleet: "Fleet", places: "Places") -> "AgentInfo":
    """Make the scratch project and start the agent that leads; an earlier demo is cleared away.

    The project is trusted, and nothing else is, until the demo ends.

    Raises:
        QuarterdeckError: it cannot be made or started; nothing is left behind.
    """
    await end_demo(fleet, places)
    project = await asyncio.to_thread(make_project)
    wish = Spawn(
        agent="native",
        cwd=str(project),
        name=_NAME,
        prompt=PROMPT,
        model=_MODEL,
        mode="ask",
        lead=True,
    )
    try:
        await asyncio.to_thread(TrustStore(places.trust_file).trust, project)
        return await _spawn(fleet, wish)
    except BaseException:
        await asyncio.to_thread(_forget, project.parent, places)
        raise


async def demo_agents(fleet: "Fleet") -> "list[AgentInfo]":
    """The agents of demos that are not kept, the leading ones first."""
    agents = await fleet.agents(archived=True)
    found = await asyncio.to_thread(_ours, agents)
    return sorted(found, key=lambda agent: (agent.parent is not None, agent.spawned))


async def end_demo(fleet: "Fleet", places: "Places") -> int:
    """Clear demos away: agents, their log, their grants, their project and its trust.

    Does what can be done, and returns how many agents there were.

    Raises:
        QuarterdeckError: the fleet cannot be reached.
    """
    agents = await demo_agents(fleet)
    folders = {Path(agent.cwd).parent for agent in agents}
    await _revoke(fleet, agents)
    for agent in agents:
        with suppress(QuarterdeckError):
            await fleet.kill(agent.session, reason="the demo is over")
    for agent in reversed(agents):
        with suppress(QuarterdeckError):
            await fleet.delete(agent.session)
    for folder in folders:
        await asyncio.to_thread(_forget, folder, places)
    return len(agents)


async def keep_demo(fleet: "Fleet", places: "Places") -> list[str]:
    """Let demos stay; returns where their projects are. They are trusted no longer."""
    projects = sorted({agent.cwd for agent in await demo_agents(fleet)})
    for project in projects:
        await asyncio.to_thread(_keep, project, places)
    return projects


async def _spawn(fleet: "Fleet", wish: Spawn) -> "AgentInfo":
    try:
        return await fleet.spawn(wish)
    except NameTaken:  # by an agent of the person's own
        from msgspec.structs import replace

        return await fleet.spawn(replace(wish, name=None))


async def _revoke(fleet: "Fleet", agents: "Sequence[AgentInfo]") -> None:
    """Take back what the person allowed for longer than the demo."""
    if not agents or not (grants := await fleet.grants()):
        return
    asked = {request for agent in agents for request in await _requests(fleet, agent)}
    for grant in grants:
        if grant.request in asked:
            with suppress(QuarterdeckError):
                await fleet.revoke(grant.id, by="demo")


async def _requests(fleet: "Fleet", agent: "AgentInfo") -> set[str]:
    found: set[str] = set()
    after = 0
    while records := await fleet.read(agent.session, after=after, limit=_PAGE):
        asked = (record.event for record in records)
        found |= {event.request for event in asked if isinstance(event, PermissionAsked)}
        after = records[-1].seq
    return found


def _ours(agents: "Iterable[AgentInfo]") -> "list[AgentInfo]":
    def is_ours(agent: "AgentInfo") -> bool:
        scratch = scratch_of(agent.cwd)
        return scratch is not None and not is_kept(scratch)

    return [agent for agent in agents if is_ours(agent)]


def _keep(project: str, places: "Places") -> None:
    keep(Path(project).parent)
    TrustStore(places.trust_file).revoke(Path(project))


def _forget(scratch: Path, places: "Places") -> None:
    with suppress(QuarterdeckError):
        TrustStore(places.trust_file).revoke(scratch / NAME)
    remove(scratch)
