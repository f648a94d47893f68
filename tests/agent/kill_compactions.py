"""Kill a process while its session is being compacted, again and again; then look at what is left.

``python kill_compactions.py FOLDER KILLS SEED``, as ``kill_sessions``.
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.config.places import Places
from quarterdeck.models.model import ModelRequest
from quarterdeck.wire.content import text
from quarterdeck.wire.events import CompactionChanged
from tests.support.native_agents import assert_valid
from tests.support.window_models import Reply, Worker, is_summary, loud

CONTEXT = {"clear_at": 0.3, "summarise_at": 0.4, "wait_at": 0.8}


class Slow(Worker):
    """Takes a moment for a summary, so that there is a moment to be killed in."""

    async def stream(self, request: ModelRequest):  # type: ignore[override]
        if is_summary(request):
            await asyncio.sleep(random.uniform(0, 0.02))
        async for delta in super().stream(request):
            yield delta


def summary(_: ModelRequest) -> Reply:
    return random.choice(["# Goal\nGo on.", "# Goal\nGo on.", ""])


def options() -> NativeSessionOptions:
    def make(_: str) -> Slow:
        worker = Slow(window=16_000)
        worker.summary = summary
        return worker

    flags = {"limits": {"model_calls": "unbounded"}, "context": CONTEXT}
    return NativeSessionOptions.of(
        model="test/worker", make_model=make, make_tools=lambda: (loud(500),), flags=flags
    )


def agent(folder: Path) -> NativeAgent:
    return NativeAgent(Places.find({"QUARTERDECK_HOME": str(folder / "home")}), {})


async def run(folder: Path, id_: str, pipe: int) -> None:
    async def tell() -> None:
        async for record in session.journal.follow(session.last_seq, session.id):
            if isinstance(record.event, CompactionChanged):
                os.write(pipe, b"c")

    async with agent(folder) as host:
        session = await host.load(id_, options=options())
        telling = asyncio.create_task(tell())
        for _ in range(1000):
            await session.prompt((text("Never push. work 40"),))
        await telling


def one_kill(folder: Path, id_: str, number: int) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            random.seed(number)
            asyncio.run(run(folder, id_, writing))
        finally:
            os._exit(1)
    os.close(writing)
    os.read(reading, 1)
    time.sleep(random.uniform(0, 0.03))
    os.kill(pid, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, f"the process ended by itself: {status}"


async def verify(folder: Path, id_: str) -> tuple[int, int]:
    """Load the session: each compaction has one end, requests are whole, and it goes on."""
    async with agent(folder) as host:
        session = await host.load(id_, options=options())
        assert_valid(session._conversation.messages())
        events = [record.event async for record in session.journal.history(session=session.id)]
        changed = [event for event in events if isinstance(event, CompactionChanged)]
        begun = [event.compaction for event in changed if event.status == "in_progress"]
        ended = [event.compaction for event in changed if event.status != "in_progress"]
        assert sorted(begun) == sorted(ended)
        done = await session.prompt((text("And now? work 0"),))
        assert done.stop == "end_turn", done
        assert_valid(session._conversation.messages())
    cut = sum(event.error is not None and "died" in event.error for event in changed)
    return len(begun), cut


async def new_session(folder: Path) -> str:
    async with agent(folder) as host:
        return (await host.new(options().at(str(folder)))).id


def main(folder: Path, kills: int, seed: int) -> None:
    random.seed(seed)
    id_ = asyncio.run(new_session(folder))
    begun = cut = 0
    for number in range(kills):
        one_kill(folder, id_, number)
        begun, cut = asyncio.run(verify(folder, id_))
    print(f"{kills} kills, {begun} compactions, {cut} cut off")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
