"""A long text in pieces that can be rendered each for itself.

A piece is what stands between two places where Markdown begins anew whatever was before: a blank
line before a line that is neither indented nor goes on with a list, and the edges of fenced code.
Pieces are bounded, so that rendering one takes a bounded time (2 ms for 1,000 characters of
Markdown, 7 for code were measured); where nothing parts a text it is cut at the end of a line.
"""

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["LONGEST", "TextCut", "TextSplitter"]

LONGEST = 4_000
"""Characters of a piece, about; no piece has more than twice as many."""

_LONGEST_CODE = 1_500
_LEAST, _MANY = 1_000, 50
"""After so many pieces those that follow have at least so many characters, if there are."""
_FENCE = re.compile(r"^( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)$")
_LIST = re.compile(r"^ {0,3}(?:[-+*]|\d{1,9}[.)])(?:\s|$)")


@dataclass(frozen=True, slots=True)
class TextCut:
    """A piece of a text."""

    kind: Literal["markdown", "code", "plain"]
    text: str
    language: str = ""
    """What stands behind the fence; only at the first piece of some code."""
    is_apart: bool = True
    """An empty line parts it from the piece before."""
    lexer: str = ""
    """The language of some code, in each of its pieces."""


class TextSplitter:
    """Takes a text as it comes, which must be literal, and gives the pieces that are complete."""

    def __init__(self) -> None:
        self.done: list[TextCut] = []
        """Only ever grows."""
        self._lines: list[str] = []
        self._size = 0
        self._rest = ""
        self._fence: tuple[str, int, str] | None = None
        """How the code that is being read ends: its mark, its indent, its language."""
        self._inner = ""
        """The mark of a fence within a list."""
        self._is_list = False
        self._is_blank = False
        """The last line was empty."""
        self._goes_on = False
        """The next piece goes on where the last was cut."""

    @property
    def open(self) -> str:
        """What belongs to no complete piece yet."""
        return "\n".join([*self._lines, self._rest]) if self._lines else self._rest

    @property
    def is_code(self) -> bool:
        """Whether that is code."""
        return self._fence is not None

    def add(self, text: str) -> None:
        """Take what comes next."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line)
        while len(self._rest) > LONGEST * 2:
            self._line(self._rest[:LONGEST], is_cut=True)
            self._rest = self._rest[LONGEST:]

    def end(self) -> None:
        """Nothing more comes: what is left is a piece."""
        if self._rest:
            self._line(self._rest)
            self._rest = ""
        self._flush(is_last=True)

    def _line(self, line: str, *, is_cut: bool = False) -> None:
        if self._fence is not None:
            self._code(line, *self._fence)
        elif len(line) >= LONGEST:
            self._flush()
            apart = not self._goes_on
            for at in range(0, len(line), LONGEST):
                self.done.append(
                    TextCut("plain", line[at : at + LONGEST], is_apart=apart and not at)
                )
            self._goes_on = is_cut
        else:
            self._markdown(line)

    def _code(self, line: str, mark: str, indent: int, language: str) -> None:
        bare = line.strip()
        if bare.startswith(mark) and not bare.strip(mark[0]) and len(line) - len(line.lstrip()) < 4:
            self._flush(is_last=True)
            self._fence = None
            return
        self._put(line[min(indent, len(line) - len(line.lstrip(" "))) :])
        if self._size >= _LONGEST_CODE:
            self._flush()

    def _markdown(self, line: str) -> None:
        fence = _FENCE.match(line)
        if self._inner:
            self._within(line, fence)
        elif fence and not (self._is_list and fence[1]):
            self._flush()
            self._fence = (fence[2], len(fence[1]), fence[3].strip())
        elif not line.strip():
            self._put(line)
            self._is_blank = True
        else:
            self._words(line)
            if fence:
                self._inner = fence[2]

    def _within(self, line: str, fence: "re.Match[str] | None") -> None:
        """A line of code in a list: it ends with its fence, or where the list ends."""
        if line[:1].strip() and self._is_blank:
            self._inner = ""
            self._markdown(line)
            return
        self._put(line)
        self._is_blank = not line.strip()
        if fence and fence[2].startswith(self._inner) and not fence[3].strip():
            self._inner = ""

    def _words(self, line: str) -> None:
        item = _LIST.match(line) is not None and line[0] != " "
        apart = self._is_blank and line[:1].strip() and not (item and self._is_list)
        if apart and self._size < _LEAST and len(self.done) > _MANY:
            self._is_list = False
        elif apart or (item and self._is_list and self._size >= LONGEST):
            blank = self._is_blank
            self._flush()
            self._goes_on = not blank
        elif self._size >= LONGEST * 2 - len(line):
            self._flush()
            self._goes_on = True
        self._is_list = self._is_list or item
        self._is_blank = False
        self._put(line)

    def _put(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _flush(self, *, is_last: bool = False) -> None:
        """End the piece that is being read."""
        text = "\n".join(self._lines)
        self._lines, self._size, self._is_list, self._is_blank = [], 0, False, False
        apart = not self._goes_on
        if self._fence is not None:
            text = text.rstrip("\n") if is_last else text
            language = self._fence[2]
            name = language.split(" ")[0] if language else ""
            self._goes_on = not is_last
            if text or apart:
                info = language if apart else ""
                self.done.append(TextCut("code", text, info, is_apart=apart, lexer=name))
            return
        self._goes_on = False
        if text.strip():
            self.done.append(TextCut("markdown", text.strip("\n"), is_apart=apart))
