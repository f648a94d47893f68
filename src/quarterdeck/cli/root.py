"""The command ``quarterdeck``: its options and its commands."""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from quarterdeck import __version__

from .exit_code import is_debug, print_error, run_to_exit_code
from .lazy_group import LazyCommand, LazyGroup

__all__ = ["COMMANDS", "root", "run"]

COMMANDS = {
    "acp": LazyCommand("quarterdeck.cli.acp:acp", "Serve our own agent to an editor."),
    "run": LazyCommand(
        "quarterdeck.cli.headless.command:run", "Run our own agent, or another, on PROMPT."
    ),
    "demo": LazyCommand("quarterdeck.cli.demo:demo", "Watch two agents work; no key needed."),
    "init": LazyCommand(
        "quarterdeck.cli.init:init",
        "Get started in this project: agent, trust, mode, first prompt.",
    ),
    "tutorial": LazyCommand(
        "quarterdeck.cli.tutorial.command:tutorial", "Learn the main commands in five minutes."
    ),
    "agents": LazyCommand("quarterdeck.cli.agents:agents", "List the known agents."),
    "login": LazyCommand("quarterdeck.cli.login:login", "Log in to the agent NAME."),
    "doctor": LazyCommand(
        "quarterdeck.cli.doctor:doctor", "Show what is installed and what is missing."
    ),
    "config": LazyCommand("quarterdeck.cli.config:config", "Show, check and change the settings."),
    "mcp-servers": LazyCommand(
        "quarterdeck.cli.mcp_servers:mcp_servers",
        "Show and test the MCP servers of our own agent.",
    ),
    "hooks": LazyCommand(
        "quarterdeck.cli.hooks:hooks", "Show and test the hooks of our own agent."
    ),
    "permissions": LazyCommand(
        "quarterdeck.cli.permissions.rules:permissions",
        "Show and change what agents may do without asking.",
    ),
    "audit": LazyCommand(
        "quarterdeck.cli.audit:audit", "Export every permission decision, and verify an export."
    ),
    "journal": LazyCommand(
        "quarterdeck.cli.journal:journal",
        "Inspect and maintain the log of every session.",
    ),
    "capsule": LazyCommand(
        "quarterdeck.cli.fleet.capsule:capsule",
        "Move sessions between machines, each capsule one file.",
    ),
    "ps": LazyCommand("quarterdeck.cli.fleet.sessions:ps", "List the agents."),
    "spawn": LazyCommand("quarterdeck.cli.fleet.spawn:spawn", "Start an agent on PROMPT."),
    "lead": LazyCommand("quarterdeck.cli.fleet.spawn:lead", "Start a lead agent."),
    "attach": LazyCommand("quarterdeck.cli.fleet.attach:attach", "Follow AGENT in this terminal."),
    "send": LazyCommand("quarterdeck.cli.fleet.agent_control:send", "Send AGENT a prompt."),
    "hand-over": LazyCommand(
        "quarterdeck.cli.fleet.agent_control:hand_over", "Hand AGENT's work to another agent."
    ),
    "inbox": LazyCommand("quarterdeck.cli.fleet.inbox:inbox", "Show open requests."),
    "answer": LazyCommand("quarterdeck.cli.fleet.inbox:answer", "Answer a request."),
    "conflicts": LazyCommand(
        "quarterdeck.cli.fleet.conflicts:conflicts",
        "Show which agents change what others change too.",
    ),
    "usage": LazyCommand(
        "quarterdeck.cli.fleet.usage:usage", "Show what agents used, and what it cost."
    ),
    "budget": LazyCommand(
        "quarterdeck.cli.fleet.budget:budget", "Show and change what agents may use."
    ),
    "meter": LazyCommand(
        "quarterdeck.cli.fleet.meter:meter", "Show the meter of model calls, and who is behind it."
    ),
    "logs": LazyCommand("quarterdeck.cli.fleet.logs:logs", "Show the transcript of AGENT."),
    "diff": LazyCommand(
        "quarterdeck.cli.fleet.diff:diff", "Show all changes since AGENT started as one patch."
    ),
    "review": LazyCommand(
        "quarterdeck.cli.fleet.review:review", "Comment on, accept or reject what AGENT changed."
    ),
    "wait": LazyCommand("quarterdeck.cli.fleet.agent_control:wait", "Wait until agents are idle."),
    "merge": LazyCommand(
        "quarterdeck.cli.fleet.landing:merge", "Land the work of one AGENT on a branch."
    ),
    "land": LazyCommand(
        "quarterdeck.cli.fleet.landing:land", "Land the work of several AGENTS in a queue."
    ),
    "interrupt": LazyCommand(
        "quarterdeck.cli.fleet.agent_control:interrupt", "Interrupt the running turn of each agent."
    ),
    "kill": LazyCommand(
        "quarterdeck.cli.fleet.agent_control:kill",
        "Kill agents, their children and all their processes.",
    ),
    "close": LazyCommand(
        "quarterdeck.cli.fleet.agent_control:close", "Close agents; they can be resumed."
    ),
    "resume": LazyCommand("quarterdeck.cli.fleet.spawn:resume", "Resume AGENT where it ended."),
    "fork": LazyCommand("quarterdeck.cli.fleet.spawn:fork", "Start a copy of AGENT."),
    "rename": LazyCommand("quarterdeck.cli.fleet.agent_control:rename", "Rename AGENT."),
    "archive": LazyCommand("quarterdeck.cli.fleet.agent_control:archive", "Archive agents."),
    "turns": LazyCommand("quarterdeck.cli.fleet.undo:turns", "List the turns of AGENT."),
    "changes": LazyCommand(
        "quarterdeck.cli.fleet.undo:changes",
        "Show what the turns of AGENT did to files, without undone turns.",
    ),
    "undo": LazyCommand("quarterdeck.cli.fleet.undo:undo", "Undo one turn of AGENT."),
    "redo": LazyCommand(
        "quarterdeck.cli.fleet.undo:redo", "Revert the last undo or rewind of AGENT."
    ),
    "rewind": LazyCommand(
        "quarterdeck.cli.fleet.undo:rewind", "Take AGENT back to the start of TURN."
    ),
    "search": LazyCommand(
        "quarterdeck.cli.fleet.sessions:search",
        "Search the messages of agents and people.",
    ),
    "sessions": LazyCommand("quarterdeck.cli.fleet.sessions:sessions", "List every session."),
    "replay": LazyCommand(
        "quarterdeck.cli.replay.command:replay",
        "Play a recorded SESSION, or run it again without a model and compare.",
    ),
    "history": LazyCommand(
        "quarterdeck.cli.history:history",
        "List the sessions that other agents store on disk.",
    ),
    "worktrees": LazyCommand(
        "quarterdeck.cli.fleet.worktrees:worktrees",
        "List and manage the worktrees of agents.",
    ),
    "plan": LazyCommand(
        "quarterdeck.cli.fleet.plan:plan",
        "Check, show and run work that is written down in a plan.",
    ),
    "worker": LazyCommand(
        "quarterdeck.cli.fleet.pool:worker", "Work on the tasks of a pool's plans."
    ),
    "pool": LazyCommand(
        "quarterdeck.cli.fleet.pool:pool", "Create and look at a pool: plans on many machines."
    ),
    "terminal": LazyCommand(
        "quarterdeck.cli.fleet.terminal:terminal",
        "Run programs in terminals that outlive this one.",
    ),
    "web": LazyCommand(
        "quarterdeck.cli.fleet.web:web",
        "Show the fleet in a browser, on this machine or on a phone.",
    ),
    "host": LazyCommand(
        "quarterdeck.cli.fleet.host:host", "Manage the process that owns the agents."
    ),
    "completion": LazyCommand(
        "quarterdeck.cli.completion.command:completion", "Print the completion script for SHELL."
    ),
    "mcp": LazyCommand("quarterdeck.cli.mcp:mcp", "Give an agent the fleet's tools.", hidden=True),
    "testing": LazyCommand(
        "quarterdeck.cli.testing:testing", "Run the fakes that tests use.", hidden=True
    ),
}


