"""Many busy agents: nothing is lost, answers come soon, and one more event costs no more."""

import asyncio
import time
from pathlib import Path

import pytest

from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, TurnEnded
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, PlayedLink, events_of, fleet_of, new_agent


class PacedLink(PlayedLink):
    """Says something twenty times a second."""

    async def _stream(self, number: str) -> TurnOutcome:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for n in range(int(number)):
            await self._say(f"chunk {n} " + "x" * 200)
            await asyncio.sleep(max(0.0, began + (n + 1) / 20 - loop.time()))
        return TurnOutcome(stop="end_turn")


async def run(tmp_path: Path, agents: int, seconds: int) -> tuple[float, list[float]]:
    """Run busy agents; the share of a core that it took, and how long answers took."""
    casting = Casting()
    casting.make = PacedLink
    async with fleet_of(tmp_path / "home", casting) as fleet:
        names = [f"a{n}" for n in range(agents)]
        await asyncio.gather(*(fleet.spawn(new_agent(tmp_path, name=name)) for name in names))
        await fleet.wait(names, timeout=SOON)
        await fleet.spawn(new_agent(tmp_path, name="asks"))
        cpu, wall = time.process_time(), time.perf_counter()
        for name in names:
            await fleet.send(name, (text(f"stream {seconds * 20}"),))
        took: list[float] = []
        while time.perf_counter() - wall < seconds - 0.5:
            await fleet.send("asks", (text("ask rm x"),))
            await fleet.wait(["asks"], timeout=SOON)
            (item,) = await fleet.inbox()
            began = time.perf_counter()
            assert await fleet.answer(item.request, "yes")
            await fleet.agents()
            took.append(time.perf_counter() - began)
            await fleet.wait(["asks"], timeout=SOON)
            await asyncio.sleep(0.05)
        await fleet.wait(names, timeout=SOON * 2)
        share = (time.process_time() - cpu) / (time.perf_counter() - wall)
        for name in names:
            events = await events_of(fleet, name)
            assert sum(isinstance(e, MessageChunk) for e in events) == seconds * 20
            assert sum(isinstance(e, TurnEnded) for e in events) == 1
    return share, sorted(took)


async def test_busy_agents_lose_nothing_and_are_answered_soon(tmp_path: Path):
    share, took = await run(tmp_path, agents=20, seconds=2)
    assert took[len(took) // 2] < 0.1
    assert share < 1


@pytest.mark.stress
async def test_fifty_agents_that_say_twenty_things_a_second(tmp_path: Path):
    share, took = await run(tmp_path, agents=50, seconds=20)
    print(
        f"{share:.2f} of a core; answers: median {took[len(took) // 2] * 1e3:.1f} ms, "
        f"worst {took[-1] * 1e3:.1f} ms"
    )
    assert share < 1
    assert took[int(len(took) * 0.95)] < 0.1
