"""A command line as it was read: its words, its commands, what they write, and the doubts.

Words are read from their source text by rules of our own, apart from the grammar's view of them:
where the two disagree, the word is not known.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from .syntax_nodes import RESERVED

__all__ = [
    "FED_FILE",
    "CommandLine",
    "Redirect",
    "ShellCommand",
    "ShellWord",
    "Wrapping",
    "literal_word",
    "read_word",
    "render_argv",
    "unknown_word",
]

FED_FILE = "/dev/fd/63"
"""The name that a command gets for ``<(…)``: what other commands of the line print."""

_READ_BY_SHELLS = RESERVED | frozenset(
    (
        *("time", "coproc", "nocorrect", "noglob", "export", "declare", "typeset", "local"),
        *("readonly", "unset", "unsetenv", "let", "alias", "always"),
    )
)
"""Names that a shell, or the grammar of one, takes for more than a program when they are bare."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,\-][A-Za-z0-9_./:=@%+,\-]*")
_EXPANDS_AFTER_DOLLAR = re.compile(r"[A-Za-z0-9_{(\[@*#?$!'\"-]")
_EXPANDS_IN_QUOTES = re.compile(r"[A-Za-z0-9_{(\[@*#?$!-]")
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|([abefnrtv\\'\"?]))|([^\\]+)"
)
_ANSI_SIGNS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}


class ShellWord(Struct, frozen=True):
    """A word: its source, and its value where that is certain."""

    raw: str
    value: str | None
    """What the command gets; None when it is known only at run time. For a glob, its pattern."""
    glob: bool = False
    """The shell replaces it by file names."""
    tilde: bool = False
    """It begins with an unquoted ``~``, which ``value`` still holds."""

    @property
    def exact(self) -> str | None:
        """The value if the command gets just this."""
        return None if self.glob or self.tilde else self.value


def literal_word(text: str) -> ShellWord:
    """Make a literal word."""
    return ShellWord(text, text)


def render_argv(argv: Sequence[str]) -> str:
    """Write an argument vector as a line from which a shell reads just these words.

    The first word is never an assignment or a keyword: it names the program. Never raises.
    """
    return " ".join(_quoted(word, is_first=at == 0) for at, word in enumerate(argv))


def _quoted(word: str, *, is_first: bool) -> str:
    # shlex leaves "=" bare: first it makes an assignment, and "=ls" is a program's file in zsh.
    is_read = word.startswith("=") or (is_first and ("=" in word or word in _READ_BY_SHELLS))
    return f"'{word}'" if is_read and shlex.quote(word) == word else shlex.quote(word)


def unknown_word(raw: str) -> ShellWord:
    """Make a word that is known only when the line runs."""
    return ShellWord(raw, None)


def read_word(raw: str) -> ShellWord:
    """Read a word from its source text. Never raises."""
    if _PLAIN.fullmatch(raw):
        return ShellWord(raw, raw)
    reading = _Reading(raw)
    reading.run()
    if not reading.certain:
        return ShellWord(raw, None)
    return ShellWord(raw, "".join(reading.out), glob=reading.glob, tilde=raw.startswith("~"))


