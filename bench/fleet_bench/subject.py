"""What is measured: a command line with a clean home, its variables, and the model to ask.

In commands and values of variables, ``{url}`` is the address of the model, ``{home}`` the home.
"""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["InvalidSubjectError", "Subject", "fill", "parse_subject", "split_command"]


class InvalidSubjectError(Exception):
    """A command line cannot be measured; says what to write instead."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A program by its command line."""

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Beside ``HOME``, ``PATH``, ``LANG``, ``TERM`` and ``TMPDIR``; nothing else is passed on."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text by path below its home."""
    stop: tuple[str, ...] = ()
    """A command that ends what it leaves running in the background."""

    def prepare(self, folder: Path, url: str) -> tuple[list[str], dict[str, str]]:
        """Make a home for it below ``folder``; its command and its whole environment."""
        home, temporary = folder / "home", folder / "tmp"
        for one in (home, temporary):
            one.mkdir(parents=True, exist_ok=True)
        values = {"url": url, "home": str(home)}
        for path, text in self.files.items():
            file = home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fill(text, values), encoding="utf-8")
        environment = {
            "HOME": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TMPDIR": str(temporary),
            **{key: fill(value, values) for key, value in self.variables.items()},
        }
        return [fill(word, values) for word in self.command], environment


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of ``{names}``; other braces stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def parse_subject(text: str, variables: Mapping[str, str]) -> Subject:
    """``NAME=COMMAND`` or ``COMMAND``, which is named after its program.

    Raises:
        InvalidSubjectError: there is no command, or no such program.
    """
    name, equals, command = text.partition("=")
    if not equals or not name.strip() or any(sign in name for sign in " /\"'"):
        name, command = "", text
    words = split_command(command)
    return Subject(name.strip() or Path(words[0]).name, words, variables)


def split_command(command: str) -> tuple[str, ...]:
    """The words of a command, its program by its whole path. Raises InvalidSubjectError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidSubjectError(f"{command!r} cannot be split into words: {error}") from error
    if not words:
        raise InvalidSubjectError('a command is empty; write for example --agent "my-agent acp"')
    program = shutil.which(words[0])
    if program is None:
        raise InvalidSubjectError(f"{words[0]!r} is not on the PATH; install it or give its path")
    return (str(Path(program).absolute()), *words[1:])
