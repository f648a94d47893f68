"""A block in pieces, each of which is rendered when someone looks at it.

A piece is what stands between two places where Markdown begins anew whatever was before: a blank
line before a line that is neither indented nor goes on with a list, and the edges of fenced code.
Pieces are bounded, so that rendering one takes a bounded time (2 ms for 1,000 characters of
Markdown, 7 for code were measured); where nothing parts a text it is cut at the end of a line.
"""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

from ..sanitize import sanitize_text
from ..stores.blocks import PromptBlock, ShownBlock, TextBlock
from . import glyphs
from .blocks import block_lines, fill_prompt, guess_height, left_note
from .code import code_lines, highlight_code
from .images import draw_images
from .lines import READING_WIDTH, Line, Span, indented, wrap
from .markdown import code_label, markdown_lines
from .open_text import LIST_ITEM, OpenText

__all__ = ["LONGEST", "BlockPiece", "BlockPieces", "TextCut", "TextSplitter", "is_long_block"]

LONGEST = 4_000
"""Characters of a piece, about; no piece has more than twice as many."""

_LONGEST_CODE = 1_500
_LEAST, _MANY = 1_000, 50
"""After so many pieces those that follow have at least so many characters, if there are."""
_ITEM = re.compile(r"^([-+*]|\d{1,9}[.)]) +(?=\S)")
_FENCE = re.compile(r"^( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)$")


class TextCut(Struct, frozen=True):
    """A piece of a text."""

    kind: Literal["markdown", "code", "plain"]
    text: str
    language: str = ""
    """What stands behind the fence; only at the first piece of some code."""
    is_apart: bool = True
    """An empty line parts it from the piece before."""
    lexer: str = ""
    """The language of some code, in each of its pieces."""
    indent: int = 0
    """Cells that the list takes in which some code is."""


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
        self._inner: tuple[str, int, str] | None = None
        """The same of code within a list, while it is short."""
        self._indent = 0
        """Cells of the list that the code is in."""
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
    def open_cut(self) -> TextCut:
        """The same as a piece that ends here."""
        if self._fence is None:
            return TextCut("markdown", self.open, is_apart=not self._goes_on)
        language = self._fence[2]
        return TextCut(
            "code",
            self.open,
            "" if self._goes_on else language,
            is_apart=not self._goes_on,
            lexer=language.split(" ")[0],
            indent=self._indent,
        )

    @property
    def is_nested_code(self) -> bool:
        """Whether that ends in code within a list."""
        return self._inner is not None

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
            self._end_code()
            return
        if self._indent and line[:1].strip():  # the list ends, and its code with it
            self._end_code()
            self._markdown(line)
            return
        self._put(line[min(indent, len(line) - len(line.lstrip(" "))) :])
        if self._size >= _LONGEST_CODE:
            self._flush()

    def _end_code(self) -> None:
        self._flush(is_last=True)
        self._fence = None
        if self._indent:  # the list goes on
            self._goes_on = self._is_list = True
            self._indent = 0

    def _markdown(self, line: str) -> None:
        fence = _FENCE.match(line)
        if self._inner is not None:
            self._within(line, fence, self._inner)
        elif fence and not (self._is_list and fence[1]):
            self._flush()
            self._fence = (fence[2], len(fence[1]), fence[3].strip())
        elif not line.strip():
            self._put(line)
            self._is_blank = True
        else:
            self._words(line)
            if fence:
                self._inner = fence[2], len(fence[1]), fence[3].strip()

    def _within(
        self, line: str, fence: "re.Match[str] | None", inner: tuple[str, int, str]
    ) -> None:
        """A line of code in a list: it ends with its fence, or where the list ends.

        Where it is long, the list with its beginning is a piece, and the code goes on in others.
        """
        if line[:1].strip() and self._is_blank:
            self._inner = None
            self._markdown(line)
            return
        self._put(line)
        self._is_blank = not line.strip()
        if fence and fence[2].startswith(inner[0]) and not fence[3].strip():
            self._inner = None
        elif self._size >= _LONGEST_CODE and line[:1] == " ":
            self._indent = _measure_item(self._lines, inner[1])
            self._flush()
            self._fence, self._inner, self._goes_on = inner, None, True

    def _words(self, line: str) -> None:
        item = LIST_ITEM.match(line) is not None and line[0] != " "
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
                cut = TextCut("code", text, info, apart, name, self._indent)
                self.done.append(cut)
            return
        self._goes_on = False
        if text.strip():
            self.done.append(TextCut("markdown", text.strip("\n"), is_apart=apart))


def _measure_item(lines: Sequence[str], indent: int) -> int:
    """Cells before what is indented so far in the last item of a list; 0: it is in none."""
    found = next(filter(None, map(_ITEM.match, reversed(lines))), None)
    if found is None or len(found[0]) > indent:
        return 0
    return 2 if len(found[1]) == 1 else len(found[1]) + 1


_SIGNS: dict[str, tuple[Span, str]] = {
    "prompt": ((f"{glyphs.PROMPT} ", "prompt-sign"), "prompt"),
    "thought": ((f"{glyphs.THINKING} ", "thought"), "thought"),
    "user": ((f"{glyphs.PROMPT} ", "prompt-sign"), "prompt"),
}


