"""Kills hosts in the middle of everything and opens what they left; run as a program.

A warm process forks each host. A host tells, line by line, what its fleet has reported as done.
Every eighth runs real processes as agents. Prints a line of counts, or fails with what is missing.
"""

import asyncio
import os
import random
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from quarterdeck.fleet.errors import FleetError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionAsked,
    PromptDropped,
    Prompted,
    PromptQueued,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import RequestId
from tests.support.scripted_fleet import Casting, new_agent, places_in

PER_LOG = 10
PROMPTS = ("say hi", "ask rm x", "stream 30", "wait", "ask make y", "crash", "fail x")
PROCESS_PROMPTS = ("echo hi", "ask rm x", "stream 30", "wait", "children 2 detached\nwait")


class Host:
    """One host that works until it is killed."""

    def __init__(self, folder: Path, number: int, pipe: int) -> None:
        self.folder = folder
        self.number = number
        self.pipe = pipe
        self.has_processes = number % 8 == 7
        self.fleet: LocalFleet

    def tell(self, *words: str) -> None:
        os.write(self.pipe, (" ".join(words) + "\n").encode())

    async def run(self) -> None:
        options = {} if self.has_processes else {"open_session": Casting()}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        places = places_in(self.folder / "home")
        async with LocalFleet.open(places, environment, **options) as self.fleet:  # type: ignore[arg-type]
            self.tell("open")
            async with asyncio.TaskGroup() as group:
                group.create_task(self.answer())
                for number in range(3):
                    group.create_task(self.work(number))

    async def work(self, number: int) -> None:
        prompts = PROCESS_PROMPTS if self.has_processes else PROMPTS
        agent = "fake" if self.has_processes else "claude"
        for count in range(1000):
            info = await self.fleet.spawn(
                new_agent(self.folder, agent, prompt=random.choice(prompts))
            )
            self.tell("spawned", info.session)
            with suppress(FleetError):
                for _ in range(random.randrange(4)):
                    message = await self.fleet.send(info.session, (text(random.choice(prompts)),))
                    self.tell("sent", info.session, message)
                await asyncio.sleep(random.uniform(0, 0.02))
                await self.fleet.interrupt(info.session)
                if count % 2:
                    await self.fleet.kill(info.session)
                    self.tell("killed", info.session)

    async def answer(self) -> None:
        while True:
            for item in await self.fleet.inbox():
                if await self.fleet.answer(item.request, "allow_once"):
                    self.tell("answered", item.session, item.request)
            await asyncio.sleep(0.001)


def one_kill(folder: Path, number: int) -> list[list[str]]:
    """Start a host, kill it after a while, and return what it acknowledged."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            random.seed(number)
            asyncio.run(Host(folder, number, writing).run())
        finally:
            os._exit(1)
    os.close(writing)
    told = b""
    if number % 6:  # the others are killed wherever they are, perhaps while they open
        told = read_until(reading, b"spawned", seconds=15)
    time.sleep(random.uniform(0, 1.5 if number % 8 == 7 else 0.15))
    os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        lines = (told + pipe.read()).decode().splitlines()
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, f"the host ended by itself: {status}"
    return [line.split() for line in lines if line != "open"]


def read_until(pipe: int, word: bytes, *, seconds: float) -> bytes:
    """What a host tells until it has told a word; however slow the machine is."""
    told, until = b"", time.monotonic() + seconds
    while word not in told and (left := until - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            if not (more := os.read(pipe, 65536)):
                break
            told += more
    return told


async def verify(folder: Path, told: list[list[str]]) -> int:
    """Open the fleet: nobody is live, nothing that was told is missing, all can go on."""
    async with LocalFleet.open(places_in(folder / "home"), {}, open_session=Casting()) as fleet:
        infos = {one.session: one for one in await fleet.agents(archived=True)}
        assert all(one.state in ("done", "failed", "killed") for one in infos.values()), infos
        assert not any(one.is_live or one.needs_person for one in infos.values())
        assert await fleet.inbox() == []
        for what, session, *rest in told:
            assert session in infos, (what, session)  # type: ignore[comparison-overlap]
            if what == "killed":
                # One that had crashed by itself is failed.
                assert infos[session].state in ("killed", "failed"), infos[session]  # type: ignore[index]
            if what == "answered":
                assert await fleet.answer(RequestId(rest[0]), "no") is False
        for info in infos.values():
            records = await fleet.read(info.session, limit=100_000)
            check([record.event for record in records])
            queued = {one.message for one in info.queue}
            known = {
                record.event.message
                for record in records
                if isinstance(record.event, Prompted | PromptDropped)
            }
            sent = {rest[0] for what, at, *rest in told if what == "sent" and at == info.session}
            assert sent <= queued | known, sent - queued - known
        some = next((one for one in infos.values() if one.can_resume), None)
        if some is not None:
            await fleet.resume(some.session)
            await fleet.wait([some.session], timeout=10)
            assert (await fleet.agent(some.session)).state != "starting"
            await fleet.kill(some.session)
        return len(infos)


def verify_apart(folder: Path, told: list[list[str]]) -> int:
    """Verify in a process of its own: this one stays without threads, which no fork survives."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, b"%d" % asyncio.run(verify(folder, told)))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the log does not hold what was acknowledged: status {status}"
    return int(found)


def check(events: list[object]) -> None:
    """What began has ended, once."""

    def count(*kinds: type) -> int:
        return sum(isinstance(event, kinds) for event in events)

    assert count(SessionSpawned) == count(SessionEnded), events
    assert count(SessionOpened, SessionResumed) <= count(SessionEnded)
    assert count(SessionOpened) <= 1
    assert count(TurnStarted) == count(TurnEnded), events
    assert count(ToolCallStarted) == count(ToolCallEnded), events
    asked = {event.request for event in events if isinstance(event, PermissionAsked)}
    answers = [event.request for event in events if isinstance(event, PermissionAnswered)]
    assert len(answers) == len(set(answers)) and asked <= set(answers), events
    queued = {event.message for event in events if isinstance(event, PromptQueued)}
    prompted = [event.message for event in events if isinstance(event, Prompted)]
    assert len(prompted) == len(set(prompted)) and set(prompted) <= queued


def processes(marker: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if f"--state {marker}" in words:
                found.append(words)
    return found


def nobody_is_left(marker: str) -> None:
    deadline = time.monotonic() + 15
    while left := processes(marker):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def describe_agent(folder: Path) -> None:
    """An agent of the user's own that is a real process."""
    agents = places_in(folder / "home").agents
    agents.mkdir(parents=True, exist_ok=True)
    words = (sys.executable, "-m", "quarterdeck.testing.acp_agent", "--state", str(folder / "s"))
    command = ", ".join(f'"{word}"' for word in words)
    (agents / "fake.toml").write_text(f"[transports.acp]\ncommand = [{command}]\n")


def main(folder: Path, kills: int, seed: int) -> None:
    random.seed(seed)
    acknowledged = agents = 0
    for start in range(0, kills, PER_LOG):
        here = folder / str(start)
        here.mkdir()
        describe_agent(here)
        told: list[list[str]] = []
        for number in range(start, min(start + PER_LOG, kills)):
            told += one_kill(here, number)
            if number % 8 == 7:
                nobody_is_left(str(here / "s"))
            if number % 3 == 0:
                verify_apart(here, told)
        agents += verify_apart(here, told)
        acknowledged += len(told)
    print(f"{kills} kills, {acknowledged} acknowledged, {agents} agents")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
