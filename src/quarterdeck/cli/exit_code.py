"""How a command ends: its exit code in every case, and what people see of an error.

They see no traceback unless they ask for it; an unexpected error is written to a file. Nothing of
click is here, so that commands that are started often can do without it.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence

from quarterdeck.wire.errors import QuarterdeckError

from .output import find_lost_output, open_closed_descriptors, write_notice

__all__ = [
    "ERROR",
    "INTERRUPTED",
    "UNREAD",
    "is_debug",
    "leave_output",
    "print_error",
    "run_to_exit_code",
]

ERROR, INTERRUPTED, UNREAD = 1, 130, 141


def run_to_exit_code(act: Callable[[], int], arguments: Sequence[str]) -> int:
    """Do something that returns an exit code, and return that or the one for how it failed."""
    open_closed_descriptors()
    _make_output_tolerant()
    return _finish(_run(act, arguments, is_debug(arguments)))


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


def print_error(
    error: BaseException, text: str, *, debug: bool, before: Iterable[str] = ()
) -> None:
    """Write an expected error with its notes to standard error, below the lines ``before``."""
    _print_traceback(debug)
    for line in before:
        write_notice(line)
    notes: list[str] = getattr(error, "__notes__", [])
    for line in "\n".join([text or type(error).__name__, *notes]).splitlines():
        write_notice(f"quarterdeck: {line}")


def _make_output_tolerant() -> None:
    # A path or an answer may hold what the locale cannot write; show it escaped, do not fail.
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def _run(act: Callable[[], int], arguments: Sequence[str], debug: bool) -> int:
    try:
        return act()
    except KeyboardInterrupt:
        write_notice("")
        return INTERRUPTED
    except QuarterdeckError as error:
        print_error(error, str(error), debug=debug)
        return ERROR
    except Exception as error:
        if (lost := find_lost_output(error)) is not None:
            return leave_output(lost)
        return _unexpected(error, arguments, debug)


def _finish(code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        return leave_output(error)
    return code


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
