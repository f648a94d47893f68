"""A block in pieces, each of which is rendered when somebody looks at it."""

from dataclasses import dataclass, field

from ..sanitize import sanitize_text
from ..stores.blocks import Block, PromptBlock, TextBlock
from .blocks import block_lines, guess_height, left_note
from .code import highlight_code
from .lines import GrowingLines, Line, Span, indented, wrap
from .markdown import markdown_lines
from .splitter import LONGEST, TextCut, TextSplitter

__all__ = ["BlockPiece", "BlockPieces", "is_long_block"]

_SIGNS: dict[str, tuple[Span, str]] = {
    "prompt": (("❯ ", "prompt-sign"), "prompt"),
    "thought": (("✻ ", "thought"), "thought"),
    "user": (("❯ ", "prompt"), "prompt"),
}
_NESTED: Span = ("┆ ", "faint")
"""Stands before what a sub-agent says."""


@dataclass(slots=True, eq=False)
class BlockPiece:
    """Some lines of a block; ``version`` counts its changes."""

    block: Block
    cut: TextCut | None = None
    """None: all of the block."""
    sign: Span | None = None
    role: str = "text"
    note: str = ""
    """A line at its end."""
    version: int = 0
    tail: "_Tail | None" = None

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
        if self.cut is None:
            return guess_height(self.block, width)
        return 1 + len(self.cut.text) // max(1, width) + self.cut.text.count("\n")

    def lines(self, width: int) -> list[Line]:
        """Its lines of at most ``width`` cells each."""
        nested = getattr(self.block, "parent", None) is not None
        room = max(8, width - 2 * nested)
        lines = self._lines(room)
        if self.note:
            lines += wrap([(self.note, "faint")], room)
        return list(indented(lines, _NESTED, _NESTED)) if nested else lines

    def _lines(self, width: int) -> list[Line]:
        if self.tail is not None:
            return self.tail.lines(width)
        if self.cut is None:
            return block_lines(self.block, width)
        if self.role != "text":
            parts = [(text, self.role) for text in self.cut.text.split("\n")]
            lines = [line for part in parts for line in wrap([part], width - 2)]
            return list(indented(lines, self.sign or ("  ", self.role), ("  ", self.role)))
        return _cut_lines(self.cut, width)


def _cut_lines(cut: TextCut, width: int) -> list[Line]:
    if cut.kind == "markdown":
        return markdown_lines(cut.text, width)
    if cut.kind == "plain":
        return wrap([(cut.text, "text")], width)
    before: Span = ("  ", "code")
    lines = wrap([(cut.language, "faint")], width) if cut.language else []
    for line in highlight_code(cut.text, cut.lexer):
        lines += indented(wrap(line, width - 2), before, before)
    return lines


@dataclass(slots=True)
class _Tail:
    """The end of a message that is being written: wrapped as it comes, without any look."""

    is_code: bool
    text: str = ""
    _growing: GrowingLines | None = None
    _taken: int = 0

    def lines(self, width: int) -> list[Line]:
        """Its lines at this moment."""
        room = width - 2 if self.is_code else width
        if self._growing is None or self._growing.width != room:
            self._growing = GrowingLines(room, "code" if self.is_code else "text")
            self._taken = 0
        self._growing.add(self.text[self._taken :])
        self._taken = len(self.text)
        lines = self._growing.lines
        return list(indented(lines, ("  ", "code"), ("  ", "code"))) if self.is_code else lines


@dataclass(slots=True)
class BlockPieces:
    """The pieces of one block; those that are complete stay the same while it grows."""

    block: Block
    items: list[BlockPiece] = field(default_factory=list[BlockPiece])
    _splitter: TextSplitter = field(default_factory=TextSplitter)
    _taken: int = 0
    _tail: BlockPiece | None = None
    _tail_at: int = 0

    def update(self) -> None:
        """Take the block as it is now."""
        block = self.block
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
        is_code, at = self._splitter.is_code, len(self._splitter.done)
        piece = self._tail
        if piece is None or self._tail_at != at or piece.is_code != is_code:
            piece = BlockPiece(block, tail=_Tail(is_code))
            self._tail, self._tail_at = piece, at
        assert piece.tail is not None
        piece.tail.text = self._splitter.open
        piece.cut = TextCut("plain", piece.tail.text)
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


def is_long_block(block: Block) -> bool:
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
