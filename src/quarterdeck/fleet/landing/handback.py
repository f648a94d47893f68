"""Prompts that give failed work back to an agent: conflicts with both sides, output of a check."""

import re
from collections.abc import Sequence

from quarterdeck.agent.checkpoints.file_state import path_line

from .api import LandingConflict, LandingResult

__all__ = ["compose_hand_back"]

_MOST_OUTPUT = 6_000
_MOST_FILES = 50
_BACKTICKS = re.compile("`+")


def compose_hand_back(result: LandingResult, *, own: bool, commit: str | None = None) -> str:
    """What an agent is asked to do about a landing that failed.

    Args:
        result: how it failed.
        own: it is the agent's own work; else that of another agent.
        commit: the work, if it is another agent's.
    """
    whose = "Your work" if own else f"The work of the agent {result.name}"
    lines = [f"{whose} could not be landed on the branch {result.into}: {result.reason}."]
    if result.state == "check":
        lines += [_ask_for_fix(own, commit), "", "The end of the output:", *_fence(result.output)]
        return "\n".join(lines)
    lines += [_ask_for_merge(result.into, own, commit), "", "Files that conflict:"]
    lines += _list_files(result.conflicts)
    for one in result.conflicts:
        if one.hunks:
            lines += ["", f"{path_line(one.path)} (ours: {result.into}, theirs: the work):"]
            lines += _fence(one.hunks)
    return "\n".join(lines)


def _ask_for_merge(into: str, own: bool, commit: str | None) -> str:
    if own:
        return (
            f"In your worktree, commit what is not committed, run `git merge {into}`, resolve each "
            "conflict so that both changes keep their purpose, test the result and commit it. Do "
            f"not change the branch {into} itself. Say when it is done."
        )
    return (
        f"In your worktree, run `git merge {commit}`, resolve each conflict so that both changes "
        "keep their purpose, test the result and commit it. Say when it is done."
    )


def _ask_for_fix(own: bool, commit: str | None) -> str:
    if own:
        return (
            "In your worktree, find the cause, fix it, run the check yourself and commit. The "
            "check ran on your work merged with the branch, so merge the branch first if you "
            "cannot reproduce it. Say when it is done."
        )
    return (
        f"In your worktree, run `git merge {commit}`, find the cause, fix it, run the check "
        "yourself and commit. Say when it is done."
    )


def _list_files(conflicts: Sequence[LandingConflict]) -> list[str]:
    lines = [f"- {path_line(one.path)}{f' ({one.kind})' if one.kind else ''}" for one in conflicts]
    if len(lines) > _MOST_FILES:
        return [*lines[:_MOST_FILES], f"- and {len(lines) - _MOST_FILES} more"]
    return lines


def _fence(text: str) -> list[str]:
    """Text that cannot end its own fence."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    mark = "`" * max(3, longest + 1)
    return [mark, text[-_MOST_OUTPUT:].strip("\n"), mark]
