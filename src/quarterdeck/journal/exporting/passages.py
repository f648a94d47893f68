"""The values of an exported session."""

from typing import Literal, TypeAlias

from msgspec import Struct

from quarterdeck.wire.record import Record

__all__ = ["Block", "BlockKind", "Passage", "PassageKind"]

BlockKind: TypeAlias = Literal["text", "input", "output", "diff"]
PassageKind: TypeAlias = Literal[
    "session", "prompt", "message", "thought", "tool", "permission", "question", "plan", "notice"
]


class Block(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a passage, to be shown literally."""

    kind: BlockKind
    text: str
    label: str | None = None
    """What it is, such as a file's name."""


class Passage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was said or done."""

    seq: int
    time: int
    """Microseconds since the epoch, of its first record."""
    kind: PassageKind
    title: str
    """One line; may hold anything that an agent said."""
    parent: str | None = None
    """The tool call within which a sub-agent caused it."""
    blocks: tuple[Block, ...] = ()

    @classmethod
    def of(cls, record: Record, kind: PassageKind, title: str, *blocks: Block) -> "Passage":
        """Make a passage that begins with a record; empty blocks are left out."""
        return cls(
            seq=record.seq,
            time=record.time,
            kind=kind,
            title=title,
            parent=record.parent,
            blocks=tuple(block for block in blocks if block.text),
        )
