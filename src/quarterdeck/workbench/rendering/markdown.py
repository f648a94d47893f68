"""Markdown as lines, tables included: structure gets a look, and no word of the source is left
out.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from ..sanitize import sanitize_text
from . import glyphs
from .code import highlight_code
from .lines import READING_WIDTH, Line, LinkRole, Span, indented, plain, width_of, wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

__all__ = [
    "LONGEST",
    "CodeText",
    "code_label",
    "continue_markdown",
    "find_code",
    "inline_spans",
    "load_markdown",
    "markdown_lines",
    "table_lines",
]

_GAP = 2
_LEAST = 4


def table_lines(
    rows: Sequence[Sequence[list[Span]]], width: int, sides: Sequence[str] = ()
) -> list[Line]:
    """The lines of a table whose first row is its head.

    ``sides``: where the words of each column stand: ``left``, ``right`` or ``center``. What has no
    room beside each other stands below each other, row by row, each cell behind its head.
    """
    count = max(map(len, rows), default=0)
    if not count:
        return []
    if count * (_LEAST + _GAP) > width:
        return list(_records(rows, width))
    widths = _widths(rows, count, width)
    lines: list[Line] = []
    for number, row in enumerate(rows):
        lines.extend(_row(row, widths, sides))
        if number == 0:
            lines.append(((glyphs.RULE * (sum(widths) + _GAP * (count - 1)), "faint"),))
    return lines


def _records(rows: Sequence[Sequence[list[Span]]], width: int) -> Iterator[Line]:
    head = [" ".join(text for text, _ in cell) for cell in rows[0]]
    if len(rows) == 1:
        yield from (line for cell in rows[0] for line in wrap(cell, width))
    for number, row in enumerate(rows[1:]):
        if number:
            yield ()
        for at, cell in enumerate(row):
            name = head[at] if at < len(head) else ""
            label: list[Span] = [(f"{name}: ", "faint")] if name else []
            yield from wrap([*label, *cell], width)


def _widths(rows: Sequence[Sequence[list[Span]]], count: int, width: int) -> list[int]:
    widths = [_LEAST] * count
    for row in rows:
        for at, cell in enumerate(row):
            widths[at] = max(widths[at], width_of(tuple(cell)))
    over = sum(widths) + _GAP * (count - 1) - width
    while over > 0:
        widest = widths.index(max(widths))
        others = sorted(widths)[-2] if count > 1 else 0
        taken = min(over, max(1, widths[widest] - max(_LEAST, others)))
        widths[widest] -= taken
        over -= taken
    return widths


def _row(row: Sequence[list[Span]], widths: list[int], sides: Sequence[str]) -> list[Line]:
    cells = [wrap(cell, size) for cell, size in zip(row, widths, strict=False)]
    height = max(map(len, cells), default=0)
    lines: list[Line] = []
    for level in range(height):
        line: list[Span] = []
        for at, (cell, size) in enumerate(zip(cells, widths, strict=False)):
            part = cell[level] if level < len(cell) else ()
            room = max(0, size - width_of(part))
            side = sides[at] if at < len(sides) else "left"
            left = room if side == "right" else room // 2 if side == "center" else 0
            gap = _GAP if at < len(cells) - 1 else 0
            line += [(" " * left, "text"), *part, (" " * (room - left + gap), "text")]
        lines.append(tuple(span for span in line if span[0]))
    return lines


LONGEST = 100_000
"""Characters; what is longer is shown as plain text, which takes less time."""

_SAFE_TARGET = re.compile(r"(?:https?://|file:///)[!-~]{1,2000}")
"""What a terminal may open: no other scheme, and nothing that could end the escape sequence."""
_BARE_TARGET = re.compile(r"(?:https?://|file:///)[^\s<>\"'`|\\^{}]*[^\s<>\"'`|\\^{}.,;:!?)\]]")
_TASK = re.compile(r"\[([ xX])\] ")
_INLINE = {"strong": "strong", "em": "emphasis", "s": "struck", "link": "link"}


@lru_cache(maxsize=1)
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    # An entity could bring back any character that was made visible before.
    return parser.enable(["table", "strikethrough"]).disable(["entity", "image", "reference"])


def load_markdown() -> None:
    """Import what reads and colours messages, which takes 0.1 s. Blocks; for a thread."""
    highlight_code("x = 1", "python")
    _parser()


class CodeText(NamedTuple):
    """Some code of a message, as it was written."""

    language: str
    text: str


def find_code(source: str) -> list[CodeText]:
    """The code blocks of a message, wherever they are nested. Blocks: a message may be long."""
    return [
        CodeText(token.info.strip().split(" ")[0], token.content)
        for token in _parser().parse(source)
        if token.type in ("fence", "code_block") and token.content
    ]


def code_label(language: str, width: int) -> list[Line]:
    """What stands above some code: its language, as it was written; nothing if it has none."""
    return wrap([(language, "faint")], width) if language else []


def markdown_lines(source: str, width: int) -> list[Line]:
    """The lines of a message of at most ``width`` cells each."""
    if len(source) > LONGEST:
        width = min(width, READING_WIDTH)
        return [line for text in source.split("\n") for line in wrap([(text, "text")], width)]
    return continue_markdown(source, width, None)[0] or [()]


def continue_markdown(source: str, width: int, number: int | None) -> tuple[list[Line], int | None]:
    """The lines of a part of a message, and the number that an item after it has.

    ``number``: the one of its first item, if it begins with one; None: as it is written.
    """
    page = _Page(width, number)
    page.write(_parser().parse(source))
    return page.lines, page.number


def inline_spans(source: str) -> list[Span]:
    """The words of one line of Markdown with their roles."""
    (token,) = _parser().parseInline(source)
    return [
        (" " if text == "\n" else text, role) for text, role in _spans(token.children or [], "")
    ]


class _Page:
    """Lines that grow token by token, with what stands before each: bullets, bars, numbers."""

    def __init__(self, width: int, number: int | None = None) -> None:
        self.lines: list[Line] = []
        self.number: int | None = None
        """The one that comes next in the list that ended last."""
        self._given = number
        self._width = width
        self._before: list[Span] = []
        self._bullet: Span | None = None
        self._numbers: list[int | None] = []
        self._is_first = True

    def write(self, tokens: "list[Token]") -> None:
        """Take all tokens of a text."""
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                end = next(n for n in range(at, len(tokens)) if tokens[n].type == "table_close")
                self._table(tokens[at:end])
                at = end
            else:
                self._block(token, tokens[at - 1] if at else None)
            at += 1

    def _block(self, token: "Token", opening: "Token | None") -> None:
        match token.type:
            case "inline":
                heading = opening is not None and opening.type == "heading_open"
                self._task(token)
                self._text(_spans(token.children or [], "heading" if heading else "text"))
            case "fence" | "code_block":
                self._gap(token)
                self._code(token)
            case "hr":
                self._gap(token)
                self._put([plain(glyphs.RULE * max(1, self._room // 2), "faint")])
            case "heading_open" | "paragraph_open":
                self._gap(token)
            case _:
                self._nest(token)

    def _nest(self, token: "Token") -> None:
        match token.type:
            case "bullet_list_open":
                self._gap(token)
                self._numbers.append(None)
            case "ordered_list_open":
                self._gap(token)
                given = self._given if not self.lines else None
                self._given = None
                self._numbers.append(int(token.attrs.get("start", 1)) if given is None else given)
            case "bullet_list_close" | "ordered_list_close":
                self.number = self._numbers.pop()
            case "list_item_open":
                number = self._numbers[-1]
                mark = f"{glyphs.POINT} " if number is None else f"{number}. "
                if number is not None:
                    self._numbers[-1] = number + 1
                self._bullet = (mark, "bullet")
                self._before.append((" " * len(mark), "text"))
            case "blockquote_open":
                self._gap(token)
                self._before.append((f"{glyphs.WALL} ", "faint"))
                self._is_first = True
            case "list_item_close" | "blockquote_close":
                self._before.pop()
                self._bullet = None
            case _:
                pass

    @property
    def _room(self) -> int:
        """The cells for code and tables."""
        return max(min(10, self._width), self._width - width_of(tuple(self._before)))

    @property
    def _reading_room(self) -> int:
        return min(self._room, max(10, READING_WIDTH - width_of(tuple(self._before))))

    def _task(self, token: "Token") -> None:
        """Let the box of a task be its bullet."""
        first = token.children[0] if token.children else None
        if self._bullet is None or first is None or first.type != "text":
            return
        if task := _TASK.match(first.content):
            self._bullet = (
                f"{glyphs.PLAN_OPEN} " if task[1] == " " else f"{glyphs.PLAN_DONE} ",
                "bullet",
            )
            first.content = first.content[task.end() :]
            if self._before:
                self._before[-1] = ("  ", "text")

    def _gap(self, token: "Token") -> None:
        """An empty line between blocks, but not within tight lists or at the top."""
        if self._is_first or self._bullet is not None or token.hidden:
            return
        if self._numbers and token.type.endswith("list_open"):
            return
        self.lines.append(tuple(self._before[:-1]) if self._numbers else tuple(self._before))

    def _text(self, spans: list[Span]) -> None:
        line: list[Span] = []
        for text, role in spans:
            if text == "\n":
                self._put(wrap(line, self._reading_room))
                line = []
            else:
                line.append((text, role))
        self._put(wrap(line, self._reading_room))

    def _put(self, lines: list[Line]) -> None:
        self._is_first = False
        for line in lines:
            before = list(self._before)
            if self._bullet is not None and before:
                before[-1], self._bullet = self._bullet, None
            self.lines.append((*before, *line))

    def _code(self, token: "Token") -> None:
        info = token.info.strip()
        if info:
            self._put(code_label(info, self._room))
        for line in highlight_code(token.content.rstrip("\n"), info.split(" ")[0]):
            self._put(list(indented(wrap(line, self._room - 2), ("  ", "code"), ("  ", "code"))))

    def _table(self, tokens: "list[Token]") -> None:
        if self.lines:
            self.lines.append(tuple(self._before))
        rows: list[list[list[Span]]] = []
        sides: list[str] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                sides.append(str(token.attrs.get("style", "")).rpartition(":")[2] or "left")
            elif token.type == "inline":
                rows[-1].append(_spans(token.children or [], "strong" if len(rows) == 1 else ""))
        self._put(table_lines(rows, self._room, sides))


def _spans(tokens: "list[Token]", base: str) -> list[Span]:
    r"""The words of a paragraph with their roles; ``\n`` alone ends a line."""
    spans: list[Span] = []
    roles = [base or "text"]
    targets: list[str] = []
    for token in tokens:
        kind = token.type
        if kind in ("softbreak", "hardbreak"):
            spans.append(("\n", "text"))  # models end lines on purpose
        elif kind == "code_inline":
            spans.append((token.content, "code"))
        elif kind == "link_open":
            targets.append(str(token.attrs.get("href", "")))
            is_safe = _SAFE_TARGET.fullmatch(targets[-1]) is not None
            roles.append(LinkRole(targets[-1]) if is_safe else "link")
            spans.append(("", "link"))
        elif kind == "link_close":
            roles.pop()
            _add_target(spans, targets.pop())
        elif kind.endswith("_open"):
            roles.append(_INLINE.get(kind[:-5], roles[-1]))
        elif kind.endswith("_close"):
            roles.pop()
        elif token.content:
            spans.extend(_shown(token.content, roles[-1]))
    return spans


def _shown(content: str, role: str) -> list[Span]:
    """Text, with its ends of lines as spans of their own, and addresses in it as links."""
    first, *others = content.split("\n")
    spans = _linked(first, role)
    for line in others:
        spans += [("\n", "text"), *_linked(line, role)]
    return spans


def _linked(text: str, role: str) -> list[Span]:
    if "://" not in text or role == "link" or isinstance(role, LinkRole):
        return [(text, role)]
    spans: list[Span] = []
    at = 0
    for found in _BARE_TARGET.finditer(text):
        if not _SAFE_TARGET.fullmatch(found[0]):
            continue
        spans += [(text[at : found.start()], role), (found[0], LinkRole(found[0]))]
        at = found.end()
    return [*(span for span in spans if span[0]), (text[at:], role)]


def _add_target(spans: list[Span], target: str) -> None:
    begin = max(n for n, span in enumerate(spans) if span == ("", "link"))
    label = "".join(text for text, _ in spans[begin:])
    del spans[begin]
    if target and label not in (
        target,
        sanitize_text(unquote(target)),
        target.removeprefix("mailto:"),
    ):
        spans.append((f" ({sanitize_text(target)})", "faint"))
