"""Keeps what a turn's files were, and works out what the turn made of them.

Work trees of git are written down whole, before the first call that may change something and at
the turn's end. Elsewhere, and for ignored files, what our tools are about to change is kept. What
was kept so far is on disk before a call runs, so that a turn whose process was killed can be
undone as well. Everything here blocks.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from quarterdeck.config.places import make_private
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import find_repository
from quarterdeck.wire.decoders import decode_msgpack
from quarterdeck.wire.events import Checkpointed, Event
from quarterdeck.wire.ids import TurnId

from ..ports import make_snapshot_notice
from . import TREES, session_directory
from .errors import SnapshotError
from .file_state import (
    BlobStore,
    FileChange,
    FileState,
    Manifest,
    path_text,
    read_file_state,
    write_whole,
)
from .git_snapshot import Deadline, ShadowRepository, TreeSnapshot

__all__ = ["PendingSnapshot", "TurnSnapshots", "describe_uncovered"]

_PENDING = "pending"
_MOST_NAMED = 20


class PendingSnapshot(Struct, kw_only=True):
    """What is kept of a turn that is not over."""

    turn: TurnId
    snapshots: dict[bytes, TreeSnapshot] = field(default_factory=dict[bytes, TreeSnapshot])
    """By the top of the work tree."""
    preimages: dict[bytes, FileState | None] = field(default_factory=dict[bytes, FileState | None])
    """By absolute path: what was there before our tools changed it."""
    buffered: set[bytes] = field(default_factory=set[bytes])
    """Those whose preimage is what an editor showed, which the disk may not have had."""
    problems: list[str] = field(default_factory=list[str])


class TurnSnapshots:
    """One session's files, as far as they are kept.

    Args:
        state: our own directory.
        roots: the directories that the session works in; the first is its working directory.
        patience: seconds that writing a work tree down may take.
    """

    def __init__(
        self, state: Path, session: str, roots: tuple[str, ...], *, patience: float = 10.0
    ) -> None:
        self.directory = session_directory(state, session)
        self.blobs = BlobStore(self.directory / "blobs")
        self.root = os.fsencode(os.path.realpath(roots[0]))
        self._trees = state / "checkpoints" / TREES
        self._hidden = os.fsencode(os.path.realpath(state))
        self._roots = roots
        self._patience = patience
        self._shadows: dict[bytes, ShadowRepository] | None = None

    def begin(self, turn: TurnId) -> PendingSnapshot:
        """Keep what the work trees are, before a turn changes them.

        One that cannot be written is a problem in a notice, not an error.
        """
        pending = PendingSnapshot(turn=turn)
        deadline = Deadline(self._patience)
        try:
            for top, shadow in self._find(deadline).items():
                pending.snapshots[top] = shadow.take(deadline)
        except (SnapshotError, OSError) as error:
            pending.problems.append(str(error))
        self._note(pending)
        return pending

    def keep(self, pending: PendingSnapshot, path: bytes, content: bytes | None = None) -> None:
        """Keep what is at a path that a tool is about to change, once a turn.

        ``content``: what an editor shows, where files are the editor's.
        """
        if path in pending.preimages:
            return
        entry = self._file_at(path)
        if content is not None:
            executable = entry is not None and entry.executable
            digest = self.blobs.put(content)
            entry = FileState(kind="file", digest=digest, executable=executable)
            pending.buffered.add(path)
        pending.preimages[path] = entry
        self._note(pending)

    def finish(self, pending: PendingSnapshot) -> tuple[Event, ...]:
        """Compute what the turn changed, and give the events that record it; () for nothing.

        The turn stays noted until ``forget``. Raises OSError.
        """
        events: list[Event] = []
        found: dict[bytes, FileChange] = {}
        try:
            found = self._changed_trees(pending)
        except SnapshotError as error:
            pending.problems.append(str(error))
            events.append(make_snapshot_notice(str(error)))
        for path, before in pending.preimages.items():
            after = self._file_at(path)
            if path not in found or path in pending.buffered:
                found[path] = FileChange(path=path, before=before, after=after)
        changes = tuple(c for _, c in sorted(found.items()) if c.before != c.after)
        if changes:
            uncovered = (*pending.problems, *describe_uncovered(changes, self.root))
            events.insert(0, self._checkpoint(pending.turn, changes, uncovered))
        return tuple(events)

    def _changed_trees(self, pending: PendingSnapshot) -> dict[bytes, FileChange]:
        deadline = Deadline(self._patience)
        found: dict[bytes, FileChange] = {}
        for top, before in pending.snapshots.items():
            shadow = self._find(deadline).get(top)
            if shadow is None:
                raise SnapshotError(f"{path_text(top)!r} is no longer a git work tree")
            after = shadow.take(deadline)
            found |= {change.path: change for change in shadow.changes(before, after, self.blobs)}
        return found

    def left_over(self) -> PendingSnapshot | None:
        """What a process that was killed had kept of its turn."""
        try:
            data = (self.directory / _PENDING).read_bytes()
            return decode_msgpack(data, PendingSnapshot)
        except (OSError, msgspec.DecodeError):
            return None

    def forget(self) -> None:
        """The turn is in the log."""
        with suppress(OSError):
            (self.directory / _PENDING).unlink(missing_ok=True)

    def _checkpoint(
        self, turn: TurnId, changes: tuple[FileChange, ...], uncovered: tuple[str, ...]
    ) -> Checkpointed:
        manifest = Manifest(root=self.root, changes=changes, uncovered=uncovered)
        return Checkpointed(
            turn=turn,
            manifest=self.blobs.put_manifest(manifest),
            changed=len(changes),
            created=sum(change.before is None for change in changes),
            deleted=sum(change.after is None for change in changes),
            paths=tuple(path_text(change.path, self.root) for change in changes[:_MOST_NAMED]),
            uncovered=uncovered[:_MOST_NAMED],
        )

    def _file_at(self, path: bytes) -> FileState | None:
        """What is there; a directory is nothing, as for git: what it holds counts."""
        entry = read_file_state(path, self.blobs)
        return None if entry is not None and entry.kind == "other" else entry

    def _note(self, pending: PendingSnapshot) -> None:
        make_private(self.directory)
        write_whole(self.directory / _PENDING, msgspec.msgpack.encode(pending))

    def _find(self, deadline: Deadline) -> dict[bytes, ShadowRepository]:
        """The work trees that the roots lie in, found once."""
        if self._shadows is None:
            found: dict[bytes, ShadowRepository] = {}
            for root in self._roots:
                deadline.left()
                try:
                    repository = find_repository(root)
                except GitError as error:
                    raise SnapshotError(str(error)) from error
                if repository is not None and os.fsencode(repository.top) not in found:
                    shadow = ShadowRepository(repository, self._trees, self.directory, self._hidden)
                    found[shadow.top] = shadow
            if found:
                make_private(self.directory)
                names = "".join(f"{shadow.key}\n" for shadow in found.values())
                write_whole(self.directory / TREES, names.encode())
            self._shadows = found
        return self._shadows


def describe_uncovered(changes: tuple[FileChange, ...], root: bytes) -> Iterator[str]:
    """Why some of the changes cannot be taken back, for people."""
    for change in changes:
        for entry in (change.before, change.after):
            if entry is not None and not entry.is_restorable:
                why = "a nested repository" if entry.kind == "repository" else "too large"
                yield f"{path_text(change.path, root)}: {why}"
                break
