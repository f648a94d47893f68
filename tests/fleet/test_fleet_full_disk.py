"""A disk that is full: callers are told, agents are held back and not lost."""

import asyncio
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quarterdeck.journal import JournalStalledError
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


async def test_a_full_disk_is_told_and_agents_go_on_when_there_is_room(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann"))
        await fleet.spawn(new_agent(tmp_path, name="bob"))
        await fleet.wait(["ann", "bob"], timeout=SOON)
        log = Path(str(fleet.journal.path) + "-wal")
        size = await asyncio.to_thread(lambda: log.stat().st_size)
        with full_disk(size):
            with pytest.raises(JournalStalledError):
                await fleet.send("ann", (text("say kept"),))
            with pytest.raises(JournalStalledError):
                await fleet.spawn(new_agent(tmp_path, name="cid"))
            status = await fleet.status()
            assert status.problem is not None
            assert {one.name: one.is_live for one in await fleet.agents()} == {
                "ann": True,
                "bob": True,
            }
        async with asyncio.timeout(SOON):
            while (await fleet.status()).problem is not None:
                await asyncio.sleep(0.05)
        await fleet.send("bob", (text("say on"),))
        await fleet.wait(["ann", "bob"], timeout=SOON)
        for name in ("ann", "bob"):
            assert any(isinstance(e, MessageChunk) for e in await events_of(fleet, name))
        states = {one.name: one.state for one in await fleet.agents()}
        assert states == {"ann": "idle", "bob": "idle", "cid": "failed"}
        assert (await fleet.status()).problem is None
