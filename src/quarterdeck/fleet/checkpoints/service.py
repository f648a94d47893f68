"""Checkpoints of a fleet: records turns of every agent, and undoes and redoes them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from quarterdeck.agent.checkpoints import delete_checkpoints
from quarterdeck.agent.checkpoints.errors import ContentMissingError, SnapshotError
from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.agent.checkpoints.turn_history import MoveOptions, TurnHistory
from quarterdeck.agent.ports import NO_TURN_WATCH, TurnWatch, make_snapshot_notice
from quarterdeck.config.places import Places
from quarterdeck.config.schema import CheckpointSettings
from quarterdeck.drivers.driver import DriverSession, EventSink
from quarterdeck.journal import Journal
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Event, Redone, Rewound, TurnEnded
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import BackgroundTasks

from ..agent_entry import AgentEntry
from ..errors import AgentNotReadyError, NoSuchAgentError
from ..live_index import LiveIndex, LogWriter
from .api import ConversationOutcome, TurnChanges, TurnInfo, UndoResult
from .recovery import finish_left_over
from .result_text import make_note
from .selective_restore import SelectivePlanner
from .session_moves import (
    RewindUnsupportedError,
    SessionMover,
    make_result,
    make_turn_info,
    read_changes,
    rewind_turns,
    undo_turn,
)
from .turn_snapshots import (
    FleetSnapshots,
    OwnTurnWatch,
    SessionFiles,
    SessionWatch,
    load_checkpoint_settings,
)
from .work_trees import Paths, WatchedTree

if TYPE_CHECKING:
    from quarterdeck.agent.checkpoints.service import Checkpoints

__all__ = ["AgentTurns", "CheckpointService", "LiveAgent"]

_log = logging.getLogger(__name__)
_TAIL = 50
"""Records at the end of a session in which an undo since its last turn is looked for."""

E = TypeVar("E", Rewound, Redone)


class LiveAgent(Protocol):
    """What has to be known of an agent that runs."""

    @property
    def session(self) -> DriverSession | None:
        """Its session, once it is open."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether a turn of it is running."""
        ...


