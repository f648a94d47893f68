"""What a landing is about to change, on disk before it is changed, so that a crash is undone.

A landing changes references all together or not at all; that is the moment in which it happens.
Before it, files of a checkout are written; after it, indexes are replaced. A landing that was
killed before that moment is undone at the next start, one that was killed after it is completed.
Everything here blocks.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.references import (
    ReferenceUpdate,
    read_reference,
    update_references,
)
from quarterdeck.system.git.repository import GitRepository, expect_repository
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.private_files import write_private
from quarterdeck.wire.worktrees import ChangeCounts, LandingMethod

from ..errors import LandingRefusedError
from .checkout import BranchCheckout, find_obstacle, name_some
from .commit import commit_line
from .file_update import IndexLock, restore_files, write_files
from .work import is_ancestor

__all__ = [
    "LandingIntent",
    "LandingStepName",
    "RecoveredLanding",
    "ReferencesMovedError",
    "carry_out",
    "recover_landings",
]

_log = logging.getLogger(__name__)
_FORMAT = 1

LandingStepName: TypeAlias = Literal[
    "noted", "locked", "checked", "written", "landed", "indexed", "unlocked", "done"
]
"""The steps of a landing, in order; references change between ``written`` and ``landed``."""


class LandingIntent(Struct, frozen=True, kw_only=True):
    """A landing that is being carried out."""

    format: int = _FORMAT
    id: str
    session: str
    repository: str
    """The top of a work tree of the repository."""
    into: str
    """The whole name of the branch."""
    old: str
    new: str
    is_new: bool = False
    """The branch does not exist before; ``old`` is where it begins."""
    method: LandingMethod
    counts: ChangeCounts = ChangeCounts()
    checkout: BranchCheckout | None = None
    """Whose files follow the branch."""
    worktree: BranchCheckout | None = None
    """The agent's, whose branch gets what was not committed."""
    branch: str | None = None
    """The agent's branch, by its whole name."""
    head: str | None = None
    """What it points at before."""
    rest: str | None = None
    """What it points at afterwards."""
    keeps_worktree: bool = False
    """The worktree is kept whatever the settings say."""


class ReferencesMovedError(GitError):
    """A branch is not any more where it was when the landing was computed."""


class _UnrestoredError(GitError):
    """A landing failed, and so did putting files back."""


class RecoveredLanding(Struct, frozen=True, kw_only=True):
    """A landing that was killed, and what became of it."""

    intent: LandingIntent
    has_landed: bool
    note: str = ""
    """What a person must know."""


def carry_out(
    intent: LandingIntent,
    directory: Path,
    *,
    identity: GitIdentity,
    more: tuple[ReferenceUpdate, ...] = (),
    on_step: Callable[[LandingStepName], None] = lambda _: None,
) -> None:
    """Land: move the branch, with the files of its checkout, or change nothing.

    Args:
        intent: what to do.
        directory: where it is noted meanwhile.
        identity: whose name the logs of references get.
        more: references that change with it.
        on_step: called after each step.

    Raises:
        ReferencesMovedError: a branch has moved meanwhile; nothing was changed.
        LandingRefusedError: the checkout is not clean, or locked; nothing was changed.
        GitError: it failed, and was undone; if that failed too, the message says so.
    """
    note = directory / f"{intent.id}.json"
    try:
        write_private(note, msgspec.json.encode(intent).decode())
    except OSError as error:
        raise GitError(f"a landing cannot be noted in {str(directory)!r}: {error}") from error
    on_step("noted")
    try:
        _Landing(intent, identity, more, on_step).run()
    except _UnrestoredError:
        raise  # the note stays: the next start tries again
    except (GitError, LandingRefusedError, OSError):
        note.unlink(missing_ok=True)
        raise
    note.unlink(missing_ok=True)
    on_step("done")


