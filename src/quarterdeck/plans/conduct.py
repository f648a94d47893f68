"""What happens in each step of a run, at the fleet and in the progress of the run.

Every method is one step of the engine. It may be repeated after a crash and then finds what it did
before: agents by their names, prompts and ends of turns in the log, results in the progress.
"""

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import field
from msgspec.structs import asdict, replace

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.errors import FleetError, NoHostError
from quarterdeck.fleet.worktrees.commands import worktree_variables
from quarterdeck.wire.budgets import parse_limit
from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.session_options import SessionLimits, SessionOptions
from quarterdeck.wire.tasks import run_beside
from quarterdeck.wire.values import Value
from quarterdeck.wire.worktrees import WorktreeOptions

from .check import run_check
from .judge import ask_judge
from .plan import Contender, PlannedTask, list_needed
from .progress import CheckOutcome, ContenderReport, ContenderState, ProgressEntry, ProgressLog
from .race_report import rank_contenders
from .run import PlanRun
from .task_end import TaskEnd
from .turn import (
    SentPrompt,
    TurnResult,
    count_permissions,
    find_or_send,
    find_or_spawn,
    resume_and_repeat,
    wait_for_turn,
)

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.client import HostClient

__all__ = [
    "AttemptResult",
    "PlanConduct",
    "TaskBrief",
    "make_agent_name",
    "make_retry",
    "make_spawn",
]

_log = logging.getLogger(__name__)
_MOST_OUTPUT = 100_000


class TaskBrief(Value, frozen=True, kw_only=True):
    """What a task is when it begins; later changes of the plan do not count for it."""

    task: PlannedTask
    prompt: str
    """With all values in it."""
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    """For the message after a failed check."""
    system_prompt: str | None = None
    directory: str = ""
    skipped: str = ""
    """Why it does not begin at all."""


class AttemptResult(Value, frozen=True, kw_only=True):
    """What came of one attempt."""

    passed: bool
    reason: str = ""
    is_final: bool = False
    """No other attempt follows, whatever the retries."""
    is_withdrawn: bool = False
    sent: SentPrompt | None = None
    seq: int = 0
    """The last record that was looked at."""
    checks: tuple[CheckOutcome, ...] = ()
    output: str = ""
    seconds: float = 0.0
    repeated: int = 0


def make_agent_name(run: str, task: str, contender: str) -> str:
    """The name of an agent of a run: the same whenever it is asked for."""
    base = f"{task}-{contender}"
    if len(base) > 32:
        base = f"{base[:25]}-{hashlib.sha256(base.encode()).hexdigest()[:6]}"
    return f"{base}-{run}"


