"""What an agent changed: which trees are compared.

In a worktree of its own from where the worktree started to a snapshot of now; for one turn, and in
a shared directory, what checkpoints say. A snapshot is taken only when someone asks.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from quarterdeck.agent.checkpoints import session_directory
from quarterdeck.agent.checkpoints.errors import CheckpointError
from quarterdeck.agent.checkpoints.file_state import (
    BlobStore,
    FileChange,
    FileState,
    Manifest,
    SharedPath,
    digest_of,
    is_within,
    path_text,
)
from quarterdeck.agent.checkpoints.turn_history import TurnLedger, TurnState, find_turn
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.object_store import GitEntry, ObjectStore
from quarterdeck.system.git.repository import GitRepository, find_repository
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import Worktree

from ..agent_entry import AgentEntry
from ..worktrees.snapshots import (
    WorktreeSnapshot,
    WorktreeSnapshots,
    describe_gone,
    note_repositories,
)
from .acceptance import look_at
from .api import ReviewSince
from .comparison import Comparison, FileDifference, file_id_of, parse_content
from .errors import ReviewError
from .state import FileMarks, ReviewState

__all__ = ["ChangeReader"]

_MOST_KEPT = 16
_OUTSIDE = b"(outside)"
"""Where files are in a tree that are not below its root."""


class ChangeReader:
    """Finds what is compared with what, and keeps the lists of files that differ.

    Args:
        state: our own directory.
        snapshots: takes them of worktrees.
    """

    def __init__(self, state: Path, snapshots: WorktreeSnapshots) -> None:
        self._state = state
        self._snapshots = snapshots
        self._bases: dict[tuple[str, str], str] = {}
        self._turns: OrderedDict[tuple[SessionId, tuple[str, ...]], Comparison] = OrderedDict()
        self._lists: OrderedDict[tuple[str, str], tuple[FileDifference, ...]] = OrderedDict()

    def directory(self, session: SessionId) -> Path:
        """Where what a review of a session needs is kept; deleted with its checkpoints."""
        return session_directory(self._state, session) / "review"

    async def compare(
        self,
        entry: AgentEntry,
        state: ReviewState,
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
    ) -> Comparison:
        """What the agent changed, as two trees.

        Raises:
            ReviewError: it cannot be read; the message names the agent.
            NothingToUndoError: there is no such turn.
        """
        try:
            if turn is None and entry.worktree is not None:
                snapshot = await self._snapshots.take(entry.worktree)
                work = asyncio.to_thread(self._in_worktree, entry, entry.worktree, snapshot)
            else:
                work = asyncio.to_thread(self._by_turns, entry, state.ledger(), turn)
            found = await work
            marks = dict(state.marks)
            if turn is None and not found.is_normalized:
                found = await asyncio.to_thread(self._without_rejected, found, marks)
            if since is not None:
                found = await asyncio.to_thread(self._since, found, marks, since)
        except (GitError, OSError) as error:
            path = entry.worktree.path if entry.worktree is not None else ""
            if path and turn is None and not await asyncio.to_thread(os.path.isdir, path):
                raise ReviewError(describe_gone(path, entry.name)) from error
            raise ReviewError(f"the changes of {entry.name!r} cannot be read: {error}") from error
        return found

    async def list_files(self, comparison: Comparison) -> tuple[FileDifference, ...]:
        """The files that differ; read once for two trees. Raises ReviewError."""
        key = (comparison.old, comparison.new)
        if key not in self._lists:
            try:
                self._lists[key] = await asyncio.to_thread(comparison.list_files)
            except GitError as error:
                raise ReviewError(f"the changes cannot be listed: {error}") from error
            while len(self._lists) > _MOST_KEPT:
                self._lists.popitem(last=False)
        self._lists.move_to_end(key)
        return self._lists[key]

    def _store(self, session: SessionId, object_format: str) -> ObjectStore:
        return ObjectStore(self.directory(session) / object_format, object_format)

    # In a worktree

    def _in_worktree(
        self, entry: AgentEntry, worktree: Worktree, snapshot: WorktreeSnapshot
    ) -> Comparison:
        repository = snapshot.repository
        against = worktree.base[:7]
        if worktree.base_ref is not None:
            against = f"{worktree.base_ref.removeprefix('refs/heads/')} ({against})"
        return Comparison(
            store=self._store(entry.session, repository.object_format),
            alternates=(repository.objects, snapshot.objects),
            old=self._base_tree(repository, worktree),
            new=snapshot.tree,
            root=os.fsencode(repository.top),
            against=against,
            notes=(note,) if (note := note_repositories(snapshot.repositories)) else (),
            repository=repository,
            is_normalized=True,
        )

    def _base_tree(self, repository: GitRepository, worktree: Worktree) -> str:
        if worktree.start is not None:
            return worktree.start
        key = (repository.common_dir, worktree.base)
        if key not in self._bases:
            words = ("rev-parse", "--verify", "--end-of-options", f"{worktree.base}^{{tree}}")
            try:
                self._bases[key] = repository.ask(words).data.decode().strip()
            except GitError as error:
                raise GitError(
                    f"the commit {worktree.base!r} that it started from is gone"
                ) from error
        return self._bases[key]

    # By checkpoints

    def _by_turns(self, entry: AgentEntry, ledger: TurnLedger, turn: str | None) -> Comparison:
        if turn is not None:
            chosen = [find_turn(ledger.turns, turn)]
            against = f"before turn {chosen[0].number}"
        else:
            chosen = [one for one in ledger.turns if one.is_applied]
            against = "before its first turn"
        with_files = [one for one in chosen if one.checkpoint is not None]
        key = (entry.session, (against, *(one.id for one in with_files)))
        if key not in self._turns:
            blobs = BlobStore(session_directory(self._state, entry.session) / "blobs")
            try:
                found = _combine(with_files, blobs)
            except CheckpointError as error:
                raise ReviewError(
                    f"the changes of {entry.name!r} cannot be read: {error}"
                ) from error
            self._turns[key] = self._from_manifest(entry, found, blobs, against)
            while len(self._turns) > _MOST_KEPT:
                self._turns.popitem(last=False)
        if turn is None and not ledger.turns:
            return replace(self._turns[key], notes=("no turn has run yet",))
        return self._turns[key]

    def _from_manifest(
        self, entry: AgentEntry, manifest: Manifest, blobs: BlobStore, against: str
    ) -> Comparison:
        cwd = os.fsencode(os.path.realpath(entry.spawn.options.cwd))
        root = manifest.root or cwd
        repository = _find_repository(os.fsdecode(root))
        if repository is not None:
            root = os.fsencode(repository.top)
        object_format = repository.object_format if repository is not None else "sha1"
        writer = _TreeWriter(self._store(entry.session, object_format), blobs, root)
        for change in manifest.changes:
            writer.add(change)
        shared = {writer.key(one.path): one.agents for one in manifest.shared}
        return Comparison(
            store=writer.store,
            alternates=(repository.objects,) if repository is not None else (),
            old=writer.store.put_tree(_without_clashes(writer.old)),
            new=writer.store.put_tree(_without_clashes(writer.new)),
            root=root,
            against=against,
            repository=repository,
            outside=writer.outside,
            shared=shared,
            notes=tuple(dict.fromkeys((*manifest.uncovered, *writer.notes))),
        )

    def _without_rejected(
        self, comparison: Comparison, marks: Mapping[str, FileMarks]
    ) -> Comparison:
        """What is left of files that a reviewer changed after the last turn."""
        old: dict[bytes, GitEntry] = {}
        new: dict[bytes, GitEntry] = {}
        is_same = True
        files = comparison.list_files() if any(one.rejected for one in marks.values()) else ()
        for file in files:
            left = _marked(comparison.store, marks.get(file.id), "rejected")
            now = file.new
            if left is not None and _is_on_disk(comparison, file.path, left[0]):
                now, is_same = left[0], False
            old |= {file.old_path: file.old} if file.old is not None else {}
            new |= {file.path: now} if now is not None else {}
        if is_same:
            return comparison
        store = comparison.store
        return replace(
            comparison,
            old=store.put_tree(_without_clashes(old)),
            new=store.put_tree(_without_clashes(new)),
        )

    # Since a mark

    def _since(
        self, comparison: Comparison, marks: Mapping[str, FileMarks], since: ReviewSince
    ) -> Comparison:
        """The same new side, against what was viewed or accepted of each file."""
        old: dict[bytes, GitEntry] = {}
        new: dict[bytes, GitEntry] = {}
        for file in comparison.list_files():
            marked = _marked(comparison.store, marks.get(file.id), since)
            path, before = file.old_path, file.old
            if isinstance(marked, tuple):
                path, before = file.path, marked[0]
            if before is not None:
                old[path] = before
            if file.new is not None:
                new[file.path] = file.new
        listed = {*old, *new}
        for id_, mark in marks.items():
            # What was marked and is as before by now has changed as well.
            path = os.fsencode(mark.path)
            if path in listed or file_id_of(path) != id_:
                continue
            marked = _marked(comparison.store, mark, since)
            if isinstance(marked, tuple):
                now = comparison.find_entry(path)
                old |= {path: marked[0]} if marked[0] is not None else {}
                new |= {path: now} if now is not None else {}
        store = comparison.store
        return replace(
            comparison,
            old=store.put_tree(_without_clashes(old)),
            new=store.put_tree(_without_clashes(new)),
            against=f"what was {since}",
        )


def _is_on_disk(comparison: Comparison, path: bytes, entry: GitEntry | None) -> bool:
    state = look_at(comparison.place(path))
    if entry is None or state is None:
        return entry is None and state is None
    return state.digest == digest_of(comparison.read_content(entry))


def _marked(
    store: ObjectStore, marks: FileMarks | None, which: ReviewSince | Literal["rejected"]
) -> tuple[GitEntry | None] | None:
    """What a file was when it was marked, in a tuple; None: it was not, or it is not kept."""
    if marks is None:
        return None
    content = {
        "viewed": marks.viewed,
        "accepted": marks.accepted,
        "rejected": marks.rejected,
    }[which]
    if content is None:
        return None
    _, entry = parse_content(content)
    return None if entry is not None and not store.has(entry.id) else (entry,)


def _without_clashes(entries: dict[bytes, GitEntry]) -> dict[bytes, GitEntry]:
    """Without files where there are directories, which no tree can have."""
    directories: set[bytes] = set()
    for path in entries:
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            directories.add(path)
    return {path: entry for path, entry in entries.items() if path not in directories}


def _find_repository(directory: str) -> GitRepository | None:
    try:
        return find_repository(directory)
    except GitError:
        return None  # only needed to stage what is accepted


def _combine(turns: Iterable[TurnState], blobs: BlobStore) -> Manifest:
    """What these turns did together."""
    found: dict[bytes, FileChange] = {}
    shared: dict[bytes, set[str]] = {}
    uncovered: list[str] = []
    root = b""
    for turn in turns:
        assert turn.checkpoint is not None
        manifest = blobs.get_manifest(turn.checkpoint.manifest)
        root = root or manifest.root
        uncovered += manifest.uncovered
        for one in manifest.shared:
            shared.setdefault(one.path, set()).update(one.agents)
        for change in manifest.changes:
            first = found.get(change.path, change)
            found[change.path] = replace(change, before=first.before)
    changes = tuple(one for _, one in sorted(found.items()) if one.before != one.after)
    return Manifest(
        root=root,
        changes=changes,
        uncovered=tuple(uncovered),
        shared=tuple(
            SharedPath(path=path, agents=tuple(sorted(agents))) for path, agents in shared.items()
        ),
    )


class _TreeWriter:
    """Makes two trees of what files were and became."""

    def __init__(self, store: ObjectStore, blobs: BlobStore, root: bytes) -> None:
        self.store = store
        self.old: dict[bytes, GitEntry] = {}
        self.new: dict[bytes, GitEntry] = {}
        self.outside: dict[bytes, bytes] = {}
        self.notes: list[str] = []
        self._blobs = blobs
        self._root = root

    def key(self, path: bytes) -> bytes:
        """Where a path of the disk is in the trees."""
        if path != self._root and is_within(path, self._root):
            return path[len(self._root.rstrip(b"/")) + 1 :]
        key = _OUTSIDE + path
        self.outside[key] = path
        return key

    def add(self, change: FileChange) -> None:
        """Put a change into the trees; one whose content is not kept becomes a note."""
        if any(one is not None and not one.is_restorable for one in (change.before, change.after)):
            self.notes.append(f"{path_text(change.path, self._root)}: its content is not kept")
            return
        key = self.key(change.path)
        if change.before is not None:
            self.old[key] = self._entry(change.before)
        if change.after is not None:
            self.new[key] = self._entry(change.after)

    def _entry(self, state: FileState) -> GitEntry:
        id_ = self.store.put_blob(self._blobs.get(state.digest))
        if state.kind == "link":
            return GitEntry("120000", id_)
        return GitEntry("100755" if state.executable else "100644", id_)
