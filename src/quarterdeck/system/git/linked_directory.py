"""What git writes outside of a linked worktree when somebody commits in it.

A sandbox that confines a command to the worktree lets it write there as well, as far as a commit
needs it: not to hooks, settings, other worktrees or references of ours. Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH112

import os
from typing import NamedTuple

from quarterdeck.wire.git_link import read_git_link

__all__ = ["LinkedDirectory", "find_linked_directory"]

_SHARED = ("objects", "refs/heads", "logs/refs/heads")
_SETTINGS = ("commondir", "gitdir", "config.worktree")


class LinkedDirectory(NamedTuple):
    """Where git writes for a linked worktree; all paths are real and exist."""

    writable: tuple[str, ...]
    read_only: tuple[str, ...]
    """What stays as it is although it lies in a writable directory."""


def find_linked_directory(top: str) -> LinkedDirectory | None:
    """Where git writes for the linked worktree at ``top``; None: it is none, or a link leads away
    from its repository.
    """
    link = read_git_link(top)
    if link is None:
        return None
    common, own = link.common_dir, link.git_dir
    shared = [f"{common}/{name}" for name in _SHARED if os.path.isdir(f"{common}/{name}")]
    if any(os.path.realpath(path) != path for path in shared):
        return None
    kept = [f"{own}/{name}" for name in _SETTINGS if os.path.lexists(f"{own}/{name}")]
    return LinkedDirectory(writable=(own, *shared), read_only=tuple(kept))