class PlanConduct:
    """Carries out the steps of one run.

    Args:
        run: on disk.
        progress: of the run, held by this process.
        fleet: the host's.
        places: of this program.
    """

    def __init__(
        self, run: PlanRun, progress: ProgressLog, fleet: "HostClient", places: Places
    ) -> None:
        self.run = run
        self.plan = run.load_kept_plan()
        self._tasks = run.expand(self.plan)
        self.aborted: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Set when the runner has to end, with the run as it is."""
        self.slots = asyncio.Semaphore(self.plan.fields.at_once)
        """Agents that may work at the same time."""
        self._progress = progress
        self._fleet = fleet
        self._places = places
        self.ends = TaskEnd(run, fleet, places, self._note, self.abort)
        """Gates, landings and pull requests."""
        self._ended = asyncio.Condition()
        self._decisions: dict[str, asyncio.Event] = {}
        """Set for races in which a contender was first."""
        for entry in progress.entries:
            self._find_decision(entry)

    def _find_decision(self, entry: ProgressEntry) -> None:
        """Before anything is waited for again: a contender that lost must not be sent on."""
        task, report = self._tasks.get(entry.task), entry.report
        is_race = task is not None and task.fields.race.pick == "first"
        if is_race and report is not None and report.state == "passed":
            self._decision(entry.task).set()

    def _decision(self, key: str) -> asyncio.Event:
        return self._decisions.setdefault(key, asyncio.Event())

    # The run and its tasks

    async def start_run(self) -> list[str]:
        """Note that the run starts; the keys of its tasks."""
        keys = list(self._tasks)
        await self._note("run_started", "run", text=" ".join(keys))
        return keys

    async def end_run(self) -> None:
        """Note that every task has ended."""
        await self._note("run_ended", "run-end")

    async def begin_task(self, key: str) -> TaskBrief:
        """Wait for what a task needs; what it is to do."""
        needs = self._tasks[key].needs
        await self._wait_for(f"{need}/end" for need in needs)
        await self._take_change()
        task = self._tasks[key]
        ends = [self._progress.find(f"{need}/end") for need in needs]
        failed = [one.task for one in ends if one is not None and one.state != "done"]
        if failed:
            reason = f"{', '.join(failed)} did not succeed"
            return TaskBrief(task=task, prompt="", skipped=reason)
        outputs = self._collect_outputs(task)
        await self._note("task_begun", f"{key}/begin", task=key)
        system_prompt = task.fields.options.system_prompt
        return TaskBrief(
            task=task,
            prompt=task.fill(task.prompt, outputs),
            outputs=outputs,
            system_prompt=None if system_prompt is None else task.fill(system_prompt, outputs),
            directory=str(self.plan.directory),
        )

    async def _take_change(self) -> None:
        text = await asyncio.to_thread(self.run.take_change)
        if text:
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            number = sum(one.kind == "plan_changed" for one in self._progress.entries)
            last = [one for one in self._progress.entries if one.kind == "plan_changed"]
            if not last or last[-1].text != text or text.startswith("the plan was changed"):
                await self._note("plan_changed", f"change-{number}-{digest}", text=text)
            self.plan = await asyncio.to_thread(self.run.load_kept_plan)
            self._tasks = self.run.expand(self.plan)

    def _collect_outputs(self, task: PlannedTask) -> dict[str, str]:
        tasks = self._tasks
        needed = list_needed({key: one.needs for key, one in tasks.items()}, task.key)
        found: dict[str, list[str]] = {}
        for key, one in tasks.items():
            if key in needed:
                entry = self._progress.find(f"{key}/end")
                text = entry.output if entry is not None else ""
                found.setdefault(one.task, []).append(
                    text if key == one.task else f"## {key} ({one.label})\n\n{text}"
                )
        return {f"tasks.{name}.output": "\n\n".join(texts) for name, texts in found.items()}

    async def end_task(
        self, key: str, state: str, text: str = "", winner: str = "", output: str = ""
    ) -> str:
        """Note the end of a task; its state."""
        await self._note(
            *("task_ended", f"{key}/end"),
            task=key,
            state=state,
            text=text,
            contender=winner,
            output=output[-_MOST_OUTPUT:],
        )
        return state

    # Attempts

    async def send_prompt(
        self, brief: TaskBrief, contender: Contender, attempt: int, last: AttemptResult | None
    ) -> SentPrompt | str:
        """Start the agent of a contender, or send it what failed; why not, if it cannot be."""
        key = brief.task.key
        if self._decision(key).is_set():
            return "withdrawn"
        try:
            if last is None or last.sent is None:
                sent = await find_or_spawn(
                    self._fleet, make_spawn(self.run.info.id, brief, contender)
                )
            else:
                words = make_retry(brief, last)
                sent = await find_or_send(self._fleet, last.sent.session, last.seq, words)
        except (LinkError, NoHostError) as error:
            await self.abort(error)
        except QuarterdeckError as error:
            return str(error)
        await self._note(
            *("turn_sent", f"{key}/{contender.name}/{attempt}/sent"),
            task=key,
            contender=contender.name,
            attempt=attempt,
            session=sent.session,
            message=sent.message,
        )
        return sent

    async def wait_turn(self, key: str, sent: SentPrompt, after: int = 0) -> TurnResult:
        """Wait for the end of a turn; once another contender was first, that comes at once."""
        try:
            async with run_beside(self._withdraw(key, sent.session), name="plan: withdraw"):
                result = await wait_for_turn(self._fleet, sent, after)
        except (LinkError, NoHostError) as error:
            await self.abort(error)
        if result.stop in ("gone", "cancelled"):
            if self._decision(key).is_set():
                return TurnResult(stop="withdrawn", output=result.output, seq=result.seq)
            if self._progress.find(f"stop/{sent.message}") is not None:
                return TurnResult(stop="gone", reason="the run was stopped", seq=result.seq)
        return result

    async def _withdraw(self, key: str, session: str) -> None:
        """End the agent of a race that is decided, whatever it does by then.

        To interrupt it would not do: its turn may begin a moment later.
        """
        await self._decision(key).wait()
        try:
            await self._fleet.close(session)
        except (LinkError, NoHostError, FleetError) as error:
            _log.info("%s is not closed: %s", session, error)  # the wait for its turn sees why

    async def repeat_prompt(
        self,
        brief: TaskBrief,
        contender: Contender,
        attempt: int,
        sent: SentPrompt,
        result: TurnResult,
        last: AttemptResult | None,
    ) -> SentPrompt | str:
        """Send a prompt again whose session ended, once, and mark that; why not, if not."""
        key = brief.task.key
        if self._decision(key).is_set():
            return "withdrawn"
        words = brief.prompt if last is None else make_retry(brief, last)
        try:
            again = await resume_and_repeat(self._fleet, sent, result, words)
        except (LinkError, NoHostError) as error:
            await self.abort(error)
        except QuarterdeckError as error:
            return str(error)
        if again is None:
            return f"its session ended and cannot be resumed: {result.reason}"
        if not result.is_queued:
            await self._note(
                *("turn_repeated", f"{key}/{contender.name}/{attempt}/repeated"),
                task=key,
                contender=contender.name,
                attempt=attempt,
                session=again.session,
                message=again.message,
                text=result.reason,
            )
        return again

    async def run_task_check(
        self, brief: TaskBrief, contender: Contender, attempt: int, sent: SentPrompt, number: int
    ) -> CheckOutcome:
        """Run one check in the directory of the agent."""
        fields = brief.task.fields.checks[number]
        try:
            info = await self._fleet.agent(sent.session)
        except (LinkError, NoHostError) as error:
            await self.abort(error)
        worktree = info.worktree
        outcome = await run_check(
            fields,
            brief.task.fill_command(fields.run),
            cwd=Path(info.cwd if worktree is None else worktree.path),
            places=self._places,
            variables={} if worktree is None else worktree_variables(worktree, info.name),
            readable=() if worktree is None else (worktree.repository,),
        )
        await self._note(
            *("check_ended", f"{brief.task.key}/{contender.name}/{attempt}/check-{number}"),
            task=brief.task.key,
            contender=contender.name,
            attempt=attempt,
            check=outcome,
        )
        return outcome

    async def end_contender(
        self, brief: TaskBrief, contender: Contender, attempts: list[AttemptResult]
    ) -> ContenderReport:
        """Close the session of a contender, and put together what it came to."""
        last = attempts[-1]
        key = f"{brief.task.key}/{contender.name}/end"
        if (entry := self._progress.find(key)) is not None and entry.report is not None:
            return entry.report
        state: ContenderState = "passed" if last.passed else "failed"
        if last.is_withdrawn:
            state = "withdrawn"
        sent = next((one.sent for one in reversed(attempts) if one.sent is not None), None)
        report = ContenderReport(
            contender=contender.name,
            agent=contender.agent,
            state=state,
            reason=last.reason,
            attempts=len(attempts),
            repeated=sum(one.repeated for one in attempts),
            checks=last.checks,
            seconds=round(sum(one.seconds for one in attempts), 3),
            output=last.output,
        )
        if sent is not None:
            try:
                report = await _measure(self._fleet, report, sent)
            except (LinkError, NoHostError) as error:
                await self.abort(error)
        task = brief.task.key
        await self._note("contender_ended", key, task=task, contender=contender.name, report=report)
        return report

    # Races

    async def wait_first(self, key: str, contenders: Iterable[str]) -> str:
        """Wait until a contender has passed; empty: none has."""
        names = list(contenders)
        winner = ""
        async with self._ended:
            while not winner:
                ends = {name: self._progress.find(f"{key}/{name}/end") for name in names}
                reports = [one.report for one in ends.values() if one is not None and one.report]
                passed = [one.contender for one in reports if one.state == "passed"]
                winner = passed[0] if passed else ""
                if winner or len(reports) == len(names):
                    break
                await self._ended.wait()
        return winner

    def mark_decided(self, key: str) -> None:
        """A race has a winner: the other contenders end, and those to come do not begin."""
        self._decision(key).set()

    async def pick(self, brief: TaskBrief, reports: list[ContenderReport]) -> tuple[str, str]:
        """The contender that wins, and why; empty: none passed."""
        race = brief.task.fields.race
        passed = [one for one in reports if one.state == "passed"]
        if not passed:
            return "", "; ".join(f"{one.contender}: {one.reason}" for one in reports)
        ranked = rank_contenders(passed, race.rank)
        if race.pick != "judge" or race.judge is None or len(passed) == 1:
            return ranked[0].contender, ""
        name = make_agent_name(self.run.info.id, brief.task.key, f"judge-{race.judge}")
        options = SessionOptions(
            agent=race.judge,
            cwd=brief.directory,
            worktree=WorktreeOptions(is_off=True),
            mode="read-only",
        )
        try:
            return await ask_judge(self._fleet, options, name, brief.prompt, ranked)
        except (LinkError, NoHostError) as error:
            await self.abort(error)

    # The progress

    async def abort(self, error: Exception) -> NoReturn:
        """End the runner; never returns, so that the engine notes no failure."""
        if not self.aborted.done():
            self.aborted.set_result(error)
        await asyncio.Event().wait()
        raise AssertionError

    async def _note(self, kind: str, key: str, **fields: object) -> None:
        async with self._ended:
            await asyncio.to_thread(self._progress.note, kind, key, **fields)  # type: ignore[arg-type]
            self._ended.notify_all()

    async def _wait_for(self, keys: Iterable[str]) -> None:
        wanted = list(keys)
        async with self._ended:
            while not all(self._progress.find(key) is not None for key in wanted):
                await self._ended.wait()


async def _measure(
    fleet: "HostClient", report: ContenderReport, sent: SentPrompt
) -> ContenderReport:
    await fleet.close(sent.session)
    info = await fleet.agent(sent.session)
    used = (await fleet.usage("agent", agent=sent.session)).total
    files, added, removed = await _count_changes(fleet, info)
    return replace(
        report,
        session=sent.session,
        name=info.name,
        files=files,
        added=added,
        removed=removed,
        tokens=used.tokens.total,
        costs=used.costs,
        permissions=await count_permissions(fleet, sent.session),
        worktree="" if info.worktree is None else info.worktree.path,
    )


async def _count_changes(fleet: "HostClient", info: "AgentInfo") -> tuple[int, int, int]:
    if info.worktree is None:
        return 0, 0, 0
    try:
        changed = (await fleet.changes(info.session)).files
    except (LinkError, NoHostError):
        raise
    except QuarterdeckError:
        return 0, 0, 0  # the worktree is gone
    added, removed = (
        sum(getattr(one, name) or 0 for one in changed) for name in ("added", "removed")
    )
    return len(changed), added, removed


def make_spawn(run: str, brief: TaskBrief, contender: Contender) -> SpawnOptions:
    """How the agent of a contender is started."""
    fields, task = brief.task.fields, brief.task
    given = asdict(fields.options)
    given["limits"] = SessionLimits(**asdict(fields.options.limits))
    given["system_prompt"] = brief.system_prompt
    directory = Path(brief.directory)
    given["roots"] = tuple(str((directory / root).resolve()) for root in given["roots"])
    base = None if fields.base is None else task.fill(fields.base)
    worktree = WorktreeOptions(base=base) if fields.worktree else WorktreeOptions(is_off=True)
    options = SessionOptions(agent=contender.agent, cwd=brief.directory, worktree=worktree, **given)
    return SpawnOptions(
        options=options,
        name=make_agent_name(run, task.key, contender.name),
        prompt=brief.prompt,
        budget=tuple(parse_limit(limit) for limit in fields.budget),
        fallback=(),  # a plan tries again by itself
    )


def make_retry(brief: TaskBrief, last: AttemptResult) -> str:
    """What an agent is sent after a failed check."""
    failed = next(check for check in last.checks if not check.passed)
    values = {
        **brief.outputs,
        "check.name": failed.name,
        "check.reason": failed.reason,
        "check.output": failed.output,
    }
    return brief.task.fill(brief.task.fields.retry_message, values)
