"""One task of a pool on one worker: its steps are in the pool, its agents on this machine.

A task that another worker had begun goes on here. What is done is in the pool; the files are at the
git remote as they were after the last turn; the session is resumed, or handed over as text.
"""

import asyncio
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NoReturn

from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.landing.api import PullRequestDraft
from quarterdeck.fleet.landing.pull_request import PullRequestError
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.redaction import mask_secrets
from quarterdeck.wire.tasks import BackgroundTasks

from ..conduct import AttemptResult, PlanConduct, TaskBrief, make_retry
from ..gate import GateAnswer
from ..plan import Contender, PlannedTask
from ..progress import CheckOutcome, ContenderReport, EntryKind, ProgressEntry, ProgressLog
from ..task_end import TaskEnd
from ..turn import SentPrompt, TurnResult, find_or_send
from ..workflow import ChildHandle, Plain, TaskWorkflow, to_plain
from .adoption import Adoption, HeldLease
from .errors import LeaseLostError, TransportError
from .event_shipment import EventShipment
from .pool_fleet import PoolFleet
from .store import PoolStore
from .submission import PoolRun
from .transport import PoolTransport

__all__ = ["TaskExecution"]

_PATH: ContextVar[tuple[str, ...]] = ContextVar("path")
_PUSHES = 5
_NO_BRANCH = "the plan was submitted from a commit without a branch; name one with into"
_MARKED = ("send", "repeat")
"""Steps that send a prompt: that they begin is stored before."""
_SHIPPED_BEFORE = frozenset({"wait", "wait again", "wait gate", "end"})
"""Steps whose result is stored only once the pool has all that was said before."""


class _PoolProgress(ProgressLog):
    """The progress of a run as one worker sees it; what it notes goes to the pool.

    ``note`` is called in a thread.
    """

    def __init__(self, held: HeldLease, store: PoolStore, entries: list[ProgressEntry]) -> None:
        self.entries = entries
        self._by_key = {entry.key: entry for entry in entries}
        self._held = held
        self._store = store
        self._loop = asyncio.get_running_loop()

    def note(self, kind: EntryKind, key: str, **fields: Any) -> bool:
        """See ``ProgressLog``. Raises LeaseLostError."""
        if key in self._by_key:
            return False
        entry = ProgressEntry(time=read_wall_clock(), kind=kind, key=key, **fields)
        write = self._held.insist(lambda: self._store.note(self._held.lease, entry))
        asyncio.run_coroutine_threadsafe(write, self._loop).result()
        self._by_key[key] = entry
        self.entries.append(entry)
        return True


class PoolTaskEnd(TaskEnd):
    """Ends tasks on this machine: lands on branches of the remote."""

    def __init__(
        self,
        run: PoolRun,
        adoption: Adoption,
        places: Places,
        note: Any,
        abort: Any,
        localize: Callable[[str, ContenderReport], Any],
    ) -> None:
        super().__init__(run, adoption.fleet, places, note, abort)
        self._definition = run.definition
        self._adoption = adoption
        self._localize = localize

    async def wait_gate(self, key: str, report: ContenderReport) -> GateAnswer:
        """See ``TaskEnd``; the request is that of an agent of this machine."""
        return await super().wait_gate(key, await self._localize(key, report))

    def _name_branch(self, task: PlannedTask) -> tuple[str, PlannedTask]:
        """The branch that the work is for, empty if there is none, and a task that names it."""
        into = task.fields.into
        branch = task.fill(into) if into is not None else self._definition.branch
        fields = replace(task.fields, into=branch, checkout=False)
        return branch, replace(task, fields=fields)

    async def draft_pull_request(
        self, task: PlannedTask, report: ContenderReport
    ) -> PullRequestDraft | str:
        """See ``TaskEnd``; other workers can have the commit when it returns."""
        branch, named = self._name_branch(task)
        if not branch:
            return _NO_BRANCH
        here, transport = await self._localize(task.key, report), self._adoption.transport
        try:
            async with transport.hold():
                await transport.refresh()
                await transport.add_branch(branch)
                draft = await super().draft_pull_request(named, here)
            if isinstance(draft, PullRequestDraft):
                await transport.push_draft(draft, task.key)
        except TransportError as error:
            return str(error)
        return draft

    async def open_pull_request(
        self, task: PlannedTask, report: ContenderReport, draft: PullRequestDraft
    ) -> str:
        """See ``TaskEnd``; by the programs and logins of this machine."""
        await self._adoption.held.insist(self._check_lease)
        try:
            opened = await self._adoption.transport.open_pull_request(draft, task.key)
        except (TransportError, PullRequestError) as error:
            return mask_secrets(str(error), os.environ)
        text = opened.url or f"opened for {opened.branch}"
        await self._note_pull_request(task, report, mask_secrets(text, os.environ))
        return ""

    async def land(self, task: PlannedTask, report: ContenderReport) -> str:
        """Land on the branch of the remote as it is now; again, if it went on meanwhile."""
        branch, named = self._name_branch(task)
        if not branch:
            return _NO_BRANCH
        here = await self._localize(task.key, report)
        transport = self._adoption.transport
        for _ in range(_PUSHES):
            try:
                async with transport.hold():
                    await transport.refresh()
                    await transport.add_branch(branch)
                    if failure := await super().land(named, here):
                        return failure
                    await self._adoption.held.insist(self._check_lease)
                    if await transport.push_branch(branch):
                        return ""
            except TransportError as error:
                return str(error)
        return f"others pushed to {branch!r} again and again; try again later"

    async def _check_lease(self) -> None:
        """A branch has no token: so the lease is looked at just before it is pushed."""
        held = self._adoption.held
        await self._adoption.store.check(held.lease)


