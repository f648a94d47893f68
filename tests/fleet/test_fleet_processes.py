"""Agents that are real processes, by a file of the user's own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import MessageChunk, SessionEnded
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, new_agent, places_in


def describe(home: Path, name: str, *options: str) -> None:
    agents = places_in(home).agents
    agents.mkdir(parents=True, exist_ok=True)
    words = (sys.executable, "-m", "quarterdeck.testing.acp_agent", *options)
    command = ", ".join(f'"{word}"' for word in words)
    (agents / f"{name}.toml").write_text(f"[transports.acp]\ncommand = [{command}]\n")


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    home = tmp_path / "home"
    describe(home, "fake", "--state", str(tmp_path / "state"))
    describe(home, "leaves", "--exit-at-start", "3")
    describe(home, "deaf", "--silent")
    (places_in(home).agents / "absent.toml").write_text(
        '[transports.acp]\ncommand = ["no-such-program-anywhere"]\n'
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with LocalFleet.open(places_in(home), environment) as fleet:
        yield fleet


async def said(fleet: LocalFleet, name: str) -> str:
    events = await events_of(fleet, name)
    return "".join(
        e.content.text
        for e in events
        if isinstance(e, MessageChunk) and isinstance(e.content, TextContent)
    )


async def test_it_works_asks_and_comes_back_with_its_past(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, "fake", name="ann", prompt="echo remember me"))
    await fleet.send("ann", (text("ask rm x"),))
    (info,) = await fleet.wait(["ann"], timeout=SOON)
    assert (info.state, info.waits_for, info.transport) == ("waiting", "permission", "acp")
    (item,) = await fleet.inbox()
    assert await fleet.answer(item.request, "allow_once")
    await fleet.wait(["ann"], timeout=SOON)
    assert "allowed" in await said(fleet, "ann")
    await fleet.close("ann")
    assert (await fleet.agent("ann")).state == "done"
    await fleet.resume("ann")
    await fleet.send("ann", (text("history"),))
    (info,) = await fleet.wait(["ann"], timeout=SOON)
    assert (info.state, info.is_live) == ("idle", True)
    assert (await said(fleet, "ann")).count("remember me") > 1


async def test_starts_that_fail_tell_why_and_harm_nobody(fleet: LocalFleet, tmp_path: Path):
    names = ("absent", "leaves", "fake")
    for agent in names:
        await fleet.spawn(new_agent(tmp_path, agent, name=agent, prompt="echo hi"))
    absent, leaves, fake = await fleet.wait(names, timeout=SOON)
    assert (absent.state, leaves.state, fake.state) == ("failed", "failed", "idle")
    assert "no-such-program-anywhere" in (absent.reason or "")
    (ended,) = [e for e in await events_of(fleet, "leaves") if isinstance(e, SessionEnded)]
    assert ended.exit_code == 3


@pytest.mark.parametrize("agent", ["deaf", "fake"])
async def test_a_kill_leaves_no_process(fleet: LocalFleet, tmp_path: Path, agent: str):
    await fleet.spawn(new_agent(tmp_path, agent, name="ann", prompt="children 2 detached\nwait"))
    if agent == "fake":
        async with asyncio.timeout(SOON):
            while "wait" not in await said(fleet, "ann"):
                await fleet.wait(["ann"], timeout=0.05)
    async with asyncio.timeout(SOON):
        await fleet.kill("ann")
        assert (await fleet.agent("ann")).state == "killed"
        while await asyncio.to_thread(_children):
            await asyncio.sleep(0.02)


def _children() -> list[int]:
    """Processes of this one's that live."""
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += [int(word) for word in task.read_text().split() if not _is_ours(word)]
    return found


def _is_ours(pid: str) -> bool:
    """Whether it is no agent: a process of the tests' own machinery, or one that is gone."""
    try:
        return "acp_agent" not in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return True
