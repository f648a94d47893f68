"""Worktrees end: removed when nothing in them would be lost, or discarded into the trash.

Files are moved aside before they are looked at for the last time, so that nothing which is written
meanwhile is overlooked, and deleted only when everything of value is committed somewhere. What a
killed process left half done is finished or taken back by ``recover``. Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH104, PTH106, PTH118, PTH119, PTH120

import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.system.errors import GitError, GitUnsafeError
from quarterdeck.system.git.references import (
    BRANCHES,
    OWN_REFERENCES,
    ReferenceUpdate,
    read_reference,
    update_references,
)
from quarterdeck.system.git.repository import (
    GitRepository,
    expect_repository,
    find_repository,
)
from quarterdeck.system.git.tree_snapshot import TreeRecorder
from quarterdeck.system.git.worktree import (
    RAW_ATTRIBUTES,
    LinkedWorktree,
    add_worktree,
    branch_holders,
    find_worktree,
    list_worktrees,
    remove_worktree,
)
from quarterdeck.wire.clock import format_utc_time, read_wall_clock
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import Worktree

from ..errors import WorktreeError
from .builder import PROGRAM_IDENTITY, name_start
from .includes import read_patterns
from .inspection import (
    WorktreeContent,
    inspect_worktree,
    is_merged,
    leave_out_landed,
    list_pending_commits,
)
from .record import TrashRecord, WorktreeRecord, WorktreeRecords

__all__ = ["TRASH", "RemovedWorktree", "WorktreeDisposal"]

TRASH = f"{OWN_REFERENCES}trash/"
_SECONDS = 1_800.0
_DAY = 86_400_000_000
_SHOWN = 5


class RemovedWorktree(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a worktree."""

    worktree: Worktree
    branch: str | None = None
    """The branch, if it was kept."""
    trash: TrashRecord | None = None
    """Where everything is kept, if it was discarded."""


