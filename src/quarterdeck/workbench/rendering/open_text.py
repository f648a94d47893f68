"""The end of a message that is being written, with the look it is going to have.

What is decided is drawn as it will stay: a list is a list from its first word on, and emphasis,
code or a link that is still open is drawn as if it ended here, its marks hidden. Marks that may
still become anything are hidden until the next letter decides. A line that ended stays as it is,
but for the columns of a table: they may grow with each row.

Each look takes a bounded time: items that ended are drawn once, and what is drawn again is at most
a piece (see ``pieces``).
"""

import re

from msgspec import Struct, field

from .code import code_lines, highlight_code
from .lines import READING_WIDTH, GrowingLines, Line, plain, wrap
from .markdown import code_label, continue_markdown, inline_spans, markdown_lines

__all__ = ["LIST_ITEM", "OpenText", "close_markdown"]

LIST_ITEM = re.compile(r"^ {0,3}(?:[-+*]|\d{1,9}[.)])(?:\s|$)")
"""The beginning of an item of a list."""
_REACH = 300
"""Characters after which what is still open was no mark."""
_SCANNED = 2_000
_ENOUGH = 600
"""Characters that are drawn again with each look, before items that ended are kept."""
_LONGEST_LINE = 4_000
"""Characters of a line that is shown without any look, as ``pieces`` does."""
_BEFORE = r"(?:[ \t]*(?:>|[-+*]|\d{1,9}[.)]))*[ \t]*"
_UNDECIDED = re.compile(
    rf"{_BEFORE}(?:#{{1,6}}|\d{{1,9}}|\[[ xX]?\]?|[-*_=]+|\|)?[ \t]*"
    r"|[ \t]*(?:`{1,2}|`{3,}[^`]*|~{1,2}|~{3,}[^~]*)"
)
"""A line that may become anything."""
_BLOCK = re.compile(r"\n(?=[ \t]*(?:\n|[-+*>|]|\d{1,9}[.)] |#{1,6} ))")
_RUN = re.compile(r"[*_~`\\]+$")
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\n]*$")
_LABEL = re.compile(r"(?:^|(?<=[\s(*_]))\[(?!\d+\]?$)([^\[\]\s][^\[\]\n]{0,120})\]?$")
_DELIMITERS = re.compile(r"[ \t]*\|?[ \t]*:?-[-:| \t]*")
_NO_OPENING = frozenset(".,/;:!?)]}=")


def close_markdown(source: str) -> str:
    """A text as if it ended here: what is open is closed, what is undecided left out."""
    head, _, line = source.rpartition("\n")
    if _UNDECIDED.fullmatch(line):
        return head
    begin = max(0, len(source) - _SCANNED)
    for found in _BLOCK.finditer(source, begin):
        begin = found.end()
    return source[:begin] + _close_inline(source[begin:])


def _close_inline(text: str) -> str:
    text = _RUN.sub("", text).rstrip()
    text = _LINK.sub(r"[\1]()", text)
    text = _LABEL.sub(r"[\1]()", text)
    marks, code = _find_open(text)
    if code:
        at, mark = code
        text = f"{text}{mark}" if text[at + len(mark) :].strip() else text[:at].rstrip()
    near = [mark for at, mark in marks if len(text) - at <= _REACH]
    return text + "".join(reversed(near))


def _find_open(text: str) -> tuple[list[tuple[int, str]], tuple[int, str] | None]:
    """The marks of emphasis that are open, with their places; and that of code."""
    open_: list[tuple[int, str]] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 2
            continue
        if sign not in "*_~`":
            at += 1
            continue
        end = at
        while end < len(text) and text[end] == sign:
            end += 1
        if sign == "`":
            close = re.search(rf"(?<!`){text[at:end]}(?!`)", text[end:])
            if close is None and len(text) - at <= _REACH:
                return open_, (at, text[at:end])
            end += close.end() if close is not None else 0
        else:
            _take_marks(open_, text, at, end)
        at = end
    return open_, None


def _take_marks(open_: list[tuple[int, str]], text: str, at: int, end: int) -> None:
    """Close and open emphasis with a run of one sign."""
    sign, left = text[at], end - at
    before = text[at - 1] if at else " "
    after = text[end] if end < len(text) else " "
    while left and not before.isspace():
        same = [n for n, (_, mark) in enumerate(open_) if mark[0] == sign and len(mark) <= left]
        if not same:
            break
        left -= len(open_[same[-1]][1])
        del open_[same[-1] :]
    if not left or after.isspace() or after in _NO_OPENING:
        return
    if sign != "*" and before.isalnum():
        return
    if sign == "*" and left == 1 and before.isalnum():
        return  # a product rather than emphasis
    if left >= 2:
        open_.append((at, sign * 2))
    if left % 2 and sign != "~":
        open_.append((at, sign))


