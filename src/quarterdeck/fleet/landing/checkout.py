"""Where a branch is checked out, and whether its files may follow when the branch moves.

Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH114

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import (
    GitRepository,
    copy_whole,
    find_repository,
    read_whole,
)
from quarterdeck.system.git.worktree import list_worktrees

from .tree_change import GITLINK, TreeChange, diff_trees, list_filtered, measure_blobs, read_mode

__all__ = ["BranchCheckout", "find_checkouts", "find_obstacle", "list_changed", "name_some"]

_SMALL = 10_000
_MOST_NAMED = 5
_SPARE = 1_000_000
"""Bytes that stay free on the disk."""
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_START": "a bisection",
}


class BranchCheckout(Struct, frozen=True, kw_only=True):
    """A work tree in which a branch is checked out."""

    top: str
    git_dir: str
    under_way: str = ""
    """What has been begun there and not ended, such as a merge."""

    def open(self) -> GitRepository:
        """The repository, as this work tree sees it. Raises GitError."""
        found = find_repository(self.top)
        if found is None or found.git_dir != self.git_dir:
            raise GitError(f"{self.top!r} is not a work tree of {self.git_dir!r} any more")
        return found


def find_checkouts(repository: GitRepository, branch: str) -> list[BranchCheckout]:
    """Every work tree of a repository that uses a branch, by its whole name.

    Also one where the branch is being rebased or bisected, and HEAD names a commit meanwhile.
    """
    found: list[BranchCheckout] = []
    for top, git_dir in _work_trees(repository):
        under_way = [
            words for name, words in _UNDER_WAY.items() if os.path.lexists(f"{git_dir}/{name}")
        ]
        uses = _first_line(f"{git_dir}/HEAD") == f"ref: {branch}" or any(
            _first_line(f"{git_dir}/{name}/head-name") == branch
            for name in ("rebase-merge", "rebase-apply")
        )
        if uses or _first_line(f"{git_dir}/BISECT_START") == branch.removeprefix("refs/heads/"):
            found.append(
                BranchCheckout(top=top, git_dir=git_dir, under_way=next(iter(under_way), ""))
            )
    return found


def _work_trees(repository: GitRepository) -> Iterator[tuple[str, str]]:
    """The top and the git directory of each that exists."""
    common = repository.common_dir
    seen = {repository.git_dir}
    yield repository.top, repository.git_dir
    main = common[:-5] if common.endswith("/.git") else None
    if main is not None and common not in seen and _is_checkout(main, common):
        seen.add(common)
        yield main, common
    for one in list_worktrees(repository):
        if one.git_dir not in seen and one.is_there:
            seen.add(one.git_dir)
            yield one.path, one.git_dir


def _is_checkout(top: str, git_dir: str) -> bool:
    """Whether the files of a repository are beside its git directory: not so if it is bare."""
    try:
        found = find_repository(top)
    except GitError:
        return False
    return found is not None and found.git_dir == git_dir and os.path.lexists(f"{git_dir}/index")


def _first_line(path: str) -> str:
    try:
        data = read_whole(path, _SMALL) or b""
    except GitError:
        return ""
    return os.fsdecode(data.split(b"\n", 1)[0]).strip()


def list_changed(repository: GitRepository, commit: str) -> list[bytes]:
    """Tracked files that are not as in a commit, in the index or on disk. Raises GitError."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-landing-") as folder:
        index = Path(folder, "index")
        copy_whole(repository.index, index)
        return _list_changed(repository, str(index), commit)