class CheckpointService:
    """The checkpoints of a fleet; its public methods are those of ``FleetCheckpoints``.

    Args:
        environment: the host's own, which has a say in the settings.
        find_agent: the live agent of a session; None if it is not live.
        check_place: raises AgentNotReadyError if an agent's worktree is gone.
        work: what is begun here is finished there, also when the caller goes away.
    """

    def __init__(
        self,
        places: Places,
        environment: Mapping[str, str],
        journal: Journal,
        current: LiveIndex,
        notes: LogWriter,
        find_agent: Callable[[SessionId], LiveAgent | None],
        check_place: Callable[[AgentEntry], Awaitable[None]],
        work: BackgroundTasks,
    ) -> None:
        self._places = places
        self._environment = environment
        self._journal = journal
        self._current = current
        self._notes = notes
        self._find_agent = find_agent
        self._check_place = check_place
        self._work = work
        self._snapshots = FleetSnapshots(places.state)
        self._locks: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held while a turn of a session runs, or its files are restored."""
        self._held_notes: dict[SessionId, str] = {}
        """For agents whose last prompt was a command, which takes no note."""
        self._is_recovered = asyncio.Event()

    # For those who run agents

    def attach(
        self, entry_of: Callable[[], AgentEntry], around: CallContext, sink: EventSink
    ) -> "AgentTurns":
        """What the turns of an agent that starts go through."""
        return AgentTurns(self, entry_of, around, sink)

    def lock_of(self, session: SessionId) -> asyncio.Lock:
        """Held while a turn of a session runs, or its files are restored."""
        return self._locks[session]

    async def load_settings(self, cwd: str) -> CheckpointSettings:
        """The settings that count in a directory."""
        return await asyncio.to_thread(
            load_checkpoint_settings, self._places, self._environment, cwd
        )

    @property
    def snapshots(self) -> FleetSnapshots:
        """What records turns."""
        return self._snapshots

    async def add_note(
        self, entry: AgentEntry, content: tuple[ContentBlock, ...]
    ) -> tuple[ContentBlock, ...]:
        """A prompt, which begins with what was undone since the agent's last turn."""
        note = self._held_notes.pop(entry.session, None) or await self._read_note(entry)
        if note is None:
            return content
        first = content[0] if content else None
        if isinstance(first, TextContent) and first.text.startswith("/"):
            self._held_notes[entry.session] = note  # a command must be at the beginning
            return content
        return (text(note), *content)

    async def finish_restores(self) -> None:
        """Finish restoring of files that hosts which were killed had begun."""
        for session in await asyncio.to_thread(self._find_left_over, "restoring"):
            try:
                entry = await self._current.find(session)
                async with self._locks[session]:
                    await self._check_place(entry)
                    await (await self._open_history(entry)).finish()
            except NoSuchAgentError:
                continue
            except (QuarterdeckError, OSError) as error:
                _log.warning("the last undo of %s is not finished: %s", session, error)

    async def recover(self) -> None:
        """Record the turns that ran when a host was killed; no turn or undo begins before that."""
        try:
            for session in await asyncio.to_thread(self._find_left_over, "turn"):
                try:
                    entry = await self._current.find(session)
                    async with self._locks[session]:
                        await self._recover(entry)
                except NoSuchAgentError:
                    continue
                except (QuarterdeckError, OSError) as error:
                    _log.warning("the last turn of %s cannot be undone: %s", session, error)
        finally:
            self._is_recovered.set()

    async def wait_recovered(self) -> None:
        """Wait until what is changed from now on counts as no turn's of a killed host."""
        await self._is_recovered.wait()

    async def delete(self, session: SessionId) -> None:
        """Delete what is kept of a session's files."""
        self._locks.pop(session, None)
        self._held_notes.pop(session, None)
        await asyncio.to_thread(delete_checkpoints, self._places.state, session)

    async def settle(self) -> None:
        """Wait until everything is written down."""
        await self._snapshots.work.wait()

    # For callers

    async def turns(self, agent: str) -> list[TurnInfo]:
        """The turns of an agent, oldest first."""
        history = await self._open_history(await self._current.find(agent))
        return [make_turn_info(turn) for turn in (await history.ledger()).turns]

    async def turn_changes(
        self, agent: str, *, turn: str | None = None, lines: int = 400
    ) -> TurnChanges:
        """What a turn did to files; None: all turns that are not undone."""
        entry = await self._current.find(agent)
        history, files = await self._open_history(entry), await self._open_files(entry)
        return await read_changes(history, files.blobs, turn, lines)

    async def undo(
        self,
        agent: str,
        *,
        turn: str | None = None,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
    ) -> UndoResult:
        """Undo one turn."""
        entry = await self._current.find(agent)

        async def move(mover: SessionMover, via: MoveOptions, can_rewind: bool) -> Rewound:
            goes_back = _expect_conversation(entry, can_rewind, files, conversation)
            return await undo_turn(
                mover, via, turn=turn, files=files, conversation=goes_back, force=force
            )

        return await self._work.finish(self._move(entry, move, writes=files))

    async def rewind(
        self,
        agent: str,
        turn: str,
        *,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
    ) -> UndoResult:
        """Go back to where a turn began."""
        entry = await self._current.find(agent)

        async def move(mover: SessionMover, via: MoveOptions, can_rewind: bool) -> Rewound:
            goes_back = _expect_conversation(entry, can_rewind, files, conversation)
            return await rewind_turns(
                mover, via, turn=turn, files=files, conversation=goes_back, force=force
            )

        return await self._work.finish(self._move(entry, move, writes=files))

    async def redo(self, agent: str, *, force: bool = False) -> UndoResult:
        """Revert the last undo or rewind."""
        entry = await self._current.find(agent)

        async def move(mover: SessionMover, via: MoveOptions, can_rewind: bool) -> Redone:
            return await mover.redo(force=force, via=via)

        return await self._work.finish(self._move(entry, move))

    # Going back and forth

    async def _move(
        self,
        entry: AgentEntry,
        move: "Callable[[SessionMover, MoveOptions, bool], Awaitable[Rewound | Redone]]",
        *,
        writes: bool = True,
    ) -> UndoResult:
        await self.wait_recovered()
        async with self._hold(entry) as session:
            if writes:
                # Files that are put where a worktree was would keep it from being restored.
                await self._check_place(await self._current.find(entry.session))
            await self._snapshots.settle(entry.session)
            await self._notes.settled()
            if session is None:
                await self._recover(entry)
            files = await self._open_files(entry)
            planner = SelectivePlanner(files.directory, files.blobs, files.root)
            own: Checkpoints | None = getattr(session, "checkpoints", None)
            mover: SessionMover = own or await self._open_history(entry)
            rewinder = _rewinder(session) if own is None else None
            can_rewind = entry.is_native or rewinder is not None
            before = await mover.ledger()
            done: list[Rewound | Redone] = []

            async def work() -> Paths:
                via = MoveOptions(planner=planner, rewind_agent=rewinder)
                event = await move(mover, via, can_rewind)
                done.append(event)
                digest = event.restored if isinstance(event, Rewound) else None
                if isinstance(event, Redone) and before.redoable:
                    digest = before.redoable[-1].restored
                return await asyncio.to_thread(_restored_paths, files, digest)

            await run_aside(await self._find_trees(entry), work)
            await self._notes.settled()
            (event,) = done
            outcome = _outcome(entry, event, before.redoable)
            return make_result(entry.session, entry.name, event, before, outcome)

    @asynccontextmanager
    async def _hold(self, entry: AgentEntry) -> AsyncGenerator[DriverSession | None]:
        """Keep a session from running a turn. Raises AgentNotReadyError."""
        agent = self._find_agent(entry.session)
        if agent is not None and agent.is_busy:
            raise AgentNotReadyError(f"{entry.name!r} is working; interrupt it first")
        async with self._locks[entry.session]:
            agent = self._find_agent(entry.session)
            if agent is not None and agent.session is None and entry.is_native:
                raise AgentNotReadyError(f"{entry.name!r} is still starting; wait for it")
            yield agent.session if agent is not None else None

    async def _find_trees(self, entry: AgentEntry) -> list[WatchedTree]:
        options = entry.spawn.options
        with suppress(SnapshotError, OSError):
            settings = await self.load_settings(options.cwd)
            return await self._snapshots.trees.find((options.cwd, *options.roots), settings)
        return []

    # Reading

    async def _open_files(self, entry: AgentEntry) -> SessionFiles:
        return await asyncio.to_thread(
            SessionFiles.find, self._places.state, entry.session, entry.spawn.options.cwd
        )

    async def _open_history(self, entry: AgentEntry) -> TurnHistory:
        async def records() -> AsyncIterator[Record]:
            async for record in self._journal.history(session=entry.session):
                yield record

        async def emit(event: Event) -> None:
            await self._notes.note(entry.session, event)

        await self._notes.settled()
        return TurnHistory(await self._open_kept(entry), records, emit)

    async def _open_kept(self, entry: AgentEntry) -> TurnSnapshots:
        options = entry.spawn.options
        roots = (options.cwd, *options.roots)
        return await asyncio.to_thread(TurnSnapshots, self._places.state, entry.session, roots)

    async def _read_note(self, entry: AgentEntry) -> str | None:
        moves: list[Rewound | Redone] = []
        undone: list[Rewound] = []
        for record in await self._journal.tail(entry.session, self._journal.last + 1, _TAIL):
            match record.event:
                case TurnEnded():
                    moves, undone = [], []
                case Rewound() as event:
                    moves.append(event)
                    undone.append(event)
                case Redone() as event if undone:
                    moves.remove(last := undone.pop())
                    if last.conversation and not entry.is_native:
                        moves.append(event)
                case _:
                    pass
        noted = [one for one in moves if isinstance(one, Redone) or _needs_note(one)]
        if not noted:
            return None
        ledger = await (await self._open_history(entry)).ledger()
        prompts = {turn.id: turn.prompt for turn in ledger.turns}
        return make_note(
            [
                (one, tuple(prompts[id_] for id_ in _turns_of(one) if id_ in prompts))
                for one in noted
            ]
        )

    # After a kill

    def _find_left_over(self, name: str) -> list[SessionId]:
        top = self._places.state / "checkpoints"
        return sorted(SessionId(path.parent.name) for path in top.glob(f"ses_*/{name}"))

    async def _recover(self, entry: AgentEntry) -> None:
        """Finish what is left of a session that is not live."""

        async def write(event: Event, turn: TurnId) -> None:
            await self._notes.keep(entry.session, event, turn=turn)
            await self._notes.settled()

        await finish_left_over(
            self._snapshots,
            await self._open_history(entry),
            await self._open_kept(entry),
            entry.session,
            settings=await self.load_settings(entry.spawn.options.cwd),
            write=write,
        )