class OpenText(Struct):
    """What belongs to no complete piece yet.

    Args:
        is_code: it is code, not Markdown.
        language: what stands behind the fence, to be shown above the code; empty: nothing is.
        lexer: the language of the code.
        indent: cells of the list that the code is in.
    """

    is_code: bool
    language: str = ""
    lexer: str = ""
    indent: int = 0
    text: str = ""
    """All of it so far; it only grows."""
    is_nested_code: bool = False
    """It ends in code within a list."""
    _width: int = 0
    _kept: list[Line] = field(default_factory=list[Line])
    """Lines that are drawn and stay."""
    _taken: int = 0
    """Characters that those show."""
    _number: int | None = None
    """The number of the item that follows them."""
    _growing: GrowingLines | None = None
    _table: tuple[str, list[Line]] = ("", [])

    def lines(self, width: int) -> list[Line]:
        """Its lines at this moment; at least one."""
        if width != self._width:
            self._width, self._taken, self._number = width, 0, None
            self._kept, self._growing, self._table = [], None, ("", [])
        if self.is_code:
            return self._code(width) or [()]
        if self._growing is not None or self._is_plain:
            return self._plain(width)
        self._keep(width)
        return [*self._kept, *self._rest(width)] or [()]

    # Code

    def _code(self, width: int) -> list[Line]:
        """Code in its colours, but for the last lines: those get theirs a little later."""
        done, _, _ = self.text.rpartition("\n")
        if len(done) - self._taken > max(0, self._taken // 6) or not self._kept:
            self._taken = len(done)
            self._kept = code_label(self.language, width)
            coloured = highlight_code(done, self.lexer) if done else []
            self._kept += code_lines(coloured, width, self.indent)
        rest = self.text[self._taken :].removeprefix("\n") if self._taken else self.text
        rest = _without_fence(rest)
        if not rest:
            return list(self._kept)
        lines = [plain(part, "code") for part in rest.split("\n")]
        return [*self._kept, *code_lines(lines, width, self.indent)]

    # Lines that are too long for any look

    @property
    def _is_plain(self) -> bool:
        return len(self.text) - self.text.rfind("\n") > _LONGEST_LINE

    def _plain(self, width: int) -> list[Line]:
        if self._growing is None:
            end = self.text.rfind("\n") + 1
            if before := self.text[self._taken : end].strip("\n"):
                self._kept += continue_markdown(before, width, self._number)[0]
            self._growing, self._taken = GrowingLines(min(width, READING_WIDTH)), end
        self._growing.add(self.text[self._taken :])
        self._taken = len(self.text)
        return [*self._kept, *self._growing.lines]

    # Markdown

    def _keep(self, width: int) -> None:
        """Draw items of a list, or lines of a paragraph, that ended for the last time."""
        while len(self.text) - self._taken > _ENOUGH and not self.is_nested_code:
            end = _find_cut(self.text, self._taken)
            if end <= self._taken:
                return
            part = self.text[self._taken : end].strip("\n")
            lines, self._number = continue_markdown(part, width, self._number)
            self._kept += lines
            self._taken = end

    def _rest(self, width: int) -> list[Line]:
        source = self.text[self._taken :].lstrip("\n")
        if not source.strip():
            return []
        if (begin := _find_table(source)) is not None:
            return self._with_row(source, begin, width)
        source = _without_fence(source) if self.is_nested_code else close_markdown(source)
        return continue_markdown(source, width, self._number)[0]

    def _with_row(self, source: str, begin: int, width: int) -> list[Line]:
        """A table of the rows that ended, and the words of the one that is being written."""
        done, _, row = source.rpartition("\n")
        if "\n" not in source[begin:]:  # only its head
            done, row = f"{source}\n{_delimiters(source[begin:])}", ""
        elif _DELIMITERS.fullmatch(row) and "\n" not in done[begin:]:
            done, row = f"{done}\n{_delimiters(done[begin:])}", ""
        if self._table[0] != done:
            self._table = done, markdown_lines(done, width)
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        words = _close_inline("  ".join(cells)) if row.strip() else ""
        lines = wrap(inline_spans(words), width) if words else []
        return [*self._table[1], *lines]


def _without_fence(code: str) -> str:
    """Code without a last line that may be its end."""
    done, _, line = code.rpartition("\n")
    return done if set(line.strip()) in ({"`"}, {"~"}) else code


def _delimiters(head: str) -> str:
    return "|" + "---|" * max(1, len(head.strip().strip("|").split("|")))


def _find_table(source: str) -> int | None:
    """Where the table begins that a text ends with; None: it ends with something else."""
    lines = source.split("\n")
    first = len(lines) - (not lines[-1])  # the next row may not have begun
    last = first
    while first and lines[first - 1].lstrip().startswith("|"):
        first -= 1
    if first == last or len(lines[first].strip()) < 2:
        return None
    if last - first > 2 and not _DELIMITERS.fullmatch(lines[first + 1]):
        return None
    return sum(len(line) + 1 for line in lines[:first])


def _find_cut(text: str, begin: int) -> int:
    """Where the last item, or the last line of a paragraph, begins; ``begin``: nowhere else."""
    lines = text[begin : text.rfind("\n") + 1].split("\n")[:-1]
    cut = at = begin
    inner, has_items = "", False
    for line in lines:
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            inner = "" if inner and bare.startswith(inner) else inner or bare[:3]
        elif not inner and LIST_ITEM.match(line) and line[0] != " ":
            cut, has_items = at if has_items else cut, True
        at += len(line) + 1
    if has_items:
        return cut
    is_prose = len(lines) > 1 and all(line[:1].isalpha() for line in lines)
    return at - len(lines[-1]) - 1 if is_prose else begin
