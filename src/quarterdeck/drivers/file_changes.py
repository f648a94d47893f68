"""The files of a session's directories, compared over a turn.

An agent reports its calls, or does not. What changed on disk shows more, as far as git sees it:
tracked files and those that are not ignored. Everything here blocks; callers are in a thread.
"""

import os
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import ask_git, expect_repository

__all__ = ["Fingerprint", "changed_files", "read_fingerprint"]

Fingerprint: TypeAlias = Mapping[str, tuple[str, int, int]]
"""Files that differ from the last commit: git's letters, time of change and size of each."""

_STATUS = ("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
_SECONDS = 5.0
_MOST = 4_000_000


def read_fingerprint(roots: Iterable[str]) -> Fingerprint | None:
    """What differs now; None without a repository, or if git does not answer in a few seconds."""
    found: dict[str, tuple[str, int, int]] = {}
    for root in roots:
        try:
            top = expect_repository(os.path.realpath(root)).top
            status = ask_git(root, _STATUS, most=_MOST, seconds=_SECONDS)
        except GitError:
            return None
        if status.is_cut:
            return None
        for entry in filter(None, status.data.split(b"\0")):
            path = os.path.join(top, os.fsdecode(entry[3:]))  # noqa: PTH118
            found[path] = (os.fsdecode(entry[:2]), *_state(path))
    return found


def changed_files(before: Fingerprint, after: Fingerprint) -> tuple[str, ...]:
    """The files that changed between two looks, sorted."""
    paths = before.keys() | after.keys()
    return tuple(sorted(path for path in paths if before.get(path) != after.get(path)))


def _state(path: str) -> tuple[int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return 0, -1
    return found.st_mtime_ns, found.st_size