class AgentTurns:
    """The turns of one agent that this process runs.

    Args:
        entry_of: what is known of the agent now.
        around: where it works.
        sink: writes events about its turns.
    """

    def __init__(
        self,
        service: CheckpointService,
        entry_of: Callable[[], AgentEntry],
        around: CallContext,
        sink: EventSink,
    ) -> None:
        self._service = service
        self._entry_of = entry_of
        self._around = around
        self._sink = sink
        self._watch: SessionWatch | None = None
        self._settings = CheckpointSettings()

    async def open(self) -> None:
        """Get ready, before the agent starts."""
        self._settings = await self._service.load_settings(self._around.cwd)
        self._watch = SessionWatch(
            self._service.snapshots,
            self._around,
            lambda: self._entry_of().name,
            self._settings,
            self._sink,
            make_snapshot_notice if self._entry_of().is_native else None,
        )

    async def warm(self) -> None:
        """Take a first snapshot while the agent starts; ours has its own when it needs one."""
        if self._watch is not None and not self._entry_of().is_native:
            await self._watch.warm()

    def watch(self, turn: TurnId) -> TurnWatch:
        """Who watches a turn of our own agent, whose events are not heard here."""
        if self._watch is None or not self._settings.enabled:
            return NO_TURN_WATCH
        return OwnTurnWatch(self._watch, turn)

    async def settle(self) -> None:
        """Wait until what an interrupted turn did is written down."""
        if self._watch is not None:
            await self._watch.settle()

    async def before(self, event: Event) -> None:
        """Called with each event of the agent before it is written."""
        if self._watch is not None:
            await self._watch.before(event)

    async def after(self, event: Event, turn: TurnId | None) -> None:
        """Called with each event of the agent once it is written."""
        if self._watch is not None:
            await self._watch.after(event, turn)

    @asynccontextmanager
    async def run(
        self, content: tuple[ContentBlock, ...]
    ) -> AsyncGenerator[tuple[ContentBlock, ...]]:
        """Around a turn: nothing is restored meanwhile. Gives the prompt, perhaps with a note."""
        entry = self._entry_of()
        await self._service.wait_recovered()
        async with self._service.lock_of(entry.session):
            yield await self._service.add_note(entry, content)


