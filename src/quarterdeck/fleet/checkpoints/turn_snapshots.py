"""What turns of a fleet's agents do to files: recorded as they begin and end.

A ``SessionWatch`` sees the events of an agent. The agent gets its prompt when the snapshot of its
directories is on disk, so that nothing it does can come before it; the end of its turn is written
when the second one is taken. Our own agent tells before each call what it is about to do: its
first snapshot is taken before the first call that may change something, and what its tools are
about to change is kept besides, for files that no snapshot has. Of a turn whose host was killed
the first snapshot is left, and the next host takes the second.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from quarterdeck.agent.checkpoints import TREES, session_directory
from quarterdeck.agent.checkpoints.errors import SnapshotError
from quarterdeck.agent.checkpoints.file_state import (
    BlobStore,
    FileChange,
    FileState,
    Manifest,
    SharedPath,
    path_text,
    read_file_state,
    write_whole,
)
from quarterdeck.agent.checkpoints.service import may_change_files
from quarterdeck.agent.checkpoints.snapshot import describe_uncovered
from quarterdeck.config.errors import ConfigError
from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places, make_private
from quarterdeck.config.schema import CheckpointSettings
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.drivers.driver import EventSink
from quarterdeck.journal.errors import JournalError
from quarterdeck.policy.call import Call
from quarterdeck.policy.foreign_calls import CallContext, call_from_tool
from quarterdeck.wire.decoders import decode_msgpack
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    Checkpointed,
    Event,
    NoticePosted,
    SharedFile,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.tasks import BackgroundTasks, start_task
from quarterdeck.wire.tool_calls import Diff, ToolKind

from .work_trees import PendingTurn, WatchedTree, WatchedTurn, WorkTrees

if TYPE_CHECKING:
    from quarterdeck.agent.ports import Turn

__all__ = [
    "LOST_HOST",
    "SNAPSHOT_EVENTS",
    "FleetSnapshots",
    "OwnTurnWatch",
    "SessionFiles",
    "SessionWatch",
    "make_undo_notice",
    "read_pending",
]

SNAPSHOT_EVENTS: frozenset[type[Event]] = frozenset(
    (TurnStarted, TurnEnded, ToolCallStarted, ToolCallUpdated, ToolCallEnded)
)
"""Events of an agent that have something to do with what its turn does to files."""

_log = logging.getLogger(__name__)
_PENDING = "turn"
_MOST_NAMED = 20
_HURRY = 0.5
"""Seconds that the end of an interrupted turn waits."""
_CHANGING: tuple[ToolKind, ...] = ("edit", "delete", "move")
LOST_HOST = "the host was killed; changes made until it started again are included"
"""What is said of a turn whose end no one saw."""


class SessionFiles:
    """Where what a session's files were is kept. Methods block.

    Args:
        directory: the session's own.
        root: its working directory; paths are shown relative to it.
    """

    def __init__(self, directory: Path, root: bytes) -> None:
        self.directory = directory
        self.blobs = BlobStore(directory / "blobs")
        self.root = root
        self._saving = threading.Lock()
        """Two trees, or a tree and a call, may save at the same time."""

    @classmethod
    def find(cls, state: Path, session: SessionId, cwd: str) -> "SessionFiles":
        """Those of a session that works in ``cwd``; ``state``: our own directory."""
        return cls(session_directory(state, session), os.fsencode(os.path.realpath(cwd)))

    def save(self, pending: PendingTurn) -> None:
        """Put a turn that runs on disk."""
        with self._saving:
            make_private(self.directory)
            write_whole(self.directory / _PENDING, msgspec.msgpack.encode(pending))

    def read(self, path: bytes) -> FileState | None:
        """What is there, kept; a directory is nothing, as for git. Raises OSError."""
        found = read_file_state(path, self.blobs)
        return None if found is not None and found.kind == "other" else found

    def forget(self) -> None:
        """The turn is in the log."""
        with suppress(OSError):
            (self.directory / _PENDING).unlink(missing_ok=True)

    def name_trees(self, trees: Iterable[WatchedTree]) -> None:
        """Say which stores the session needs."""
        names = "".join(f"{tree.shadow.key}\n" for tree in trees)
        make_private(self.directory)
        write_whole(self.directory / TREES, names.encode())

    def describe(self, turn: WatchedTurn, trees: Iterable[WatchedTree]) -> tuple[Event, ...]:
        """What a turn changed, as events; none if it changed nothing. Raises SnapshotError.

        Of one that ran commands where no snapshot could be taken, at least that is written.
        """
        shadows = {tree.top: tree.shadow for tree in trees}
        found = _TurnChanges(turn)
        for segment, others in zip(turn.pending.segments, turn.others, strict=True):
            shadow = shadows.get(segment.top)
            if shadow is None:
                raise SnapshotError(f"{path_text(segment.top)!r} is not a work tree any more")
            changes = shadow.changes(segment.before, segment.after, self.blobs)
            excluded = set(segment.excluded)
            for change in changes:
                if change.path not in excluded:
                    found.add(change, segment.agents, others)
        for path, before in turn.pending.preimages.items():
            change = FileChange(path=path, before=before, after=self.read(path))
            if not any(path in segment.excluded for segment in turn.pending.segments):
                found.add_unseen(change)
        changes = found.all()
        if not changes and not (turn.problems and turn.runs_commands):
            return ()
        uncovered = (*turn.problems, *describe_uncovered(changes, self.root))
        return (self._checkpoint(turn.pending.turn, changes, uncovered, found.shared),)

    def _checkpoint(
        self,
        turn: TurnId,
        changes: tuple[FileChange, ...],
        uncovered: tuple[str, ...],
        agents: dict[bytes, tuple[str, ...]],
    ) -> Checkpointed:
        shared = tuple(SharedPath(path=path, agents=who) for path, who in sorted(agents.items()))
        manifest = Manifest(root=self.root, changes=changes, uncovered=uncovered, shared=shared)
        paths = sorted({change.path for change in changes})
        first = {change.path: change for change in reversed(changes)}
        last = {change.path: change for change in changes}
        return Checkpointed(
            turn=turn,
            manifest=self.blobs.put_manifest(manifest),
            changed=len(paths),
            created=sum(first[path].before is None for path in paths),
            deleted=sum(last[path].after is None for path in paths),
            paths=tuple(path_text(path, self.root) for path in paths[:_MOST_NAMED]),
            uncovered=uncovered[:_MOST_NAMED],
            shared=tuple(
                SharedFile(path=path_text(one.path, self.root), agents=one.agents)
                for one in shared[:_MOST_NAMED]
            ),
        )


class _TurnChanges:
    """Collects the changes of one turn from its segments."""

    def __init__(self, turn: WatchedTurn) -> None:
        self._mine = _real_paths(turn.claims)
        self._met = tuple(turn.met.values())
        self._claims: dict[int, set[bytes]] = {}
        self._changes: list[FileChange] = []
        self._last: dict[bytes, int] = {}
        """By path: where its last change is."""
        self.shared: dict[bytes, tuple[str, ...]] = {}

    def add(
        self, change: FileChange, agents: tuple[str, ...], others: tuple[WatchedTurn, ...]
    ) -> None:
        """Take a change that happened while these agents ran besides this one."""
        if agents:
            who = self._attribute(change.path, agents, others)
            if who is None:
                return
            if who:
                self.shared[change.path] = tuple(sorted({*who, *self.shared.get(change.path, ())}))
        at = self._last.get(change.path)
        if at is not None and self._changes[at].after == change.before:
            earlier = self._changes[at]
            self._changes[at] = FileChange(
                path=change.path, before=earlier.before, after=change.after
            )
            return
        self._last[change.path] = len(self._changes)
        self._changes.append(change)

    def add_unseen(self, change: FileChange) -> None:
        """Take a change that a tool made, if no snapshot has the file."""
        if change.path not in self._last:
            self.add(change, tuple(sorted({one.name for one in self._met})), self._met)

    def all(self) -> tuple[FileChange, ...]:
        """The changes, by path, those of one path in their order."""
        changed = [one for one in self._changes if one.before != one.after]
        kept = {one.path for one in changed}
        self.shared = {path: who for path, who in self.shared.items() if path in kept}
        return tuple(sorted(changed, key=lambda one: one.path))

    def _attribute(
        self, path: bytes, agents: tuple[str, ...], others: tuple[WatchedTurn, ...]
    ) -> tuple[str, ...] | None:
        """Who else may have made a change; none: only this turn; None: it was another's."""
        theirs = [one.name for one in others if path in self._claims_of(one)]
        if path in self._mine:
            return tuple(theirs)
        return None if theirs else agents

    def _claims_of(self, turn: WatchedTurn) -> set[bytes]:
        if id(turn) not in self._claims:
            self._claims[id(turn)] = _real_paths(turn.claims)
        return self._claims[id(turn)]


