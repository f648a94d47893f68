"""What is in a worktree that would be lost with it. Everything here blocks."""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH118

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.references import BRANCHES, read_reference, resolve_commit
from quarterdeck.system.git.repository import GitRepository, expect_repository, read_whole
from quarterdeck.system.git.tree_snapshot import TreeRecorder
from quarterdeck.wire.worktrees import Worktree

from .includes import list_included
from .record import IncludedFile, WorktreeRecord

__all__ = [
    "WorktreeContent",
    "count_commits",
    "inspect_worktree",
    "is_merged",
    "leave_out_landed",
    "list_pending_commits",
    "measure_directory",
]

_SECONDS = 60.0
_OPERATIONS = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
"""What git has begun and not finished, by the file that says so."""
_POINTERS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge/autostash")


class WorktreeContent(Struct, frozen=True, kw_only=True):
    """A worktree as it stands; paths are relative to the top."""

    head: str
    """The commit that is checked out."""
    branch: str | None
    changed: tuple[bytes, ...] = ()
    """Tracked files that are not as committed."""
    staged: tuple[bytes, ...] = ()
    """Those of which the index has content that is neither committed nor in the file."""
    untracked: tuple[bytes, ...] = ()
    included: tuple[bytes, ...] = ()
    """Ignored files that were copied into it and changed, or that match the list and are new."""
    repositories: tuple[bytes, ...] = ()
    """Repositories within, submodules too, that have something of their own."""
    operation: str | None = None
    """What git has begun and not finished."""

    @property
    def is_dirty(self) -> bool:
        """Whether something is not committed."""
        return bool(self.changed or self.untracked or self.included or self.operation)


def inspect_worktree(
    repository: GitRepository,
    included: Mapping[bytes, IncludedFile],
    patterns: Sequence[str] = (),
) -> WorktreeContent:
    """Look at a worktree. ``included``: the ignored files that were copied into it.

    Raises:
        GitError: it is no worktree any more, or cannot be read.
    """
    words = ("status", "-z", "--porcelain=v2", "--untracked-files=all", "--no-renames")
    changed: list[bytes] = []
    staged: list[bytes] = []
    untracked: list[bytes] = []
    within: list[bytes] = []
    for entry in repository.ask(words, seconds=_SECONDS).data.split(b"\0"):
        kind = entry[:2]
        if kind == b"1 ":
            changed.append(entry.split(b" ", 8)[8])
            if b"." not in entry[2:4]:
                staged.append(changed[-1])
        elif kind == b"u ":
            changed.append(entry.split(b" ", 10)[10])
        elif kind == b"? ":
            (within if entry.endswith(b"/") else untracked).append(entry[2:])
    within = [one for one in within if _has_own_content(repository, one.rstrip(b"/"))]
    within += _changed_submodules(repository)
    return WorktreeContent(
        head=resolve_commit(repository, "HEAD"),
        branch=repository.branch if repository.is_on_branch else None,
        changed=tuple(changed),
        staged=tuple(staged),
        untracked=tuple(untracked),
        included=tuple(_changed_includes(repository, included, patterns)),
        repositories=tuple(within),
        operation=next(
            (
                text
                for name, text in _OPERATIONS.items()
                if os.path.lexists(os.path.join(repository.git_dir, name))
            ),
            None,
        ),
    )


def leave_out_landed(
    content: WorktreeContent, repository: GitRepository, record: WorktreeRecord, scratch: Path
) -> WorktreeContent:
    """The same without uncommitted files if all of them have landed as they are now.

    ``scratch``: a directory for what this needs. Raises GitError.
    """
    is_dirty = content.changed or content.untracked
    # What was carried along is the person's, and is not landed.
    if record.landed_files is None or record.worktree.start is not None or not is_dirty:
        return content
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options")
    names = (f"{record.landed_files}^{{tree}}", f"{record.landed_files}^1")
    found = [repository.ask((*words, name), accepted=(0, 1, 128)) for name in names]
    if any(one.code for one in found):
        return content
    tree, result = (one.data.decode().strip() for one in found)
    words = ("for-each-ref", f"--contains={result}", "--count=1", BRANCHES)
    if not repository.ask(words, seconds=_SECONDS).data.strip():
        return content
    directory = scratch / secrets.token_hex(8)
    try:
        now = TreeRecorder(repository, directory, seconds=_SECONDS).take()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return replace(content, changed=content.staged, untracked=()) if now == tree else content


