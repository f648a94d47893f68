"""The small grammar of command lines that may run unasked.

It says yes to what it understands whole, in the same way as bash, dash and zsh would: plain words,
quotes, file patterns, ``&& || ; |`` and line ends, and redirections to ``/dev/null`` or to another
descriptor. Anything else is no line of this grammar, and a person is asked: no attempt is made to
distinguish harmless expansions, tests, loops or here-documents from harmful ones.

    line      = { END } pipeline { separator pipeline } [ ";" ] { END }
    pipeline  = command { "|" { END } command }
    separator = ";" { END } | END { END } | ( "&&" | "||" ) { END }
    command   = name { blank word } { blank redirect }
    name      = "[" | ":" | a letter or "_", then letters, digits, "_", ".", "+", "-"
              | [ "/usr" ] "/bin/" ( "bash" | "dash" | "sh" )
    redirect  = [ "1" | "2" | "&" ] ( ">" | ">>" ) [ blank ] "/dev/null"
              | [ "1" | "2" ] ">&" ( "1" | "2" )
              | "<" [ blank ] "/dev/null"

A comment may stand where a word may begin. The values that may be inserted are those of ``$?``
anywhere and of a few well-known variables within double quotes.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from .command_line import CommandLine, ShellCommand, ShellWord
from .syntax_nodes import RESERVED

__all__ = ["PlainCommand", "agrees", "read_plain", "same_words"]

_LONGEST = 4_000
_MOST_COMMANDS = 40

_ASCII = re.compile(r"[\t\n\x20-\x7e]*")
_SWALLOWED = re.compile(r"[^\x00-\x7f][\\`]")
"""In some encodings the last byte of a letter takes the backslash after it for its own."""

_BLANK = re.compile(r"(?:[ \t]|(?<=[ \t])\\\n)*")
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"\[|:|(?:/usr)?/bin/(?:bash|dash|sh)|[A-Za-z_][A-Za-z0-9_.+-]*")
_REDIRECT = re.compile(
    r"(?:[12&]?>>?[ \t]?/dev/null|[12]?>&[12]|<[ \t]?/dev/null)(?=[ \t\n;|]|&&|\Z)"
)
_BARE = re.compile(r"[A-Za-z0-9_./:@%+,^=*?\[\]-]+|(?<![=:])~")
_ESCAPE = re.compile(r"\\[!-/:-@\[-`{-~]")
_SINGLE = re.compile(r"'(?:[^'\\]|\\[^'])*'")
"""Without a backslash before its end: fish takes that for a quote within."""
_STATUS = re.compile(r"\$\?")
_QUOTED = re.compile(r'(?:[^"$`\\]|\\[\x20-\x7e])+')
_QUOTED_VALUE = re.compile(
    r"\$(?:\?|(?:HOME|PWD|USER|LOGNAME|LANG|SHELL|PATH|TMPDIR)(?![A-Za-z0-9_\[])|\{(?:HOME|PWD|USER)\})"
)
_OPERATOR = re.compile(r"(?:!=?|=)(?=[ \t])")
"""Signs that are words of their own to ``find`` and ``test``."""
_WORD_END = " \t\n;|&"
_UNESCAPED = re.compile(r'\\([$`"\\])')
_GLOB_SIGNS = re.compile(r"[*?\[]")
_WORDS_OF_SHELLS = RESERVED | {"time", "coproc", "]", "]]"}
"""A name that some shell reads as more than a program; ``time`` is looked through elsewhere."""


class PlainCommand(Struct, frozen=True, kw_only=True):
    """A simple command: its name as written, and its words."""

    words: tuple[ShellWord, ...]


class _NotPlainError(Exception):
    """The line has something that the grammar does not know."""


def read_plain(text: str) -> tuple[PlainCommand, ...] | None:
    """Return the commands of a line, in order; None when it is no line of this grammar."""
    if len(text) > _LONGEST or not _is_seen(text):
        return None
    try:
        return _LineReader(text).run()
    except _NotPlainError:
        return None


def agrees(commands: tuple[PlainCommand, ...], line: CommandLine) -> bool:
    """Say whether the syntax tree's view of a line is the same, word for word."""
    if line.doubts or line.unread or line.moves_unknown:
        return False
    if any(redirect.target.exact != "/dev/null" for redirect in line.redirects):
        return False
    return same_words(commands, line.commands)


def same_words(plain: tuple[PlainCommand, ...], commands: Iterable[ShellCommand]) -> bool:
    """Say whether these are the same commands, word for word.

    A syntax tree takes ``[ … ]`` for syntax, where shells run a builtin of that name.
    """
    ours = [command.words for command in plain if command.words[0].raw != "["]
    return ours == [command.words for command in commands]


def _is_seen(text: str) -> bool:
    """Say whether a line has only signs that people see and shells take alike."""
    if _ASCII.fullmatch(text):
        return True
    shown = all(sign in "\t\n" or sign.isprintable() for sign in text)
    return shown and _SWALLOWED.search(text) is None