@click.group(
    cls=LazyGroup,
    later=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has its own --help.",
)
@click.version_option(__version__, "-V", "--version", message="quarterdeck %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks (also: QUARTERDECK_DEBUG=1).")
@click.option(
    "--plain",
    is_flag=True,
    help="Write lines instead of a screen: for screen readers, pipes and simple terminals.",
)
@click.option(
    "--host",
    "hosts",
    metavar="NAME|URL",
    multiple=True,
    help="Use the host of another machine: a name of your settings, or ssh://[USER@]HOST[:PORT]. "
    "Several times: these hosts together; 'local' is that of this machine.",
)
@click.option(
    "--pool",
    metavar="URL",
    help="Let ps, inbox, answer, attach, logs, wait, search, usage, diff and review be about the "
    "agents of a pool: a URL, a file with one, or `default`; see `pool --help`.",
)
@click.pass_context
def root(
    context: click.Context, debug: bool, plain: bool, hosts: tuple[str, ...], pool: str | None
) -> None:
    """Command many coding agents, of any vendor, from one place."""
    del debug  # ``is_debug`` looks for it itself, because it must know when parsing fails.
    if hosts and pool is not None:
        raise click.UsageError("--host and --pool exclude each other")
    if hosts:
        from .remote.host_option import choose_hosts

        choose_hosts(context, hosts)
    if pool is not None:
        _choose_pool(pool, context.invoked_subcommand)
    if plain:
        if context.invoked_subcommand is not None:
            raise click.UsageError("--plain stands alone; commands write plain lines anyway")
        from .fleet.plain import run_plain

        run_plain()
    elif context.invoked_subcommand is None:
        from .welcome import welcome

        if code := welcome(is_host_given=bool(hosts)):
            raise click.exceptions.Exit(code)


_OF_POOLS = frozenset(
    {"ps", "inbox", "answer", "attach", "logs", "wait", "search", "usage", "diff", "review"}
)
"""Commands that can be about the agents of a pool."""


def _choose_pool(url: str, command: str | None) -> None:
    if command not in _OF_POOLS:
        known = ", ".join(sorted(_OF_POOLS))
        raise click.UsageError(
            f"--pool before a command goes with {known}; `plan`, `worker` and `pool` have a --pool "
            "of their own"
        )
    from .command_io import chosen_pool

    chosen_pool.url = url


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; see ``main``."""
    return run_to_exit_code(partial(_invoke, list(arguments), _program_name()), arguments)


def _program_name() -> str:
    name = Path(sys.argv[0]).name if sys.argv else ""
    return name if name == "qd" else "quarterdeck"


def _invoke(arguments: list[str], name: str) -> int:
    variable = f"_{name.upper()}_COMPLETE"
    try:
        if instruction := os.environ.get(variable):
            from .completion.command import answer_shell

            return answer_shell(root, name, instruction)
        with root.make_context(name, arguments) as context:
            root.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.ClickException as error:
        return _report(error, is_debug(arguments))
    return 0


def _report(error: click.ClickException, debug: bool) -> int:
    usage: list[str] = []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        usage = error.ctx.get_usage().splitlines()
        usage.append(f"Try '{error.ctx.command_path} --help' for help.")
    print_error(error, error.format_message(), debug=debug, before=usage)
    return error.exit_code
