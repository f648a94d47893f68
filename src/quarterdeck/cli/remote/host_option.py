"""``--host``: which host the commands are for, and what paths mean then."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from quarterdeck.fleet.remote.dialer import RemoteDialer

__all__ = [
    "DIRECTORY",
    "REMOTE_COMMANDS",
    "WorkDirectory",
    "choose_host",
    "find_remote",
    "open_remote_workbench",
    "refuse_remote",
    "resolve_remote",
]

_KEY = "quarterdeck.remote"

REMOTE_COMMANDS = frozenset(
    {
        *("ps", "spawn", "lead", "attach", "send", "hand-over", "inbox", "answer", "conflicts"),
        *("usage", "budget", "meter", "logs", "diff", "review", "wait", "merge", "land"),
        *("interrupt", "kill", "close", "resume", "fork", "rename", "archive", "turns", "changes"),
        *("undo", "redo", "rewind", "search", "sessions", "worktrees", "terminal", "host"),
    }
)
"""Commands that ask a host and need nothing else of the machine that it is on."""


def choose_host(context: click.Context, given: str) -> None:
    """Let the commands of this run be for another machine's host; connects to nothing yet.

    Raises:
        HostAddressError: it is neither a URL nor a host of the settings.
        click.UsageError: the command works on this machine.
    """
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.remote.address import find_address
    from quarterdeck.fleet.remote.dialer import RemoteDialer

    places = Places.find()
    # Your own file alone: a project must not choose where commands go.
    hosts = {} if "://" in given else load_config(places).settings.hosts
    context.meta[_KEY] = RemoteDialer(find_address(given, hosts), places)
    command = context.invoked_subcommand
    if command is not None and command not in REMOTE_COMMANDS:
        refuse_remote(command)


def open_remote_workbench() -> int:
    """Reach the host of ``--host``, then open the workbench; returns the exit code.

    Raises:
        QuarterdeckError: it cannot be reached; says why.
    """
    from ..welcome import is_terminal

    remote = find_remote()
    assert remote is not None
    if not is_terminal():
        raise click.UsageError("the workbench needs a terminal; --plain and commands do not")
    import asyncio

    asyncio.run(remote.prepare(start=True))
    from quarterdeck.workbench.launch import open_workbench

    return open_workbench(remote=remote)


def find_remote() -> "RemoteDialer | None":
    """The way to the host of ``--host``; None: the host of this machine is meant."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_KEY)


def refuse_remote(what: str) -> None:
    """End a command that works on this machine alone, if ``--host`` was given."""
    if (remote := find_remote()) is not None:
        raise click.UsageError(
            f"`quarterdeck {what}` works with the files of the machine that it runs on; run it "
            f"without --host, or on {remote.address.name!r} itself"
        )


def resolve_remote(path: str | None) -> str | None:
    """An absolute path on the other machine; None: there is no other machine."""
    if (remote := find_remote()) is None:
        return None
    import asyncio  # late: `run` reads its options without it

    asyncio.run(remote.prepare())
    return remote.resolve(path)


class WorkDirectory(click.Path):
    """A directory that exists; on another machine its host says whether it does."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check it, if it is here."""
        return value if find_remote() is not None else super().convert(value, param, ctx)


DIRECTORY = WorkDirectory(exists=True, file_okay=False)
