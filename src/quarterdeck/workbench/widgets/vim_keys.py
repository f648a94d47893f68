"""Keys of vim, where the person wants them: in the input, and in lists."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from msgspec import Struct, field

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.widgets import TextArea

__all__ = ["VimInput", "VimMode", "find_list_step", "uses_vim"]

VimMode: TypeAlias = Literal["insert", "normal"]
_Place: TypeAlias = tuple[int, int]
_WORD = r"\w+|[^\w\s]+"
_MOST = 9_999
"""A count is never more."""
_LIST_KEYS = frozenset({"j", "k", "g", "G", "ctrl+d", "ctrl+u"})


def uses_vim(node: "DOMNode") -> bool:
    """Whether the person wants these keys."""
    app = cast("object", node.app)  # pyright: ignore[reportUnknownMemberType]
    preferences = getattr(app, "preferences", None)
    return bool(getattr(preferences, "vim", False))


def find_list_step(node: "DOMNode", key: str, rows: int, *, takes: frozenset[str]) -> int | None:
    """How many lines a key of vim goes in a list, ``rows`` of which are seen; None: it is none.

    Keys that the list or what it is in has for something else stay with that, but for ``takes``.
    """
    if key not in _LIST_KEYS or not uses_vim(node):
        return None
    if key not in takes:
        nodes = node.ancestors_with_self
        if any(key in one._bindings.key_to_bindings for one in nodes):  # pyright: ignore[reportPrivateUsage]
            return None
    half = max(1, rows // 2)
    steps = {"j": 1, "k": -1, "g": -(10**6), "G": 10**6, "ctrl+d": half, "ctrl+u": -half}
    return steps[key]


class _Pending(Struct):
    """What was typed of a command that is not complete."""

    count: str = ""
    operator: str = ""
    operator_count: int = 1
    prefix: str = ""

    @property
    def times(self) -> int:
        return min(_MOST, int(self.count or 1) * self.operator_count)


class VimInput(Struct):
    """The modes of an input, and what keys do in normal mode.

    Args:
        area: the text.
        up: goes a line up, or to an earlier prompt.
        down: the other way.
    """

    area: "TextArea"
    up: Callable[[], None]
    down: Callable[[], None]
    mode: VimMode = "insert"
    register: str = ""
    """What was deleted or copied last; with a newline at its end: whole lines."""
    _pending: _Pending = field(default_factory=_Pending)

    def take(self, key: str, character: str | None) -> bool:
        """Do what a key says; False: it says nothing here, and is for others."""
        if self.mode == "insert":
            if key != "escape":
                return False
            self._enter_normal()
            return True
        if key == "escape":
            has_begun = self._pending != _Pending()
            self._pending = _Pending()
            return has_begun
        if key == "ctrl+r":
            self._repeat(self.area.action_redo)
            return True
        if key in ("backspace", "space"):
            character = "h" if key == "backspace" else "l"
        if character is None or not character.isprintable() or key.startswith(("ctrl+", "alt+")):
            return False
        self._take_character(character)
        return True

    def begin_insert(self) -> None:
        """Type from now on."""
        self.mode = "insert"
        self._pending = _Pending()

    def _enter_normal(self) -> None:
        self.mode = "normal"
        row, column = self.area.cursor_location
        self._move((row, max(0, column - 1)))

    def _take_character(self, character: str) -> None:
        pending = self._pending
        if character.isdecimal() and character.isascii() and (character != "0" or pending.count):
            pending.count = (pending.count + character)[:4]
            return
        if character == "g" and not pending.prefix:
            pending.prefix = "g"
            return
        name = pending.prefix + character
        if name in ("d", "c", "y") and not pending.operator:
            pending.operator, pending.operator_count = name, int(pending.count or 1)
            pending.count = ""
            return
        self._pending = _Pending()
        if pending.operator:
            self._operate(pending.operator, name, pending.times)
        elif (place := self._find(name, pending.times, has_count=bool(pending.count))) is not None:
            self._move(place)
        else:
            self._act(name, pending.times)

    # Motions

    def _find(self, name: str, times: int, *, has_count: bool = False) -> _Place | None:
        """Where a motion leads; None: it is none."""
        row, column = self.area.cursor_location
        last = self.area.document.line_count - 1
        match name:
            case "h":
                return row, max(0, column - times)
            case "l":
                return row, min(len(self._line(row)), column + times)
            case "0" | "^":
                return row, self._indent(row) if name == "^" else 0
            case "$":
                row = min(last, row + times - 1)
                return row, len(self._line(row))
            case "gg" | "G":
                row = times - 1 if has_count else (0 if name == "gg" else last)
                row = min(last, row)
                return row, self._indent(row)
            case "w" | "b" | "e":
                return self._words(name, times)
            case _:
                return None

    def _words(self, name: str, times: int) -> _Place:
        place = self.area.cursor_location
        for _ in range(times):
            after = self._word(name, place)
            if after == place:
                break
            place = after
        return place

    def _word(self, name: str, place: _Place) -> _Place:
        row, column = place
        last = self.area.document.line_count - 1
        spans = [found.span() for found in re.finditer(_WORD, self._line(row))]
        if name == "b":
            before = [start for start, _ in spans if start < column]
            if before or row == 0:
                return row, before[-1] if before else 0
            return self._word("b", (row - 1, len(self._line(row - 1)) + 1))
        if name == "w":
            after = [start for start, _ in spans if start > column]
        else:
            after = [end - 1 for _, end in spans if end - 1 > column]
        if after:
            return row, after[0]
        if row == last:
            return row, len(self._line(row))
        begin = self._line(row + 1)
        if name == "w":
            return row + 1, len(begin) - len(begin.lstrip())
        return self._word(name, (row + 1, -1))

    # What changes the text

    def _operate(self, operator: str, motion: str, times: int) -> None:
        row, column = self.area.cursor_location
        if motion == operator:
            self._change_lines(operator, times)
            return
        if operator == "c" and motion == "w":  # as vim has it: up to the end of the word
            motion = "e" if self._line(row)[column : column + 1].strip() else "w"
        place = self._find(motion, times)
        if place is None or motion in ("gg", "G"):
            return
        start, end = sorted(((row, column), place))
        if motion == "e":
            end = (end[0], min(len(self._line(end[0])), end[1] + 1))
        if motion == "w" and end[0] > start[0] and not self._line(end[0])[: end[1]].strip():
            end = (end[0] - 1, len(self._line(end[0] - 1)))  # the last word of a line ends with it
        self.register = self.area.get_text_range(start, end)
        if operator != "y":
            self.area.delete(start, end)
        self._move(start)
        if operator == "c":
            self.begin_insert()

    def _change_lines(self, operator: str, times: int) -> None:
        row, _ = self.area.cursor_location
        last = min(self.area.document.line_count - 1, row + times - 1)
        lines = [self._line(at) for at in range(row, last + 1)]
        self.register = "\n".join(lines) + "\n"
        if operator == "y":
            return
        if operator == "c":
            self.area.delete((row, 0), (last, len(lines[-1])))
            self._move((row, 0))
            self.begin_insert()
            return
        if last < self.area.document.line_count - 1:
            self.area.delete((row, 0), (last + 1, 0))
        else:
            start = (row - 1, len(self._line(row - 1))) if row else (0, 0)
            self.area.delete(start, (last, len(lines[-1])))
        row = min(row, self.area.document.line_count - 1)
        self._move((row, self._indent(row)))

    def _begin(self, name: str) -> None:
        """Begin to type at a place, or in a new line."""
        row, column = self.area.cursor_location
        line = self._line(row)
        if name in ("o", "O"):
            place = (row, len(line)) if name == "o" else (row, 0)
            self.area.insert("\n", place, maintain_selection_offset=False)
            self._move((row + (name == "o"), 0))
        else:
            places = {"i": column, "a": column + 1, "I": self._indent(row), "A": len(line)}
            self._move((row, min(places[name], len(line))))
        self.begin_insert()

    def _act(self, name: str, times: int) -> None:
        match name:
            case "j" | "k":
                self._repeat(self.down if name == "j" else self.up, times)
            case "i" | "a" | "I" | "A" | "o" | "O":
                self._begin(name)
            case "x" | "X":
                self._operate("d", "l" if name == "x" else "h", times)
            case "D" | "C":
                self._operate("d" if name == "D" else "c", "$", times)
            case "p" | "P":
                self._put(after=name == "p", times=times)
            case "u":
                self._repeat(self.area.action_undo, times)
            case "/" | ":":  # commands of the workbench begin with a slash
                if not self.area.text:
                    self.begin_insert()
                    self.area.insert("/")
            case _:
                pass

    def _put(self, *, after: bool, times: int) -> None:
        if not self.register:
            return
        row, column = self.area.cursor_location
        words = self.register * min(times, 100)
        if not self.register.endswith("\n"):
            at = min(len(self._line(row)), column + after)
            self.area.insert(words, (row, at), maintain_selection_offset=False)
            return
        if after and row == self.area.document.line_count - 1:
            words = "\n" + words.removesuffix("\n")
            self.area.insert(words, (row, len(self._line(row))), maintain_selection_offset=False)
        else:
            self.area.insert(words, (row + after, 0), maintain_selection_offset=False)
        self._move((row + after, 0))

    def _repeat(self, action: Callable[[], None], times: int = 1) -> None:
        for _ in range(min(times, 100)):
            action()

    def _line(self, row: int) -> str:
        return self.area.document.get_line(row)

    def _indent(self, row: int) -> int:
        line = self._line(row)
        return len(line) - len(line.lstrip())

    def _move(self, place: _Place) -> None:
        self.area.move_cursor(place)
