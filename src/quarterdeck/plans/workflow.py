"""The course of a task, whatever engine carries it: its contenders, their attempts, its end.

It may be executed several times, each time with the results of the steps that are done; so the
steps that it calls must follow from those results alone.
"""

from typing import Any, Protocol, TypeAlias

import msgspec

from quarterdeck.fleet.landing.api import PullRequestDraft
from quarterdeck.wire.decoders import convert

from .conduct import AttemptResult, PlanConduct, TaskBrief
from .gate import GateAnswer
from .plan import Contender
from .progress import CheckOutcome, ContenderReport
from .turn import SentPrompt, TurnResult

__all__ = ["ChildHandle", "Plain", "TaskWorkflow", "WorkflowHost", "to_plain"]

Plain: TypeAlias = Any
"""What JSON can hold: the form of all that an engine stores."""


class ChildHandle(Protocol):
    """A part of a workflow that runs beside it."""

    async def get_result(self) -> Plain:
        """Wait for its end."""
        ...


class WorkflowHost(Protocol):
    """What an engine offers to a workflow."""

    async def step(self, name: str, work: Any, *arguments: Any) -> Plain:
        """Do something once: a result that is stored already is returned instead."""
        ...

    async def start(self, kind: str, path: tuple[str, ...], *arguments: Plain) -> ChildHandle:
        """Start ``run_contender`` or ``run_attempt``; the path names it in the run."""
        ...


class TaskWorkflow:
    """The course of the tasks of one run.

    Args:
        conduct: carries out the steps.
        host: the engine.
    """

    def __init__(self, conduct: PlanConduct, host: WorkflowHost) -> None:
        self._conduct = conduct
        self._host = host

    async def run_task(self, key: str) -> str:
        """One task from its begin to its end; its state."""
        conduct = self._conduct
        brief = convert(await self._host.step("begin", conduct.begin_task, key), TaskBrief)
        if brief.skipped:
            return await self._host.step("end", conduct.end_task, key, "skipped", brief.skipped)
        contenders = brief.task.contenders
        handles = [
            await self._host.start("contender", (key, one.name), to_plain(brief), to_plain(one))
            for one in contenders
        ]
        if brief.task.fields.race.pick == "first" and len(contenders) > 1:
            names = [one.name for one in contenders]
            if await self._host.step("first", conduct.wait_first, key, names):
                conduct.mark_decided(key)
        reports = [convert(await one.get_result(), ContenderReport) for one in handles]
        winner, reason = await self._host.step("pick", conduct.pick, brief, reports)
        if not winner:
            return await self._host.step("end", conduct.end_task, key, "failed", reason)
        report = next(one for one in reports if one.contender == winner)
        if failure := await self._finish(brief, reports, report):
            return await self._host.step("end", conduct.end_task, key, "failed", failure, winner)
        return await self._host.step(
            "end", conduct.end_task, key, "done", reason, winner, report.output
        )

    async def _finish(
        self, brief: TaskBrief, reports: list[ContenderReport], report: ContenderReport
    ) -> str:
        """The gate and the end of a task; why it failed, or nothing."""
        ends, key, fields = self._conduct.ends, brief.task.key, brief.task.fields
        if fields.gate:
            await self._host.step("open gate", ends.open_gate, key, report.contender)
            given = await self._host.step("wait gate", ends.wait_gate, key, report)
            answer = convert(given, GateAnswer)
            await self._host.step("close gate", ends.close_gate, key, answer)
            if not answer.approved:
                return answer.reason
        if fields.end == "keep":
            return ""
        if fields.end == "land":
            if failure := await self._host.step("land", ends.land, brief.task, report):
                return f"not landed: {failure}"
        elif failure := await self._open_pull_request(brief, report):
            return f"no pull request: {failure}"
        if len(reports) > 1:
            await self._host.step("discard", ends.discard, key, reports, report.contender)
        return ""

    async def _open_pull_request(self, brief: TaskBrief, report: ContenderReport) -> str:
        """Two steps: what is pushed is stored before, so that a repetition pushes the same."""
        ends, task = self._conduct.ends, brief.task
        drafted = await self._host.step("draft", ends.draft_pull_request, task, report)
        if not isinstance(drafted, dict):
            return drafted
        draft = convert(drafted, PullRequestDraft)
        return await self._host.step("pull request", ends.open_pull_request, task, report, draft)

    async def run_contender(self, given: Plain, named: Plain) -> Plain:
        """The attempts of one agent at a task; its report."""
        brief, contender = convert(given, TaskBrief), convert(named, Contender)
        attempts: list[AttemptResult] = []
        for number in range(1, brief.task.fields.retries + 2):
            last = to_plain(attempts[-1]) if attempts else None
            path = (brief.task.key, contender.name, str(number))
            handle = await self._host.start("attempt", path, given, named, number, last)
            result = await handle.get_result()
            attempts.append(convert(result, AttemptResult))
            if attempts[-1].passed or attempts[-1].is_final:
                break
        return await self._host.step("end", self._conduct.end_contender, brief, contender, attempts)

    async def run_attempt(self, given: Plain, named: Plain, number: int, before: Plain) -> Plain:
        """One turn and its checks; an ``AttemptResult``."""
        brief, contender = convert(given, TaskBrief), convert(named, Contender)
        last = None if before is None else convert(before, AttemptResult)
        conduct = self._conduct
        answer = await self._host.step("send", conduct.send_prompt, brief, contender, number, last)
        if isinstance(answer, str):
            return to_plain(_fail(answer, last))
        sent = convert(answer, SentPrompt)
        key = brief.task.key
        result = convert(await self._host.step("wait", conduct.wait_turn, key, sent), TurnResult)
        repeated = 0
        if result.stop == "gone":
            answer = await self._host.step(
                "repeat", conduct.repeat_prompt, brief, contender, number, sent, result, last
            )
            if isinstance(answer, str):
                return to_plain(_fail(answer, last, sent))
            again = convert(answer, SentPrompt)
            repeated = int(again.message != sent.message)
            sent, after = again, result.seq
            result = convert(
                await self._host.step("wait again", conduct.wait_turn, key, sent, after), TurnResult
            )
        if result.stop != "end_turn":
            reason = f"the turn ended: {result.stop}" + (f", {result.reason}" * bool(result.reason))
            withdrawn = result.stop == "withdrawn"
            return to_plain(
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
                await self._host.step(
                    f"check {place}",
                    self._conduct.run_task_check,
                    *(brief, contender, number, sent, place),
                ),
                CheckOutcome,
            )
            for place in range(len(brief.task.fields.checks))
        ]
        failed = next((one for one in checks if not one.passed), None)
        return to_plain(
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


def to_plain(value: Any) -> Plain:
    """A value as JSON can hold it."""
    return msgspec.to_builtins(value)
