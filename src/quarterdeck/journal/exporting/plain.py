"""What every form for people does to the texts of agents."""

import datetime
import re

from quarterdeck.wire.shown import literal

__all__ = ["one_line", "shown", "when"]

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def shown(text: str) -> str:
    """A text of several lines: no colours, line ends of one kind, all else literal."""
    return literal(_COLOURS.sub("", text).replace("\r\n", "\n"), keep="\n\t")


def one_line(text: str) -> str:
    """The same in one line."""
    return " ".join(shown(text).split())


def when(time: int) -> str:
    """A time in microseconds since the epoch, in UTC; empty where no calendar has it."""
    try:
        moment = datetime.datetime.fromtimestamp(time / 1_000_000, tz=datetime.UTC)
    except (OverflowError, OSError, ValueError):
        return ""
    return moment.strftime("%Y-%m-%d %H:%M:%S")