def _list_changed(repository: GitRepository, index: str, commit: str) -> list[bytes]:
    def run(*words: str, given: bytes = b"", accepted: Sequence[int] = (0,)) -> set[bytes]:
        settings = ("core.splitIndex=false", "core.untrackedCache=false")
        answer = repository.change(
            words, index=index, settings=settings, given=given, seconds=60.0, accepted=accepted
        )
        return set(answer.data.split(b"\0")) - {b""}

    # *Assume unchanged* is a promise of the person's; it must not hide an edit here.
    hidden = [line[2:] for line in run("ls-files", "-z", "-v") if line[:1].islower()]
    if hidden:
        given = b"\0".join(hidden)
        run("update-index", "--no-assume-unchanged", "-z", "--stdin", given=given)
    run("update-index", "-q", "--refresh", accepted=(0, 1))
    staged = run("diff-index", "--cached", "-z", "--name-only", commit)
    return sorted(staged | run("diff-files", "-z", "--name-only"))


def find_obstacle(checkout: BranchCheckout, old: str, new: str) -> str | None:
    """Why the files of a checkout cannot follow from one commit to another; None if they can.

    Raises:
        GitError: it cannot be read.
    """
    if checkout.under_way:
        return f"{checkout.under_way} is under way in {checkout.top!r}; finish it first"
    repository = checkout.open()
    if changed := list_changed(repository, old):
        return (
            f"{checkout.top!r} has uncommitted changes: {name_some(changed)}; commit or stash them"
        )
    changes = diff_trees(repository, old, new)
    if inside := _untracked_in_the_way(repository, changes):
        return f"untracked files in {checkout.top!r} are in the way: {name_some(inside)}; move them"
    written = [one for one in changes if not one.is_removed and one.new_mode != GITLINK]
    if filtered := list_filtered(repository, [one.path for one in written]):
        return (
            "files behind a git filter such as LFS would change, and filters are not run: "
            f"{name_some(filtered)}; land on another branch and merge that with git"
        )
    return _find_lack_of_space(repository, written)


def _find_lack_of_space(repository: GitRepository, written: Sequence[TreeChange]) -> str | None:
    needed = measure_blobs(repository, [one.new_blob for one in written])
    status = os.statvfs(repository.top)
    free = status.f_bavail * status.f_frsize
    if needed + _SPARE > free:
        return f"the disk of {repository.top!r} has {free:,} bytes left and {needed:,} are needed"
    return None


def _untracked_in_the_way(repository: GitRepository, changes: Sequence[TreeChange]) -> list[bytes]:
    """Files that are in no commit and would be overwritten; git itself spares no ignored ones."""
    top = os.fsencode(repository.top)
    old = {one.path for one in changes if not one.is_added}
    found: set[bytes] = set()
    known: dict[bytes, bytes | None] = {}
    for one in changes:
        if one.is_removed or (not one.is_added and one.old_mode != GITLINK):
            continue
        above = _file_above(top, one.path, old, known)
        if above is not None:
            found.add(above)
            continue
        found.update(_inside(top, one.path, old))
    return sorted(found)


def _file_above(
    top: bytes, path: bytes, old: set[bytes], known: dict[bytes, bytes | None]
) -> bytes | None:
    """Something untracked where a directory would have to be."""
    parent = path.rpartition(b"/")[0]
    if not parent:
        return None
    if parent not in known:
        found = _file_above(top, parent, old, known)
        if found is None and parent not in old:
            mode = read_mode(top + b"/" + parent)
            found = parent if mode is not None and not stat.S_ISDIR(mode) else None
        known[parent] = found
    return known[parent]


def _inside(top: bytes, path: bytes, old: set[bytes]) -> Iterator[bytes]:
    """What is untracked at a path, or below it if it is a directory."""
    mode = read_mode(top + b"/" + path)
    if mode is None:
        return
    if not stat.S_ISDIR(mode):
        if path not in old:
            yield path
        return
    for here, directories, files in os.walk(top + b"/" + path):
        links = [one for one in directories if os.path.islink(here + b"/" + one)]
        for name in (*files, *links):
            inner = (here + b"/" + name)[len(top) + 1 :]
            if inner not in old:
                yield inner
                return  # one is reason enough


def name_some(paths: Sequence[bytes]) -> str:
    """The first of many files, for people."""
    names = ", ".join(path_line(path) for path in paths[:_MOST_NAMED])
    more = len(paths) - _MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names
