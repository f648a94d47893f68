"""Takes changes back one by one: what others changed later in the same files stays.

A file that is as the change left it gets what was there before. One that someone changed since is
merged in three ways: the base is what the change left, one side what is there now, the other what
was there before. What cannot be merged is named with the reason and not touched. Everything here
blocks.
"""
# Names of files may be no text, and pathlib takes text alone.
# ruff: noqa: PTH112, PTH120

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quarterdeck.agent.checkpoints.errors import CheckpointError, ContentMissingError
from quarterdeck.agent.checkpoints.file_state import (
    BlobStore,
    FileChange,
    FileState,
    path_text,
)
from quarterdeck.agent.checkpoints.restore import (
    FileRestorer,
    RestorePlan,
    RestoreStep,
    link_before,
)
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitPlaces, run_git
from quarterdeck.wire.terminal_text import count_noun

__all__ = ["FilesKeptError", "NotSeparableError", "SelectivePlanner", "merge_contents"]

_MOST_NAMED = 20
_MERGE_SECONDS = 20.0
_MOST_CONFLICTS = 128
"""``git merge-file`` exits with the number of conflicts, or above this when it failed."""


class FilesKeptError(CheckpointError):
    """Nothing could be restored without overwriting what others changed; nothing was changed.

    ``files``: each path with the reason.
    """

    def __init__(self, files: Sequence[tuple[str, str]]) -> None:
        lines = [f"\n  {path!r}: {reason}" for path, reason in files[:_MOST_NAMED]]
        if len(files) > _MOST_NAMED:
            lines.append(f"\n  and {len(files) - _MOST_NAMED} more")
        super().__init__(
            f"nothing was changed, because {count_noun(len(files), 'file')} cannot be "
            f"restored:{''.join(lines)}\nAdd 'force' to overwrite what can be overwritten; redo "
            "brings it back"
        )
        self.files = tuple(files)


class SelectivePlanner:
    """Plans for the files of one session; see ``agent.checkpoints.restore.RestorePlanner``.

    Args:
        directory: the session's own.
        blobs: where contents are, and where merged ones go.
        root: the session's working directory; paths are shown relative to it.
    """

    def __init__(self, directory: Path, blobs: BlobStore, root: bytes) -> None:
        self._files = FileRestorer(directory, blobs, root)
        self._blobs = blobs
        self._root = root

    def plan(self, steps: Sequence[RestoreStep], *, force: bool = False) -> RestorePlan:
        """Work out what each file becomes; changes nothing.

        Raises:
            FilesKeptError: there are files to restore, and none can be.
        """
        by_path: dict[bytes, list[RestoreStep]] = {}
        for step in steps:
            by_path.setdefault(step.change.path, []).append(step)
        attempt = _Attempt()
        # What is kept may stand in the way of what was to come: again, until nothing new is kept.
        while True:
            known = dict(attempt.kept)
            attempt = self._attempt(by_path, dict(known), force)
            if attempt.kept.keys() == known.keys():
                break
        if attempt.kept and not attempt.changes:
            raise FilesKeptError(
                [(path_text(path, self._root), why) for path, why in sorted(attempt.kept.items())]
            )
        return self._make_plan(attempt)

    def _make_plan(self, attempt: "_Attempt") -> RestorePlan:
        kept = sorted(attempt.kept.items())
        return RestorePlan(
            changes=tuple(attempt.changes),
            kept=tuple(path_text(path, self._root) for path, _ in kept),
            reasons=tuple(why for _, why in kept),
            forced=attempt.forced,
            merged=tuple(path_text(path, self._root) for path in sorted(attempt.merged)),
        )

    def _attempt(
        self, by_path: Mapping[bytes, list[RestoreStep]], kept: dict[bytes, str], force: bool
    ) -> "_Attempt":
        attempt = _Attempt(kept=kept)
        leaving = {
            path
            for path, steps in by_path.items()
            if steps[-1].change.after is None and path not in kept
        }
        for path, steps in by_path.items():
            if path in kept:
                continue
            now = self._files.read_now(path, leaving)
            try:
                wanted = self._follow(now, steps, attempt, force)
                if wanted != now:
                    _expect_room(path, now, leaving)
            except NotSeparableError as error:
                attempt.kept[path] = str(error)
                attempt.merged.discard(path)
                continue
            if wanted != now:
                attempt.changes.append(FileChange(path=path, before=now, after=wanted))
        return attempt

    def _follow(
        self, now: FileState | None, steps: list[RestoreStep], attempt: "_Attempt", force: bool
    ) -> FileState | None:
        """What a path becomes when its steps are carried out one after another."""
        state = now
        for step in steps:
            change = step.change
            if state == change.after:
                continue
            if not all(one is None or one.is_restorable for one in (change.before, change.after)):
                raise NotSeparableError("its content was not stored: too large, or no plain file")
            if step.agents and not force:
                raise NotSeparableError(f"may also have been changed by {', '.join(step.agents)}")
            if state == change.before:
                state = self._expect(change.after)
                continue
            try:
                state = self._merge(state, change)
                attempt.merged.add(change.path)
            except NotSeparableError:
                if not force or (state is not None and not state.is_restorable):
                    raise
                attempt.forced = True
                state = self._expect(change.after)
        return state

    def _merge(self, now: FileState | None, change: FileChange) -> FileState:
        """What is there now, without the change. Raises NotSeparableError."""
        base, other = change.before, change.after
        if now is None:
            raise NotSeparableError("deleted since")
        if base is None:
            raise NotSeparableError("created again since")
        if other is None:
            raise NotSeparableError("changed since it was created")
        if {now.kind, base.kind, other.kind} != {"file"}:
            raise NotSeparableError("changed since, and not a plain file")
        contents = [self._blobs.get(one.digest) for one in (now, base, other)]
        merged = merge_contents(*contents)
        executable = other.executable if now.executable == base.executable else now.executable
        return FileState(kind="file", digest=self._blobs.put(merged), executable=executable)

    def _expect(self, entry: FileState | None) -> FileState | None:
        if entry is not None:
            try:
                self._blobs.get(entry.digest)
            except ContentMissingError as error:
                raise NotSeparableError("its content is no longer stored") from error
        return entry