class BlockPiece(Struct, eq=False):
    """Some lines of a block; ``version`` counts its changes."""

    block: ShownBlock
    cut: TextCut | None = None
    """None: all of the block."""
    sign: Span | None = None
    role: str = "text"
    note: str = ""
    """A line at its end."""
    has_images: bool = False
    """It is the images of the block, and nothing else."""
    version: int = 0
    tail: OpenText | None = None

    @property
    def has_gap(self) -> bool:
        """Whether an empty line parts it from the piece before."""
        return self.cut is not None and self.cut.is_apart

    @property
    def is_code(self) -> bool:
        """Whether it is code that is being written."""
        return self.tail is not None and self.tail.is_code

    def guess(self, width: int) -> int:
        """About how many lines it takes, without rendering it."""
        if self.has_images:
            return len(self._lines(width))
        if self.cut is None:
            return guess_height(self.block, width)
        width = min(width, READING_WIDTH)
        return 1 + len(self.cut.text) // max(1, width) + self.cut.text.count("\n")

    def lines(self, width: int) -> list[Line]:
        """Its lines of at most ``width`` cells each."""
        lines = self._lines(width)
        if self.note:
            lines += wrap([(self.note, "faint")], width)
        return lines

    def _lines(self, width: int) -> list[Line]:
        if self.tail is not None:
            return self.tail.lines(width)
        if self.has_images and isinstance(self.block, PromptBlock):
            return draw_images(self.block.images, width, is_large=self.block.expanded)
        if self.cut is None:
            return block_lines(self.block, width)
        if self.role != "text":
            parts = [(text, self.role) for text in self.cut.text.split("\n")]
            room = min(width - 7 * (self.role == "prompt" and width >= 30), READING_WIDTH) - 2
            lines = [line for part in parts for line in wrap([part], room)]
            signed = list(indented(lines, self.sign or ("  ", self.role), ("  ", self.role)))
            time = self.block.time if self.sign is not None else 0
            return fill_prompt(signed, time, width) if self.role == "prompt" else signed
        return _cut_lines(self.cut, width)


def _cut_lines(cut: TextCut, width: int) -> list[Line]:
    if cut.kind == "markdown":
        return markdown_lines(cut.text, width)
    if cut.kind == "plain":
        return wrap([(cut.text, "text")], min(width, READING_WIDTH))
    coloured = highlight_code(cut.text, cut.lexer)
    return code_label(cut.language, width) + code_lines(coloured, width, cut.indent)


class BlockPieces(Struct):
    """The pieces of one block; those that are complete stay the same while it grows."""

    block: ShownBlock
    items: list[BlockPiece] = field(default_factory=list[BlockPiece])
    stable: int = 0
    """How many of them stayed as they were in the last update."""
    _splitter: TextSplitter = field(default_factory=TextSplitter)
    _taken: int = 0
    _tail: BlockPiece | None = None
    _tail_at: int = 0

    def update(self) -> None:
        """Take the block as it is now."""
        block, self.stable = self.block, 0
        if not is_long_block(block):
            self._single()
        elif isinstance(block, TextBlock) and block.kind == "message":
            self._message(block)
        else:
            self._plain()

    def _single(self) -> None:
        if len(self.items) != 1 or self.items[0].cut is not None or self.items[0].tail is not None:
            self.items = [BlockPiece(self.block)]
        self.items[0].version = self.block.version

    def _message(self, block: TextBlock) -> None:
        done = self._splitter.done
        del self.items[len(done) if self._taken else 0 :]
        self.stable = len(self.items)
        new = block.since(self._taken)
        if new.endswith("\r") and not block.is_whole:
            new = new[:-1]  # half of an end of line
        self._splitter.add(sanitize_text(new if self._taken else new.lstrip("\n")))
        self._taken += len(new)
        if block.is_whole:
            self._splitter.end()
        self.items += [BlockPiece(block, cut) for cut in done[len(self.items) :]]
        if not block.is_whole:
            self._add_tail(block)
        elif block.left and self.items:
            self.items[-1].note = left_note(block.left)
            self.items[-1].version += 1

    def _add_tail(self, block: TextBlock) -> None:
        cut, at = self._splitter.open_cut, len(self._splitter.done)
        is_code = cut.kind == "code"
        if self.items and not is_code and not cut.text.strip():
            return  # what comes next has not begun
        piece = self._tail
        if piece is None or self._tail_at != at or piece.is_code != is_code:
            tail = OpenText(is_code, cut.language, cut.lexer, cut.indent)
            piece = BlockPiece(block, tail=tail)
            self._tail, self._tail_at = piece, at
        assert piece.tail is not None
        piece.tail.text, piece.tail.is_nested_code = cut.text, self._splitter.is_nested_code
        piece.cut = cut
        piece.version = block.version
        self.items.append(piece)

    def _plain(self) -> None:
        """A text that is shown as it is, behind a sign."""
        block = self.block
        assert isinstance(block, PromptBlock | TextBlock)
        kind = "prompt" if isinstance(block, PromptBlock) else block.kind
        sign, role = _SIGNS[kind]
        text = sanitize_text(block.text).strip("\n")
        self.items = [
            BlockPiece(block, cut, sign=None if at else sign, role=role)
            for at, cut in enumerate(_plain_cuts(text))
        ]
        if block.left:
            self.items[-1].note = left_note(block.left)
        if block.images:
            self.items.append(BlockPiece(block, has_images=True, version=block.version))


def is_long_block(block: ShownBlock) -> bool:
    """Whether a block is shown in more than one piece."""
    if isinstance(block, TextBlock) and block.kind == "message":
        return not block.is_whole or block.size > LONGEST
    if isinstance(block, PromptBlock):
        return block.expanded and len(block.text) > LONGEST
    if isinstance(block, TextBlock):
        return block.size > LONGEST and (block.kind == "user" or block.expanded)
    return False


def _plain_cuts(text: str) -> list[TextCut]:
    cuts: list[TextCut] = []
    begin = 0
    while begin < len(text) or not cuts:
        end = text.find("\n", begin + LONGEST, begin + LONGEST * 2)
        stop = end if end >= 0 else min(len(text), begin + LONGEST * 2)
        cuts.append(TextCut("plain", text[begin:stop], is_apart=False))
        begin = stop + (end >= 0)
    return cuts
