"""What was read from a command line: the commands in it, what they write, and the doubts."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .words import Word

__all__ = ["Command", "Line", "Redirect", "Wrapping"]

Wrapping: TypeAlias = Literal["none", "transparent", "also", "opaque"]
"""How a command stands to those it runs: it runs none; leave for them is leave for it; it needs
leave itself and so do they; what it runs cannot be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A simple command, with those that it runs in turn."""

    words: tuple[Word, ...]
    """Its name and arguments; never empty."""
    assignments: tuple[Word, ...] = ()
    """``NAME=value`` before the name, without those known to be harmless."""
    moves: tuple[str | None, ...] = ()
    """Where ``cd`` went earlier in the line, in order; None: somewhere."""
    wrapping: Wrapping = "none"
    inner: tuple["Command", ...] = ()
    """What it runs: with ``opaque`` all that it might."""
    inner_at: int = 0
    """The index of the word at which an inner command begins; 0 when it is no word."""
    doubts: tuple[str, ...] = ()
    """Why what it runs in turn is not certain."""

    @property
    def name(self) -> str | None:
        """The program's name without its directory; None when only running would tell."""
        exact = self.words[0].exact
        return None if exact is None else exact.rsplit("/", 1)[-1]

    @property
    def text(self) -> str:
        """The command as it was written, for people."""
        return " ".join(word.raw for word in (*self.assignments, *self.words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A file that the shell opens for a command."""

    target: Word
    writes: bool
    moves: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """All that a command line does, as far as it can be read."""

    commands: tuple[Command, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why the line is not certain; with any, only a rule for all of ``bash`` allows it."""
    hidden: tuple[Command, ...] = ()
    """What it might also run: strings that reach a shell, bodies of aliases. For deny rules."""
    tokens: tuple[str, ...] = ()
    """When the line could not be parsed: every word in it. For deny rules."""
    unread: bool = False
    """Some of it was not parsed at all."""
    moves_unknown: bool = False
    """A ``cd`` in a loop: the directory is unknown throughout."""
