"""Gates: a person approves the work of a task. Its request is in the inbox, the answer logged."""

import hashlib
from contextlib import aclosing

from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import NoSuchAgentError, NoSuchRequestError
from quarterdeck.wire.events import PermissionAnswered, PermissionAsked, SessionEnded
from quarterdeck.wire.ids import RequestId
from quarterdeck.wire.permissions import Selected
from quarterdeck.wire.values import Value

from .errors import PlanError
from .progress import ContenderReport
from .race_report import describe_costs
from .turn import PATIENCE

__all__ = ["GateAnswer", "answer_gate", "make_gate_request", "wait_at_gate"]

_MOST_OUTPUT = 4_000


class GateAnswer(Value, frozen=True, kw_only=True):
    """What a person decided about the work of a task."""

    approved: bool
    by: str = ""
    feedback: str = ""

    @property
    def reason(self) -> str:
        """Why the task failed, if it was not approved."""
        return f"rejected by {self.by}" + (f": {self.feedback}" if self.feedback else "")


def make_gate_request(run: str, task: str) -> RequestId:
    """The id of the request of a gate: the same whenever it is asked for."""
    return RequestId(f"req_{run}{hashlib.sha256(task.encode()).hexdigest()[:20]}")


async def wait_at_gate(
    fleet: HostClient, request: RequestId, title: str, report: ContenderReport
) -> GateAnswer:
    """Ask a person to approve the work of a contender, and wait for the answer in the log.

    May be called again after a crash of anything: the request is asked once, and stays open while
    neither this process nor the host is there.

    Raises:
        LinkError, NoHostError: the host went away.
    """
    session, after = report.session, 0
    try:
        while True:
            await fleet.ask_approval(
                *(session, request, title),
                reason="the plan has a gate here",
                text=_describe_work(report),
            )
            is_asked = False
            records = fleet.follow(after, agent=session, patience=PATIENCE)
            async with aclosing(records):
                async for record in records:
                    match record.event:
                        case PermissionAsked(request=asked) if asked == request:
                            is_asked = True
                        case PermissionAnswered(request=asked) as event if asked == request:
                            return _read_answer(event)
                        case SessionEnded() if is_asked:
                            after = record.seq  # resumed and ended: that closes its requests
                            break
                        case _:
                            continue
    except NoSuchAgentError:
        return GateAnswer(approved=False, by="nothing, its agent was deleted")


def _read_answer(event: PermissionAnswered) -> GateAnswer:
    approved = isinstance(event.outcome, Selected) and event.outcome.option_id == "approve"
    by = event.by.name or event.by.kind
    return GateAnswer(approved=approved, by=by, feedback=event.feedback or "")


def _describe_work(report: ContenderReport) -> str:
    changes = f"{report.files} files, +{report.added} -{report.removed}"
    lines = [
        f"{report.contender}: {changes}, {report.seconds:.0f}s, {describe_costs(report.costs)}",
        *(
            f"{'passed' if check.passed else 'failed'}: {check.name}"
            + (f" ({check.reason})" if check.reason else "")
            for check in report.checks
        ),
    ]
    if report.output:
        lines += ["", report.output[-_MOST_OUTPUT:]]
    return "\n".join(lines)


async def answer_gate(
    fleet: HostClient, request: RequestId, *, approve: bool, by: str, feedback: str | None = None
) -> None:
    """Answer the request of a gate, from any process.

    Raises:
        PlanError: it is answered already, or not in the inbox yet.
    """
    choice = "approve" if approve else "reject"
    try:
        is_first = await fleet.answer(request, choice, by=by, feedback=feedback)
    except NoSuchRequestError as error:
        raise PlanError("the gate is not open yet; try again in a moment") from error
    if not is_first:
        raise PlanError("the gate is answered already")
