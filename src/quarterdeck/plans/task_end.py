"""How a task ends once its checks have passed: the gate, the landing or the pull request.

Every method is one step of the engine, as those of ``conduct.PlanConduct``.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn, Protocol

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.errors import FleetError, NoHostError
from quarterdeck.fleet.landing.api import LandingOptions, PullRequestDraft
from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.redaction import mask_secrets

from .gate import GateAnswer, make_gate_request, wait_at_gate
from .plan import PlannedTask
from .progress import ContenderReport
from .run import PlanRun

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient

__all__ = ["TaskEnd"]


class _NoteProgress(Protocol):
    """Appends to the progress of the run, once for each key."""

    async def __call__(self, kind: str, key: str, **fields: object) -> None: ...


class TaskEnd:
    """Ends the tasks of one run.

    Args:
        run: on disk.
        fleet: the host's.
        places: of this program.
        note: appends to the progress.
        abort: ends the runner; never returns.
    """

    def __init__(
        self,
        run: PlanRun,
        fleet: "HostClient",
        places: Places,
        note: _NoteProgress,
        abort: Callable[[Exception], Awaitable[object]],
    ) -> None:
        self._run = run
        self._fleet = fleet
        self._places = places
        self._note = note
        self._abort = abort

    async def open_gate(self, key: str, winner: str) -> None:
        """Note that a person has to approve the work of a task."""
        request = make_gate_request(self._run.info.id, key)
        await self._note(
            *("gate_opened", f"{key}/gate"), task=key, contender=winner, request=request
        )

    async def wait_gate(self, key: str, report: ContenderReport) -> GateAnswer:
        """Wait for the answer of a person, which the log has."""
        title = f"Approve the work of {key} in the plan {self._run.info.name}"
        try:
            return await wait_at_gate(
                self._fleet, make_gate_request(self._run.info.id, key), title, report
            )
        except (LinkError, NoHostError) as error:
            await self._leave(error)

    async def close_gate(self, key: str, answer: GateAnswer) -> None:
        """Note what the person answered."""
        state = "approve" if answer.approved else "reject"
        await self._note("gate_answered", f"{key}/gate-end", task=key, state=state, text=answer.by)

    async def land(self, task: PlannedTask, report: ContenderReport) -> str:
        """Land the work of the winner; why it did not land, or nothing."""
        try:
            result = await self._fleet.land(report.session, _make_landing(task))
        except (LinkError, NoHostError) as error:
            await self._leave(error)
        except QuarterdeckError as error:
            return str(error)
        if result.state not in ("landed", "unchanged"):
            return result.reason or result.state
        await self._note(
            *("landed", f"{task.key}/landed"), task=task.key, contender=report.contender
        )
        return ""

    async def draft_pull_request(
        self, task: PlannedTask, report: ContenderReport
    ) -> PullRequestDraft | str:
        """What is to be pushed; why not, or nothing if there is no work that could be."""
        options = _make_landing(task)
        try:
            if (await self._fleet.preview_landing(report.session, options)).is_empty:
                text = "nothing was changed, so there is no pull request"
                await self._note_pull_request(task, report, text)
                return ""
            return await self._fleet.draft_pull_request(report.session, options)
        except (LinkError, NoHostError) as error:
            await self._leave(error)
        except QuarterdeckError as error:
            return str(error)

    async def open_pull_request(
        self, task: PlannedTask, report: ContenderReport, draft: PullRequestDraft
    ) -> str:
        """Push the work with the person's own programs; why there is no pull request, or nothing.

        A repetition pushes the same commit, and finds what was opened before.
        """
        from quarterdeck.fleet.landing.pull_request import open_pull_request

        trust, remote = TrustStore(self._places.trust_file), task.fields.remote
        try:
            opened = await open_pull_request(draft, trust, remote=remote)
        except QuarterdeckError as error:
            # Programs may print the address of a remote, and with it what is in there.
            return mask_secrets(str(error), os.environ)
        text = opened.url or f"opened for {opened.branch}"
        await self._note_pull_request(task, report, mask_secrets(text, os.environ))
        return ""

    async def _note_pull_request(
        self, task: PlannedTask, report: ContenderReport, text: str
    ) -> None:
        key = task.key
        about = {"task": key, "contender": report.contender, "text": text}
        await self._note("pull_request", f"{key}/pull-request", **about)

    async def discard(self, key: str, reports: list[ContenderReport], winner: str) -> None:
        """Put the worktrees of the other contenders into the trash."""
        for one in reports:
            if one.contender == winner or not one.worktree:
                continue
            try:
                await self._fleet.discard_worktree(one.worktree)
            except (LinkError, NoHostError) as error:
                await self._leave(error)
            except FleetError:
                continue  # it is gone already, or in use by another agent
            await self._note(
                *("discarded", f"{key}/{one.contender}/discarded"),
                task=key,
                contender=one.contender,
            )

    async def _leave(self, error: Exception) -> NoReturn:
        await self._abort(error)
        raise AssertionError("the runner goes on")


def _make_landing(task: PlannedTask) -> LandingOptions:
    fields = task.fields
    return LandingOptions(
        method=fields.method,
        into=None if fields.into is None else task.fill(fields.into),
        checkout=fields.checkout,
        keep_worktree=True,
    )
