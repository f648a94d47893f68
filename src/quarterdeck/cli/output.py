"""Standard output and standard error: what may be written there, and what if it cannot be.

Foreign text is escaped where a terminal would act on it. A reader that has left ends the command;
notices that cannot be written are dropped.
"""

import os
import select
import sys
from pathlib import Path

from quarterdeck.wire.terminal_text import escape_controls

__all__ = [
    "OutputLostError",
    "echo",
    "find_lost_output",
    "is_terminal",
    "open_closed_descriptors",
    "shown",
    "write_notice",
    "write_output",
]

_OUTPUT, _ERROR = 1, 2


class OutputLostError(OSError):
    """Standard output cannot be written; a ``BrokenPipeError`` is its cause if its reader left."""


def open_closed_descriptors() -> None:
    """Open ``/dev/null`` in place of standard streams that were closed (``>&-``).

    Otherwise the next file that is opened would be standard output, for us and our children.
    """
    for number in (0, _OUTPUT, _ERROR):
        try:
            os.fstat(number)
        except OSError:
            if (opened := os.open(os.devnull, os.O_RDWR)) != number:
                os.dup2(opened, number)
                os.close(opened)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def is_terminal() -> bool:
    """Whether a person looks at what is written to standard output."""
    return sys.stdout.isatty()


def shown(text: str) -> str:
    """Foreign text for standard output: escaped for a terminal, else as it is."""
    return escape_controls(text.replace("\r\n", "\n"), keep="\n\t") if is_terminal() else text


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Write text that may be foreign: escaped for a terminal, on standard error always."""
    if err:
        for line in text.splitlines() or [""]:
            write_notice(line)
        return
    write_output(shown(text) + "\n" * nl)


def write_output(data: str | bytes) -> None:
    """Write to standard output at once.

    Raises:
        OutputLostError: it cannot be written.
    """
    try:
        if isinstance(data, str):
            sys.stdout.write(data)
        else:
            sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except OSError as error:
        raise OutputLostError(error.errno, error.strerror) from error


def write_notice(text: str) -> None:
    """Write a line to standard error, escaped; one that cannot be written is dropped."""
    try:
        sys.stderr.write(escape_controls(text, keep="") + "\n")
        sys.stderr.flush()
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, _ERROR)
        os.close(nothing)


def find_lost_output(error: BaseException) -> OSError | None:
    """The error that says that standard output cannot be written; None if it is another.

    Groups are searched. A broken pipe counts only if it is standard output whose reader left.
    """
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            if (found := find_lost_output(inner)) is not None:  # pyright: ignore[reportUnknownArgumentType]
                return found
        return None
    if isinstance(error, OutputLostError):
        cause = error.__cause__
        return cause if isinstance(cause, OSError) else error
    if isinstance(error, OSError) and (_was_echoed(error) or _is_unread(error)):
        return error
    return None


def _was_echoed(error: OSError) -> bool:
    import click

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is click.echo.__code__


def _is_unread(error: OSError) -> bool:
    if not isinstance(error, BrokenPipeError):
        return False
    poll = select.poll()
    poll.register(_OUTPUT, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
