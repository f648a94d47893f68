"""One task of a pool on one worker: its steps are in the pool, its agents on this machine.

A task that another worker had begun goes on here. What is done is in the pool; the files are at the
git remote as they were after the last turn; the conversation is handed over as text.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import NoSuchAgentError
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.tasks import BackgroundTasks

from ..conduct import AttemptResult, PlanConduct, TaskBrief, make_agent_name, make_retry, make_spawn
from ..gate import GateAnswer
from ..plan import Contender, PlannedTask
from ..progress import CheckOutcome, ContenderReport, EntryKind, ProgressEntry, ProgressLog
from ..task_end import TaskEnd
from ..turn import SentPrompt, TurnResult, find_or_send
from ..workflow import ChildHandle, Plain, TaskWorkflow, to_plain
from .errors import LeaseLostError, PoolUnreachableError, TransportError
from .event_shipment import EventShipment
from .pool_fleet import PoolFleet, describe_past
from .store import Lease, PoolStore, PushedTree
from .submission import PoolRun
from .transport import PoolTransport, name_reference

__all__ = ["HeldLease", "TaskExecution"]

_PATH: ContextVar[tuple[str, ...]] = ContextVar("path")
_RETRY_SECONDS = 0.5
_PUSHES = 5
_SHIPPED_BEFORE = frozenset({"wait", "wait again", "wait gate", "end"})
"""Steps whose result is stored only once the pool has all that was said before."""


class HeldLease:
    """A lease and when it ends, by this machine's monotonic clock, if it is not renewed.

    The clock begins before the database's does, so that it is over here first.
    """

    def __init__(self, lease: Lease, deadline: float) -> None:
        self.lease = lease
        self.deadline = deadline
        self.lost = asyncio.Event()
        self.reason = ""

    def lose(self, reason: str) -> None:
        """Nothing that is written from now on counts."""
        self.reason = self.reason or reason
        self.lost.set()

    async def insist(self, write: Callable[[], Any]) -> Any:
        """Do something at the pool, again and again while the database is gone.

        Raises:
            LeaseLostError: another worker has the task, or may have it.
        """
        while True:
            if self.lost.is_set():
                raise LeaseLostError(self.lease.run, self.lease.key, self.reason)
            try:
                return await write()
            except PoolUnreachableError as error:
                if asyncio.get_running_loop().time() > self.deadline:
                    self.lose(str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            except LeaseLostError as error:
                self.lose(str(error))
                raise


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


class _Adoption:
    """Agents of other workers, brought to this machine.

    Args:
        held: the task.
        fleet: of this machine.
        store: of the pool.
        pool: what the pool knows of other workers' sessions.
        transport: of the run.
        shipping: of this worker.
    """

    def __init__(
        self,
        held: HeldLease,
        fleet: HostClient,
        store: PoolStore,
        pool: PoolFleet,
        transport: PoolTransport,
        shipping: EventShipment,
    ) -> None:
        self.held = held
        self.fleet = fleet
        self.store = store
        self.transport = transport
        self.shipping = shipping
        self._pool = pool
        self._locks: dict[str, asyncio.Lock] = {}

    async def is_here(self, session: str) -> bool:
        """Whether an agent is of this machine; then the pool gets what it says."""
        try:
            await self.fleet.agent(session)
        except NoSuchAgentError:
            return False
        await self.shipping.watch(self.held.lease, session)
        return True

    async def adopt(
        self, run: str, brief: TaskBrief, contender: Contender, session: str
    ) -> AgentInfo:
        """An agent here with the files of one elsewhere; it has said nothing yet."""
        lease = self.held.lease
        name = f"{make_agent_name(run, lease.key, contender.name)}-{lease.token}"
        async with self._locks.setdefault(name, asyncio.Lock()):
            try:
                info = await self.fleet.agent(name)
            except NoSuchAgentError:
                request = await self._make_request(run, brief, contender)
                info = await self.fleet.spawn(replace(request, name=name, prompt=None))
        await self.shipping.watch(lease, info.session)
        return info

    async def _make_request(self, run: str, brief: TaskBrief, contender: Contender) -> SpawnOptions:
        request = make_spawn(run, brief, contender)
        tree = await self.held.insist(lambda: self.store.find_tree(self.held.lease, contender.name))
        if tree is None or request.options.worktree is None or request.options.worktree.is_off:
            return request
        await self.transport.fetch_tree(tree.reference)
        worktree = replace(request.options.worktree, base=tree.commit)
        return replace(request, options=replace(request.options, worktree=worktree))

    async def describe_past(self, session: str, words: str) -> str:
        """A prompt that begins with what was said elsewhere."""
        past = await self.held.insist(lambda: describe_past(self._pool, session))
        return f"{past}\n\n{words}" if past else words

    async def push_files(self, contender: str, session: str) -> None:
        """Push the files of an agent as they are now. Raises TransportError, LeaseLostError."""
        info = await self.fleet.agent(session)
        if info.worktree is None:
            return
        lease = self.held.lease
        reference = name_reference(lease.run, lease.key, contender, str(lease.token))
        commit = await self.transport.push_tree(info.worktree.path, session, reference)
        tree = PushedTree(
            contender=contender, token=lease.token, reference=reference, commit=commit
        )
        await self.held.insist(lambda: self.store.add_tree(lease, tree))


class PoolTaskEnd(TaskEnd):
    """Ends tasks on this machine: lands on branches of the remote."""

    def __init__(
        self,
        run: PoolRun,
        adoption: _Adoption,
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

    async def land(self, task: PlannedTask, report: ContenderReport) -> str:
        """Land on the branch of the remote as it is now; again, if it went on meanwhile."""
        into = task.fields.into
        branch = task.fill(into) if into is not None else self._definition.branch
        if not branch:
            return "the plan was submitted from a commit without a branch; name one with into"
        here = await self._localize(task.key, report)
        named = replace(task, fields=replace(task.fields, into=branch, checkout=False))
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
        self, run: PoolRun, progress: ProgressLog, adoption: _Adoption, places: Places
    ) -> None:
        super().__init__(run, progress, adoption.fleet, places)
        self._adoption = adoption
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
        """See ``PlanConduct``."""
        brief = self._here(brief)
        if last is not None and last.sent is not None and not await self._is_here(last.sent):
            sent = await self._go_on(brief, contender, last.sent.session, make_retry(brief, last))
            await self._note_sent(brief, contender, attempt, sent)
        else:
            sent = await super().send_prompt(brief, contender, attempt, last)
        if isinstance(sent, SentPrompt):
            self._contenders[sent.session] = contender.name
            await self._is_here(sent)
        return sent

    async def wait_turn(self, key: str, sent: SentPrompt, after: int = 0) -> TurnResult:
        """See ``PlanConduct``; the files are at the remote when it returns."""
        if not await self._is_here(sent):
            return TurnResult(stop="gone", reason="its worker is gone")
        result = await super().wait_turn(key, sent, after)
        if result.stop == "end_turn":
            contender = self._contenders.get(sent.session) or self._find_contender(key, sent)
            await self._adoption.push_files(contender, sent.session)
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
        if await self._is_here(sent):
            again = await super().repeat_prompt(brief, contender, attempt, sent, result, last)
        else:
            words = brief.prompt if last is None else make_retry(brief, last)
            again = await self._go_on(brief, contender, sent.session, words)
            await self._note(
                *("turn_repeated", f"{brief.task.key}/{contender.name}/{attempt}/repeated"),
                task=brief.task.key,
                contender=contender.name,
                attempt=attempt,
                session=again.session,
                message=again.message,
                text=result.reason,
            )
        if isinstance(again, SentPrompt):
            self._contenders[again.session] = contender.name
            await self._is_here(again)
        return again

    async def _go_on(
        self, brief: TaskBrief, contender: Contender, session: str, words: str
    ) -> SentPrompt:
        """Send a prompt of a session that is elsewhere to an agent of this machine."""
        info = await self._adoption.adopt(self.run.info.id, brief, contender, session)
        prompt = await self._adoption.describe_past(session, words)
        return await find_or_send(self._adoption.fleet, info.session, 0, prompt)

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
        return (await self._adoption.adopt(self.run.info.id, brief, contender, session)).session

    async def _localize(self, key: str, report: ContenderReport) -> ContenderReport:
        brief = self._briefs[key]
        contender = next(one for one in brief.task.contenders if one.name == report.contender)
        session = await self._find_here(brief, contender, report.session)
        return replace(report, session=session)

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
        self._adoption = _Adoption(held, fleet, store, pool, transport, shipping)
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
            self._conduct.learn(msgspec.convert(begun, TaskBrief))
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
            result = to_plain(await work(*arguments))
            if name in _SHIPPED_BEFORE:
                await self._held.insist(lambda: self._shipping.flush(lease))
            await self._held.insist(lambda: self._store.store_step(lease, path, name, result))
        except Exception as error:
            await self._abort(error)
        self._stored[path, name] = result
        return result

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
