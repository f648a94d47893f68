"""Linked worktrees: made, listed and removed in git's documented layout, without ``git worktree``.

``git worktree add`` reads a repository's settings and runs its hooks and filters. Here the
directory below ``worktrees/`` of the git directory (``HEAD``, ``commondir``, ``gitdir``) and the
``.git`` file are written by us, and git checks the files out as ``repository`` runs it. To git and
to every agent the result is an ordinary linked worktree. Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH101, PTH102, PTH103, PTH106, PTH108, PTH112, PTH114, PTH118, PTH119, PTH120, PTH208

import os
import shutil
import stat
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.git_link import read_git_link

from ..errors import GitError, GitUnsafeError, NotARepositoryError
from .references import BRANCHES, ReferenceUpdate, update_references
from .repository import GitRepository, expect_repository, find_common_directory, read_whole

__all__ = [
    "RAW_ATTRIBUTES",
    "LinkedWorktree",
    "add_worktree",
    "branch_holders",
    "check_out_tree",
    "delete_directory",
    "find_worktree",
    "list_worktrees",
    "open_worktree",
    "reattach_worktree",
    "remove_worktree",
]

RAW_ATTRIBUTES = b"* -text -filter -ident !eol !working-tree-encoding\n"
"""Attributes with which contents are written and read byte for byte; they outrank all others."""
_MOST_LINE = 100_000
_MOST_LIST = 10_000_000
_MAKING = "quarterdeck is making it"
"""Why a worktree is locked until it is complete: ``git worktree prune`` must not take it."""
_CHECKOUT = (
    # More processes write faster and use more CPU time for it. Other agents are at work.
    f"checkout.workers={max(1, (os.cpu_count() or 1) // 4)}",
    "core.fsync=none",
    "index.threads=true",
)


class LinkedWorktree(Struct, frozen=True, kw_only=True):
    """A worktree that a repository knows."""

    id: str
    """Of its directory below ``worktrees/`` of the git directory."""
    path: str
    """Its top; it may be gone."""
    git_dir: str
    head: str
    """What its HEAD says, in one line; empty if that cannot be read."""
    lock: str | None = None
    """Why it is locked; None: it is not."""

    @property
    def branch(self) -> str | None:
        """The branch that is checked out; None for a commit."""
        name = self.head.removeprefix("ref: ")
        return name.removeprefix(BRANCHES) if self.head.startswith(f"ref: {BRANCHES}") else None

    @property
    def is_there(self) -> bool:
        """Whether its top names it, so that it is no other directory in the same place."""
        named = read_whole(f"{self.path}/.git", _MOST_LINE) or b""
        line = os.fsdecode(named.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
        return bool(named) and os.path.realpath(os.path.join(self.path, line)) == self.git_dir


def add_worktree(
    repository: GitRepository,
    path: str,
    *,
    commit: str,
    branch: str | None = None,
    creates_branch: bool = True,
    tree: str | None = None,
    attributes: bytes | None = None,
    beside: Callable[[], object] | None = None,
    seconds: float = 600.0,
) -> GitRepository:
    """Make a worktree at ``path``, which must not exist; when this raises nothing of it is left.

    Args:
        repository: the one that it becomes a worktree of; its sparse checkout is kept.
        path: absolute; directories above it are made.
        commit: what is checked out.
        branch: what HEAD names, a branch at ``commit``; None: HEAD is the commit.
        creates_branch: the branch is made, and must not exist; else it must, at ``commit``.
        tree: what the files are, if that is not what the commit has; the index is the commit's.
        attributes: in place of the repository's own when the files are written.
        beside: runs in a thread while git writes the files, and has ended when this has; what it
            raises is raised. It must not touch what has a name that is in the tree.
        seconds: how long the checkout may take.

    Raises:
        GitError: it cannot be made: the place or the branch is taken, or git failed.
        OSError: a directory or file cannot be written.
    """
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if branch is not None and (holder := branch_holders(repository).get(branch)) is not None:
        raise GitError(f"branch {branch!r} is checked out in {holder!r}; use another branch")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.mkdir(path)
    except FileExistsError:
        raise GitError(f"{path!r} exists already; remove it or use another name") from None
    undo: list[Callable[[], object]] = [lambda: delete_directory(path)]
    try:
        git_dir = _make_git_dir(repository, path, commit, branch)
        undo.append(lambda: delete_directory(git_dir))
        if branch is not None and creates_branch:
            name = f"{BRANCHES}{branch}"
            made = ReferenceUpdate(name=name, new=commit)
            update_references(repository, [made], reason=f"branch: Created from {commit}")
            gone = ReferenceUpdate(name=name, new=None, old=commit)
            undo.append(lambda: update_references(repository, [gone], reason="worktree: undone"))
        Path(path, ".git").write_bytes(b"gitdir: " + os.fsencode(git_dir) + b"\n")
        _copy_sparse_settings(repository, git_dir)
        made = expect_repository(path)
        with _running(beside):
            check_out_tree(made, commit, tree, attributes=attributes, seconds=seconds)
        os.unlink(f"{git_dir}/locked")
    except BaseException:
        for step in reversed(undo):
            with suppress(OSError, GitError):
                step()
        raise
    return made


@contextmanager
def _running(work: Callable[[], object] | None) -> Generator[None]:
    """Something runs in a thread meanwhile; at the end it has ended, and its error is raised."""
    with ThreadPoolExecutor(1, thread_name_prefix="worktree") as pool:
        other = pool.submit(work) if work is not None else None
        yield
        if other is not None:
            other.result()


def check_out_tree(
    repository: GitRepository,
    commit: str,
    tree: str | None = None,
    *,
    attributes: bytes | None = None,
    seconds: float = 600.0,
) -> None:
    """Fill a worktree that is empty: with a commit, or with another tree and the commit's index.

    Raises:
        GitError: it cannot be, or not in time.
    """
    at = replace(repository, attributes=attributes) if attributes is not None else repository
    words = ("read-tree", "-m", "-u", tree or commit)
    at.change(words, settings=_CHECKOUT, seconds=seconds)
    if tree is not None:  # an entry that is the same in both keeps what is known of its file
        repository.change(("read-tree", "-m", "-i", commit), seconds=seconds)


def reattach_worktree(worktree: LinkedWorktree, *, seconds: float = 600.0) -> GitRepository:
    """Make a worktree again whose files are gone, from what git still knows: HEAD and index.

    What was staged is there again. When this raises nothing has been made.

    Raises:
        GitError: there is something in its place, or git failed.
        OSError: a directory or file cannot be written.
    """
    os.makedirs(os.path.dirname(worktree.path), exist_ok=True)
    try:
        os.mkdir(worktree.path)
    except FileExistsError:
        raise GitError(f"{worktree.path!r} exists already; move it away first") from None
    try:
        Path(worktree.path, ".git").write_bytes(b"gitdir: " + os.fsencode(worktree.git_dir) + b"\n")
        made = expect_repository(worktree.path)
        words = ("checkout-index", "--all", "--index", "--quiet")
        made.change(words, settings=_CHECKOUT, seconds=seconds)
    except BaseException:
        with suppress(OSError, GitError):
            delete_directory(worktree.path)
        raise
    return made


def open_worktree(path: str, repository: str) -> GitRepository:
    """The linked worktree at ``path``, if it is still one of the repository around a checkout.

    Whoever works in a worktree can write to its ``.git`` file, which may then name any repository
    of the person's, or none, so that git would use the one above. It counts only if it and its
    repository name each other, and if that is the repository of ``repository``, where there still
    is one.

    Raises:
        NotARepositoryError: there is nothing at ``path`` that names a repository.
        GitError: there is nothing at all.
        GitUnsafeError: it is another's, or not understood whole.
    """
    if not os.path.lexists(path):
        raise GitError(f"the worktree {path!r} is missing; recreate it from its branch")
    found, link = expect_repository(path), read_git_link(path)
    if found.top != path:
        raise NotARepositoryError(path)
    common = find_common_directory(repository) if repository != path else None
    is_same = link is not None and (found.git_dir, found.common_dir) == link
    if not is_same or common not in (None, found.common_dir):
        raise GitUnsafeError(
            f"the file .git in {path!r} does not name a worktree of {repository!r} any more; run "
            "`git worktree repair` in that repository"
        )
    return found


def list_worktrees(repository: GitRepository) -> list[LinkedWorktree]:
    """The linked worktrees that a repository knows, by id; those that are gone too."""
    above = f"{repository.common_dir}/worktrees"
    with suppress(FileNotFoundError, NotADirectoryError):
        found = (_read_worktree(above, name) for name in sorted(os.listdir(above)))
        return [one for one in found if one is not None]
    return []


def find_worktree(repository: GitRepository, path: str) -> LinkedWorktree | None:
    """The worktree whose top is ``path``, also if it is gone."""
    real = os.path.realpath(path)
    return next((one for one in list_worktrees(repository) if one.path == real), None)


def branch_holders(repository: GitRepository) -> dict[str, str]:
    """The branches that are checked out somewhere, each with the top where it is.

    A worktree that is gone holds its branch too, until git forgets it.
    """
    found = {one.branch: one.path for one in list_worktrees(repository) if one.branch is not None}
    line = os.fsdecode(read_whole(f"{repository.common_dir}/HEAD", _MOST_LINE) or b"").strip()
    if line.startswith(f"ref: {BRANCHES}"):
        found[line.removeprefix(f"ref: {BRANCHES}")] = repository.common_dir.removesuffix("/.git")
    return found


def remove_worktree(worktree: LinkedWorktree, *, parked: str | None = None) -> None:
    """Delete a worktree with everything in it; its branch stays.

    The caller knows that nothing of value is in there. A directory that is another's by now is
    not touched. ``parked``: where its files are, if they were moved.

    Raises:
        GitError: something cannot be deleted; what is still there can be deleted by another call.
    """
    top = parked or worktree.path
    try:
        if parked is not None or worktree.is_there:
            delete_directory(top)
        delete_directory(worktree.git_dir)
    except OSError as error:
        raise GitError(
            f"{top!r} cannot be deleted: {error}; correct that and remove it again"
        ) from error
    with suppress(OSError):  # only the last one takes the directory above along, as in git
        os.rmdir(os.path.dirname(worktree.git_dir))


def delete_directory(path: str) -> None:
    """Delete a directory with everything in it, also where it may not be written to.

    Links are deleted and not followed. Nothing where there is none. Raises OSError.
    """
    if os.path.islink(path):
        raise GitUnsafeError(f"{path!r} was not deleted, because it is a symbolic link")
    if not os.path.lexists(path):
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        # Package managers leave directories behind without write permission.
        for here, directories, _ in os.walk(os.fsencode(path)):
            for place in (here, *(os.path.join(here, name) for name in directories)):
                if stat.S_ISDIR(os.lstat(place).st_mode):
                    os.chmod(place, 0o700)
        shutil.rmtree(path)


def _make_git_dir(repository: GitRepository, path: str, commit: str, branch: str | None) -> str:
    """Make the directory that the repository knows a worktree by, locked."""
    above = f"{repository.common_dir}/worktrees"
    if os.path.islink(above):
        raise GitUnsafeError(f"no worktree was made, because {above!r} is a symbolic link")
    os.makedirs(above, exist_ok=True)
    for git_dir in _candidates(above, os.path.basename(path)):
        try:
            os.mkdir(git_dir)
            break
        except FileExistsError:
            continue
    else:
        raise AssertionError("there is always another name")
    head = f"ref: {BRANCHES}{branch}" if branch is not None else commit
    files = {"locked": _MAKING, "gitdir": f"{path}/.git", "commondir": "../..", "HEAD": head}
    try:
        for name, text in files.items():
            Path(git_dir, name).write_bytes(os.fsencode(text) + b"\n")
    except OSError:
        shutil.rmtree(git_dir, ignore_errors=True)
        raise
    return git_dir


def _candidates(above: str, name: str) -> Iterator[str]:
    """As git names them: like the directory, with a number if that is taken."""
    plain = "".join(mark if mark.isalnum() or mark in "-_." else "-" for mark in name)
    plain = plain.strip(".") or "worktree"
    yield f"{above}/{plain}"
    for number in count(1):
        yield f"{above}/{plain}{number}"


def _copy_sparse_settings(repository: GitRepository, git_dir: str) -> None:
    """A new worktree shows the part of the tree that the one shows which it is made from."""
    listed = read_whole(f"{repository.git_dir}/info/sparse-checkout", _MOST_LIST)
    if listed is not None:
        os.makedirs(f"{git_dir}/info", exist_ok=True)
        Path(git_dir, "info", "sparse-checkout").write_bytes(listed)
    settings = read_whole(f"{repository.git_dir}/config.worktree", _MOST_LIST)
    if settings is None or not repository.has_worktree_settings:
        return
    copy = f"{git_dir}/config.worktree"
    Path(copy).write_bytes(settings)
    for name in ("core.worktree", "core.bare"):  # these are about the one that it is made from
        words = ("config", "--file", copy, "--unset-all", name)
        repository.change(words, accepted=(0, 5))


def _read_worktree(above: str, name: str) -> LinkedWorktree | None:
    git_dir = f"{above}/{name}"
    if os.path.islink(git_dir) or not os.path.isdir(git_dir):
        return None
    try:
        named = os.fsdecode(read_whole(f"{git_dir}/gitdir", _MOST_LINE) or b"").rstrip("\r\n")
        head = os.fsdecode(read_whole(f"{git_dir}/HEAD", _MOST_LINE) or b"").strip()
        lock = read_whole(f"{git_dir}/locked", _MOST_LINE)
    except GitUnsafeError:
        return None
    if os.path.basename(named) != ".git":
        return None
    top = os.path.dirname(os.path.join(git_dir, named))
    return LinkedWorktree(
        id=name,
        path=os.path.realpath(top),
        git_dir=os.path.realpath(git_dir),
        head=head,
        lock=None if lock is None else os.fsdecode(lock).strip(),
    )
