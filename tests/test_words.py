"""Text that people and models read is plain technical English."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/quarterdeck"

NOT_PRODUCT = ("testing",)
"""Rooms that hold fakes: their text plays other programs."""

WORDS = re.compile(
    r"\b(leave|mend|mends|mended|told|shall|whom|whoever|somebody|nobody)\b", re.IGNORECASE
)

ALLOWED = frozenset(
    [
        "leave",
        "leave-terminal",
        "LEAVE",
        "NOBODY",
        "told",
        r"\b(never|always|must(n't)?|don'?t|do not|not|only|remember|avoid|without|keep|prefer|"
        r"should|shall|instead|no|make sure|important|required?)\b",
    ]
)
"""Whole strings that may have such a word: identifiers, data, and other programs' words."""


def test_text_in_the_source_has_no_rejected_words() -> None:
    found = [f"{place}: {text!r}" for place, text in source_text() if rejected(text)]
    assert not found, "\n".join(found)


def test_pages_have_no_rejected_words() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{number}: {line.strip()[:100]!r}"
        for page in pages()
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if rejected(prose(page, line))
    ]
    assert not found, "\n".join(found)


def test_every_exception_is_needed() -> None:
    texts = {text for _, text in source_text()}
    assert not ALLOWED - texts


@pytest.mark.parametrize(
    "text",
    [
        "demo asks for leave",
        "Mend this first",
        "It is told so.",
        "what the agent shall do",
        "to whom",
        "Nobody needs you.",
    ],
)
def test_a_rejected_word_is_found(text: str) -> None:
    assert rejected(text)


@pytest.mark.parametrize("text", ["It needs permission", "a commander", "recommended", "sleeves"])
def test_a_plain_sentence_passes(text: str) -> None:
    assert not rejected(text)


def test_literals_and_help_are_text_and_other_docstrings_are_not() -> None:
    code = '''
"""Nobody reads this."""
@click.command()
def send():
    """Help."""
    raise Error(f"the {told} of {1 if x else 'nobody'} is told" " twice")

def plain():
    """Whom?"""

class Some(Value):
    """Section."""
    field: int = 1
    """Field."""
'''
    texts = {text for _, text in literals(code, are_fields_shown=False)}
    assert {"Help.", "the  of  is told twice", "nobody"} <= texts
    assert not {"Nobody reads this.", "Whom?", "Field."} & texts
    assert {"Section.", "Field."} <= {t for _, t in literals(code, are_fields_shown=True)}


def rejected(text: str) -> bool:
    return text not in ALLOWED and bool(WORDS.search(text))


def prose(page: Path, line: str) -> str:
    """A line without what it quotes: code, and the words that the glossary replaces."""
    if page.name == "glossary.md" and line.startswith("|"):
        line = line.rsplit("|", 2)[0]
    return re.sub(r"`[^`]*`", "", line)


def pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    yield ROOT / "CHANGELOG.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def source_text() -> Iterator[tuple[str, str]]:
    """Every text that a person or a model may read, and where it is, of files with such a word."""
    for path in sorted(SOURCE.rglob("*")):
        inside = path.relative_to(SOURCE)
        if path.suffix not in {".py", ".md", ".toml"}:
            continue
        if inside.parts[0] in NOT_PRODUCT:
            continue
        code = path.read_text()
        if not WORDS.search(code):  # most need not be read in full
            continue
        found: Iterable[tuple[int, str]] = (
            literals(code, are_fields_shown=inside.as_posix() == "config/schema.py")
            if path.suffix == ".py"
            else enumerate(code.splitlines(), 1)
        )
        yield from ((f"{inside}:{number}", text) for number, text in found)


def literals(code: str, *, are_fields_shown: bool) -> Iterator[tuple[int, str]]:
    """The string literals of a module: no docstrings, but the help of commands and settings."""
    tree = ast.parse(code)
    hidden = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    shown = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_command(node):
            shown.add(id(getattr(node.body[0], "value", None)))
        if are_fields_shown and isinstance(node, ast.ClassDef):
            shown |= {id(one.value) for one in node.body if isinstance(one, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [one for one in node.values if isinstance(one, ast.Constant)]
            hidden |= {id(one) for one in parts}
            yield node.lineno, "".join(str(one.value) for one in parts)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and (id(node) not in hidden or id(node) in shown):
            yield node.lineno, node.value


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its docstring is the help of a command."""
    return any(re.search(r"\b(command|group)\b", ast.unparse(one)) for one in node.decorator_list)