def _real_paths(paths: Iterable[str]) -> set[bytes]:
    found: set[bytes] = set()
    for path in tuple(paths):
        parent, name = os.path.split(path)
        with suppress(OSError, ValueError):
            found.add(os.fsencode(os.path.join(os.path.realpath(parent), name)))  # noqa: PTH118
    return found


def read_pending(directory: Path) -> PendingTurn | None:
    """What a host that was killed had noted of a session's turn in its directory; blocks."""
    try:
        data = (directory / _PENDING).read_bytes()
        return decode_msgpack(data, PendingTurn)
    except (OSError, msgspec.DecodeError):
        return None


def load_checkpoint_settings(
    places: Places, environment: Mapping[str, str], cwd: str
) -> CheckpointSettings:
    """The settings of a directory; blocks. A file that is wrong is reported elsewhere."""
    try:
        trusted = TrustStore(places.trust_file).is_trusted(find_workspace(Path(cwd)).project)
        found = load_config(places, directory=Path(cwd), environ=environment, trusted=trusted)
    except (ConfigError, OSError):
        return CheckpointSettings()
    return found.settings.checkpoints


class FleetSnapshots:
    """Records the turns of a fleet's agents."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.trees = WorkTrees(state)
        self.work = BackgroundTasks()
        """What goes on after a turn has ended."""

    async def settle(self, session: SessionId) -> None:
        """Wait until what an interrupted turn of a session did is written down."""
        name = _task_name(session)
        if under_way := [task for task in self.work if task.get_name() == name]:
            await asyncio.wait(under_way)

    async def recover(
        self, session: SessionId, directory: Path, root: bytes, settings: CheckpointSettings
    ) -> tuple[TurnId, tuple[Event, ...]] | None:
        """What a turn did whose host was killed, until now; None: there is none.

        ``SessionFiles.forget`` it when the events are in the log.
        """
        pending = await asyncio.to_thread(read_pending, directory)
        if pending is None:
            return None
        files = SessionFiles(directory, root)
        turn = WatchedTurn(session, "", pending.turn, None)
        turn.pending = pending
        turn.problems.append(LOST_HOST)
        turn.others = [() for _ in pending.segments]
        trees: list[WatchedTree] = []
        try:
            for top in tuple(pending.opened):
                tree = await asyncio.to_thread(self.trees.open_top, top, settings)
                trees.append(tree)
                names = pending.agents.get(top, ())
                turn.close_segment(top, await tree.snapshot(), names=names)
            return pending.turn, await asyncio.to_thread(files.describe, turn, trees)
        except (SnapshotError, OSError) as error:
            return pending.turn, (make_undo_notice(str(error)),)


class SessionWatch:
    """Sees the events of one agent, before and after they are written, and records its turns.

    Args:
        name: tells the agent's name, which may change.
        roots: the directories that it works in; the first is its working directory.
        sink: writes events about its turns.
        make_notice: what a person is shown when a tree cannot be written down.
    """

    def __init__(
        self,
        snapshots: FleetSnapshots,
        context: CallContext,
        name: Callable[[], str],
        settings: CheckpointSettings,
        sink: EventSink,
        make_notice: Callable[[str], NoticePosted] | None = None,
    ) -> None:
        assert context.session is not None
        self._session = SessionId(context.session)
        self._snapshots = snapshots
        self._context = context
        self._name = name
        self._settings = settings
        self._sink = sink
        self._make_notice = make_notice or make_undo_notice
        self._files: SessionFiles | None = None
        self._turn: WatchedTurn | None = None
        self._trees: list[WatchedTree] = []
        self._finishing: asyncio.Task[None] | None = None
        self._kinds: dict[ToolCallId, tuple[ToolKind, str | None]] = {}
        self._reported: str | None = None
        """The problem that was last reported; it is not reported each turn."""

    async def warm(self) -> None:
        """Take a first snapshot while the agent starts, so that its first turn need not wait."""
        if not self._settings.enabled:
            return
        with suppress(SnapshotError, OSError):
            for tree in await self._snapshots.trees.find(self._context.roots, self._settings):
                await tree.snapshot()

    async def before(self, event: Event) -> None:
        """Take note of an event that is to be written; at the end of the turn, record the turn."""
        match event:
            case TurnEnded(stop=stop) if self._turn is not None:
                await self.finish(is_hurried=stop == "cancelled")
            case ToolCallStarted() | ToolCallUpdated() | ToolCallEnded():
                self._listen(event)
            case _:
                pass

    async def after(self, event: Event, turn: TurnId | None) -> None:
        """Take note of an event that is written; a turn that starts waits for its snapshot."""
        if isinstance(event, TurnStarted) and turn is not None and self._settings.enabled:
            await self.begin(turn)

    async def settle(self) -> None:
        """Wait until what an interrupted turn did is written down."""
        if self._finishing is not None:
            await asyncio.wait([self._finishing])

    # The turn

    async def begin(self, id_: TurnId) -> None:
        """Record a turn from now on; one that cannot be recorded gets a notice."""
        await self.settle()
        files = await self._open_files()
        turn = WatchedTurn(self._session, self._name(), id_, files.save)
        self._turn, self._trees = turn, []
        try:
            trees = await self._snapshots.trees.find(self._context.roots, self._settings)
            await asyncio.to_thread(files.name_trees, trees)
            self._trees = trees
            for tree in trees:
                await tree.begin(turn)
        except (SnapshotError, OSError) as error:
            turn.problems.append(str(error))
            await self.tell(id_, error)
        except Exception as error:  # a turn goes on, also where nothing can be recorded
            _log.exception("could not take a snapshot for agent %s", self._session)
            await self.tell(id_, error)

    async def keep(self, call: Call) -> None:
        """Keep what is at the paths that a call of our own agent is about to change."""
        turn = self._turn
        if turn is None:
            return
        written = [use.resolved for use in call.paths if use.access == "write"]
        if call.kind in _CHANGING:
            turn.claims.update(written)
        else:
            turn.runs_commands = True
        files, kept = await self._open_files(), turn.pending.preimages
        for path in map(os.fsencode, written):
            if path not in kept:
                kept[path] = await asyncio.to_thread(files.read, path)
                await asyncio.to_thread(files.save, turn.pending)

    async def finish(
        self, *, is_hurried: bool, beginning: "asyncio.Task[None] | None" = None
    ) -> None:
        """The turn is over: write down what it did, once its beginning is written."""
        self._kinds.clear()
        self._finishing = self._snapshots.work.start(
            self._conclude(beginning), name=_task_name(self._session)
        )
        await asyncio.wait([self._finishing], timeout=_HURRY if is_hurried else None)

    async def _conclude(self, beginning: "asyncio.Task[None] | None") -> None:
        if beginning is not None:
            await asyncio.wait([beginning])
        turn, self._turn = self._turn, None
        if turn is not None:
            await self._record(turn, self._trees)

    async def _record(self, turn: WatchedTurn, trees: list[WatchedTree]) -> None:
        files = await self._open_files()
        events: tuple[Event, ...] = ()
        for tree in trees:
            try:
                await tree.finish(turn)
            except SnapshotError as error:
                turn.problems.append(str(error))
                await self.tell(turn.pending.turn, error)
        try:
            events = await asyncio.to_thread(files.describe, turn, trees)
        except (SnapshotError, OSError) as error:
            await self.tell(turn.pending.turn, error)
            turn.problems.append(str(error))
            turn.pending.segments, turn.others = [], []
            with suppress(OSError):  # what tools kept is there
                events = await asyncio.to_thread(files.describe, turn, ())
        for event in events:
            await self._sink(event, turn=turn.pending.turn)
        await asyncio.to_thread(files.forget)

    async def tell(self, turn: TurnId, error: Exception) -> None:
        """Show a person why something of a turn is not recorded, once."""
        problem = str(error)
        if problem != self._reported:
            self._reported = problem
            await self._sink(self._make_notice(problem), turn=turn)

    async def _open_files(self) -> SessionFiles:
        if self._files is None:
            state, root = self._snapshots.state, self._context.cwd
            self._files = await asyncio.to_thread(SessionFiles.find, state, self._session, root)
        return self._files

    def _listen(self, event: ToolCallStarted | ToolCallUpdated | ToolCallEnded) -> None:
        """Note the files that a call says it changes."""
        if self._turn is None:
            return
        kind, name = self._kinds.get(event.call, ("other", None))
        if not isinstance(event, ToolCallEnded):
            kind = kind if event.kind is UNSET else event.kind
            name = name if event.name is UNSET else event.name
            self._kinds[event.call] = (kind, name)
        content = () if event.content is UNSET else event.content
        named = [item.path for item in content if isinstance(item, Diff)]
        raw_input = None
        if not isinstance(event, ToolCallEnded) and event.raw_input is not UNSET:
            raw_input = event.raw_input
        if kind in _CHANGING:
            named += [] if event.locations is UNSET else [one.path for one in event.locations]
            call = call_from_tool(name, kind, raw_input, tuple(named), around=self._context)
            named = [use.path for use in call.paths if use.access == "write"]
        self._turn.claims.update(
            os.path.normpath(os.path.join(self._context.cwd, path))  # noqa: PTH118
            for path in named
        )


class OwnTurnWatch:
    """Watches a turn of our own agent in a fleet; a ``TurnWatch``.

    Nothing is recorded until a call comes that may change something.
    """

    def __init__(self, session: SessionWatch, turn: TurnId) -> None:
        self._session = session
        self._turn = turn
        self._lock = asyncio.Lock()
        self._beginning: asyncio.Task[None] | None = None
        self._is_over = False

    async def before_call(self, turn: "Turn", call: Call) -> None:
        """Keep what the call may change; if that is not possible, a notice says so."""
        if self._is_over or not may_change_files(call):
            return
        try:
            async with self._lock:
                if self._beginning is None:
                    # A task of its own: who cancels the call must not leave half of it behind.
                    work = self._session.begin(self._turn)
                    self._beginning = start_task(work, name="checkpoint: begin")
                await asyncio.shield(self._beginning)
                await self._session.keep(call)
        except JournalError:
            raise
        except Exception as error:  # a turn goes on, also where nothing can be kept
            if not isinstance(error, QuarterdeckError | OSError):
                _log.exception("could not keep files for turn %s", self._turn)
            await self._session.tell(self._turn, error)

    async def finish(self, turn: "Turn", *, hurried: bool = False) -> None:
        """Write down what the turn changed."""
        self._is_over = True
        if self._beginning is not None:
            await self._session.finish(is_hurried=hurried, beginning=self._beginning)


def _task_name(session: SessionId) -> str:
    return f"checkpoint of {session}"


def make_undo_notice(problem: str) -> NoticePosted:
    """What a person is shown when a turn's changes are not recorded."""
    return NoticePosted(
        title="Changes to files in this turn cannot be undone",
        severity="warning",
        description=problem,
    )
