"""The engine on DBOS, with SQLite: a plan, a task, a contender and an attempt are workflows.

Each run has a database of its own, so that no process takes up the workflows of another run. A
workflow may be executed several times, each time with the results of the steps that are done; so
the steps that it calls must follow from those results alone. Waiting for memory of this process
(a free slot) is no step and changes no order.
"""

import logging
from pathlib import Path
from typing import Any

import msgspec
from dbos import DBOS, DBOSConfig, SetWorkflowID

from quarterdeck.fleet.landing.api import PullRequestDraft
from quarterdeck.wire.decoders import convert

from .conduct import AttemptResult, PlanConduct, TaskBrief
from .gate import GateAnswer
from .plan import Contender
from .progress import CheckOutcome, ContenderReport
from .turn import SentPrompt, TurnResult

__all__ = ["DbosEngine"]

_VERSION = "plans-1"
"""Of the order of steps; another one would not take up runs of this one."""
_ATTEMPTS = 1_000_000
"""How often a workflow may be taken up again."""
_POLL = 0.2

Plain = Any
"""What JSON can hold: the form of all that the engine stores."""


class DbosEngine:
    """Runs the workflows of one run in this process."""

    def __init__(self, database: Path) -> None:
        self._url = f"sqlite:///{database}"

    async def execute(self, conduct: PlanConduct) -> None:
        """See ``PlanEngine``."""
        logging.getLogger("dbos").setLevel(logging.ERROR)
        workflows = _Workflows(conduct)
        config: DBOSConfig = {
            "name": "quarterdeck-plans",
            "system_database_url": self._url,
            "application_version": _VERSION,
            "executor_id": "runner",
            "log_level": "ERROR",
            "console_log_level": "ERROR",
            "enable_otlp": False,
            "notification_listener_polling_interval_sec": _POLL,
        }
        DBOS(config=config)
        workflows.register()
        DBOS.launch()
        with SetWorkflowID(conduct.run.info.id):
            handle = await DBOS.start_workflow_async(workflows.run_plan)
        await handle.get_result(polling_interval_sec=_POLL)


