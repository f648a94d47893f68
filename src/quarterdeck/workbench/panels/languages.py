"""Which language a file is written in, and its lines with the colours of that."""

from collections.abc import Sequence

from ..rendering.code import highlighted
from ..rendering.lines import Line

__all__ = ["COLOURED", "coloured", "language_of_file"]

COLOURED = 400_000
"""Characters that are given colours; more takes too long."""


def coloured(path: str, lines: Sequence[str]) -> list[Line] | None:
    """The lines of a file, which are literal, by its name's language; None: without.

    Blocks, as it takes time.
    """
    text = "\n".join(lines)
    language = language_of_file(path) if len(text) <= COLOURED else ""
    return highlighted(text, language, longest=COLOURED) if language else None


def language_of_file(path: str) -> str:
    """The name of a language from a file's name; empty if none is known. Blocks."""
    from pygments.lexers import find_lexer_class_for_filename

    found = find_lexer_class_for_filename(path.rpartition("/")[2])
    return found.aliases[0] if found is not None and found.aliases else ""