class WorktreeDisposal:
    """Removes, discards and restores worktrees that we made."""

    def __init__(self, records: WorktreeRecords, scratch: Path) -> None:
        self._records = records
        self._scratch = scratch

    def remove(
        self, record: WorktreeRecord, settings: WorktreeSettings, *, keeps_branch: bool = False
    ) -> RemovedWorktree:
        """Remove a worktree in which nothing would be lost; a branch with commits stays.

        What is not committed in it and has landed just so is not lost.

        Raises:
            WorktreeError: something in it is not committed; nothing was changed.
            GitError: it cannot be read or deleted.
        """
        parked = self._park(record)
        try:
            content = self._inspect(parked, settings)
            repository = expect_repository(parked.parked or "")
            content = leave_out_landed(content, repository, parked, self._scratch)
            _expect_nothing_lost(parked, content)
            kept = self._branch_kept(parked, content, keeps_branch)
        except BaseException:
            self._unpark(parked)
            raise
        self._delete(parked, is_branch_deleted=kept is None)
        return RemovedWorktree(worktree=record.worktree, branch=kept)

    def discard(
        self,
        record: WorktreeRecord,
        settings: WorktreeSettings,
        sessions: Sequence[SessionId] = (),
    ) -> RemovedWorktree:
        """Put everything that is in a worktree into the trash, and remove it with its branch.

        Raises:
            WorktreeError: there is a repository in it, which cannot be kept; nothing was changed.
            GitError, OSError: it cannot be read, written or deleted; nothing was changed, or it is
                in the trash.
        """
        parked = self._park(record)
        try:
            content = self._inspect(parked, settings)
            if content.repositories:
                raise WorktreeError(
                    f"the worktree {record.worktree.path!r} has repositories with work of their "
                    f"own, which cannot be kept: {_some(content.repositories)}; push or move it, "
                    "delete them, and try again"
                )
            kept = self._keep(parked, content, settings, sessions)
        except BaseException:
            self._unpark(parked)
            raise
        self._delete(parked, is_branch_deleted=True)
        return RemovedWorktree(worktree=record.worktree, trash=kept)

    def restore(self, trash: TrashRecord) -> WorktreeRecord:
        """Make a discarded worktree again, with its branch and all that was not committed.

        Raises:
            WorktreeError: its place or its repository is not there any more.
            GitError, OSError: it cannot be made; it stays in the trash.
        """
        worktree = trash.worktree
        try:
            repository = expect_repository(worktree.repository)
        except GitError as error:
            raise WorktreeError(
                f"{trash.name!r} cannot be restored: its repository {worktree.repository!r} cannot "
                f"be used: {error}"
            ) from error
        if os.path.lexists(worktree.path):
            raise WorktreeError(
                f"{trash.name!r} cannot be restored: {worktree.path!r} exists; remove it first"
            )
        branch, is_new = _free_branch(repository, worktree.branch, trash.tip)
        worktree = replace(worktree, branch=branch)
        record = WorktreeRecord(
            name=trash.name,
            worktree=worktree,
            restored_from=trash.commit,
            created=read_wall_clock(),
        )
        self._records.write(record)
        try:
            made = add_worktree(
                repository,
                worktree.path,
                commit=trash.tip,
                branch=branch,
                creates_branch=is_new,
                tree=f"{trash.commit}^{{tree}}",
                attributes=RAW_ATTRIBUTES,
            )
        except BaseException:
            self._records.forget(worktree.path)
            raise
        record = replace(record, git_dir=made.git_dir, stage="ready")
        self._records.write(record)
        self.drop(trash)
        return record

    def drop(self, trash: TrashRecord) -> None:
        """Delete a discarded worktree for good. Raises GitError."""
        with suppress(GitError):  # a repository that is gone took the reference along
            repository = expect_repository(trash.worktree.repository)
            gone = ReferenceUpdate(name=trash.reference, new=None, old=trash.commit)
            if read_reference(repository, trash.reference) is not None:
                update_references(
                    repository, [gone], reason="trash: expired", identity=PROGRAM_IDENTITY
                )
        self._records.forget_trash(trash)

    def recover(self) -> list[Worktree]:
        """Finish or take back what a killed process left; returns the worktrees that are gone."""
        gone: list[Worktree] = []
        for record in self._records.all():
            try:
                if record.stage == "deleting":
                    self._finish(record)
                    gone.append(record.worktree)
                elif record.stage == "parked":
                    self._unpark(record)
                elif record.stage == "making" and self._is_worthless(record):
                    self._finish(record)
                    gone.append(record.worktree)
                elif record.stage == "making":
                    self._keep_half_made(record)
            except (GitError, OSError):
                continue  # the next start tries again
        return gone

    # Steps

    def _park(self, record: WorktreeRecord) -> WorktreeRecord:
        path = record.worktree.path
        name = f".{os.path.basename(path)}.removing-{secrets.token_hex(4)}"
        parked = replace(record, stage="parked", parked=os.path.join(os.path.dirname(path), name))
        self._records.write(parked)
        try:
            os.rename(path, parked.parked or "")
        except OSError as error:
            self._records.write(record)
            raise GitError(f"{path!r} cannot be moved: {error.strerror or error}") from error
        return parked

    def _unpark(self, record: WorktreeRecord) -> None:
        parked = record.parked or ""
        if os.path.lexists(parked) and not os.path.lexists(record.worktree.path):
            os.rename(parked, record.worktree.path)
        self._records.write(replace(record, stage="ready", parked=None))

    def _inspect(self, record: WorktreeRecord, settings: WorktreeSettings) -> WorktreeContent:
        repository = _open(record)
        included = self._records.included(record.worktree.path)
        patterns = (*settings.include_ignored, *read_patterns(record.worktree.repository))
        return inspect_worktree(repository, included, patterns)

    def _branch_kept(
        self, record: WorktreeRecord, content: WorktreeContent, keeps_branch: bool
    ) -> str | None:
        """The branch, unless all of it is elsewhere too."""
        worktree = record.worktree
        repository = _open(record)
        branch = worktree.branch
        tip = read_reference(repository, f"{BRANCHES}{branch}") if branch is not None else None
        if branch is None or tip is None:
            return None
        is_elsewhere = tip == worktree.base or tip == record.landed
        if worktree.base_ref is not None and worktree.base_ref != branch:
            is_elsewhere = is_elsewhere or is_merged(repository, tip, worktree.base_ref)
        is_other = content.branch not in (None, branch)
        return branch if keeps_branch or is_other or not is_elsewhere else None

    def _keep(
        self,
        record: WorktreeRecord,
        content: WorktreeContent,
        settings: WorktreeSettings,
        sessions: Sequence[SessionId],
    ) -> TrashRecord:
        """Commit everything byte for byte, and note where it is."""
        repository = _open(record)
        tree = self._take_raw(repository, content, settings)
        now = read_wall_clock()
        id_ = f"{format_utc_time(now, '%Y%m%dT%H%M%SZ')}-{secrets.token_hex(2)}-{record.name}"
        trash = TrashRecord(
            id=id_,
            name=record.name,
            worktree=replace(record.worktree, branch=content.branch),
            reference=f"{TRASH}{id_}",
            commit="",
            tip=content.head,
            discarded=now,
            expires=now + int(settings.trash_days * _DAY),
            sessions=tuple(sessions),
        )
        message = (
            f"Discarded worktree {record.name}\n\n"
            f"Quarterdeck-Worktree: {msgspec.json.encode(trash).decode()}\n"
        )
        words = ["commit-tree", "-p", content.head]
        for parent in _other_parents(repository, record.worktree, content):
            words += ["-p", parent]
        output = repository.change(
            [*words, tree], given=message.encode(), identity=PROGRAM_IDENTITY
        ).data
        trash = replace(trash, commit=output.decode().strip())
        kept = ReferenceUpdate(name=trash.reference, new=trash.commit)
        update_references(repository, [kept], reason="trash: discarded", identity=PROGRAM_IDENTITY)
        self._records.write_trash(trash)
        os.sync()  # what follows deletes the only other copy
        return trash

    def _take_raw(
        self, repository: GitRepository, content: WorktreeContent, settings: WorktreeSettings
    ) -> str:
        listed = repository.ask(("ls-files", "-z"), seconds=_SECONDS).data
        forced = {*listed.split(b"\0"), *content.included} - {b""}
        if settings.trash_ignored:
            words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
            forced |= set(repository.ask(words, seconds=_SECONDS).data.split(b"\0")) - {b""}
        directory = self._scratch / secrets.token_hex(8)
        try:
            raw = replace(repository, attributes=RAW_ATTRIBUTES)
            recorder = TreeRecorder(raw, directory, borrows=False, seconds=_SECONDS)
            recorder.empty()  # what git knows of a file is about its converted content
            return recorder.take(sorted(forced))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _delete(self, record: WorktreeRecord, *, is_branch_deleted: bool) -> None:
        worktree = record.worktree
        # As it was found while it was looked at; a commit that appeared meanwhile stays.
        repository = _open(record)
        names = [name_start(worktree)]
        if is_branch_deleted and worktree.branch is not None:
            names.append(f"{BRANCHES}{worktree.branch}")
        found = {name: read_reference(repository, name) for name in names}
        self._records.write(replace(record, stage="deleting"))
        self._finish(replace(record, stage="deleting"))
        updates = [
            ReferenceUpdate(name=name, new=None, old=old)
            for name, old in found.items()
            if old is not None
        ]
        with suppress(GitError):  # it has moved: then it has something that is nowhere else
            base = expect_repository(worktree.repository)
            update_references(base, updates, reason="worktree: removed", identity=PROGRAM_IDENTITY)

    def _finish(self, record: WorktreeRecord) -> None:
        linked = self._find_linked(record)
        if linked is not None:
            remove_worktree(linked, parked=record.parked)
        with suppress(OSError):
            os.rmdir(record.worktree.path)  # made, and nothing was put into it yet
        self._records.forget(record.worktree.path)

    def _find_linked(self, record: WorktreeRecord) -> LinkedWorktree | None:
        worktree = record.worktree
        with suppress(GitError):
            for one in list_worktrees(expect_repository(worktree.repository)):
                if one.path == worktree.path and record.git_dir in (None, one.git_dir):
                    return one
        if record.git_dir is None and not os.path.lexists(worktree.path):
            return None
        return LinkedWorktree(
            id="", path=worktree.path, git_dir=record.git_dir or f"{worktree.path}/.git", head=""
        )

    def _keep_half_made(self, record: WorktreeRecord) -> None:
        """Let a worktree be used as it is: somebody has changed something in it already."""
        linked = self._find_linked(record)
        if linked is not None and linked.head:
            self._records.write(replace(record, stage="ready", git_dir=linked.git_dir))

    def _is_worthless(self, record: WorktreeRecord) -> bool:
        """Whether a half-made worktree has nothing but what was checked out or copied into it."""
        worktree = record.worktree
        if not os.path.lexists(worktree.path):
            return True
        names = os.listdir(worktree.path)  # noqa: PTH208
        if not names:
            return True
        try:
            repository = expect_repository(worktree.path)
        except GitError:
            return False
        if repository.top != worktree.path:
            return False
        directory = self._scratch / secrets.token_hex(8)
        start = record.restored_from or worktree.start or worktree.base
        if record.restored_from is not None:
            repository = replace(repository, attributes=RAW_ATTRIBUTES)
        try:
            recorder = TreeRecorder(repository, directory)
            recorder.empty()
            tree = recorder.take()
            words = ("diff-tree", "-r", "-z", "--no-renames", "--diff-filter=d", start, tree)
            found = repository.change(words, alternates=(recorder.objects or "",)).data
            return _are_beginnings(repository, found)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _open(record: WorktreeRecord) -> GitRepository:
    """A worktree that may have been moved aside. An agent can write to its ``.git`` file, so that
    it counts only if it names what we made; the record of that is ours alone.

    Raises:
        GitUnsafeError: it names another repository, or none.
    """
    top = record.parked or record.worktree.path
    found = find_repository(top)
    own = record.git_dir or _find_git_dir(record.worktree)
    common = os.path.dirname(os.path.dirname(own))
    if found is None or (found.top, found.git_dir, found.common_dir) != (top, own, common):
        raise GitUnsafeError(
            f"{record.worktree.path!r} was not removed, because its file .git does not name "
            f"{own!r} any more; run `git worktree repair` in {record.worktree.repository!r}"
        )
    return found


