"""What is to run in a terminal, as people say it."""

import re
import shlex
from collections.abc import Sequence

__all__ = ["format_command_line", "name_terminal", "parse_command_line"]

_SHELLS = re.compile(r"[|&;<>()$`*?~\n]")
"""What only a shell understands."""


def parse_command_line(command: str | Sequence[str]) -> tuple[str, ...]:
    """A program and its words; a line that needs a shell for itself gets one."""
    if not isinstance(command, str):
        return tuple(command)
    words = command.strip()
    if not words:
        return ()
    if _SHELLS.search(words):
        return "/bin/sh", "-c", words
    try:
        return tuple(shlex.split(words))
    except ValueError:  # a quote without its other half: a shell can tell that better
        return "/bin/sh", "-c", words


def format_command_line(argv: Sequence[str]) -> str:
    """The same as a person would type it; ``shell`` for none."""
    if not argv:
        return "shell"
    if len(argv) == 3 and tuple(argv[:2]) == ("/bin/sh", "-c"):
        return argv[2]
    return shlex.join(argv)


def name_terminal(argv: Sequence[str]) -> str | None:
    """What a terminal is called; None: by its program."""
    words = format_command_line(argv).split()
    return words[0] if argv and format_command_line(argv) != shlex.join(argv) and words else None