def _expect_conversation(
    entry: AgentEntry, can_rewind: bool, files: bool, conversation: bool
) -> bool:
    """Whether the conversation goes back. Raises RewindUnsupportedError."""
    if conversation and not files and not can_rewind:
        raise RewindUnsupportedError(entry.name)
    return conversation and can_rewind


def _rewinder(session: DriverSession | None) -> Callable[[int], Awaitable[bool]] | None:
    """What takes turns out of an agent's own conversation, if it can do that."""
    if session is None or not session.capabilities.rewinds:
        return None

    async def rewind(turns: int) -> bool:
        try:
            await session.rewind(turns)
        except QuarterdeckError as error:
            _log.warning("%s did not go back in its conversation: %s", session.agent, error)
            return False
        return True

    return rewind


def _outcome(
    entry: AgentEntry, event: Rewound | Redone, redoable: Sequence[Rewound]
) -> ConversationOutcome:
    if isinstance(event, Rewound):
        if event.conversation:
            return "rewound"
        return "noted" if _needs_note(event) else "unchanged"
    if not redoable or not redoable[-1].conversation:
        return "unchanged"
    return "rewound" if entry.is_native else "noted"


def _needs_note(event: Rewound) -> bool:
    return not event.conversation and event.changed > 0


def _turns_of(event: Rewound | Redone) -> tuple[TurnId, ...]:
    if isinstance(event, Redone):
        return (event.to,)
    return tuple(reversed(event.files)) or (event.to,)


def _restored_paths(files: SessionFiles, digest: str | None) -> Paths:
    if digest is None:
        return ()
    try:
        return tuple(change.path for change in files.blobs.get_manifest(digest).changes)
    except ContentMissingError:
        return ()


async def run_aside(trees: Sequence[WatchedTree], work: Callable[[], Awaitable[Paths]]) -> Paths:
    """Change files of several trees so that the change counts as no turn's."""
    if not trees:
        return await work()
    first, *rest = trees
    return await first.run_aside(lambda: run_aside(rest, work))