class PoolConduct(PlanConduct):
    """Carries out the steps of one task; agents that are elsewhere are brought here first."""

    def __init__(
        self, run: PoolRun, progress: ProgressLog, adoption: Adoption, places: Places
    ) -> None:
        super().__init__(run, progress, adoption.fleet, places)
        self._adoption = adoption
        self.begun_elsewhere: set[tuple[str, str]] = set()
        """Paths and names of steps that another worker began, and perhaps did."""
        self._briefs: dict[str, TaskBrief] = {}
        self._contenders: dict[str, str] = {}
        """Of sessions."""
        self.ends = PoolTaskEnd(run, adoption, places, self._note, self.abort, self._localize)

    def learn(self, brief: TaskBrief) -> None:
        """What the task is, whichever worker began it."""
        directory = str(self.plan.directory)
        self._briefs[brief.task.key] = replace(brief, directory=directory)

    def _here(self, brief: TaskBrief) -> TaskBrief:
        """A task that another worker began has its directory."""
        self.learn(brief)
        return self._briefs[brief.task.key]

    async def send_prompt(
        self, brief: TaskBrief, contender: Contender, attempt: int, last: AttemptResult | None
    ) -> SentPrompt | str:
        """See ``PlanConduct``; marked as repeated, if another worker may have sent it before."""
        brief = self._here(brief)
        if self._was_begun("send begun again", brief, contender, attempt):
            return "the turn ended: gone, and so had its repetition"
        if last is not None and last.sent is not None and not await self._is_here(last.sent):
            sent = await self._go_on(brief, contender, last.sent.session, make_retry(brief, last))
            await self._note_sent(brief, contender, attempt, sent)
        else:
            sent = await super().send_prompt(brief, contender, attempt, last)
        if isinstance(sent, SentPrompt):
            self._contenders[sent.session] = contender.name
            await self._is_here(sent)
            if self._was_begun("send", brief, contender, attempt):
                await self._note_repeated(brief, contender, attempt, sent, "its worker is gone")
        return sent

    def _was_begun(self, step: str, brief: TaskBrief, contender: Contender, attempt: int) -> bool:
        path = f"{brief.task.key}/{contender.name}/{attempt}"
        return (path, step) in self.begun_elsewhere

    async def wait_turn(self, key: str, sent: SentPrompt, after: int = 0) -> TurnResult:
        """See ``PlanConduct``; the files are at the remote when it returns."""
        if not await self._is_here(sent):
            return TurnResult(stop="gone", reason="its worker is gone")
        result = await super().wait_turn(key, sent, after)
        if result.stop == "end_turn":
            contender = self._contenders.get(sent.session) or self._find_contender(key, sent)
            await self._adoption.store_turn(contender, sent.session)
        return result

    def _find_contender(self, key: str, sent: SentPrompt) -> str:
        for entry in self._progress.entries:
            if entry.task == key and entry.session == sent.session and entry.contender:
                return entry.contender
        raise AssertionError(f"{sent.session!r} was never sent a prompt")

    async def repeat_prompt(
        self,
        brief: TaskBrief,
        contender: Contender,
        attempt: int,
        sent: SentPrompt,
        result: TurnResult,
        last: AttemptResult | None,
    ) -> SentPrompt | str:
        """See ``PlanConduct``; here, if its worker is gone."""
        brief = self._here(brief)
        if any(self._was_begun(step, brief, contender, attempt) for step in _MARKED):
            return f"the turn ended: gone, and so had its repetition ({result.reason})"
        if await self._is_here(sent):
            again = await super().repeat_prompt(brief, contender, attempt, sent, result, last)
        else:
            words = brief.prompt if last is None else make_retry(brief, last)
            again = await self._go_on(brief, contender, sent.session, words)
            await self._note_repeated(brief, contender, attempt, again, result.reason)
        if isinstance(again, SentPrompt):
            self._contenders[again.session] = contender.name
            await self._is_here(again)
        return again

    async def _go_on(
        self, brief: TaskBrief, contender: Contender, session: str, words: str
    ) -> SentPrompt:
        """Send a prompt of a session that is elsewhere to an agent of this machine."""
        adopted = await self._adoption.adopt(self.run.info.id, brief, contender)
        prompt = await self._adoption.make_prompt(adopted, session, words)
        return await find_or_send(self._adoption.fleet, adopted.info.session, 0, prompt)

    async def run_task_check(
        self, brief: TaskBrief, contender: Contender, attempt: int, sent: SentPrompt, number: int
    ) -> CheckOutcome:
        """See ``PlanConduct``."""
        brief = self._here(brief)
        here = await self._find_here(brief, contender, sent.session)
        return await super().run_task_check(
            brief, contender, attempt, replace(sent, session=here), number
        )

    async def end_contender(
        self, brief: TaskBrief, contender: Contender, attempts: list[AttemptResult]
    ) -> ContenderReport:
        """See ``PlanConduct``."""
        brief = self._here(brief)
        last = attempts[-1]
        if last.sent is not None and not await self._is_here(last.sent):
            here = await self._find_here(brief, contender, last.sent.session)
            sent = replace(last.sent, session=here)
            attempts = [*attempts[:-1], replace(last, sent=sent)]
        return await super().end_contender(brief, contender, attempts)

    async def _is_here(self, sent: SentPrompt) -> bool:
        return await self._adoption.is_here(sent.session)

    async def _find_here(self, brief: TaskBrief, contender: Contender, session: str) -> str:
        if await self._adoption.is_here(session):
            return session
        adopted = await self._adoption.adopt(self.run.info.id, brief, contender)
        return adopted.info.session

    async def _localize(self, key: str, report: ContenderReport) -> ContenderReport:
        brief = self._briefs[key]
        contender = next(one for one in brief.task.contenders if one.name == report.contender)
        session = await self._find_here(brief, contender, report.session)
        return replace(report, session=session)

    async def _note_repeated(
        self,
        brief: TaskBrief,
        contender: Contender,
        attempt: int,
        again: SentPrompt,
        reason: str,
    ) -> None:
        await self._note(
            *("turn_repeated", f"{brief.task.key}/{contender.name}/{attempt}/repeated"),
            task=brief.task.key,
            contender=contender.name,
            attempt=attempt,
            session=again.session,
            message=again.message,
            text=reason,
        )

    async def _note_sent(
        self, brief: TaskBrief, contender: Contender, attempt: int, sent: SentPrompt
    ) -> None:
        await self._note(
            *("turn_sent", f"{brief.task.key}/{contender.name}/{attempt}/sent"),
            task=brief.task.key,
            contender=contender.name,
            attempt=attempt,
            session=sent.session,
            message=sent.message,
        )


