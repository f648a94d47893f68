"""Running one headless turn: open the session, follow its log, stop on Ctrl-C."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.agent.native import NativeAgent, Wishes
from quarterdeck.agent.session import Session
from quarterdeck.agent.store import NoSuchSession
from quarterdeck.config.places import Places
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import TurnEnded

from .answers import AnswerSchema
from .codes import OK, exit_code, goal_code
from .outputs import Output
from .session import HeadlessSession, Result

if TYPE_CHECKING:
    from quarterdeck.agent.goals.budget import Budget

    from .foreign import Foreign

__all__ = ["Goal", "Job", "WrongAnswer", "run_job"]


class WrongAnswer(QuarterdeckError):
    """The answer does not fit the schema that was asked for, also after it was asked again."""


class Goal(Struct, frozen=True, kw_only=True):
    """A goal, and what it may take."""

    text: str | None
    """None: the one that the session has."""
    budget: "Budget"


class Job(Struct, frozen=True, kw_only=True):
    """What a headless run shall do."""

    prompt: str
    cwd: str
    wishes: Wishes
    resume: str | None = None
    """The session to go on with; empty for the latest one of this directory."""
    fork: bool = False
    schema: AnswerSchema | None = None
    foreign: "Foreign | None" = None
    """Another agent than our own."""
    goal: "Goal | None" = None
    """A goal to pursue in place of a prompt."""


async def run_job(job: Job, output: Output) -> int:
    """Run the turn and write its output; returns the exit code."""
    if job.foreign is not None:
        from .foreign import open_foreign

        async with open_foreign(job.foreign) as foreign:
            ended = await _talk(foreign, job, output)
            result = _result(foreign, foreign.model, ended)
            return _finish(job, output, replace(result, violations=foreign.violations))
    async with NativeAgent(Places.find(), dict(os.environ)) as agent:
        session = await _session(agent, job)
        if job.goal is not None:
            return await _pursue(session, job.goal, output)
        ended = await _talk(session, job, output)
        return _finish(job, output, _result(session, session.model.name, ended))


async def _pursue(session: Session, goal: Goal, output: Output) -> int:
    """Pursue a goal and write the output; returns the exit code."""
    async with _follow(session, output) as reached, _interruptible(session):
        pursued = await session.pursue(goal.text, goal.budget)
        await reached(session.last_seq)
    ended = pursued.turn or TurnEnded(stop="end_turn")
    result = replace(_result(session, session.model.name, ended), goal=pursued)
    output.end(result)
    if pursued.ended is not None:
        return goal_code(pursued.ended.how)
    return exit_code(ended, was_denied=False)


async def _talk(session: HeadlessSession, job: Job, output: Output) -> TurnEnded:
    async with _follow(session, output) as reached, _interruptible(session):
        ended = await _turn(session, job, output)
        await reached(session.last_seq)
    return ended


def _result(session: HeadlessSession, model: str | None, ended: TurnEnded) -> Result:
    refused = session.gate.refused_unattended
    return Result(session=session.id, model=model, ended=ended, refused=refused)


def _finish(job: Job, output: Output, result: Result) -> int:
    output.end(result)
    code = exit_code(
        result.ended, was_denied=result.refused > 0, was_violated=result.violations > 0
    )
    if code == OK and job.schema is not None and (wrong := job.schema.problem(output.answer)):
        raise WrongAnswer(f"the answer does not fit {job.schema.name}: {wrong}")
    return code


async def _session(agent: NativeAgent, job: Job) -> Session:
    if job.resume is None:
        return await agent.new(job.cwd, wishes=job.wishes)
    id_ = job.resume or await _latest(agent, job.cwd)
    if job.fork:
        return await agent.fork(id_, wishes=job.wishes)
    return await agent.load(id_, wishes=job.wishes)


async def _latest(agent: NativeAgent, cwd: str) -> str:
    found = await agent.sessions(cwd=cwd, limit=1)
    if not found:
        raise NoSuchSession(f"the latest of {cwd}")
    return found[0].id


async def _turn(session: HeadlessSession, job: Job, output: Output) -> TurnEnded:
    said = job.prompt if job.schema is None else job.schema.ask(job.prompt)
    ended = await session.prompt((text(said),))
    if job.schema is None or ended.stop != "end_turn":
        return ended
    for _ in range(job.schema.tries):
        await session.journal.durable(session.last_seq)
        wrong = job.schema.problem(output.answer)
        if not wrong:
            break
        ended = await session.prompt((text(job.schema.ask_again(wrong)),))
    return ended


@asynccontextmanager
async def _follow(session: HeadlessSession, output: Output) -> AsyncGenerator["_Reached"]:
    """Show the session's records from now on, and let the caller wait for one of them."""
    start = session.journal.last
    reached = _Reached(start)

    async def pump() -> None:
        async for record in session.journal.follow(start, session.id):
            output.record(record)
            reached.mark(record.seq)

    task = asyncio.create_task(pump())
    reached.pump = task
    try:
        yield reached
    finally:
        task.cancel()
        await asyncio.wait([task])


class _Reached:
    """Which record was shown last; call it to wait for one."""

    def __init__(self, seq: int) -> None:
        self._seq = seq
        self._changed = asyncio.Event()
        self.pump: asyncio.Task[None] | None = None

    def mark(self, seq: int) -> None:
        self._seq = seq
        self._changed.set()

    async def __call__(self, seq: int) -> None:
        assert self.pump is not None
        while self._seq < seq:
            self._changed.clear()
            waiting = asyncio.create_task(self._changed.wait())
            await asyncio.wait([waiting, self.pump], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if self.pump.done():
                self.pump.result()
                return


@asynccontextmanager
async def _interruptible(session: HeadlessSession) -> AsyncGenerator[None]:
    """Let Ctrl-C and SIGTERM cancel the turn instead of killing the program."""
    loop = asyncio.get_running_loop()
    cancelling: set[asyncio.Task[None]] = set()

    def cancel() -> None:
        task = loop.create_task(session.cancel())
        cancelling.add(task)
        task.add_done_callback(cancelling.discard)

    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, cancel)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
