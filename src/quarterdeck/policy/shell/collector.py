"""What a walk over a command line has found so far, and what commands mean for one another."""

import re
from collections.abc import Callable
from dataclasses import replace

from .line import Command, Line, Redirect
from .nodes import RESERVED
from .words import Word
from .wrappers import INTERPRETERS, runs_text, unwrap

__all__ = ["Collector", "split_roughly"]

_MAX_COMMANDS = 200
_MAX_WRAPPERS = 8
_TOKEN = re.compile(r"[^\s;&|()<>{}$`\"'=!,]+")


def split_roughly(text: str) -> tuple[str, ...]:
    """Return every word that may name something in text that cannot be parsed."""
    return tuple(token.replace("\\", "") for token in _TOKEN.findall(text))


class Collector:
    """Commands, redirections and doubts of one line; ``read`` reads text within it."""

    def __init__(self, read: Callable[[str], Line]) -> None:
        self.read = read
        self.commands: list[Command] = []
        self.redirects: list[Redirect] = []
        self.doubts: list[str] = []
        self.hidden: list[Command] = []
        self.tokens: list[str] = []
        self.texts: list[str] = []
        """Quoted text and here-documents: what a shell in the line might be fed."""
        self.moves: list[str | None] = []
        self.moves_unknown = False
        self.unread = False
        self.loops = 0
        """How many loops and functions the walk is in."""

    def line(self) -> Line:
        """Return what was read."""
        if any(runs_text(command) for command in (*self.commands, *self.hidden)):
            for text in self.texts:
                self._hide(text)
        return Line(
            commands=tuple(self.commands),
            redirects=tuple(self.redirects),
            doubts=tuple(dict.fromkeys(self.doubts)),
            hidden=tuple(self.hidden),
            tokens=tuple(self.tokens),
            unread=self.unread,
            moves_unknown=self.moves_unknown,
        )

    def _hide(self, text: str) -> None:
        """Keep what ``text`` would run, were it given to a shell."""
        line = self.read(text)
        self.hidden.extend((*line.commands, *line.hidden))
        self.tokens.extend(line.tokens)

    def add(self, words: tuple[Word, ...], assignments: tuple[Word, ...]) -> None:
        """Add a command, looked through, and note what it means for the rest."""
        if len(self.commands) >= _MAX_COMMANDS:
            self.unread = True
            self.doubts.append("it has too many commands to be judged")
            self.tokens.extend(split_roughly(" ".join(word.raw for word in words)))
            return
        command = self._build(words, assignments, 0)
        self.commands.append(command)
        self._follow(command)

    def _build(self, words: tuple[Word, ...], assignments: tuple[Word, ...], depth: int) -> Command:
        """Make a command, looking through what wraps another."""
        command = Command(words=words, assignments=assignments, moves=tuple(self.moves))
        found = unwrap(words)
        if depth > _MAX_WRAPPERS:
            self.unread = True
            self.doubts.append("too many commands run one another")
            self.tokens.extend(split_roughly(command.text))
            return command
        for candidate in found.candidates:
            self.hidden.append(Command(words=candidate, wrapping="opaque"))
        inner = tuple(self._build(w, found.assignments, depth + 1) for w in found.inner)
        if found.text is not None:
            inner = self._merge(self.read(found.text))
        return replace(command, wrapping=found.wrapping, inner=inner, inner_at=found.inner_at)

    def _merge(self, line: Line) -> tuple[Command, ...]:
        """Take over what a nested line does; returns its commands."""
        before = tuple(self.moves)
        self.redirects.extend(replace(r, moves=before + r.moves) for r in line.redirects)
        self.doubts.extend(line.doubts)
        self.hidden.extend(line.hidden)
        self.tokens.extend(line.tokens)
        self.unread = self.unread or line.unread
        self.moves_unknown = self.moves_unknown or line.moves_unknown
        if not line.commands:
            self.doubts.append("what a shell is given to run is not certain")
        return tuple(_moved(command, before) for command in line.commands)

    def _follow(self, command: Command) -> None:
        """Note what a command means for those after it and for deny rules."""
        name = command.name
        if command.words[0].raw in RESERVED:
            # The grammar takes "! { rm x; }" for a program named "{".
            self.unread = True
            self.doubts.append("what a keyword begins is not certain")
            self.tokens.extend(split_roughly(command.text))
        if not name or not name.isascii():
            self.doubts.append(f"which program {command.words[0].raw!r} names is not certain")
        elif name in ("cd", "pushd", "popd", "chdir"):
            self._move(command.words)
        elif name == "alias":
            self.doubts.append("it defines an alias")
            for word in command.words[1:]:
                self._hide((word.value or "").partition("=")[2])
        elif name in INTERPRETERS or name.startswith("python"):
            for word in command.words[1:]:
                self.tokens.extend(split_roughly(word.value or word.raw))
        for inner in command.inner:
            self._follow(inner)

    def _move(self, words: tuple[Word, ...]) -> None:
        arguments = [word for word in words[1:] if word.exact not in ("--", "-P", "-L")]
        target = None
        if len(arguments) == 1 and words[0].exact == "cd" and not arguments[0].glob:
            target = arguments[0].value
        if target is not None and (target.startswith("-") or not target):
            target = None
        if self.loops:
            self.moves_unknown = True
        self.moves.append(target)


def _moved(command: Command, before: tuple[str | None, ...]) -> Command:
    inner = tuple(_moved(each, before) for each in command.inner)
    return replace(command, moves=before + command.moves, inner=inner)
