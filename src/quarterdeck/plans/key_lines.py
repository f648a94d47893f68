"""The lines of a TOML text on which its keys are, which the standard library does not tell."""

from collections.abc import Iterator
from typing import TypeAlias

__all__ = ["TEXT", "Key", "find_key_lines"]

Key: TypeAlias = tuple[str, ...]
TEXT = "="
"""Below the key of a text: the line on which the text itself begins."""


def find_key_lines(text: str) -> dict[Key, int]:
    """The line of each key of a text that is TOML, by its path; elements of lists count from 1.

    A table that is named in several places has the first.
    """
    finder = _Finder(text)
    finder.find_document()
    return finder.lines


class _Finder:
    """Goes through a text once; every method begins where the one before ended."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Key, int] = {}
        self._text = text
        self._place = 0
        self._line = 1
        self._counts: dict[Key, int] = {}

    def find_document(self) -> None:
        above: Key = ()
        while self._skip_blank(newlines=True):
            if self._peek() == "[":
                above = self._header()
            else:
                self._pair(above)

    def _header(self) -> Key:
        is_list = self._text.startswith("[[", self._place)
        self._advance(2 if is_list else 1)
        line, names = self._line, self._key("]")
        self._advance(2 if is_list else 1)
        path = self._resolve(names[:-1])
        path = (*path, names[-1])
        if is_list:
            self._note(path, line)
            self._counts[path] = self._counts.get(path, 0) + 1
            path = (*path, str(self._counts[path]))
        elif path in self._counts:
            path = (*path, str(self._counts[path]))
        self._note(path, line)
        return path

    def _resolve(self, names: list[str]) -> Key:
        """The path of a table, in which a list of tables means its last one."""
        path: Key = ()
        for name in names:
            path = (*path, name)
            if path in self._counts:
                path = (*path, str(self._counts[path]))
        return path

    def _pair(self, above: Key) -> None:
        line, names = self._line, self._key("=")
        self._advance(1)
        for end in range(1, len(names) + 1):
            self._note((*above, *names[:end]), line)
        self._skip_blank(newlines=False)
        self._value((*above, *names))

    def _value(self, path: Key) -> None:
        match self._peek():
            case "{":
                self._advance(1)
                for _ in self._until("}"):
                    self._pair(path)
            case "[":
                self._advance(1)
                for number in self._until("]"):
                    self._note((*path, str(number)), self._line)
                    self._value((*path, str(number)))
            case '"' | "'" as quote:
                opening = quote * 3
                begins_below = self._text.startswith(
                    (f"{opening}\n", f"{opening}\r\n"), self._place
                )
                self._note((*path, TEXT), self._line + begins_below)
                self._string()
            case _:
                while self._peek() not in ("", ",", "]", "}", "\n", "#"):
                    self._advance(1)

    def _until(self, closing: str) -> Iterator[int]:
        number = 0
        while self._skip_blank(newlines=True) and self._peek() != closing:
            if self._peek() == ",":
                self._advance(1)
                continue
            number += 1
            yield number
        self._advance(1)

    def _key(self, closing: str) -> list[str]:
        names: list[str] = []
        while self._skip_blank(newlines=False) and self._peek() != closing:
            if self._peek() == ".":
                self._advance(1)
            elif self._peek() in "\"'":
                names.append(self._string())
            else:
                start = self._place
                while self._peek() not in ("", ".", "=", "]", " ", "\t"):
                    self._advance(1)
                names.append(self._text[start : self._place])
        return names

    def _string(self) -> str:
        quote = self._peek()
        mark = quote * 3 if self._text.startswith(quote * 3, self._place) else quote
        self._advance(len(mark))
        start = self._place
        while self._peek() and not self._text.startswith(mark, self._place):
            self._advance(2 if self._peek() == "\\" and quote == '"' else 1)
        content = self._text[start : self._place]
        self._advance(len(mark))
        while len(mark) == 3 and self._peek() == quote:  # up to two quotes may stand at the end
            self._advance(1)
        return content

    def _skip_blank(self, *, newlines: bool) -> bool:
        """Skip white space and comments; whether there is more."""
        while (letter := self._peek()) in (" ", "\t", "\r") or (newlines and letter in ("\n", "#")):
            if letter == "#":
                end = self._text.find("\n", self._place)
                self._place = len(self._text) if end < 0 else end
            else:
                self._advance(1)
        return self._peek() != ""

    def _note(self, path: Key, line: int) -> None:
        self.lines.setdefault(path, line)

    def _peek(self) -> str:
        return self._text[self._place : self._place + 1]

    def _advance(self, count: int) -> None:
        self._line += self._text.count("\n", self._place, self._place + count)
        self._place += count
