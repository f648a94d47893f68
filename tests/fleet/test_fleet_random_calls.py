"""Anything, at any time, by several callers at once: the log stays in order and all agree on it."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.errors import FleetError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.projections import load_archived, load_unarchived
from quarterdeck.wire.content import text
from tests.fleet.kill_hosts import check
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent

PROMPTS = ("say x", "ask rm x", "question why", "wait", "stream 5", "fail x", "crash", "tokens 3")


class Caller:
    """Does one thing after another, without looking."""

    def __init__(self, fleet: LocalFleet, folder: Path, seed: int) -> None:
        self.fleet = fleet
        self.folder = folder
        self.random = random.Random(seed)

    async def act(self) -> None:
        acts = (
            *(self.spawn, self.spawn, self.send, self.send, self.send, self.edit, self.interrupt),
            *(self.answer, self.answer, self.answer, self.kill, self.close, self.resume),
            *(self.resume, self.archive, self.rename, self.fork, self.set_mode),
        )
        with suppress(FleetError):
            await self.random.choice(acts)()
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)

    async def some(self) -> AgentInfo:
        infos = await self.fleet.agents(archived=True)
        return self.random.choice(infos) if infos else await self.spawn()

    async def spawn(self) -> AgentInfo:
        prompt = self.random.choice((None, *PROMPTS))
        infos = await self.fleet.agents()
        parents = [None, *(one.session for one in infos if one.is_live)]
        parent = self.random.choice(parents)
        return await self.fleet.spawn(new_agent(self.folder, prompt=prompt, parent=parent))

    async def send(self) -> None:
        agent = (await self.some()).session
        await self.fleet.send(agent, (text(self.random.choice(PROMPTS)),))

    async def edit(self) -> None:
        info = await self.some()
        if info.queue:
            words = self.random.choice((None, (text("say edited"),)))
            await self.fleet.edit(info.session, self.random.choice(info.queue).message, words)

    async def interrupt(self) -> None:
        keep = self.random.random() < 0.5
        await self.fleet.interrupt((await self.some()).session, keep_queue=keep)

    async def answer(self) -> None:
        for item in await self.fleet.inbox():
            if item.permission is not None:
                await self.fleet.answer(item.request, self.random.choice(("yes", "no")))
            else:
                await self.fleet.reply(item.request, "accept")

    async def kill(self) -> None:
        await self.fleet.kill((await self.some()).session)

    async def close(self) -> None:
        await self.fleet.close((await self.some()).session)

    async def resume(self) -> None:
        await self.fleet.resume((await self.some()).session)

    async def archive(self) -> None:
        archived = self.random.random() < 0.6
        await self.fleet.archive((await self.some()).session, archived=archived)

    async def rename(self) -> None:
        name = f"name-{self.random.randrange(6)}"
        await self.fleet.rename((await self.some()).session, name)

    async def fork(self) -> None:
        await self.fleet.fork((await self.some()).session)

    async def set_mode(self) -> None:
        mode = self.random.choice(("ask", "plan", "read-only"))
        await self.fleet.set_option((await self.some()).session, "mode", mode)


async def play(folder: Path, seed: int, callers: int, acts: int) -> None:
    async def one(number: int) -> None:
        caller = Caller(fleet, folder, seed * 100 + number)
        for _ in range(acts):
            async with asyncio.timeout(SOON):
                await caller.act()

    async with fleet_of(folder / "home") as fleet:
        await asyncio.gather(*(one(number) for number in range(callers)))
        await agree(fleet)
        names = [one.name.casefold() for one in await fleet.agents()]
        assert len(names) == len(set(names))
        for info in await fleet.agents(archived=True):
            assert not (info.is_archived and info.is_live)
    async with fleet_of(folder / "home") as fleet:
        for info in await fleet.agents(archived=True):
            assert info.state in ("done", "failed", "killed") and not info.needs_person
            check(list[object](await events_of(fleet, info.session)))
        assert await fleet.inbox() == []


async def agree(fleet: LocalFleet) -> None:
    """Memory, projection and a projection that is made anew say the same."""
    await fleet._notes.settled()
    stored = await _stored(fleet)
    last = {one.session: one for one in fleet._current.all()}
    await fleet.journal.rebuild("fleet")
    assert {session: stored[session] for session in last} == last or await _quiet(fleet)
    assert fleet.journal.failed_projections == {}


async def _quiet(fleet: LocalFleet) -> bool:
    """Agents that still worked meanwhile are ahead of what was read: look again when they rest."""
    for info in await fleet.agents():
        await fleet.kill(info.session)
    await fleet._notes.settled()
    stored = await _stored(fleet)
    return all(stored[one.session] == one for one in fleet._current.all())


async def _stored(fleet: LocalFleet) -> dict[str, object]:
    journal = fleet.journal
    entries = await journal.query(load_unarchived) + await journal.query(load_archived)
    return {entry.session: entry for entry in entries}


@pytest.mark.parametrize("seed", range(3))
async def test_three_callers_do_anything(tmp_path: Path, seed: int):
    await play(tmp_path, seed, callers=3, acts=40)


@pytest.mark.stress
@pytest.mark.timeout(600)
async def test_many_callers_do_anything_for_long(tmp_path: Path):
    for seed in range(30):
        folder = tmp_path / str(seed)
        await asyncio.to_thread(folder.mkdir)
        await play(folder, seed + 1000, callers=6, acts=120)
