"""The file by which a linked git worktree names its repository, read without running git.

The file may name any directory. It counts only if that directory names the worktree in return and
lies in the ``worktrees`` of the repository: to forge that one has to write to the repository.
Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH118, PTH119, PTH120

import os
import stat
from typing import NamedTuple

__all__ = ["GitLink", "read_git_link"]

_MOST = 100_000


class GitLink(NamedTuple):
    """Where git keeps what it knows of a linked worktree; real paths."""

    git_dir: str
    """The worktree's own directory, below ``worktrees`` of the common one."""
    common_dir: str
    """The repository's git directory, with objects, branches and settings."""

    @property
    def checkout(self) -> str | None:
        """The top of the repository's main checkout; None for a bare repository."""
        top, name = os.path.split(self.common_dir)
        return top if name == ".git" else None


def read_git_link(top: str) -> GitLink | None:
    """What the ``.git`` of a linked worktree names; None: it is no such file, or it lies."""
    link = f"{top}/.git"
    named = _read(link)
    if named is None or not named.startswith("gitdir: "):
        return None
    git_dir = os.path.normpath(os.path.join(top, named[8:]))
    back, common = _read(f"{git_dir}/gitdir"), _read(f"{git_dir}/commondir")
    if back is None or common is None or os.path.realpath(git_dir) != git_dir:
        return None
    above = os.path.dirname(git_dir)
    common_dir = os.path.realpath(os.path.join(git_dir, common))
    is_below = (os.path.basename(above), os.path.dirname(above)) == ("worktrees", common_dir)
    place, name = os.path.split(os.path.normpath(os.path.join(git_dir, back)))
    is_named = (os.path.realpath(place), name) == (os.path.realpath(top), ".git")
    return GitLink(git_dir, common_dir) if is_below and is_named else None


def _read(path: str) -> str | None:
    """The one line of a small regular file; None if it is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.fsdecode(os.read(descriptor, _MOST).rstrip(b"\r\n"))
    finally:
        os.close(descriptor)
