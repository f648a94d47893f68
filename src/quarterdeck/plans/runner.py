"""The process that runs a plan: a client of the host that may be killed at any moment.

It keeps nothing in memory that it needs to go on. So it has one way to end early, whether by a
signal, because the host is gone or by an error of its own: at once, with the run as it is.
"""

import asyncio
import logging
import shlex
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import FleetError
from quarterdeck.fleet.landing.api import LandingOptions, LandingResult
from quarterdeck.system.background_process import start_background
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.tasks import start_task

from .conduct import PlanConduct
from .engine import open_engine
from .errors import PlanError, RunnerEndedError
from .progress import ProgressEntry, ProgressLog, TaskProgress
from .run import PlanRun, list_runs

__all__ = [
    "check_trust",
    "launch_runner",
    "pick_contender",
    "resume_runs",
    "run_plan",
    "stop_run",
]

_log = logging.getLogger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def check_trust(directory: Path, places: Places) -> None:
    """Refuse to run a plan in a project that is not trusted. Blocks.

    Raises:
        PlanError: it is not.
    """
    project = find_workspace(directory).project
    if not TrustStore(places.trust_file).is_trusted(project):
        raise PlanError(
            f"{str(project)!r} is not trusted, and a plan runs commands and sets what agents may "
            "do; look at the plan, then trust the project with `quarterdeck config trust "
            f"{shlex.quote(str(project))}`"
        )


async def run_plan(
    run: PlanRun,
    places: Places,
    show: Callable[[ProgressEntry], None],
    end: Callable[[RunnerEndedError], NoReturn],
) -> None:
    """Start a run or go on with it; returns when every task has ended.

    Args:
        run: on disk.
        places: of this program.
        show: is called with each thing that happens.
        end: ends the process at once, when a signal came, the host is gone or something failed.
            To cancel the steps that are under way would count as their result.

    Raises:
        RunningError: another process runs it.
        EngineMissingError: the extra is not installed.
        HostError: there is no host, and none can be started.
    """
    engine = await asyncio.to_thread(open_engine, run.directory)
    async with _hold_progress(run, show) as progress:
        await asyncio.to_thread(_note_resumption, progress)
        async with HostClient.connect(places, start=True, name="plan") as fleet:
            conduct = PlanConduct(run, progress, fleet, places)
            loop = asyncio.get_running_loop()
            for number in _SIGNALS:
                loop.add_signal_handler(number, _end_by_signal, conduct, number)
            work = start_task(engine.execute(conduct), name=f"run {run.info.name}")
            await asyncio.wait((work, conduct.aborted), return_when=asyncio.FIRST_COMPLETED)
            error = conduct.aborted.result() if conduct.aborted.done() else work.exception()
            if error is not None:
                if not isinstance(error, QuarterdeckError):
                    _log.error("the run %s failed", run.info.name, exc_info=error)
                end(RunnerEndedError(run.info.name, str(error) or repr(error)))


@asynccontextmanager
async def _hold_progress(
    run: PlanRun, show: Callable[[ProgressEntry], None] = lambda _: None
) -> AsyncGenerator[ProgressLog]:
    """Be the one process that writes to the run. Raises RunningError."""
    with ExitStack() as stack:
        progress = ProgressLog(run.progress_file, show)

        def enter() -> None:
            stack.enter_context(run.hold())
            stack.enter_context(progress)

        await asyncio.to_thread(enter)
        yield progress


def _note_resumption(progress: ProgressLog) -> None:
    """A run that a person stopped goes on."""
    kinds = [entry.kind for entry in progress.entries]
    stops = kinds.count("run_stopped")
    if stops > kinds.count("run_resumed"):
        progress.note("run_resumed", f"resumed-{stops}")


def _end_by_signal(conduct: PlanConduct, number: int) -> None:
    if not conduct.aborted.done():
        name = signal.Signals(number).name
        conduct.aborted.set_result(PlanError(f"signal {name}"))


def launch_runner(run: PlanRun, environ: Mapping[str, str]) -> int:
    """Go on with a run in a process of its own; its id. Blocks shortly.

    Raises:
        PlanError: it cannot be started.
    """
    words = ("plan", "resume", run.info.name)
    try:
        child = start_background(*words, log_file=run.log_file, environ=environ)
    except OSError as error:
        raise PlanError(f"cannot start the runner: {error}") from error
    child.returncode = 0  # it outlives us on purpose
    return child.pid


def resume_runs(places: Places, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Go on with every run whose process ended early, each in a process of its own. Blocks.

    Those that a person stopped stay as they are.

    Returns:
        The names of those that go on, and of those that cannot with the reason.
    """
    started: list[str] = []
    skipped: dict[str, str] = {}
    for run in list_runs(places):
        try:
            progress = run.read_progress()
            if progress.is_ended or progress.is_stopped or run.find_runner() is not None:
                continue
            check_trust(run.load_kept_plan().directory, places)
            launch_runner(run, environ)
            started.append(run.info.name)
        except QuarterdeckError as error:
            skipped[run.info.name] = str(error)
    return started, skipped


async def stop_run(run: PlanRun, fleet: HostClient) -> list[str]:
    """End the runner of a run and interrupt its agents; the names of those.

    The run can go on later: turns that were interrupted are then sent again, and marked.

    Raises:
        PlanError: the runner does not end.
    """
    await asyncio.to_thread(run.end_runner)
    stopped: list[str] = []
    async with _hold_progress(run) as progress:
        note = partial(asyncio.to_thread, progress.note)
        for entry in list(progress.entries):
            if entry.kind not in ("turn_sent", "turn_repeated"):
                continue
            if progress.find(f"{entry.task}/{entry.contender}/end") is not None:
                continue
            try:
                info = await fleet.agent(entry.session)
                if info.state not in ("running", "waiting", "starting"):
                    continue
                about = {"task": entry.task, "contender": entry.contender}
                # Before it happens, so that a crash in between is no failed turn.
                key = f"stop/{entry.message}"
                await note("turn_interrupted", key, message=entry.message, **about)
                await fleet.interrupt(entry.session)
                stopped.append(info.name)
            except FleetError:
                continue  # it is not there any more
        number = sum(one.kind == "run_stopped" for one in progress.entries)
        await note("run_stopped", f"stopped-{number}")
    return stopped


async def pick_contender(
    run: PlanRun, fleet: HostClient, task: TaskProgress, contender: str, options: LandingOptions
) -> LandingResult:
    """Land the work of one contender, and put the others' worktrees into the trash.

    Raises:
        PlanError: there is no such contender, or it has no worktree.
        RunningError: the run is running.
    """
    report = task.reports.get(contender)
    if report is None or not report.session:
        known = ", ".join(task.reports) or "none has ended yet"
        raise PlanError(f"{task.key!r} has no contender {contender!r} to pick; there are: {known}")
    if not report.worktree:
        raise PlanError(f"{contender!r} has no worktree, so there is nothing to land")
    async with _hold_progress(run) as progress:
        result = await fleet.land(report.session, options)
        if result.state not in ("landed", "unchanged"):
            return result
        number = sum(one.kind == "picked" for one in progress.entries)
        note = partial(asyncio.to_thread, progress.note)
        await note("picked", f"{task.key}/picked-{number}", task=task.key, contender=contender)
        for other in task.reports.values():
            if other.contender == contender or not other.worktree:
                continue
            try:
                await fleet.discard_worktree(other.worktree)
            except FleetError:
                continue  # it is gone already
            key = f"{task.key}/{other.contender}/discarded"
            await note("discarded", key, task=task.key, contender=other.contender)
    return result
