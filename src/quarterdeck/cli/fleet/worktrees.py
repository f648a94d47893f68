"""``worktrees``: the git worktrees of agents, listed, removed, discarded and restored."""

from typing import TYPE_CHECKING

import click

from quarterdeck.wire.clock import format_utc_time, read_wall_clock

from ..command_io import (
    as_json_option,
    echo_json,
    echo_lines,
    resolve_directory,
    terminal_width,
    with_fleet,
)
from ..output import echo, escape_to_line, format_age, table
from ..remote.host_option import find_remote, resolve_remote

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.worktrees.api import TrashedWorktree, WorktreeInfo, WorktreeOutcome

__all__ = ["worktrees"]

_HEAD = ("NAME", "AGENT", "BRANCH", "COMMITS", "STATE", "SIZE", "USED", "PATH")
_TRASH_HEAD = ("ID", "AGENT", "BRANCH", "DISCARDED", "EXPIRES")
_UNITS = ("B", "kB", "MB", "GB", "TB")


@click.group(
    invoke_without_command=True,
    epilog="docs/worktrees.md describes how agents work in worktrees.",
)
@click.option("-a", "--all", "is_all", is_flag=True, help="Those of every repository.")
@as_json_option
@click.pass_context
def worktrees(context: click.Context, is_all: bool, as_json: bool) -> None:
    """List and manage the worktrees of agents.

    Without a command: those of the repository of this directory, the latest used first; outside a
    repository all of them.
    """
    if context.invoked_subcommand is None:
        _list(is_all, as_json)


def _list(is_all: bool, as_json: bool) -> None:
    # Which repository is around a directory of another machine is not known here.
    is_all = is_all or find_remote() is not None
    here = None if is_all else _repository(resolve_directory(None))
    found = with_fleet(lambda fleet: fleet.worktrees(repository=here, measure=True))
    if as_json:
        echo_json({"worktrees": found})
    elif not found:
        echo("No worktrees. `quarterdeck spawn --worktree PROMPT` starts an agent in one.")
    else:
        now = read_wall_clock()
        echo_lines(table(_HEAD, [_row(one, now) for one in found], terminal_width()))


@worktrees.command()
@click.argument("worktree", metavar="NAME|AGENT|PATH")
@click.option("--keep-branch", is_flag=True, help="Keep the branch even if it has no commits.")
@as_json_option
def remove(worktree: str, keep_branch: bool, as_json: bool) -> None:
    """Remove a worktree that has no uncommitted work.

    Its branch is kept if it has commits that were not merged.
    """
    name = _name(worktree)
    done = with_fleet(lambda fleet: fleet.remove_worktree(name, keep_branch=keep_branch))
    kept = f"; its branch {done.branch} is kept" if done.branch is not None else ""
    _report(done, as_json, f"Removed {done.name}{kept}.")


@worktrees.command()
@click.argument("worktree", metavar="NAME|AGENT|PATH")
@as_json_option
def discard(worktree: str, as_json: bool) -> None:
    """Remove a worktree and its branch; everything can be restored from the trash.

    Commits, uncommitted changes and untracked files are kept. Ignored files are kept only if they
    were copied into the worktree and changed, or if the setting worktrees.trash_ignored is on.
    """
    name = _name(worktree)
    done = with_fleet(lambda fleet: fleet.discard_worktree(name))
    back = f"Restore it with: quarterdeck worktrees restore {done.trash}"
    _report(done, as_json, f"Discarded {done.name}. {back}")


@worktrees.command()
@as_json_option
def trash(as_json: bool) -> None:
    """List discarded worktrees that can be restored, newest first."""
    found = with_fleet(lambda fleet: fleet.trash())
    if as_json:
        echo_json({"trash": found})
    elif not found:
        echo("The trash is empty.")
    else:
        now = read_wall_clock()
        echo_lines(table(_TRASH_HEAD, [_trash_row(one, now) for one in found], terminal_width()))


@worktrees.command()
@click.argument("trashed", metavar="ID|NAME|AGENT")
@as_json_option
def restore(trashed: str, as_json: bool) -> None:
    """Restore a discarded worktree with its branch and its uncommitted work."""
    done = with_fleet(lambda fleet: fleet.restore_worktree(trashed))
    _report(done, as_json, f"Restored {done.name} in {done.worktree.path}.")


@worktrees.command()
@click.argument("agent")
@as_json_option
def recreate(agent: str, as_json: bool) -> None:
    """Make the worktree of AGENT again if its directory is gone, from its branch."""
    done = with_fleet(lambda fleet: fleet.recreate_worktree(agent))
    _report(done, as_json, f"Recreated {done.name} in {done.worktree.path}.")


@worktrees.command()
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be removed.")
@as_json_option
def prune(dry_run: bool, as_json: bool) -> None:
    """Remove the worktrees that the settings no longer keep, and old ones from the trash.

    Only worktrees without uncommitted work, of agents that are archived or whose work was merged.
    """

    async def work(fleet: "HostClient") -> "list[WorktreeOutcome]":
        return await fleet.prune_worktrees(dry_run=dry_run)

    found = with_fleet(work)
    if as_json:
        echo_json({"removed": found})
        return
    verb = "Would remove" if dry_run else "Removed"
    echo_lines(f"{verb} {escape_to_line(one.name)}" for one in found)
    if not found:
        echo("Nothing to remove.")


def _report(done: "WorktreeOutcome", as_json: bool, text: str) -> None:
    if as_json:
        echo_json(done)
    else:
        echo(escape_to_line(text))


def _name(given: str) -> str:
    """What the fleet is asked for: a path as a whole one, any other name as it is."""
    if given.startswith((".", "/", "~")):
        if (there := resolve_remote(given)) is not None:
            return there
        from pathlib import Path

        return str(Path(given).expanduser().resolve())
    return given


def _repository(directory: str) -> str | None:
    from quarterdeck.system.errors import GitError
    from quarterdeck.system.git.repository import find_repository

    try:
        found = find_repository(directory)
    except GitError:
        return None
    return found.top if found is not None else None


def _row(one: "WorktreeInfo", now: int) -> tuple[str, ...]:
    state = one.problem or _state(one)
    return (
        one.name,
        ", ".join(one.agents) or "-",
        one.branch or "(no branch)",
        f"+{one.ahead} -{one.behind}",
        f"{state}, in use" if one.is_live else state,
        _size(one.size),
        format_age(one.last_active, now),
        one.worktree.path,
    )


def _state(one: "WorktreeInfo") -> str:
    if one.is_landed:
        return "landed"
    state = "uncommitted work" if one.is_dirty else "clean"
    if not one.repositories:
        return state
    within = f"repository within: {', '.join(one.repositories)}"
    return f"{state}, {within}" if one.is_dirty else within


def _trash_row(one: "TrashedWorktree", now: int) -> tuple[str, ...]:
    return (
        one.id,
        ", ".join(one.agents) or "-",
        one.worktree.branch or "(no branch)",
        format_age(one.discarded, now),
        format_utc_time(one.expires, "%Y-%m-%d"),
    )


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    amount = float(size)
    for unit in _UNITS:
        if amount < 1_000 or unit == _UNITS[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1_000
    raise AssertionError