class TaskExecution:
    """Executes one task as long as its lease holds; a ``WorkflowHost``."""

    def __init__(
        self,
        held: HeldLease,
        run: PoolRun,
        fleet: HostClient,
        store: PoolStore,
        pool: PoolFleet,
        transport: PoolTransport,
        shipping: EventShipment,
        places: Places,
    ) -> None:
        self._held = held
        self._run = run
        self._store = store
        self._shipping = shipping
        self._places = places
        self._adoption = Adoption(
            *(held, fleet, store, pool, transport, shipping, places),
            carries_ignored=run.definition.fields.carry_ignored,
        )
        self._stored: dict[tuple[str, str], Plain] = {}
        self._children = BackgroundTasks()
        self._conduct: PoolConduct
        self._course: TaskWorkflow

    async def execute(self) -> str:
        """Go through the task; its state in the end.

        Raises:
            LeaseLostError: another worker has it.
            QuarterdeckError: this worker cannot go on with it.
        """
        lease, insist = self._held.lease, self._held.insist
        await self._adoption.transport.prepare()
        self._stored = await insist(lambda: self._store.read_steps(lease))
        entries = await insist(lambda: self._store.read_progress(lease.run))
        progress = _PoolProgress(self._held, self._store, [entry for _, entry in entries])
        self._conduct = PoolConduct(self._run, progress, self._adoption, self._places)
        if (begun := self._stored.get((lease.key, "begin"))) is not None:
            self._conduct.learn(convert(begun, TaskBrief))
        self._course = TaskWorkflow(self._conduct, self)
        _PATH.set((lease.key,))
        work = self._children.start(self._course.run_task(lease.key), name=f"task {lease.path}")
        lost = self._children.start(self._held.lost.wait(), name=f"lease {lease.path}")
        try:
            await asyncio.wait(
                (work, lost, self._conduct.aborted), return_when=asyncio.FIRST_COMPLETED
            )
            if self._held.lost.is_set():
                raise LeaseLostError(lease.run, lease.key, self._held.reason)
            if self._conduct.aborted.done():
                raise self._conduct.aborted.result()
            return work.result()
        finally:
            await self._children.close()

    async def step(self, name: str, work: Any, *arguments: Any) -> Plain:
        """See ``WorkflowHost``."""
        path = "/".join(_PATH.get())
        if (path, name) in self._stored:
            return self._stored[path, name]
        lease = self._held.lease
        try:
            if name in _MARKED:
                await self._mark(path, name)
            result = to_plain(await work(*arguments))
            if name in _SHIPPED_BEFORE:
                await self._held.insist(lambda: self._shipping.flush(lease))
            await self._held.insist(lambda: self._store.store_step(lease, path, name, result))
        except Exception as error:
            await self._abort(error)
        self._stored[path, name] = result
        return result

    async def _mark(self, path: str, name: str) -> None:
        """Say that a prompt is about to be sent from here: no other worker can see whether it was.

        On the machine that began it, its log says whether the agent has it.
        """
        begun = self._conduct.begun_elsewhere
        first = await self._mark_once(path, f"{name} begun")
        second = f"{name} begun again"
        if first == self._held.lease.worker and (path, second) not in self._stored:
            return
        begun.add((path, name))
        if await self._mark_once(path, second) != self._held.lease.worker:
            begun.add((path, second))

    async def _mark_once(self, path: str, mark: str) -> Plain:
        """The worker that has made a mark; this one, if none had."""
        lease = self._held.lease
        if (path, mark) not in self._stored:
            await self._held.insist(lambda: self._store.store_step(lease, path, mark, lease.worker))
            self._stored[path, mark] = lease.worker
        return self._stored[path, mark]

    async def _abort(self, error: Exception) -> NoReturn:
        if isinstance(error, LeaseLostError):
            self._held.lose(str(error))
        await self._conduct.abort(error)

    async def start(self, kind: str, path: tuple[str, ...], *arguments: Plain) -> ChildHandle:
        """See ``WorkflowHost``."""
        course = self._course
        work = {"contender": course.run_contender, "attempt": course.run_attempt}[kind]

        async def run() -> Plain:
            _PATH.set(path)
            return await work(*arguments)

        return _ChildTask(self._children.start(run(), name=f"task {'/'.join(path)}"))


class _ChildTask:
    def __init__(self, task: "asyncio.Task[Plain]") -> None:
        self._task = task

    async def get_result(self) -> Plain:
        return await self._task
