"""A plan in a process of its own, with a fleet that answers at once: what is left is the cost of
running a plan. Prints one line of JSON.

    plan_run.py turns dbos|none COUNT    one task of so many turns
    plan_run.py tasks dbos|none COUNT    so many tasks, ten of which can begin at a time
    plan_run.py waiting dbos COUNT SECONDS    tasks that wait for one that does not end
"""

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, cast

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.errors import NoSuchAgentError
from quarterdeck.plans.conduct import AttemptResult, PlanConduct, TaskBrief
from quarterdeck.plans.engine import PlanEngine, open_engine
from quarterdeck.plans.plan import Contender, load_plan
from quarterdeck.plans.progress import CheckOutcome, ProgressLog
from quarterdeck.plans.run import create_run
from quarterdeck.plans.turn import SentPrompt
from quarterdeck.wire.content import ContentBlock, text
from quarterdeck.wire.events import MessageChunk, Prompted, TurnEnded, TurnStarted
from quarterdeck.wire.ids import MessageId, SessionId, TurnId, new_message_id, new_session_id
from quarterdeck.wire.record import Record
from quarterdeck.wire.usage import TokenUsage

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient

_WIDTH = 10
_HANGS = "hang"


class AnsweringFleet:
    """Agents whose turns are over as soon as they are asked for; one that is told to hang is not.

    The part of a fleet that plans use.
    """

    def __init__(self) -> None:
        self._agents: dict[str, AgentInfo] = {}
        self._records: dict[str, list[Record]] = {}
        self._seq = 0

    async def agent(self, name: str) -> AgentInfo:
        if name not in self._agents:
            raise NoSuchAgentError(name)
        return self._agents[name]

    async def spawn(self, request: SpawnOptions) -> AgentInfo:
        assert request.name is not None and request.prompt is not None
        session = new_session_id()
        info = AgentInfo(
            session=session, name=request.name, agent="codex", cwd="/", state="idle", is_live=True
        )
        self._agents[request.name] = self._agents[session] = info
        self._records[session] = []
        await self.send(session, (text(request.prompt),))
        return info

    async def send(
        self, session: str, content: tuple[ContentBlock, ...], *, resume: bool = True
    ) -> MessageId:
        del resume  # they are all live
        message, turn = new_message_id(), TurnId(f"turn_{self._seq}")
        events = [
            Prompted(content=content, message=message),
            TurnStarted(prompt=message),
            MessageChunk(content=text("done")),
            TurnEnded(stop="end_turn"),
        ]
        if content == (text(_HANGS),):
            events = events[:2]
        for event in events:
            self._seq += 1
            self._records[session].append(
                Record(
                    seq=self._seq, time=self._seq, session=SessionId(session), turn=turn,
                    event=event,
                )
            )  # fmt: skip
        return message

    async def read(self, session: str, *, after: int = 0, limit: int = 200) -> list[Record]:
        return [one for one in self._records[session] if one.seq > after][:limit]

    async def follow(
        self, after: int = 0, *, agent: str, patience: float = 0.0
    ) -> AsyncGenerator[Record]:
        for record in await self.read(agent, after=after, limit=1_000_000):
            yield record
        await asyncio.Event().wait()

    async def close(self, session: str) -> None:
        pass

    async def usage(self, by: str, *, agent: str) -> Any:
        return SimpleNamespace(total=SimpleNamespace(tokens=TokenUsage(), costs={}))


class CountingConduct(PlanConduct):
    """Whose check runs nothing, and passes with the last attempt."""

    begun = 0
    all_wait: asyncio.Event
    """Set when every task has begun to wait for what it needs."""

    async def begin_task(self, key: str) -> TaskBrief:
        self.begun += 1
        if self.begun == len(self.plan.fields.tasks):
            self.all_wait.set()
        return await super().begin_task(key)

    async def run_task_check(
        self, brief: TaskBrief, contender: Contender, attempt: int, sent: SentPrompt, number: int
    ) -> CheckOutcome:
        return CheckOutcome(name="check", passed=attempt > brief.task.fields.retries)


