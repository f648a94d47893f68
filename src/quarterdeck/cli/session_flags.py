"""The options of a session on a command line: the same for ``run``, ``spawn`` and ``lead``."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from quarterdeck.policy.modes import MODES
from quarterdeck.wire.settings import Effort

from .remote.host_option import DIRECTORY, resolve_remote

if TYPE_CHECKING:
    from quarterdeck.wire.budgets import BudgetLimit
    from quarterdeck.wire.session_options import SessionOptions
    from quarterdeck.wire.worktrees import WorktreeOptions

__all__ = [
    "Limit",
    "WorktreeCommand",
    "make_session_options",
    "read_variables",
    "session_flags",
    "worktree_flags",
]

C = TypeVar("C", bound=Callable[..., Any])


class Limit(click.ParamType["BudgetLimit"]):
    """A budget as people write it: ``5usd``, ``200ktok``, ``50calls``, ``30min``, ``8agents``."""

    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "BudgetLimit":
        """The limit."""
        from quarterdeck.wire.budgets import BudgetLimit, parse_limit

        if isinstance(value, BudgetLimit):
            return value
        try:
            return parse_limit(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


_FLAGS = (
    click.option("-C", "--cwd", type=DIRECTORY, help="Working directory."),
    click.option(
        "--root",
        "roots",
        type=DIRECTORY,
        multiple=True,
        help="Another directory it may work in.",
    ),
    click.option("--transport", metavar="NAME", help="Transport to the agent, e.g. acp or pipe."),
    click.option("-m", "--model", help="The model, by the agent's own name for it."),
    click.option(
        "--effort", type=click.Choice(get_args(Effort)), help="How much the model thinks."
    ),
    click.option("--mode", type=click.Choice(MODES), help="What may be done without asking."),
    click.option("--agent-mode", metavar="MODE", help="A mode of the agent's own."),
    click.option(
        "--allow", metavar="RULE", multiple=True, help="Allow calls, e.g. 'bash(git log:*)'."
    ),
    click.option(
        "--deny", metavar="RULE", multiple=True, help="Deny calls; wins over every allow."
    ),
    click.option("--tool", "tools", metavar="NAME", multiple=True, help="Offer only these tools."),
    click.option(
        "--deny-tool", "denied_tools", metavar="NAME", multiple=True, help="Do not offer this tool."
    ),
    click.option("--system-prompt", metavar="TEXT", help="Added to the agent's system prompt."),
    click.option(
        "-e",
        "--env",
        "variables",
        metavar="NAME[=VALUE]",
        multiple=True,
        help="Set a variable for the agent, or pass yours; the value is not stored.",
    ),
    click.option(
        "--budget",
        metavar="LIMIT",
        multiple=True,
        type=Limit(),
        help="What it may use with all that it starts: 5usd, 200ktok, 50calls, 30min.",
    ),
    click.option("--max-cost", type=float, metavar="USD", help="Stop at this cost."),
    click.option(
        "--max-tokens", type=click.IntRange(1), metavar="N", help="Stop at this many tokens."
    ),
    click.option(
        "--max-calls", type=click.IntRange(1), metavar="N", help="Maximum number of model calls."
    ),
    click.option("--max-seconds", type=float, metavar="S", help="Stop the turn after this time."),
    click.option("--fork", is_flag=True, help="With --resume: continue in a copy of the session."),
)


_WORKTREE_FLAGS = (
    click.option(
        "-w",
        "--worktree",
        metavar="[=NAME]",
        help="Work in a git worktree on a branch of its own: a new one, or NAME if it exists.",
    ),
    click.option("--base", metavar="REF", help="With --worktree: start from REF instead of HEAD."),
    click.option(
        "--carry", is_flag=True, help="With --worktree: take a copy of uncommitted changes along."
    ),
    click.option(
        "--in-worktree",
        metavar="PATH|NAME",
        help="Work in a worktree that exists, possibly with other agents.",
    ),
    click.option("--no-worktree", is_flag=True, help="Work in the directory itself."),
)


class WorktreeCommand(click.Command):
    """A command whose flag for worktrees takes a name only after an equals sign.

    What follows the bare flag is the prompt.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        end = args.index("--") if "--" in args else len(args)
        flags = ["--worktree=" if one in ("-w", "--worktree") else one for one in args[:end]]
        flags = [f"--worktree={one[3:]}" if one.startswith("-w=") else one for one in flags]
        return super().parse_args(ctx, [*flags, *args[end:]])


def worktree_flags(command: C) -> C:
    """Give a command the flags for worktrees, which ``make_session_options`` reads."""
    for flag in reversed(_WORKTREE_FLAGS):
        command = flag(command)
    return command


def session_flags(command: C) -> C:
    """Give a command the flags that ``make_session_options`` reads."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def make_session_options(o: dict[str, Any], *, resume: str | None) -> "SessionOptions":
    """The options from the values of the flags and of ``--agent``."""
    from quarterdeck.wire.session_options import SessionLimits, SessionOptions

    return SessionOptions(
        agent=o["agent"] or "native",
        cwd=_whole(o["cwd"]),
        roots=tuple(_whole(root) for root in o["roots"]),
        worktree=_worktree(o),
        transport=o["transport"],
        model=o["model"],
        effort=o["effort"],
        mode=o["mode"],
        agent_mode=o["agent_mode"],
        allow=o["allow"],
        deny=o["deny"],
        tools=o["tools"] or None,
        denied_tools=o["denied_tools"],
        system_prompt=o["system_prompt"],
        environment=read_variables(o["variables"]),
        limits=SessionLimits(
            cost=o["max_cost"],
            tokens=o["max_tokens"],
            model_calls=o["max_calls"],
            seconds=o["max_seconds"],
        ),
        resume=resume,
        fork=o["fork"],
    )


def _worktree(o: dict[str, Any]) -> "WorktreeOptions | None":
    name, existing, is_off = o.get("worktree"), o.get("in_worktree"), o.get("no_worktree")
    more = [flag for flag in ("base", "carry") if o.get(flag)]
    if is_off and (name is not None or existing is not None):
        raise click.UsageError("--no-worktree cannot be combined with a worktree")
    if existing is not None and (name is not None or more):
        raise click.UsageError("--in-worktree cannot be combined with options for a new worktree")
    if more and name is None:
        raise click.UsageError(f"--{more[0]} needs --worktree")
    if name is None and existing is None and not is_off:
        return None
    from quarterdeck.wire.worktrees import WorktreeOptions

    if existing is not None:
        # A name is found by the fleet.
        path = _whole(existing) if "/" in existing or existing.startswith((".", "~")) else existing
        return WorktreeOptions(path=path)
    return WorktreeOptions(
        name=name or None, base=o.get("base"), carry=bool(o.get("carry")), is_off=bool(is_off)
    )


def _whole(directory: str | None) -> str:
    # Not from ``command_io``: a run must not wait for what only commands of the host need.
    if (there := resolve_remote(directory)) is not None:
        return there
    try:
        return str(Path(directory or ".").resolve(strict=True))
    except FileNotFoundError as error:
        raise click.UsageError(
            "the current directory no longer exists; change to another"
        ) from error


def read_variables(variables: tuple[str, ...]) -> dict[str, str]:
    """Variables from ``NAME=VALUE``, or ``NAME`` for one of ours. Raises click.UsageError."""
    found: dict[str, str] = {}
    for variable in variables:
        name, is_set, value = variable.partition("=")
        if not is_set and name not in os.environ:
            raise click.UsageError(f"--env {name!r}: the variable is not set; give it a value")
        found[name] = value if is_set else os.environ[name]
    return found