class _Reading:
    """The removal of quotes from one word."""

    __slots__ = ("at", "bare", "certain", "glob", "out", "quoted_sign", "raw")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.at = 0
        self.out: list[str] = []
        self.bare: list[str] = []
        """The unquoted characters only, to find braces."""
        self.certain = True
        self.glob = False
        self.quoted_sign = False

    def run(self) -> None:
        # A leading "=" names a program's file in zsh.
        if self.raw.startswith("="):
            self.certain = False
        while self.certain and self.at < len(self.raw):
            self._step(self.raw[self.at])
        bare = "".join(self.bare)
        braces = "{" in bare and "}" in bare and ("," in bare or ".." in bare)
        if braces or "=~" in bare or ":~" in bare:
            self.certain = False
        # A pattern with quoted signs has no text form that keeps the two apart.
        if self.glob and self.quoted_sign:
            self.certain = False

    def _step(self, sign: str) -> None:
        if sign == "\\":
            self._backslash()
        elif sign == "'":
            self._until("'")
        elif sign == '"':
            self._double()
        elif sign == "$":
            self._dollar()
        elif sign in "`;&|<>() \t\n":
            self.certain = False
        else:
            self.glob = self.glob or sign in "*?["
            self._put(sign, quoted=False)
            self.at += 1

    def _put(self, text: str, *, quoted: bool) -> None:
        self.out.append(text)
        if quoted:
            self.quoted_sign = self.quoted_sign or any(sign in "*?[\\" for sign in text)
        else:
            self.bare.append(text)

    def _backslash(self) -> None:
        following = self.raw[self.at + 1 : self.at + 2]
        if following in ("", "\n"):
            self.certain = False
            return
        self._put(following, quoted=True)
        self.at += 2

    def _until(self, quote: str) -> None:
        end = self.raw.find(quote, self.at + 1)
        if end < 0:
            self.certain = False
            return
        self._put(self.raw[self.at + 1 : end], quoted=True)
        self.at = end + 1

    def _double(self) -> None:
        at = self.at + 1
        while at < len(self.raw):
            sign = self.raw[at]
            if sign == '"':
                self.at = at + 1
                return
            # Within quotes a dollar before the closing quote is no expansion.
            expands = sign == "$" and _EXPANDS_IN_QUOTES.match(self.raw, at + 1)
            if sign == "`" or expands:
                break
            if sign == "\\" and self.raw[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
                at += 1
                sign = "" if self.raw[at] == "\n" else self.raw[at]
            self._put(sign, quoted=True)
            at += 1
        self.certain = False

    def _dollar(self) -> None:
        if self.raw.startswith("$'", self.at):
            self._ansi()
        elif _EXPANDS_AFTER_DOLLAR.match(self.raw, self.at + 1):
            self.certain = False
        else:
            self._put("$", quoted=False)
            self.at += 1

    def _ansi(self) -> None:
        at = self.at + 2
        while at < len(self.raw) and self.raw[at] != "'":
            at += 2 if self.raw[at] == "\\" else 1
        text = _decode_ansi(self.raw[self.at + 2 : at])
        if at >= len(self.raw) or text is None:
            self.certain = False
            return
        self._put(text, quoted=True)
        self.at = at + 1


def _decode_ansi(body: str) -> str | None:
    """Decode what stands between ``$'`` and ``'``; None for what shells read differently."""
    out: list[str] = []
    at = 0
    while at < len(body):
        found = _ANSI.match(body, at)
        if found is None:
            return None
        byte, short, octal, sign, plain = found.groups()
        if plain is not None:
            out.append(plain)
        elif sign is not None:
            out.append(_ANSI_SIGNS[sign])
        else:
            code = int(octal, 8) if octal is not None else int(byte or short, 16)
            # Bytes above 127 are parts of a character, and zero ends the word.
            if code == 0 or (code > 127 and short is None):
                return None
            out.append(chr(code))
        at = found.end()
    return "".join(out)


Wrapping: TypeAlias = Literal["none", "transparent", "also", "opaque"]
"""How a command relates to those it runs: it runs none; permission for them is permission for
it; it needs permission itself and so do they; what it runs cannot be known."""


class ShellCommand(Struct, frozen=True, kw_only=True):
    """A simple command, with those that it runs in turn."""

    words: tuple[ShellWord, ...]
    """Its name and arguments; never empty."""
    assignments: tuple[ShellWord, ...] = ()
    """``NAME=value`` before the name, without those known to be harmless."""
    moves: tuple[str | None, ...] = ()
    """Where ``cd`` went earlier in the line, in order; None: somewhere."""
    wrapping: Wrapping = "none"
    inner: tuple["ShellCommand", ...] = ()
    """What it runs: with ``opaque`` all that it might."""
    inner_at: int = 0
    """The index of the word at which an inner command begins; 0 when it is no word."""
    doubts: tuple[str, ...] = ()
    """Why what it runs in turn is not certain."""

    @property
    def name(self) -> str | None:
        """The program's name without its directory; None when it is known only at run time."""
        exact = self.words[0].exact
        return None if exact is None else exact.rsplit("/", 1)[-1]

    @property
    def text(self) -> str:
        """The command as it was written, for people."""
        return " ".join(word.raw for word in (*self.assignments, *self.words))


class Redirect(Struct, frozen=True, kw_only=True):
    """A file that the shell opens for a command."""

    target: ShellWord
    writes: bool
    moves: tuple[str | None, ...] = ()


class CommandLine(Struct, frozen=True, kw_only=True):
    """All that a command line does, as far as it can be read."""

    commands: tuple[ShellCommand, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why the line is not certain; with any, only a rule for all of ``bash`` allows it."""
    hidden: tuple[ShellCommand, ...] = ()
    """What it might also run: strings that reach a shell, bodies of aliases. For deny rules."""
    tokens: tuple[str, ...] = ()
    """When the line could not be parsed: every word in it. For deny rules."""
    unread: bool = False
    """Some of it was not parsed at all."""
    moves_unknown: bool = False
    """A ``cd`` in a loop: the directory is unknown throughout."""
