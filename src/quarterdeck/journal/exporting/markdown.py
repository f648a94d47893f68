"""A session as Markdown.

What agents, people and programs said stands in fenced blocks, literally: nothing in it can pose as
a part of the document, load a picture or run a script in whatever shows it.
"""

import re

from quarterdeck.wire.ids import SessionId

from .passages import Block, Passage
from .plain import one_line, shown, when

__all__ = ["MarkdownWriter"]

_TICKS = re.compile(r"`+")
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:@$^=\"'/])")
_INFO = {"text": "text", "input": "json", "output": "text", "diff": "diff"}


class MarkdownWriter:
    """Writes CommonMark."""

    def begin(self, session: SessionId) -> str:
        """The title."""
        return f"# Session {_escape(session)}\n"

    def write(self, passage: Passage) -> str:
        """A heading, then a fenced block for each text."""
        within = " (sub-agent)" if passage.parent else ""
        heading = f"\n## {_escape(passage.title)}{within}\n\n{when(passage.time)} · {passage.seq}\n"
        return heading + "".join(_block(block) for block in passage.blocks)

    def end(self) -> str:
        """Nothing."""
        return ""


def _block(block: Block) -> str:
    text = shown(block.text)
    # Longer than any fence inside, so that only ours closes it.
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    label = f"\n{_escape(block.label)}\n" if block.label else ""
    end = "" if text.endswith("\n") else "\n"
    return f"{label}\n{fence}{_INFO[block.kind]}\n{text}{end}{fence}\n"


def _escape(text: str) -> str:
    """A line in which nothing is special."""
    return _SPECIAL.sub(r"\\\1", one_line(text))