def list_pending_commits(repository: GitRepository) -> list[str]:
    """Commits that only an operation under way refers to, such as a rebase's stash."""
    found: list[str] = []
    for name in _POINTERS:
        data = read_whole(f"{repository.git_dir}/{name}", 10_000) or b""
        for line in data.decode("ascii", "replace").split():
            try:
                found.append(resolve_commit(repository, line))
            except GitError:
                continue
    return found


def count_commits(repository: GitRepository, worktree: Worktree) -> tuple[int, int]:
    """Commits of the worktree that its base has not, and that the base's branch has gained."""
    words = ("rev-list", "--count", "--end-of-options")
    ahead = int(repository.ask((*words, f"{worktree.base}..HEAD")).data)
    base = f"{BRANCHES}{worktree.base_ref}" if worktree.base_ref is not None else None
    if base is None or read_reference(repository, base) is None:
        return ahead, 0
    return ahead, int(repository.ask((*words, f"HEAD..{base}")).data)


def is_merged(repository: GitRepository, commit: str, branch: str) -> bool:
    """Whether a branch has a commit."""
    name = f"{BRANCHES}{branch}"
    if read_reference(repository, name) is None:
        return False
    words = ("merge-base", "--is-ancestor", commit, name)
    return repository.ask(words, accepted=(0, 1)).code == 0


def measure_directory(path: str) -> int:
    """Bytes on disk of everything in a directory; links are not followed."""
    total = 0
    stack = [os.fsencode(path)]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    total += status.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
        except OSError:
            continue
    return total


def _changed_includes(
    repository: GitRepository, included: Mapping[bytes, IncludedFile], patterns: Sequence[str]
) -> list[bytes]:
    top = os.fsencode(repository.top)
    found: list[bytes] = []
    for name in sorted({*included, *list_included(repository, patterns)}):
        try:
            status = os.lstat(os.path.join(top, name))
        except OSError:
            continue  # deleted: the original is elsewhere
        known = included.get(name)
        if known is None or (status.st_size, status.st_mtime_ns) != (known.size, known.modified_ns):
            found.append(name)
    return found


def _changed_submodules(repository: GitRepository) -> list[bytes]:
    """Submodules that are filled and not exactly as the commit has them."""
    listed = repository.ask(("ls-files", "-z", "--stage"), seconds=_SECONDS).data.split(b"\0")
    found: list[bytes] = []
    for line in listed:
        if line.startswith(b"160000"):
            meta, _, name = line.partition(b"\t")
            if _has_own_content(repository, name, meta.split(b" ")[1].decode()):
                found.append(name)
    return found


def _has_own_content(repository: GitRepository, name: bytes, commit: str | None = None) -> bool:
    """Whether a repository within would lose something; one that is not understood would."""
    path = os.path.join(repository.top, os.fsdecode(name))
    if not os.path.lexists(os.path.join(path, ".git")):
        return False
    try:
        inner = expect_repository(path)
        if inner.top != os.path.realpath(path) or commit is None:
            return True
        content = inspect_worktree(inner, {})
        words = ("rev-list", "--max-count=1", "--branches", "--not", "--remotes", commit)
        has_commits = bool(inner.ask(words, seconds=_SECONDS).data.strip())
    except (GitError, OSError):
        return True
    is_other = content.head != commit or has_commits
    return is_other or content.is_dirty or bool(content.repositories)