class PlainEngine:
    """The same steps in the same order, and nothing that remembers them: the floor."""

    async def execute(self, conduct: PlanConduct) -> None:
        keys = await conduct.start_run()
        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(self._task(conduct, key))
        await conduct.end_run()

    async def _task(self, conduct: PlanConduct, key: str) -> None:
        brief = await conduct.begin_task(key)
        (contender,) = brief.task.contenders
        async with conduct.slots:
            attempts: list[AttemptResult] = []
            for number in range(1, brief.task.fields.retries + 2):
                last = attempts[-1] if attempts else None
                sent = await conduct.send_prompt(brief, contender, number, last)
                assert isinstance(sent, SentPrompt), sent
                turn = await conduct.wait_turn(key, sent, 0)
                checks = [
                    await conduct.run_task_check(brief, contender, number, sent, place)
                    for place in range(len(brief.task.fields.checks))
                ]
                attempts.append(
                    AttemptResult(
                        passed=all(one.passed for one in checks), sent=sent, seq=turn.seq,
                        checks=tuple(checks), output=turn.output,
                    )
                )  # fmt: skip
            report = await conduct.end_contender(brief, contender, attempts)
        winner, reason = await conduct.pick(brief, [report])
        await conduct.end_task(key, "done", reason, winner, report.output)


def write_plan(what: str, count: int) -> str:
    """The plan as TOML."""
    head = 'agent = "codex"\nat_once = 100\n'
    if what == "turns":
        return (
            f'{head}[tasks.t]\nworktree = false\nprompt = "go"\nretries = {count - 1}\n'
            'retry_message = "again"\nchecks = [{ run = "true" }]\n'
        )
    lines = [head]
    for number in range(count):
        hangs = what == "waiting" and number == 0
        need = 0 if what == "waiting" else number - _WIDTH
        needs = f'needs = ["t{need}"]\n' if number and need >= 0 else ""
        prompt = _HANGS if hangs else "go"
        lines.append(f'[tasks.t{number}]\nworktree = false\nprompt = "{prompt}"\n{needs}')
    return "".join(lines)


def read_cpu() -> float:
    """Seconds that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def read_memory() -> int:
    """Bytes that are resident."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def measure(what: str, kind: str, count: int, seconds: float) -> dict[str, float]:
    """Run one plan; what it took, without the start of the engine."""
    with tempfile.TemporaryDirectory() as home:
        places = Places.find({"QUARTERDECK_HOME": home})
        file = Path(home) / "work.toml"
        file.write_text(write_plan(what, count))
        run = create_run(places, load_plan(file), {}, None)
        engine: PlanEngine = PlainEngine() if kind == "none" else open_engine(run.directory)
        with ProgressLog(run.progress_file) as progress:
            fleet = cast("HostClient", AnsweringFleet())
            conduct = CountingConduct(run, progress, fleet, places)
            conduct.all_wait = asyncio.Event()
            before, memory, began = read_cpu(), read_memory(), time.perf_counter()
            work = asyncio.create_task(engine.execute(conduct))
            if what == "waiting":
                await conduct.all_wait.wait()
                await asyncio.sleep(seconds / 4)  # until the last of them has been written down
                begun = read_cpu(), time.perf_counter()
                await asyncio.sleep(seconds)
                return {
                    "share": (read_cpu() - begun[0]) / (time.perf_counter() - begun[1]),
                    "memory": read_memory() - memory,
                }
            await work
            assert progress.find("run-end") is not None
            wall = time.perf_counter() - began
            return {"cpu": read_cpu() - before, "wall": wall, "memory": read_memory() - memory}


def main() -> None:
    """The command."""
    what, kind, count, *rest = sys.argv[1:]
    seconds = float(rest[0]) if rest else 0.0
    asyncio.run(_measure_and_leave(what, kind, int(count), seconds))


async def _measure_and_leave(what: str, kind: str, count: int, seconds: float) -> NoReturn:
    found = await measure(what, kind, count, seconds)
    print(json.dumps(found), flush=True)
    os._exit(0)  # threads of the engine would stay


if __name__ == "__main__":
    main()
