"""Kills processes that pursue a goal with sub-agents, and goes on with what they left.

Run as a program. A warm process forks each of them. The model here decides by nothing but the
conversation that it is sent: it gives each part of the goal to an agent, some in the background,
and does no part again whose answer it has been told. Prints one line of counts, or fails.
"""

import asyncio
import json
import os
import random
import re
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from quarterdeck.agent.goals.pursuit import pursue_goal
from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.agent.tools.builtin import all_tools
from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.config.places import Places
from quarterdeck.models.model import Delta, ModelInfo, ModelRequest, ReplyFinished, TextDelta
from quarterdeck.wire.conversation import Message, TextPart, ToolResultPart, ToolUsePart
from quarterdeck.wire.events import (
    ChildEnded,
    ChildStarted,
    GoalEnded,
    GoalSet,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.record import Record, event_type
from quarterdeck.wire.usage import TokenUsage
from tests.support.agent_tools import FakeTool, NumberArguments
from tests.support.native_agents import assert_valid

PARTS = 16
PER_SESSION = 12


async def work(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    await asyncio.sleep(random.uniform(0, 0.003))
    return text_outcome(f"worked {arguments.n}")


class Mind:
    """A model that knows only what it is sent."""

    def __init__(self) -> None:
        self.info = ModelInfo(vendor="scripted", id="mind", window=1_000_000, max_output=1000)
        self.calls = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        assert_valid(request.messages)
        texts = list(_texts(request.messages))
        first = texts[0]
        parts = _child(first, request) if first.startswith("part ") else _lead(texts)
        await asyncio.sleep(0)
        for part in parts:
            if isinstance(part, TextPart):
                yield TextDelta(text=part.text)
        stop = "tool_use" if any(isinstance(p, ToolUsePart) for p in parts) else "end_turn"
        reply = Message(role="assistant", parts=parts)
        usage = TokenUsage(input=10, output=1)
        yield ReplyFinished(reply=reply, stop=stop, usage=usage, raw_stop=stop)

    async def close(self) -> None:
        pass


def _texts(messages: tuple[Message, ...]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, TextPart):
                yield part.text
            elif isinstance(part, ToolResultPart):
                yield "".join(p.text for p in part.content if isinstance(p, TextPart))


def use(name: str, **arguments: object) -> ToolUsePart:
    return ToolUsePart(
        id=f"c{random.getrandbits(60):x}", name=name, arguments=json.dumps(arguments)
    )


def _child(task: str, request: ModelRequest) -> tuple[TextPart | ToolUsePart, ...]:
    results = sum(
        isinstance(part, ToolResultPart) for message in request.messages for part in message.parts
    )
    if results < 2:
        return (use("fake", n=results),)
    return (TextPart(text=f"{task} answered"),)


def _lead(texts: list[str]) -> tuple[TextPart | ToolUsePart, ...]:
    everything = "\n".join(texts)
    if "The goal is marked as reached" in everything:
        return (TextPart(text="All parts are answered."),)
    answered = {int(n) for n in re.findall(r"part (\d+) answered", everything)}
    left = [n for n in range(PARTS) if n not in answered]
    if not left:
        return (use("goal_done", summary="all parts", evidence=f"{len(answered)} answers"),)
    begun = set(re.findall(r"in the background as (ses_\w+)", everything))
    over = set(re.findall(r"\[Agent \w+ \((ses_\w+)\):", everything))
    if begun - over:
        return (use("children", action="wait", seconds=60),)
    if random.random() < 0.2 and not texts[-1].startswith(("Go on", "Reach")):
        return (TextPart(text="Let me think."),)
    some = left[: 1 + left[0] % 2]
    return tuple(
        use("spawn_agent", task=f"part {n}", profile="general", background=n % 4 == 3) for n in some
    )


def options() -> NativeSessionOptions:
    tools = (*all_tools(), FakeTool(work))
    return NativeSessionOptions.of(
        model="scripted/mind", make_model=lambda _: Mind(), make_tools=lambda: tools
    )


def agent(folder: Path) -> NativeAgent:
    return NativeAgent(Places.find({"QUARTERDECK_HOME": str(folder / "home")}), {})


async def run(folder: Path, id_: str, pipe: int) -> None:
    """Go on with the goal, telling of each event of any session that is acknowledged."""
    async with agent(folder) as host:
        session = await host.load(id_, options=options())
        os.write(pipe, b"open\n")

        async def acknowledge() -> None:
            async for record in session.journal.follow(session.last_seq):
                os.write(pipe, f"{record.seq} {event_type(record.event)}\n".encode())

        telling = asyncio.create_task(acknowledge())
        await pursue_goal(session, None if session.setup.goal else "All parts.")
        await telling


def one_kill(folder: Path, id_: str, number: int) -> list[tuple[int, str]]:
    """Start a process, kill it after a while, and return what it acknowledged."""
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
    # The others are killed wherever they are; these after they have acknowledged something.
    begun = read_lines(reading, 2, seconds=15) if number % 6 else b""
    time.sleep(random.uniform(0, 0.12))
    os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        lines = (begun + pipe.read()).decode().splitlines()
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"the process ended by itself: {status}"
    told = [line.split() for line in lines if line != "open"]
    return [(int(line[0]), line[1]) for line in told if len(line) == 2]


def read_lines(pipe: int, count: int, *, seconds: float) -> bytes:
    """What a process tells until it has told so many lines; however slow the machine is."""
    told, until = b"", time.monotonic() + seconds
    while told.count(b"\n") < count and (left := until - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            if not (more := os.read(pipe, 65536)):
                break
            told += more
    return told


def check(records: list[Record], id_: str) -> int:
    """No part was done again whose agent had finished; everything that began has ended."""
    finished: dict[str, str] = {}
    names: dict[str, str] = {}
    for record in records:
        match record.event:
            case ChildStarted(child=child, task=task):
                names[child] = task
                assert task not in finished, f"{task} was done again after {finished[task]}"
            case ChildEnded(child=child, how="completed"):
                finished[names[child]] = child
            case _:
                pass
    for session in {record.session for record in records}:
        own = [record.event for record in records if record.session == session]
        count = lambda *kinds: sum(isinstance(e, kinds) for e in own)  # noqa: B023, E731
        assert count(ToolCallStarted) == count(ToolCallEnded), session
        assert count(ChildStarted) == count(ChildEnded), session
        assert count(TurnStarted) == count(TurnEnded), session
        assert count(SessionOpened, SessionResumed) - count(SessionEnded) == (session == id_)
    return len(finished)


async def verify(folder: Path, id_: str, acknowledged: dict[int, str], *, finish: bool) -> int:
    async with agent(folder) as host:
        session = await host.load(id_, options=options())
        assert_valid(session._conversation.messages())
        records = [record async for record in session.journal.history()]
        held = {record.seq: event_type(record.event) for record in records}
        for seq, kind in acknowledged.items():
            assert held.get(seq) == kind, f"{seq} {kind} is {held.get(seq)}"
        if not finish:
            return check(records, id_)
        pursued = await pursue_goal(session, None if session.setup.goal else "All parts.")
        assert pursued.ended is not None, pursued
        assert pursued.ended.how == "reached", pursued
        await session.journal.durable(session.journal.last)
        records = [record async for record in session.journal.history()]
        mine = [record.event for record in records if record.session == id_]
        assert sum(isinstance(event, GoalEnded) for event in mine) == 1
        assert sum(isinstance(event, GoalSet) for event in mine) == 1
        return check(records, id_)


async def new_session(folder: Path) -> str:
    async with agent(folder) as host:
        return (await host.new(options().at(str(folder)))).id


def main(folder: Path, kills: int, seed: int) -> None:
    random.seed(seed)
    acks = parts = alive = 0
    number = 0
    while number < kills:
        id_ = asyncio.run(new_session(folder))
        acknowledged: dict[int, str] = {}
        for _ in range(min(PER_SESSION, kills - number)):
            number += 1
            acknowledged |= one_kill(folder, id_, number)
            alive = asyncio.run(verify(folder, id_, acknowledged, finish=False))
            if alive >= PARTS:
                break
        parts += asyncio.run(verify(folder, id_, acknowledged, finish=True))
        acks += len(acknowledged)
    print(f"{number} kills, {acks} acknowledged, {parts} parts")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