class _Workflows:
    """The workflows, bound to the conduct of this process."""

    def __init__(self, conduct: PlanConduct) -> None:
        self._conduct = conduct
        self._id = conduct.run.info.id
        self.run_plan: Any = None
        self._run_task: Any = None
        self._run_contender: Any = None
        self._run_attempt: Any = None

    def register(self) -> None:
        """Make them known to the engine, by names that never change."""

        def make(name: str, work: Any) -> Any:
            return DBOS.workflow(name=name, max_recovery_attempts=_ATTEMPTS)(work)

        async def plan() -> None:
            await self._plan()

        async def task(key: str) -> str:
            return await self._task(key)

        async def contender(brief: Plain, name: Plain) -> Plain:
            async with self._conduct.slots:
                return await self._contender(brief, name)

        async def attempt(brief: Plain, name: Plain, number: int, last: Plain) -> Plain:
            return await self._attempt(brief, name, number, last)

        self.run_plan = make("plan", plan)
        self._run_task = make("task", task)
        self._run_contender = make("contender", contender)
        self._run_attempt = make("attempt", attempt)

    async def _step(self, name: str, work: Any, *arguments: Any) -> Any:
        """One step: what it returns is stored as plain values.

        An error that no step expects ends the process and is not stored: the run can go on when
        its cause is gone.
        """

        async def call() -> Plain:
            try:
                return _plain(await work(*arguments))
            except Exception as error:
                await self._conduct.abort(error)

        return await DBOS.run_step_async({"name": name}, call)

    async def _plan(self) -> None:
        keys: list[str] = await self._step("start", self._conduct.start_run)
        handles = [await self._start(self._run_task, (key,), key) for key in keys]
        for handle in handles:
            await handle.get_result(polling_interval_sec=_POLL)
        await self._step("end", self._conduct.end_run)

    async def _start(self, workflow: Any, path: tuple[str, ...], *arguments: Plain) -> Any:
        with SetWorkflowID("/".join((self._id, *path))):
            return await DBOS.start_workflow_async(workflow, *arguments)

    async def _task(self, key: str) -> str:
        conduct = self._conduct
        brief = convert(await self._step("begin", conduct.begin_task, key), TaskBrief)
        if brief.skipped:
            return await self._step("end", conduct.end_task, key, "skipped", brief.skipped)
        contenders = brief.task.contenders
        handles = [
            await self._start(self._run_contender, (key, one.name), _plain(brief), _plain(one))
            for one in contenders
        ]
        if brief.task.fields.race.pick == "first" and len(contenders) > 1:
            names = [one.name for one in contenders]
            if await self._step("first", conduct.wait_first, key, names):
                conduct.mark_decided(key)
        reports = [
            convert(await one.get_result(polling_interval_sec=_POLL), ContenderReport)
            for one in handles
        ]
        winner, reason = await self._step("pick", conduct.pick, brief, reports)
        if not winner:
            return await self._step("end", conduct.end_task, key, "failed", reason)
        report = next(one for one in reports if one.contender == winner)
        if failure := await self._finish(brief, reports, report):
            return await self._step("end", conduct.end_task, key, "failed", failure, winner)
        return await self._step("end", conduct.end_task, key, "done", reason, winner, report.output)

    async def _finish(
        self, brief: TaskBrief, reports: list[ContenderReport], report: ContenderReport
    ) -> str:
        """The gate and the end of a task; why it failed, or nothing."""
        ends, key, fields = self._conduct.ends, brief.task.key, brief.task.fields
        if fields.gate:
            await self._step("open gate", ends.open_gate, key, report.contender)
            given = await self._step("wait gate", ends.wait_gate, key, report)
            answer = convert(given, GateAnswer)
            await self._step("close gate", ends.close_gate, key, answer)
            if not answer.approved:
                return answer.reason
        if fields.end == "keep":
            return ""
        if fields.end == "land":
            if failure := await self._step("land", ends.land, brief.task, report):
                return f"not landed: {failure}"
        elif failure := await self._open_pull_request(brief, report):
            return f"no pull request: {failure}"
        if len(reports) > 1:
            await self._step("discard", ends.discard, key, reports, report.contender)
        return ""

    async def _open_pull_request(self, brief: TaskBrief, report: ContenderReport) -> str:
        """Two steps: what is pushed is stored before, so that a repetition pushes the same."""
        ends, task = self._conduct.ends, brief.task
        drafted = await self._step("draft", ends.draft_pull_request, task, report)
        if not isinstance(drafted, dict):
            return drafted
        draft = convert(drafted, PullRequestDraft)
        return await self._step("pull request", ends.open_pull_request, task, report, draft)

    async def _contender(self, given: Plain, named: Plain) -> Plain:
        brief, contender = convert(given, TaskBrief), convert(named, Contender)
        attempts: list[AttemptResult] = []
        for number in range(1, brief.task.fields.retries + 2):
            last = _plain(attempts[-1]) if attempts else None
            path = (brief.task.key, contender.name, str(number))
            handle = await self._start(self._run_attempt, path, given, named, number, last)
            result = await handle.get_result(polling_interval_sec=_POLL)
            attempts.append(convert(result, AttemptResult))
            if attempts[-1].passed or attempts[-1].is_final:
                break
        return await self._step("end", self._conduct.end_contender, brief, contender, attempts)

    async def _attempt(self, given: Plain, named: Plain, number: int, before: Plain) -> Plain:
        brief, contender = convert(given, TaskBrief), convert(named, Contender)
        last = None if before is None else convert(before, AttemptResult)
        conduct = self._conduct
        answer = await self._step("send", conduct.send_prompt, brief, contender, number, last)
        if isinstance(answer, str):
            return _plain(_fail(answer, last))
        sent = convert(answer, SentPrompt)
        key = brief.task.key
        result = convert(await self._step("wait", conduct.wait_turn, key, sent), TurnResult)
        repeated = 0
        if result.stop == "gone":
            answer = await self._step(
                "repeat", conduct.repeat_prompt, brief, contender, number, sent, result, last
            )
            if isinstance(answer, str):
                return _plain(_fail(answer, last, sent))
            again = convert(answer, SentPrompt)
            repeated = int(again.message != sent.message)
            sent, after = again, result.seq
            result = convert(
                await self._step("wait again", conduct.wait_turn, key, sent, after), TurnResult
            )
        if result.stop != "end_turn":
            reason = f"the turn ended: {result.stop}" + (f", {result.reason}" * bool(result.reason))
            withdrawn = result.stop == "withdrawn"
            return _plain(
                AttemptResult(
                    passed=False,
                    reason="another one was first" if withdrawn else reason,
                    is_final=True,
                    is_withdrawn=withdrawn,
                    sent=sent,
                    seq=result.seq,
                    output=result.output,
                    seconds=result.seconds,
                    repeated=repeated,
                )
            )
        return await self._check(brief, contender, number, sent, result, repeated)

    async def _check(
        self,
        brief: TaskBrief,
        contender: Contender,
        number: int,
        sent: SentPrompt,
        result: TurnResult,
        repeated: int,
    ) -> Plain:
        checks = [
            convert(
                await self._step(
                    f"check {place}",
                    self._conduct.run_task_check,
                    *(brief, contender, number, sent, place),
                ),
                CheckOutcome,
            )
            for place in range(len(brief.task.fields.checks))
        ]
        failed = next((one for one in checks if not one.passed), None)
        return _plain(
            AttemptResult(
                passed=failed is None,
                reason="" if failed is None else f"{failed.name}: {failed.reason}",
                sent=sent,
                seq=result.seq,
                checks=tuple(checks),
                output=result.output,
                seconds=result.seconds + sum(one.seconds for one in checks),
                repeated=repeated,
            )
        )


def _fail(reason: str, last: AttemptResult | None, sent: SentPrompt | None = None) -> AttemptResult:
    """An attempt that came to nothing; what the last one left is kept."""
    return AttemptResult(
        passed=False,
        reason="another one was first" if reason == "withdrawn" else reason,
        is_final=True,
        is_withdrawn=reason == "withdrawn",
        sent=sent or (last.sent if last is not None else None),
        checks=last.checks if last is not None else (),
        output=last.output if last is not None else "",
    )


def _plain(value: Any) -> Plain:
    return msgspec.to_builtins(value)
