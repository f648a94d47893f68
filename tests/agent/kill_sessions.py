"""Kills processes in the middle of a session and loads what they left; run as a program.

A warm process forks each of them, so a kill costs little. Prints one line of counts, or fails
with what is missing.
"""

import asyncio
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.agent.session import Session
from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.config.places import Places
from quarterdeck.models.script import Script, ScriptReply, ScriptScene
from quarterdeck.models.script import ScriptTextPart as Says
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.events import (
    ModelCallFinished,
    ModelCallStarted,
    Prompted,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.record import event_type
from tests.support.agent_tools import FakeTool, NumberArguments
from tests.support.native_agents import assert_valid, call, says

STEP = says("Working, step {{call}}. ", call("fake", n=1), call("fake", n=2), repeat=3)
END = ScriptReply(parts=(Says(text="Done with {{prompt}}.", chunks=4, pause=0.001),))
SCRIPT = Script(scenes={"work": ScriptScene(replies=(STEP, END))}, default="work")
PER_SESSION = 10


async def work(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    await asyncio.sleep(random.uniform(0, 0.004))
    return text_outcome(f"worked {arguments.n}")


def options() -> NativeSessionOptions:
    return NativeSessionOptions.of(
        model="scripted/test",
        make_model=lambda _: ScriptedModel(SCRIPT, name="test"),
        make_tools=lambda: (FakeTool(work),),
    )


def agent(folder: Path) -> NativeAgent:
    return NativeAgent(Places.find({"QUARTERDECK_HOME": str(folder / "home")}), {})


async def run(folder: Path, id_: str, number: int, pipe: int) -> None:
    """Go on with the session until killed, telling of each event that is acknowledged."""

    async def acknowledge(session: Session, after: int) -> None:
        async for record in session.journal.follow(after, session.id):
            os.write(pipe, f"{record.seq} {event_type(record.event)}\n".encode())

    async with agent(folder) as host:
        session = await host.load(id_, options=options())
        os.write(pipe, b"open\n")
        telling = asyncio.create_task(acknowledge(session, session.last_seq))
        for count in range(1000):
            await session.prompt((text(f"prompt {number}.{count}"),))
        await telling


def one_kill(folder: Path, id_: str, number: int) -> list[tuple[int, str]]:
    """Start a process, kill it after a while, and return what it acknowledged."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            random.seed(number)
            asyncio.run(run(folder, id_, number, writing))
        finally:
            os._exit(1)
    os.close(writing)
    # Some are killed while they load the session, most while they work.
    if number % 6:
        select.select([reading], [], [], 15)
        time.sleep(random.uniform(0, 0.06))
    else:
        time.sleep(random.uniform(0, 0.06))
    os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, f"the process ended by itself: {status}"
    told = [line.split() for line in lines if line != "open"]
    return [(int(line[0]), line[1]) for line in told if len(line) == 2]


async def verify(folder: Path, id_: str, acknowledged: dict[int, str]) -> int:
    """Load the session; all that was acknowledged is there, and it can go on."""
    async with agent(folder) as host:
        session = await host.load(id_, options=options())
        messages = session._conversation.messages()
        assert_valid(messages)
        records = [record async for record in session.journal.history(session=session.id)]
        held = {record.seq: event_type(record.event) for record in records}
        for seq, kind in acknowledged.items():
            assert held.get(seq) == kind, f"{seq} {kind} is {held.get(seq)}"
        events = [record.event for record in records]
        said_ = [part.text for m in messages for part in m.parts if isinstance(part, TextPart)]
        for event in events:
            if isinstance(event, Prompted):
                assert event.content[0].text in said_
            if isinstance(event, ModelCallFinished) and event.reply and event.reply.parts:
                assert event.reply in messages
        starts = sorted(e.call for e in events if isinstance(e, ToolCallStarted))
        assert starts == sorted(e.call for e in events if isinstance(e, ToolCallEnded))
        assert len(starts) == len(set(starts))
        for begun, done in ((TurnStarted, TurnEnded), (ModelCallStarted, ModelCallFinished)):
            counts = [sum(isinstance(e, kind) for e in events) for kind in (begun, done)]
            assert counts[0] == counts[1], (begun, counts)
        ended = await session.prompt((text("And now?"),))
        assert ended.stop == "end_turn", ended
        assert_valid(session._conversation.messages())
        return len(starts)


async def new_session(folder: Path) -> str:
    async with agent(folder) as host:
        return (await host.new(options().at(str(folder)))).id


def main(folder: Path, kills: int, seed: int) -> None:
    random.seed(seed)
    acks = calls = 0
    for start in range(0, kills, PER_SESSION):
        id_ = asyncio.run(new_session(folder))
        acknowledged: dict[int, str] = {}
        for number in range(start, min(start + PER_SESSION, kills)):
            acknowledged |= one_kill(folder, id_, number)
            if number % 3 == 0:
                asyncio.run(verify(folder, id_, acknowledged))
        calls += asyncio.run(verify(folder, id_, acknowledged))
        acks += len(acknowledged)
    print(f"{kills} kills, {acks} acknowledged, {calls} calls")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