@dataclass(slots=True)
class _Attempt:
    """What a plan comes to if these files are kept."""

    kept: dict[bytes, str] = field(default_factory=dict[bytes, str])
    changes: list[FileChange] = field(default_factory=list[FileChange])
    merged: set[bytes] = field(default_factory=set[bytes])
    forced: bool = False


class NotSeparableError(CheckpointError):
    """Why a file is not touched."""


def _expect_room(path: bytes, now: FileState | None, leaving: set[bytes]) -> None:
    """Raise NotSeparableError if something is in the way that does not leave."""
    if now is not None and not now.is_restorable:
        raise NotSeparableError("something else is there now")
    link = link_before(path)
    if link is not None and link not in leaving:
        raise NotSeparableError("a directory above it is a symlink now")
    parent = os.path.dirname(path)
    while parent not in (b"", b"/"):
        if os.path.lexists(parent):
            if not os.path.isdir(parent) and parent not in leaving:
                raise NotSeparableError(f"{path_text(parent)!r} is a file now")
            return
        parent = os.path.dirname(parent)


def merge_contents(now: bytes, base: bytes, other: bytes) -> bytes:
    """``now`` with the changes from ``base`` to ``other``.

    Raises:
        NotSeparableError: both changed the same lines, or it is no text.
    """
    if any(b"\0" in one for one in (now, base, other)):
        raise NotSeparableError("changed since, and not a text file")
    with tempfile.TemporaryDirectory(prefix="quarterdeck-merge-") as folder:
        names: list[str] = []
        for name, data in (("now", now), ("base", base), ("other", other)):
            path = Path(folder) / name
            path.write_bytes(data)
            names.append(str(path))
        try:
            output = run_git(
                GitPlaces(git_dir=folder, cwd=folder),
                ("merge-file", "-p", "--quiet", *names),
                seconds=_MERGE_SECONDS,
                accepted=range(_MOST_CONFLICTS),
            )
        except GitError as error:
            raise NotSeparableError(f"changed since, and cannot be merged: {error}") from error
    if output.code:
        raise NotSeparableError("changed since in the same lines")
    return output.data
