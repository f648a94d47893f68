"""The command ``quarterdeck``: its options, its commands, and its exit code in every case.

People see no traceback unless they ask for it; an unexpected error is written to a file.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from quarterdeck import __version__
from quarterdeck.wire.errors import QuarterdeckError

from .lazy_group import LazyCommand, LazyGroup
from .output import find_lost_output, open_closed_descriptors, write_notice

__all__ = ["COMMANDS", "ERROR", "INTERRUPTED", "UNREAD", "is_debug", "leave_output", "root", "run"]

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
        "quarterdeck.cli.permissions:permissions",
        "Show and change what agents may do without asking.",
    ),
    "audit": LazyCommand(
        "quarterdeck.cli.audit:audit", "Export every permission decision, and verify an export."
    ),
    "journal": LazyCommand(
        "quarterdeck.cli.journal:journal",
        "Inspect and maintain the log of every session.",
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
    "history": LazyCommand(
        "quarterdeck.cli.history:history",
        "List the sessions that other agents store on disk.",
    ),
    "worktrees": LazyCommand(
        "quarterdeck.cli.fleet.worktrees:worktrees",
        "List and manage the worktrees of agents.",
    ),
    "terminal": LazyCommand(
        "quarterdeck.cli.fleet.terminal:terminal",
        "Run programs in terminals that outlive this one.",
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
@click.pass_context
def root(context: click.Context, debug: bool, plain: bool) -> None:
    """Command many coding agents, of any vendor, from one place."""
    del debug  # ``run`` looks for it itself, because it must know when parsing fails.
    if plain:
        if context.invoked_subcommand is not None:
            raise click.UsageError("--plain stands alone; commands write plain lines anyway")
        from .fleet.plain import run_plain

        run_plain()
    elif context.invoked_subcommand is None:
        from .welcome import welcome

        welcome()


ERROR, INTERRUPTED, UNREAD = 1, 130, 141


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; see ``main``."""
    open_closed_descriptors()
    _make_output_tolerant()
    return _finish(_run(list(arguments), _program_name(), is_debug(arguments)))


def is_debug(arguments: Sequence[str]) -> bool:
    """Whether ``--debug`` stands before the command, or the environment asks for it."""
    for argument in arguments:
        if argument == "--debug":
            return True
        if not argument.startswith("-"):
            break
    return os.environ.get("QUARTERDECK_DEBUG", "") not in ("", "0")


def leave_output(error: OSError) -> int:
    """Let go of an output that cannot be written; return the exit code that says so.

    Quiet where its reader is gone, as in ``quarterdeck doctor | head -1``.
    """
    # Otherwise the interpreter would try to write the rest when it ends, and complain.
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    if isinstance(error, BrokenPipeError):
        return UNREAD
    write_notice(f"quarterdeck: cannot write the output: {error.strerror or error}")
    return ERROR


def _make_output_tolerant() -> None:
    # A path or an answer may hold what the locale cannot write; show it escaped, do not fail.
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def _program_name() -> str:
    name = Path(sys.argv[0]).name if sys.argv else ""
    return name if name == "qd" else "quarterdeck"


def _run(arguments: list[str], name: str, debug: bool) -> int:
    variable = f"_{name.upper()}_COMPLETE"
    try:
        if instruction := os.environ.get(variable):
            from .completion.command import answer_shell

            return answer_shell(root, name, instruction)
        with root.make_context(name, arguments) as context:
            root.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, click.Abort):
        write_notice("")
        return INTERRUPTED
    except (QuarterdeckError, click.ClickException) as error:
        return _expected(error, debug)
    except Exception as error:
        if (lost := find_lost_output(error)) is not None:
            return leave_output(lost)
        return _unexpected(error, arguments, debug)
    return 0


def _finish(code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        return leave_output(error)
    return code


def _expected(error: QuarterdeckError | click.ClickException, debug: bool) -> int:
    _print_traceback(debug)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        for line in error.ctx.get_usage().splitlines():
            write_notice(line)
        write_notice(f"Try '{error.ctx.command_path} --help' for help.")
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    notes: list[str] = getattr(error, "__notes__", [])
    for line in "\n".join([text or type(error).__name__, *notes]).splitlines():
        write_notice(f"quarterdeck: {line}")
    return error.exit_code if isinstance(error, click.ClickException) else ERROR


def _unexpected(error: Exception, arguments: Sequence[str], debug: bool) -> int:
    from .crash_report import write_crash_report

    _print_traceback(debug)
    first = (str(error).splitlines() or [""])[0]
    what = f"{type(error).__name__}: {first}" if first else type(error).__name__
    write_notice(f"quarterdeck: unexpected error: {what}")
    if path := write_crash_report(error):
        write_notice(f"quarterdeck: details are in {path}")
    if not debug:
        command = " ".join(["quarterdeck", "--debug", *arguments[:1]])
        write_notice(f"quarterdeck: to see them here, run: {command}")
    return ERROR


def _print_traceback(debug: bool) -> None:
    if debug:
        import traceback

        for line in traceback.format_exc().splitlines():
            write_notice(line)