class _Landing:
    """One landing, step by step."""

    def __init__(
        self,
        intent: LandingIntent,
        identity: GitIdentity,
        more: tuple[ReferenceUpdate, ...],
        on_step: Callable[[LandingStepName], None],
    ) -> None:
        self._intent = intent
        self._identity = identity
        self._more = more
        self._on_step = on_step
        self._repository = expect_repository(intent.repository)
        self._files: IndexLock | None = None
        self._own: IndexLock | None = None

    def run(self) -> None:
        """Raises as ``carry_out``."""
        intent = self._intent
        is_written = False
        try:
            self._take_locks()
            self._on_step("locked")
            if intent.checkout is not None and self._files is not None:
                obstacle = find_obstacle(intent.checkout, intent.old, intent.new)
                if obstacle is not None:
                    raise LandingRefusedError(obstacle)
            if self._own is not None and intent.rest is not None:
                self._own.adopt(intent.rest)
            self._on_step("checked")
            if self._files is not None:
                is_written = True
                write_files(self._files, intent.old, intent.new)
            self._on_step("written")
            self._move_references()
        except (GitError, LandingRefusedError, OSError) as error:
            self._undo(is_written, error)
            raise
        self._on_step("landed")
        try:
            self._finish()
        except GitError as error:
            raise _UnrestoredError(
                f"{intent.into!r} was moved, but {error}. Restart the host, which tries again"
            ) from error

    def _take_locks(self) -> None:
        intent = self._intent
        if intent.checkout is not None:
            lock = IndexLock(intent.checkout.open(), intent.id)
            lock.take()
            self._files = lock
        if intent.worktree is not None and intent.rest is not None:
            lock = IndexLock(intent.worktree.open(), intent.id)
            lock.take()
            self._own = lock

    def _move_references(self) -> None:
        intent = self._intent
        old = None if intent.is_new else intent.old
        updates = [ReferenceUpdate(name=intent.into, new=intent.new, old=old), *self._more]
        if intent.branch is not None and intent.rest is not None:
            updates.append(ReferenceUpdate(name=intent.branch, new=intent.rest, old=intent.head))
        try:
            update_references(
                self._repository,
                updates,
                reason=f"quarterdeck {intent.method}",
                identity=self._identity,
            )
        except GitError as error:
            if _has_moved(self._repository, intent):
                raise ReferencesMovedError(str(error)) from error
            raise

    def _undo(self, is_written: bool, error: Exception) -> None:
        """Put files back; the references and indexes were not changed."""
        intent = self._intent
        if is_written and self._files is not None:
            try:
                left = restore_files(self._files.repository, intent.old, intent.new)
            except GitError as second:
                raise _UnrestoredError(
                    f"{error}. Files in {self._files.repository.top!r} could not be put back: "
                    f"{second}. Free disk space and restart the host, which tries again"
                ) from error
            if left:
                error.add_note(f"not put back, because they were edited: {name_some(left)}")
        self._release()

    def _finish(self) -> None:
        """The landing has happened; what is left makes indexes fit it."""
        for lock in (self._files, self._own):
            if lock is not None:
                lock.replace()
        self._on_step("indexed")
        self._release()
        self._on_step("unlocked")
        if self._intent.checkout is not None:
            _log_head(self._intent, self._intent.checkout, self._identity)

    def _release(self) -> None:
        for lock in (self._own, self._files):
            if lock is not None:
                lock.release()


def _has_moved(repository: GitRepository, intent: LandingIntent) -> bool:
    if read_reference(repository, intent.into) != (None if intent.is_new else intent.old):
        return True
    return (
        intent.branch is not None
        and intent.rest is not None
        and read_reference(repository, intent.branch) != intent.head
    )


def _log_head(intent: LandingIntent, checkout: BranchCheckout, identity: GitIdentity) -> None:
    """Add a line to the log of HEAD, as git does when a branch moves that is checked out."""
    path = Path(checkout.git_dir, "logs", "HEAD")
    with suppress(OSError):
        if path.is_symlink() or not path.is_file():
            return
        line = f"{intent.old} {intent.new} ".encode() + commit_line(identity)
        with path.open("ab") as file:
            file.write(line + f"\tquarterdeck {intent.method}\n".encode())


def recover_landings(directory: Path) -> list[RecoveredLanding]:
    """Complete or undo what a killed process had begun; blocks. What cannot be done stays noted."""
    found: list[RecoveredLanding] = []
    for note in sorted(directory.glob("*.json")):
        try:
            intent = decode_json(note.read_bytes(), LandingIntent)
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("the note of a landing %s cannot be read: %s", note, error)
            continue
        try:
            found.append(_recover(intent))
        except (GitError, OSError) as error:
            _log.warning("the landing %s could not be recovered: %s", intent.id, error)
            continue
        note.unlink(missing_ok=True)
    return found


def _recover(intent: LandingIntent) -> RecoveredLanding:
    locks = [
        IndexLock(one.open(), intent.id)
        for one in (intent.checkout, intent.worktree)
        if one is not None
    ]
    for lock in locks:
        lock.wait_for_orphan()
    repository = expect_repository(intent.repository)
    tip = read_reference(repository, intent.into)
    has_landed = tip is not None and is_ancestor(repository, intent.new, tip)
    notes: list[str] = []
    if intent.checkout is not None:
        lock = IndexLock(intent.checkout.open(), intent.id)
        if lock.is_held and has_landed and tip == intent.new:
            _replace_index(lock, intent.new)
        elif lock.is_held and not has_landed and tip == intent.old:
            left = restore_files(lock.repository, intent.old, intent.new)
            notes += [f"not put back, because they were edited: {name_some(left)}"] * bool(left)
        lock.release()
    if intent.worktree is not None and intent.rest is not None:
        lock = IndexLock(intent.worktree.open(), intent.id)
        if lock.is_held and has_landed:
            _replace_index(lock, intent.rest)
        lock.release()
    return RecoveredLanding(intent=intent, has_landed=has_landed, note="; ".join(notes))


def _replace_index(lock: IndexLock, commit: str) -> None:
    lock.copy()
    lock.adopt(commit)
    lock.replace()
