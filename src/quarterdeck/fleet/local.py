"""The fleet in one process: the parts that own agents, terminals and requests, and what is done
at the start after a crash.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from quarterdeck.agent.recovery import DIED, InterruptionReason, close_children, closing_events
from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.clock import WallClock, read_wall_clock
from quarterdeck.wire.content import text
from quarterdeck.wire.events import SessionEnded
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.tasks import BackgroundTasks, run_beside, run_to_end, start_task

from .agent_control import AgentControl, AgentLifecycle, BudgetReach
from .agent_entry import AgentEntry
from .agent_runner import SessionOpener
from .api import FleetStatus, ImportedSession
from .attached_workbenches import AttachedWorkbenches
from .budgets.lookup import BudgetLookup
from .budgets.management import BudgetManagement
from .budgets.service import BudgetService
from .checkpoints.service import CheckpointService
from .handover.fallback import FallbackRule
from .handover.service import HandoverService
from .inbox import Inbox
from .landing.service import LandingService, WorktreeRelease
from .landing.worker import LandingContext
from .live_index import FleetReader, LiveIndex, LogWriter
from .mcp.orchestration import Orchestration
from .mcp.transcript import last_words
from .meter.guard import BudgetGuard
from .meter.service import MeterService
from .names import looks_like_id
from .permissions.approvers import Approvers
from .permissions.grants import FleetGrants, GrantsProjection
from .permissions.recorded_requests import BackTestService
from .permissions.session_gate import open_grants
from .person_commands import PersonCommands, RunningCommandsProjection, close_commands
from .projections import InboxProjection, RosterProjection, load_started
from .prompt_queue import PromptQueues
from .radar.noted_conflicts import NotedConflictsProjection
from .radar.service import ConflictRadar
from .review.changes import ChangeReader
from .review.comments import CommentService
from .review.service import ReviewService
from .review.source import ReviewSource
from .session_factory import AgentOpener, SessionFactory
from .sessions.importer import SessionImporter
from .sessions.retention_policy import RetentionPolicy
from .sessions.standalone import SessionAdopter, StandaloneSessions
from .supervisor import FleetLimits, Supervisor
from .terminals.api import TerminalInfo
from .terminals.service import HostTerminals, LiveAgentTerminals
from .usage.service import UsageService
from .worktrees.management import WorktreeManagement

__all__ = ["HOST_KILLED", "LocalFleet", "recover_agents"]

HOST_KILLED = InterruptionReason("the host was killed", DIED.running, DIED.waiting)


async def recover_agents(journal: Journal) -> list[SessionId]:
    """Write the end of every agent that the log shows as running; durable when this returns.

    Returns which they were. Killed on the way, the next start goes on with the rest.
    """
    left = await journal.query(load_started)
    last = 0
    for entry in left:
        last = await _close(journal, entry)
    if left:
        await journal.durable(last)
    return [entry.session for entry in left]


async def _close(journal: Journal, entry: AgentEntry) -> int:
    events = ()
    if entry.status.is_live:
        run = journal.history(entry.run - 1, entry.session)
        records = [record async for record in run]
        await close_children(journal, records)
        events = closing_events(records, HOST_KILLED)
    if not events:
        events = ((None, SessionEnded(how="broken", reason=HOST_KILLED.reason)),)
    last = 0
    for turn, event in events:
        last = (await journal.append(entry.session, event, turn=turn)).seq
    return last


_STOPPED = "the host was stopped"
_DEFAULTS = FleetLimits()


class LocalFleet:
    """A fleet whose agents this process owns; a ``Fleet``. Made by ``open``.

    It is made of parts, and each method of the fleet is one of a part. What was begun for a caller
    that goes away meanwhile is finished all the same.
    """

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        starting: SessionFactory,
        opener: SessionOpener,
        bounds: FleetLimits,
        places: Places,
        clock: WallClock = read_wall_clock,
    ) -> None:
        self.journal = journal
        """The log; its records may be read and followed by anybody."""
        self._current, self._work = current, BackgroundTasks()
        self._notes = LogWriter(journal, current)
        queues = PromptQueues(current, self._notes, most=bounds.queue)
        self._tools = Orchestration(
            self, current, self._notes, self._find_gate, starting.find, bounds.reach
        )
        self.worktree_service = starting.make_worktrees(current, self._notes)
        """The worktrees of its agents, for the parts that compare and land them."""
        opener = self._tools.wrap_opener(self._make_meter(starting).wrap_opener(opener))
        opener = self.worktree_service.wrap_opener(opener)
        self._checkpoints = self._make_checkpoints(places, starting)
        self._make_budgets(starting)
        self._supervisor = Supervisor(
            *(journal, current, self._notes, queues, opener, bounds, self._checkpoints),
            self.budget_service,
        )
        current.takes_images = self._supervisor.takes_images
        self._make_history(places, starting, clock)
        self._make_inbox(starting)
        self._terminals = HostTerminals(
            starting.environment, LiveAgentTerminals(current, self._supervisor)
        )
        self._commands = PersonCommands(
            starting.environment, self._find_directory, self._notes.take
        )
        snapshots = self.worktree_service.snapshots
        self._radar = ConflictRadar(
            journal, current, self._notes, snapshots, self._tools.tell_conflict
        )
        self._reader = FleetReader(journal, current, self._standalone)
        self._lifecycle = AgentLifecycle(
            *(current, starting, self._supervisor, self._tools, self.worktree_service, self._work),
            *(self.budget_service, self._adopter),
        )
        self._expose_handovers(starting, queues)
        self._expose_agents(
            self._reader,
            self._lifecycle,
            AgentControl(
                *(current, self._notes, queues, self._supervisor, self._work, self._lifecycle)
            ),
        )
        self._expose_inbox_and_terminals()
        changes = ChangeReader(starting.state, snapshots)
        self._expose_reviews(ReviewSource(journal, current, self._notes, changes, self._work))
        self._expose_log_readers(places, starting)
        self._landing = LandingService(self._landing_context(starting), self._work)
        self._expose_landings()

    def _expose_handovers(self, starting: SessionFactory, queues: PromptQueues) -> None:
        current, notes, work = self._current, self._notes, self._work
        handovers = HandoverService(
            *(self, current, notes, queues, self._supervisor, self._lifecycle),
            *(starting, self._tools, self.budget_service, work),
        )
        self.hand_over = handovers.hand_over
        self.handover_brief = handovers.handover_brief
        self._fallback = FallbackRule(
            self.journal, current, notes, handovers, starting.load_settings, work
        )

    def _make_history(self, places: Places, starting: SessionFactory, clock: WallClock) -> None:
        journal, current = self.journal, self._current
        self._importing = SessionImporter(journal, current, self._notes, self._supervisor)
        self._standalone = StandaloneSessions(places.state, journal)
        self._adopter = SessionAdopter(
            *(places.state, journal, current, self._notes, self._supervisor)
        )
        self._retention = RetentionPolicy(
            *(places.state, journal, current, self._standalone, starting.load_settings),
            *(self.delete, clock),
        )

    def _make_budgets(self, starting: SessionFactory) -> None:
        current, lookup = self._current, BudgetLookup(starting.load_settings)
        reach = BudgetReach(current, lambda session: self._supervisor.get(session), self._deliver)
        self.budget_service = BudgetService(self.journal, current, self._notes, lookup, reach)
        """Where model calls are reserved."""
        self._budgeting = BudgetManagement(self.budget_service, current, lookup, self._work)
        self.metering.guard = BudgetGuard(self.budget_service)
        self.budget_service.are_calls_counted = self.metering.leads

    def _make_inbox(self, starting: SessionFactory) -> None:
        find_gate = self._supervisor.gate
        self._inbox = Inbox(
            *(self.journal, self._current, self._notes, find_gate, self._budgeting),
            Approvers(starting.load_people),
            starting.environment.get("HOME", ""),
        )
        self._granted = FleetGrants(self.journal, self._notes, starting.grants, find_gate)
        self._screens = AttachedWorkbenches()

    def _make_meter(self, starting: SessionFactory) -> MeterService:
        self.metering = MeterService(
            self._current, self._notes, starting.find, starting.load_settings, starting.environment
        )
        """The meter; its ``guard`` is asked before each call that passes it."""
        return self.metering

    def _make_checkpoints(self, places: Places, starting: SessionFactory) -> CheckpointService:
        return CheckpointService(
            places,
            starting.environment,
            self.journal,
            self._current,
            self._notes,
            lambda session: self._supervisor.get(session),
            self.worktree_service.check,
            self._work,
        )

    def _expose_agents(
        self, reader: FleetReader, lifecycle: AgentLifecycle, control: AgentControl
    ) -> None:
        self.agents = reader.agents
        self.agent = reader.agent
        self.read = reader.read
        self.follow = reader.follow
        self.wait = reader.wait
        self.search = reader.search

        self.spawn = lifecycle.spawn
        self.resume = lifecycle.resume
        self.fork = lifecycle.fork
        self.rename = lifecycle.rename
        self.kill = lifecycle.kill
        self.close = lifecycle.close
        self.archive = lifecycle.archive
        self.adopt_session = lifecycle.adopt_session
        self.standalone_sessions = self._standalone.sessions

        self.send = control.send
        self.steer = control.steer
        self.edit = control.edit
        self.interrupt = control.interrupt
        self.set_option = control.set_option

    def _expose_inbox_and_terminals(self) -> None:
        self.inbox = self._inbox.items
        self.inbox_groups = self._inbox.groups
        self.answer = self._inbox.answer
        self.answer_group = self._inbox.answer_group
        self.reply = self._inbox.reply
        self.ask_approval = self._inbox.ask_approval
        self.grants = self._granted.all
        self.conflicts = self._radar.conflicts
        self.attach_screen = self._screens.attach

        self.turns = self._checkpoints.turns
        self.turn_changes = self._checkpoints.turn_changes
        self.undo = self._checkpoints.undo
        self.redo = self._checkpoints.redo
        self.rewind = self._checkpoints.rewind

        self.open_terminal = self._terminals.open
        self.watch_terminal = self._terminals.watch
        self.write_terminal = self._terminals.write
        self.paste_terminal = self._terminals.paste
        self.resize_terminal = self._terminals.resize
        self.close_terminal = self._terminals.close
        self.run_command = self._commands.run
        self.end_command = self._commands.end
        self._expose_worktrees()

    def _expose_worktrees(self) -> None:
        service = self._management = WorktreeManagement(self.worktree_service)
        self.worktrees = service.worktrees
        self.remove_worktree = service.remove_worktree
        self.discard_worktree = service.discard_worktree
        self.trash = service.trash
        self.restore_worktree = service.restore_worktree
        self.recreate_worktree = service.recreate_worktree
        self.prune_worktrees = service.prune_worktrees

    def _expose_reviews(self, source: ReviewSource) -> None:
        reviews = ReviewService(source)
        self.changes = reviews.changes
        self.patch = reviews.patch
        self.patch_text = reviews.patch_text
        self.mark_files = reviews.mark_files
        self.accept_changes = reviews.accept_changes
        self.reject_changes = reviews.reject_changes
        self.undo_review = reviews.undo_review

        comments = CommentService(source, self.send)
        self.comments = comments.comments
        self.comment = comments.comment
        self.edit_comment = comments.edit_comment
        self.drop_comment = comments.drop_comment
        self.resolve_comments = comments.resolve_comments
        self.send_comments = comments.send_comments

    def _landing_context(self, starting: SessionFactory) -> LandingContext:
        return LandingContext(
            journal=self.journal,
            current=self._current,
            notes=self._notes,
            directory=starting.places.state / "landing",
            load_settings=starting.load_settings,
            read_last_words=lambda session, most: last_words(self, session, most),
            deliver=self._deliver,
            private=(str(starting.places.state), str(starting.places.runtime)),
            release=WorktreeRelease(self._management),
            mark_landed=self._management.mark_landed,
        )

    def _expose_log_readers(self, places: Places, starting: SessionFactory) -> None:
        journal, home = self.journal, starting.environment.get("HOME", "")
        self._usage = UsageService(journal, self._current, places, starting.load_settings)
        self.usage = self._usage.usage
        self.budgets = self._budgeting.budgets
        self.set_budget = self._budgeting.set_budget
        self.remove_budget = self._budgeting.remove_budget
        self.meter = self.metering.meter
        self._requests = BackTestService(journal, home)
        self.back_test = self._requests.back_test
        self.suggest_rules = self._requests.suggest_rules

    def _expose_landings(self) -> None:
        self.preview_landing = self._landing.preview_landing
        self.land = self._landing.land
        self.queue_landings = self._landing.queue_landings
        self.landings = self._landing.landings
        self.wait_landing = self._landing.wait_landing
        self.cancel_landing = self._landing.cancel_landing
        self.draft_pull_request = self._landing.draft_pull_request

    async def _deliver(self, agent: str, words: str) -> None:
        """Give an agent a prompt, resuming it if need be."""
        await self.send(agent, (text(words),))

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        places: Places,
        environment: Mapping[str, str],
        *,
        log: Path | None = None,
        open_session: SessionOpener | None = None,
        bounds: FleetLimits = _DEFAULTS,
        resume_running: bool = False,
        plans: "PlanStarter | None" = None,
        clock: WallClock = read_wall_clock,
    ) -> AsyncGenerator["LocalFleet"]:
        """Open the fleet of a log, by default the user's; leaving ends every agent.

        Agents that ran when an earlier host was killed are shown as failed, and can be resumed;
        with ``resume_running`` they are. ``open_session``: what starts agents; None: any of the
        catalogue. ``plans`` runs what leads propose. ``clock`` tells microseconds since the epoch.

        Raises:
            JournalLockedError: another process owns this fleet.
            JournalError, GrantsError: the log or the file of grants cannot be used.
        """
        projections = (
            *(RosterProjection(), InboxProjection(), GrantsProjection()),
            *(NotedConflictsProjection(), RunningCommandsProjection()),
        )
        grants = await open_grants(places)
        path = log or places.journal_file
        async with Journal.open(path, projections=projections, clock=clock) as journal:
            recovered = await recover_agents(journal)
            await close_commands(journal)
            current = LiveIndex(journal)
            await current.load()
            starting = SessionFactory(places, environment, journal, grants, current)
            opener = open_session or AgentOpener(places, environment, journal)
            fleet = cls(journal, current, starting, opener, bounds, places, clock)
            if plans is not None:
                fleet._tools.offer_plans(plans)
            await fleet.budget_service.recover()
            async with fleet._running():
                await fleet._adopter.recover()
                await fleet._landing.recover()
                await fleet._management.recover()
                await fleet._checkpoints.finish_restores()
                fleet._work.start(fleet._checkpoints.recover(), name="fleet: recover checkpoints")
                if resume_running:
                    await fleet._resume_all(recovered)
                yield fleet

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[None]:
        async with (
            aclosing(self._standalone),
            run_beside(self._current.follow(), name="fleet: current state"),
            run_beside(self.budget_service.run(), name="fleet: budgets"),
            run_beside(self._radar.run(), name="fleet: radar"),
            run_beside(self._fallback.run(), name="fleet: fallback"),
            run_beside(self._management.keep_tidy(), name="fleet: worktrees"),
            run_beside(self._management.follow_ends(), name="fleet: landed worktrees"),
            run_beside(self._standalone.keep_indexed(), name="fleet: history"),
            run_beside(self._retention.keep_tidy(), name="fleet: retention"),
        ):
            try:
                yield
            finally:
                # Also when it is cancelled while stopping: no process of an agent may be left.
                await run_to_end(self._stop(), name="fleet: stop")

    async def _find_directory(self, agent: str) -> tuple[SessionId, str]:
        entry = await self._current.find(agent)
        return entry.session, entry.spawn.options.cwd

    def _find_gate(self, session: SessionId) -> Gate | None:
        """The gate of a live agent; the tools of agents are made before there is a supervisor."""
        return self._supervisor.gate(session)

    async def _stop(self) -> None:
        closing = start_task(self._terminals.stop(), name="fleet: stop terminals")
        await self._commands.stop()
        await self._landing.close()
        try:
            await self._supervisor.stop(_STOPPED)
        finally:
            await closing
        await self.metering.close()
        await self._work.wait()
        await self._checkpoints.settle()
        await self._tools.close()

    async def _resume_all(self, sessions: Sequence[SessionId]) -> None:
        for session in sessions:
            if self._current.get(session).can_resume:
                await self.resume(session)

    # What needs more than one part

    async def delete(self, agent: str) -> None:
        """Delete an agent that is not live for good, with all that was said."""
        entry = await self._current.find(agent)
        session = entry.session
        if not entry.is_started:
            await self.budget_service.forget(session)
        await self._lifecycle.delete(session)
        self._radar.forget(session)
        self._usage.forget()
        self._requests.forget()
        await self._granted.forget(session)

    async def status(self) -> FleetStatus:
        """The fleet as a whole."""
        running = self._terminals.running + self._commands.running
        return replace(await self._reader.status(), terminals=running)

    async def import_session(
        self,
        agent: str,
        id: str,
        homes: dict[str, str],
        name: str | None = None,
        cwd: str | None = None,
    ) -> ImportedSession:
        """Take a session that an agent keeps on disk into the log."""
        return await self._work.finish(self._importing.bring(agent, id, homes, name=name, cwd=cwd))

    async def revoke(self, grant: str, *, by: str = "person") -> bool:
        """Take a standing answer back."""
        return await self._work.finish(self._granted.revoke(grant, by))

    async def call_screen(self, name: str, arguments: dict[str, Any], *, by: str = "person") -> Any:
        """Let one screen do something, and return what it answers."""
        cwd = (await self._current.find(by)).spawn.options.cwd if looks_like_id(by) else None
        return await self._screens.call(name, arguments, by=by, cwd=cwd)

    async def terminals(self) -> list[TerminalInfo]:
        """All that run, and those that ended and are not closed yet; oldest first."""
        return self._terminals.all()


if TYPE_CHECKING:
    from typing import cast

    from .api import Fleet
    from .mcp.tool_context import PlanStarter

    _: Fleet = cast("LocalFleet", None)
