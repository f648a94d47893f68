"""From the text of a command line to the commands in it, with tree-sitter-bash.

The parser is tolerant: it makes a tree of anything. So nothing is trusted that is not known: a
node of an unknown kind, an error, or text that shells read differently is a doubt, and a line
with a doubt is never allowed by a narrow rule.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from .collector import split_roughly
from .line import Line
from .reader import Reader

if TYPE_CHECKING:
    from tree_sitter import Language

__all__ = ["MAX_LENGTH", "read_line"]

MAX_LENGTH = 10_000
"""Characters beyond which a line is not read, only searched."""
_MAX_NESTED_TEXTS = 3

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile(
    r"[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
_GLUED_CONTINUATION = re.compile(r"[^\s]\\\n")


@lru_cache(maxsize=256)
def read_line(text: str) -> Line:
    """Read a command line. Never raises; what is not certain is a doubt of the result."""
    return _read(text, 0)


def _read(text: str, nesting: int) -> Line:
    if nesting > _MAX_NESTED_TEXTS:
        return _unread(text, "commands within commands are nested too deeply")
    if len(text) > MAX_LENGTH:
        return _unread(text, "the command is too long to be judged")
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return _unread(text, "the command is not valid text")
    from tree_sitter import Parser

    root = Parser(_language()).parse(source).root_node
    reader = Reader(source, lambda inner: _read(inner, nesting + 1))
    reader.doubts.extend(_doubts_of_text(text))
    if root.has_error:
        reader.unread = True
        reader.doubts.append("the command is not valid shell")
        reader.tokens.extend(split_roughly(text))
    reader.visit(root, 0)
    return reader.line()


def _unread(text: str, doubt: str) -> Line:
    return Line(doubts=(doubt,), tokens=split_roughly(text), unread=True)


def _doubts_of_text(text: str) -> list[str]:
    doubts: list[str] = []
    if _CONTROL.search(text):
        doubts.append("the command has control characters")
    if not text.isascii() and _INVISIBLE.search(text):
        doubts.append("the command has invisible characters")
    if "\\\n" in text and _GLUED_CONTINUATION.search(text):
        doubts.append("a word goes on over the end of a line")
    return doubts


@lru_cache(maxsize=1)
def _language() -> "Language":
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
