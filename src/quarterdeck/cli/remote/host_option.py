"""``--host``: which host or hosts the commands are for, and what paths mean then."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.fleet.remote.dialer import RemoteDialer
    from quarterdeck.fleet.remote.grouped_host import GroupedHost

__all__ = [
    "DIRECTORY",
    "GROUP_COMMANDS",
    "REMOTE_COMMANDS",
    "WorkDirectory",
    "choose_hosts",
    "find_group",
    "find_remote",
    "open_remote_workbench",
    "refuse_remote",
    "resolve_remote",
]

_KEY = "quarterdeck.remote"
_GROUP_KEY = "quarterdeck.hosts"
_LOCAL = "local"

REMOTE_COMMANDS = frozenset(
    {
        *("ps", "spawn", "lead", "attach", "send", "hand-over", "inbox", "answer", "conflicts"),
        *("usage", "budget", "meter", "logs", "diff", "review", "wait", "merge", "land"),
        *("interrupt", "kill", "close", "resume", "fork", "rename", "archive", "turns", "changes"),
        *("undo", "redo", "rewind", "search", "sessions", "worktrees", "terminal", "host"),
    }
)
"""Commands that ask a host and need nothing else of the machine that it is on."""

GROUP_COMMANDS = frozenset(
    {
        *("ps", "inbox", "answer", "send", "logs", "attach", "wait", "interrupt", "kill", "close"),
        *("resume", "fork", "rename", "archive", "search", "usage", "diff", "meter"),
    }
)
"""Commands that ask several hosts: about all agents, or about one by its name."""


def choose_hosts(context: click.Context, given: "Sequence[str]") -> None:
    """Let the commands of this run be for other hosts; connects to nothing yet.

    Raises:
        HostAddressError: one of them is neither a URL nor a host of the settings.
        click.UsageError: the command works on this machine, or with one host.
    """
    hosts = _find_hosts(given)
    command, is_plain = context.invoked_subcommand, context.params.get("plain")
    if isinstance(hosts, tuple):
        context.meta[_GROUP_KEY] = hosts
        if is_plain:
            raise click.UsageError("--plain works with one host; give --host once")
        if command is not None and command not in GROUP_COMMANDS:
            raise click.UsageError(
                f"`quarterdeck {command}` works with one host; give --host once. Several hosts: "
                f"{', '.join(sorted(GROUP_COMMANDS))}, and the workbench"
            )
    elif hosts is not None:
        context.meta[_KEY] = hosts
        if command is not None and command not in REMOTE_COMMANDS:
            refuse_remote(command)


def _find_hosts(given: "Sequence[str]") -> "RemoteDialer | tuple[GroupedHost, ...] | None":
    """The way to one other machine, or several hosts; None: this machine alone. Connects to none.

    Raises HostAddressError.
    """
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.places import Places

    places = Places.find()
    # Your own file alone: a project must not choose where commands go.
    is_url = all("://" in one for one in given)
    named = {} if is_url else load_config(places).settings.hosts
    if len(set(given)) > 1 or _LOCAL in given:
        from quarterdeck.fleet.remote.grouped_host import list_hosts

        hosts = list_hosts(given, named, places, name="quarterdeck")
        if len(hosts) > 1:
            return hosts
        if any(host.is_local for host in hosts):
            return None
    from quarterdeck.fleet.remote.address import find_address
    from quarterdeck.fleet.remote.dialer import RemoteDialer

    return RemoteDialer(find_address(given[0], named), places)


def find_group() -> "tuple[GroupedHost, ...]":
    """The hosts of several ``--host``; empty: there is one alone."""
    context = click.get_current_context(silent=True)
    return () if context is None else context.meta.get(_GROUP_KEY, ())


def open_remote_workbench(*, is_host_given: bool, has_terminal: bool) -> int | None:
    """Open the workbench over the hosts of ``--host``, or of ``workbench.hosts``; the exit code.

    None: the host of this machine alone is meant.

    Raises:
        QuarterdeckError: they name what is no host, or the only one cannot be reached.
        click.UsageError: there is no terminal.
    """
    hosts = (find_group() or find_remote()) if is_host_given else _find_configured_hosts()
    if hosts is None:
        return None
    if not has_terminal:
        raise click.UsageError("the workbench needs a terminal; --plain and commands do not")
    from quarterdeck.workbench.launch import open_workbench

    if isinstance(hosts, tuple):
        return open_workbench(hosts=hosts)
    import asyncio

    asyncio.run(hosts.prepare(start=True))
    return open_workbench(remote=hosts)


def _find_configured_hosts() -> "RemoteDialer | tuple[GroupedHost, ...] | None":
    from quarterdeck.config.errors import ConfigError
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.places import Places

    try:
        names = load_config(Places.find()).settings.workbench.hosts
    except ConfigError:  # the workbench opens all the same, and says what is wrong
        return None
    return _find_hosts(names) if names else None


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