class _LineReader:
    """One pass over the text; raises _NotPlainError at the first thing that is not known."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.commands: list[PlainCommand] = []

    def run(self) -> tuple[PlainCommand, ...]:
        self._line_ends()
        while self.at < len(self.text):
            self._command()
            if not self._separator():
                break
        if self.at < len(self.text) or not self.commands:
            raise _NotPlainError
        return tuple(self.commands)

    def _line_ends(self) -> None:
        """Pass over empty lines and lines with a comment only."""
        while True:
            self._blank()
            if self.peek("\n"):
                self.at += 1
            elif self.peek("#"):
                self.take(_COMMENT)
            else:
                return

    def _separator(self) -> bool:
        """Pass what follows a command; False at the end of the line."""
        self._blank()
        if self.peek("#"):
            self.take(_COMMENT)
        if self.at == len(self.text):
            return False
        for sign in ("&&", "||", "|"):
            if self.text.startswith(sign, self.at):
                self.at += len(sign)
                self._line_ends()
                if self.at == len(self.text):
                    raise _NotPlainError
                return True
        if self.text[self.at] not in ";\n":
            raise _NotPlainError
        self.at += 1
        self._line_ends()
        return self.at < len(self.text)

    def _command(self) -> None:
        name = self.take(_NAME)
        if name in _WORDS_OF_SHELLS and name != "time":
            raise _NotPlainError
        words = [ShellWord(name, name)]
        self._end_of_word()
        redirected = False
        while self._has_more():
            if self.take_if(_REDIRECT):
                redirected = True
            elif redirected:
                raise _NotPlainError
            else:
                words.append(self._word())
                self._end_of_word()
        if len(self.commands) >= _MOST_COMMANDS:
            raise _NotPlainError
        self.commands.append(PlainCommand(words=tuple(words)))

    def _has_more(self) -> bool:
        """Pass blanks; say whether another word of the command begins."""
        self._blank()
        return self.at < len(self.text) and not (
            self.peek("#")
            or self.peek("\n")
            or self.peek(";")
            or self.peek("|")
            or self.text.startswith("&&", self.at)
        )

    def _blank(self) -> None:
        self.take(_BLANK)

    def _end_of_word(self) -> None:
        if self.at < len(self.text) and self.text[self.at] not in _WORD_END:
            raise _NotPlainError

    def peek(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def take(self, form: re.Pattern[str]) -> str:
        found = form.match(self.text, self.at)
        if found is None:
            raise _NotPlainError
        self.at = found.end()
        return found[0]

    def take_if(self, form: re.Pattern[str]) -> str:
        found = form.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    # Words

    def _word(self) -> ShellWord:
        start = self.at
        if operator := self.take_if(_OPERATOR):
            return ShellWord(operator, operator)
        return _WordReader(self).run(start)


class _WordReader:
    """The reading of one word."""

    def __init__(self, line: _LineReader) -> None:
        self.line = line
        self.value: list[str] = []
        self.glob = False
        self.quoted_sign = False
        self.known = True

    def run(self, start: int) -> ShellWord:
        line = self.line
        # "=ls" is a program's file in zsh, "~name" a user's home, "~+" and "~1" directories.
        if line.text[start] == "=" or (line.text[start] == "~" and not self._is_home(start)):
            raise _NotPlainError
        while line.at < len(line.text) and line.text[line.at] not in _WORD_END:
            self._piece()
        raw = line.text[start : line.at]
        if not raw or (self.glob and self.quoted_sign):
            raise _NotPlainError
        tilde = raw.startswith("~")
        if not self.known:
            return ShellWord(raw, None)
        return ShellWord(raw, "".join(self.value), glob=self.glob, tilde=tilde)

    def _is_home(self, start: int) -> bool:
        following = self.line.text[start + 1 : start + 2]
        return following in ("", "/") or following in _WORD_END

    def _piece(self) -> None:
        line = self.line
        sign = line.text[line.at]
        if sign == "'":
            self._put(line.take(_SINGLE)[1:-1], quoted=True)
        elif sign == '"':
            self._double()
        elif sign == "\\":
            self._put(line.take(_ESCAPE)[1:], quoted=True)
        elif sign == "$":
            line.take(_STATUS)
            self.known = False
        else:
            self._put(line.take(_BARE), quoted=False)

    def _put(self, text: str, *, quoted: bool) -> None:
        self.value.append(text)
        has_sign = _GLOB_SIGNS.search(text) is not None
        if quoted:
            self.quoted_sign = self.quoted_sign or has_sign or "\\" in text
        else:
            self.glob = self.glob or has_sign

    def _double(self) -> None:
        line = self.line
        line.at += 1
        while not line.peek('"'):
            if line.peek("$"):
                line.take(_QUOTED_VALUE)
                self.known = False
            else:
                self._put(_UNESCAPED.sub(r"\1", line.take(_QUOTED)), quoted=True)
        line.at += 1
