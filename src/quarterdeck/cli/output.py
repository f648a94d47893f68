"""Standard output and standard error: escaped text, tables, and what happens on write errors.

Foreign text is escaped where a terminal would act on it. A reader that has left ends the command;
notices that cannot be written are dropped.
"""

import os
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from quarterdeck.wire.terminal_text import (
    count,
    count_columns,
    cut_to_width,
    escape_controls,
    escape_json,
    escape_to_line,
    format_age,
)

__all__ = [
    "OutputLostError",
    "count",
    "count_columns",
    "cut_to_width",
    "echo",
    "escape_controls",
    "escape_json",
    "escape_to_line",
    "find_lost_output",
    "format_age",
    "is_terminal",
    "open_closed_descriptors",
    "shown",
    "table",
    "write_notice",
    "write_output",
]

_GAP = "  "


def table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> Iterator[str]:
    """Rows below each other, the last column as wide as it may be; literal, one line each.

    Args:
        head: names of the columns.
        rows: a text for each.
        width: columns of the terminal; None: nothing is cut.
    """
    lines = [tuple(head), *(tuple(escape_to_line(cell) for cell in row) for row in rows)]
    widths = [max(count_columns(line[place]) for line in lines) for place in range(len(head))]
    if width is not None:
        _narrow(widths, width)
    for line in lines:
        cells = [cut_to_width(cell, wide) for cell, wide in zip(line, widths, strict=True)]
        padded = [
            cell + " " * (wide - count_columns(cell))
            for cell, wide in zip(cells, widths, strict=True)
        ]
        yield _GAP.join(padded).rstrip()


def _narrow(widths: list[int], width: int) -> None:
    """Take from the last column down to 12, then from the widest, until all fits."""
    room = width - len(_GAP) * (len(widths) - 1)
    over = sum(widths) - room
    taken = min(over, max(0, widths[-1] - 12))
    if over > 0:
        widths[-1] -= taken
        over -= taken
    while over > 0 and max(widths) > 4:
        widths[widths.index(max(widths))] -= 1
        over -= 1


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
