"""Running one headless turn: open the session, follow its log, stop on Ctrl-C."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.agent.session import Session
from quarterdeck.agent.session_store import NoSuchSessionError
from quarterdeck.config.places import Places
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import TurnEnded
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.tasks import BackgroundTasks, start_task

from ..output import write_notice
from .answer_schema import AnswerSchema
from .exit_codes import CANCELLED, DIVERGED, ERROR, OK, exit_code, goal_code
from .outputs import HeadlessOutput, HeadlessResult, HeadlessSession

if TYPE_CHECKING:
    from quarterdeck.agent.goals.state import GoalBudget
    from quarterdeck.fleet.cassette.tape import CassetteTape

__all__ = ["HeadlessGoal", "HeadlessJob", "WrongAnswerError", "open_tape", "run_job"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class WrongAnswerError(QuarterdeckError):
    """The answer does not fit the schema that was asked for, also after it was asked again."""


class HeadlessGoal(Struct, frozen=True, kw_only=True):
    """A goal, and what it may take."""

    text: str | None
    """None: the one that the session has."""
    budget: "GoalBudget"


class HeadlessJob(Struct, frozen=True, kw_only=True):
    """What a headless run is to do."""

    prompt: str
    options: SessionOptions
    """``resume`` is our id of a session; empty: the latest one of this directory."""
    schema: AnswerSchema | None = None
    goal: "HeadlessGoal | None" = None
    """A goal to pursue in place of a prompt."""
    record: Path | None = None
    """Record the model calls of another agent on this cassette."""
    cassette: Path | None = None
    """Answer the model calls of another agent from this cassette."""


async def run_job(job: HeadlessJob, output: HeadlessOutput) -> int:
    """Run the turn and write its output; returns the exit code.

    Ctrl-C and SIGTERM cancel the turn, or the start of the agent; a second one ends everything.
    """
    task = asyncio.current_task()
    assert task is not None
    with _Interrupts(task) as interrupts:
        try:
            return await _run(job, output, interrupts)
        except asyncio.CancelledError:
            if not interrupts.happened:
                raise
            task.uncancel()
            write_notice("· interrupted")
            return CANCELLED


async def _run(job: HeadlessJob, output: HeadlessOutput, interrupts: "_Interrupts") -> int:
    if job.options.agent != "native":
        return await _run_foreign(job, output, interrupts)
    async with NativeAgent(Places.find(), {**os.environ, **job.options.variables}) as agent:
        session = await _session(agent, job)
        if job.goal is not None:
            return await _pursue(session, job.goal, output, interrupts)
        ended = await _talk(session, job, output, interrupts)
        return _finish(job, output, _result(session, session.model.name, ended), interrupts)


async def _run_foreign(job: HeadlessJob, output: HeadlessOutput, interrupts: "_Interrupts") -> int:
    from .foreign_session import open_foreign

    async with open_tape(job) as tape:
        async with open_foreign(job.options, tape) as foreign:
            ended = await _talk(foreign, job, output, interrupts)
            result = _result(foreign, foreign.model, ended)
            complete = replace(result, violations=foreign.violations)
            code = _finish(job, output, complete, interrupts)
        report = tape.report if tape is not None else None
    if report is not None:
        output.compare(report)
        if not report.is_same and code == OK:
            return DIVERGED
    return code


@asynccontextmanager
async def open_tape(job: HeadlessJob) -> AsyncGenerator["CassetteTape | None"]:
    """The cassette of a job; None: it has none. Raises CassetteError."""
    if job.record is None and job.cassette is None:
        yield None
        return
    from quarterdeck.fleet.cassette.file import Cassette
    from quarterdeck.fleet.cassette.tape import open_player, open_recorder

    environment = dict(os.environ)
    if job.record is not None:
        tape = await asyncio.to_thread(open_recorder, job.record, job.options, environment)
    else:
        assert job.cassette is not None
        cassette = await asyncio.to_thread(Cassette, job.cassette)
        try:
            tape = await asyncio.to_thread(open_player, cassette, job.options, environment)
        except BaseException:
            cassette.close()
            raise
    try:
        yield tape
    finally:
        await tape.close()


async def _pursue(
    session: Session, goal: HeadlessGoal, output: HeadlessOutput, interrupts: "_Interrupts"
) -> int:
    """Pursue a goal and write the output; returns the exit code."""
    from quarterdeck.agent.goals.pursuit import pursue_goal

    async with _follow(session, output, interrupts) as reached:
        pursued = await pursue_goal(session, goal.text, goal.budget)
        await reached(session.last_seq)
    ended = pursued.turn or TurnEnded(stop="end_turn")
    result = replace(_result(session, session.model.name, ended), goal=pursued)
    output.end(result)
    was_denied = result.refused > 0
    if pursued.ended is not None:
        return goal_code(pursued.ended.how, was_denied=was_denied)
    return exit_code(ended, was_denied=was_denied, was_interrupted=interrupts.happened)


async def _talk(
    session: HeadlessSession, job: HeadlessJob, output: HeadlessOutput, interrupts: "_Interrupts"
) -> TurnEnded:
    async with _follow(session, output, interrupts) as reached:
        ended = await _turn(session, job, output)
        await reached(session.last_seq)
    return ended


def _result(session: HeadlessSession, model: str | None, ended: TurnEnded) -> HeadlessResult:
    refused = session.gate.refused_unattended
    return HeadlessResult(session=session.id, model=model, ended=ended, refused=refused)


def _finish(
    job: HeadlessJob, output: HeadlessOutput, result: HeadlessResult, interrupts: "_Interrupts"
) -> int:
    output.end(result)
    code = exit_code(
        result.ended,
        was_denied=result.refused > 0,
        was_violated=result.violations > 0,
        was_interrupted=interrupts.happened,
    )
    if code == OK and output.is_empty:
        return ERROR
    if code == OK and job.schema is not None and (wrong := job.schema.problem(output.answer)):
        raise WrongAnswerError(f"the answer does not match {job.schema.name}: {wrong}")
    return code


async def _session(agent: NativeAgent, job: HeadlessJob) -> Session:
    options = job.options
    native = NativeSessionOptions(options=options, attended=False)
    if options.resume is None:
        return await agent.new(native)
    id_ = options.resume or await _latest(agent, options.cwd)
    there = native.at("", options.roots)  # where it worked before
    try:
        if options.fork:
            return await agent.fork(id_, options=there)
        return await agent.load(id_, options=there)
    except NoSuchSessionError:
        from .past_session import check_not_in_fleet

        await check_not_in_fleet(Places.find(), id_)
        raise


async def _latest(agent: NativeAgent, cwd: str) -> str:
    found = await agent.sessions(cwd=cwd, limit=1)
    if not found:
        raise NoSuchSessionError(f"the latest of {cwd}")
    return found[0].id


async def _turn(session: HeadlessSession, job: HeadlessJob, output: HeadlessOutput) -> TurnEnded:
    request = job.prompt if job.schema is None else job.schema.ask(job.prompt)
    ended = await session.prompt((text(request),))
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
async def _follow(
    session: HeadlessSession, output: HeadlessOutput, interrupts: "_Interrupts"
) -> AsyncGenerator["_Reached"]:
    """Show the session's records from now on, and let the caller wait for one of them.

    Meanwhile interrupts cancel the turn; so does an output that cannot be written any more.
    """
    start = session.journal.last
    reached = _Reached(start)

    async def pump() -> None:
        async for record in session.journal.follow(start, session.id):
            output.record(record)
            reached.mark(record.seq)

    task = start_task(pump(), name="records to the output")
    reached.pump = task
    interrupts.session = session
    task.add_done_callback(lambda _: interrupts.cancel_turn())
    try:
        yield reached
    finally:
        interrupts.session = None
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
            waiting = start_task(self._changed.wait(), name="wait for a record")
            await asyncio.wait([waiting, self.pump], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if self.pump.done():
                self.pump.result()
                return


class _Interrupts:
    """Lets Ctrl-C and SIGTERM cancel what is under way instead of killing the program."""

    def __init__(self, task: "asyncio.Task[object]") -> None:
        self.happened = False
        self.session: HeadlessSession | None = None
        """The session with the turn to cancel first; None while it is being opened."""
        self._task = task
        self._cancelling = BackgroundTasks()

    def __enter__(self) -> "_Interrupts":
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def cancel_turn(self) -> None:
        """Cancel the turn that runs, if one does."""
        if self.session is not None:
            self._cancelling.start(self.session.cancel(), name="cancel the turn")

    def _interrupt(self) -> None:
        if self.session is None or self.happened:
            self._task.cancel()
        else:
            self.cancel_turn()
        self.happened = True
