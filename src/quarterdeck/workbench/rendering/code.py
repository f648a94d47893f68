"""Source code as lines with roles, and the language of a file."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from .lines import Line, Span, plain, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from pygments.lexer import Lexer

__all__ = [
    "LONGEST",
    "MOST_HIGHLIGHTED",
    "code_lines",
    "find_file_language",
    "highlight_code",
    "highlight_file",
]

LONGEST = 20_000
"""Characters; longer code is shown without, because reading it takes time."""

_BEFORE: Span = ("  ", "code")
_ROLES = (
    ("Token.Comment", "code-comment"),
    ("Token.Keyword", "code-keyword"),
    ("Token.Literal.String", "code-string"),
    ("Token.Literal.Number", "code-number"),
    ("Token.Name.Function", "code-name"),
    ("Token.Name.Class", "code-name"),
    ("Token.Name.Tag", "code-keyword"),
    ("Token.Operator.Word", "code-keyword"),
)


def highlight_code(source: str, language: str, *, longest: int = LONGEST) -> list[Line]:
    """The lines of some code, which must be literal; an unknown language gets one look.

    Code of more than ``longest`` characters does too.
    """
    lexer = _lexer(language) if language and len(source) <= longest else None
    if lexer is None:
        return [plain(line, "code") for line in source.split("\n")]
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, text in lexer.get_tokens(source):
        name = str(kind)
        role = next((role for prefix, role in _ROLES if name.startswith(prefix)), "code")
        first, *others = text.split("\n")
        if first:
            lines[-1].append((first, role))
        lines.extend([(line, role)] if line else [] for line in others)
    return [tuple(line) for line in lines]


def code_lines(lines: Iterable[Line], width: int, indent: int = 0) -> list[Line]:
    """Lines of code as they stand in a message; ``indent``: cells of the list that they are in."""
    before: Line = ((" " * indent, "text"), _BEFORE) if indent else (_BEFORE,)
    room = max(1, width - 2 - indent)
    return [(*before, *part) for line in lines for part in wrap(line, room)]


def _lexer(language: str) -> "Lexer | None":
    import pygments.lexers
    from pygments.util import ClassNotFound

    find = cast("Callable[..., Lexer]", pygments.lexers.get_lexer_by_name)  # pyright: ignore[reportUnknownMemberType]
    try:
        return find(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


MOST_HIGHLIGHTED = 400_000
"""Characters that are given colours; more takes too long."""


def highlight_file(path: str, lines: Sequence[str]) -> list[Line] | None:
    """The lines of a file, which are literal, by its name's language; None: without.

    Blocks, as it takes time.
    """
    text = "\n".join(lines)
    language = find_file_language(path) if len(text) <= MOST_HIGHLIGHTED else ""
    return highlight_code(text, language, longest=MOST_HIGHLIGHTED) if language else None


def find_file_language(path: str) -> str:
    """The name of a language from a file's name; empty if none is known. Blocks."""
    from pygments.lexers import find_lexer_class_for_filename

    found = find_lexer_class_for_filename(path.rpartition("/")[2])
    return found.aliases[0] if found is not None and found.aliases else ""