def _find_git_dir(worktree: Worktree) -> str:
    """The directory by which the repository knows a worktree whose making was cut off."""
    linked = find_worktree(expect_repository(worktree.repository), worktree.path)
    return linked.git_dir if linked is not None else ""


def _are_beginnings(repository: GitRepository, found: bytes) -> bool:
    """Whether files differ from those of a tree only because writing them was cut off."""
    parts = found.split(b"\0")
    for meta, name in zip(parts[0::2], parts[1::2], strict=False):
        fields = meta.split(b" ")
        if fields[-1] != b"M":
            return False
        whole = repository.ask(("cat-file", "blob", fields[2].decode())).data
        path = Path(os.fsdecode(os.path.join(os.fsencode(repository.top), name)))
        if path.is_symlink() or not whole.startswith(path.read_bytes()):
            return False
    return True


def _expect_nothing_lost(record: WorktreeRecord, content: WorktreeContent) -> None:
    path = record.worktree.path
    if content.repositories:
        raise WorktreeError(
            f"the worktree {path!r} has repositories with work of their own: "
            f"{_some(content.repositories)}; push or move it, and delete them"
        )
    if content.operation is not None:
        raise WorktreeError(
            f"{content.operation} is not finished in the worktree {path!r}; finish it, or keep "
            f"everything in the trash: quarterdeck worktrees discard {record.name}"
        )
    dirty = (*content.changed, *content.untracked, *content.included)
    if dirty:
        raise WorktreeError(
            f"the worktree {path!r} has uncommitted work: {_some(dirty)}; commit it, or keep it in "
            f"the trash: quarterdeck worktrees discard {record.name}"
        )
    repository = _open(record)
    if content.branch is None:
        words = ("for-each-ref", f"--contains={content.head}", "--count=1", "refs/")
        if not repository.ask(words).data.strip():
            raise WorktreeError(
                f"the worktree {path!r} has commits that are on no branch; create one there, or "
                f"keep them in the trash: quarterdeck worktrees discard {record.name}"
            )


def _other_parents(
    repository: GitRepository, worktree: Worktree, content: WorktreeContent
) -> list[str]:
    """Commits besides the one that is checked out which nothing else may refer to soon."""
    tip = None
    if worktree.branch is not None:
        tip = read_reference(repository, f"{BRANCHES}{worktree.branch}")
    found = [*([tip] if tip is not None else ()), *list_pending_commits(repository)]
    return [one for one in dict.fromkeys(found) if one != content.head]


def _free_branch(
    repository: GitRepository, branch: str | None, tip: str
) -> tuple[str | None, bool]:
    """A branch for a restored worktree, and whether it is to be made."""
    if branch is None:
        return None, False
    number = 1
    name = branch
    held = branch_holders(repository)
    while True:
        found = read_reference(repository, f"{BRANCHES}{name}")
        if found is None:
            return name, True
        if found == tip and number == 1 and name not in held:
            return name, False
        number += 1
        name = f"{branch}-{number}"


def _some(names: Sequence[bytes]) -> str:
    shown = [repr(os.fsdecode(name))[1:-1] for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shown) + more
