"""Run a command and turn whatever happens into words and an exit code.

People see no traceback unless they ask for it; what nobody expected is written to a file.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from quarterdeck.wire.errors import QuarterdeckError

from .output import find_lost_output, open_closed_descriptors, write_notice
from .root import root

__all__ = ["ERROR", "INTERRUPTED", "UNREAD", "is_debug", "leave_output", "run"]

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

    Quiet where nobody reads it any more, as in ``quarterdeck doctor | head -1``.
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
            return _complete(name, variable, instruction)
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


def _complete(name: str, variable: str, instruction: str) -> int:
    from click.shell_completion import shell_complete

    return shell_complete(root, {}, name, variable, instruction)


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
