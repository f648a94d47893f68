"""Names that can be guessed: modules are nouns, public classes exist once, errors say so."""

import ast
import builtins
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "quarterdeck"
NOUNS = {
    *("embedding", "feed", "indexing", "landing", "matching", "rendering", "ring", "routing"),
    "testing",
}
"""Words on -ing and -ed that are the field's own nouns."""
MOST_IN_A_FOLDER = 25
OLD_WORDS = {"crew", "deed", "deeds", "desk", "manner", "mend", "said", "standing", "told", "wish"}
"""Words for which the glossary has another one."""
OLD_PROSE = {"mend", "shall", "told", "whom", "wish", "wished", "wishes"}
"""Words that docstrings do not use."""
OLD_NAMES = {("workbench/panels/panel.py", "desk")}
"""Names that widgets of people still use."""


def modules(source: Path) -> list[Path]:
    return sorted(source.rglob("*.py"))


def verbs(source: Path) -> list[str]:
    """Modules that are named by a gerund or a participle."""
    return [
        str(path.relative_to(source))
        for path in modules(source)
        if re.search(r"(ing|ed)$", last := path.stem.split("_")[-1]) and last not in NOUNS
    ]


@cache
def classes(source: Path) -> list[tuple[str, ast.ClassDef]]:
    return [
        (str(path.relative_to(source)), node)
        for path in modules(source)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def twice(source: Path) -> dict[str, list[str]]:
    """Public classes whose name exists more than once, and where."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, node in classes(source):
        found[node.name].append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def unmarked_errors(source: Path) -> list[str]:
    """Exceptions whose names do not end in ``Error``."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for _, node in classes(source)
    }

    def is_error(name: str) -> bool:
        if name in ("Exception", "QuarterdeckError", "ValueError", "OSError", "RuntimeError"):
            return True
        return any(is_error(base) for base in bases.get(name, ()) if base != name)

    return [name for name in bases if is_error(name) and not name.endswith("Error")]


def test_modules_are_named_by_nouns():
    assert verbs(SOURCE) == []


def test_a_public_class_exists_once():
    assert twice(SOURCE) == {}


def test_exceptions_end_in_error():
    assert unmarked_errors(SOURCE) == []


def test_no_folder_is_too_full():
    folders = {path.parent for path in modules(SOURCE)}
    full = {str(one): n for one in folders if (n := len(list(one.glob("*.py")))) > MOST_IN_A_FOLDER}
    assert full == {}


def test_bad_names_are_found(tmp_path: Path):
    (tmp_path / "keeping.py").write_text("class Page: ...\nclass Busy(ValueError): ...\n")
    (tmp_path / "page.py").write_text("class Page: ...\n")
    assert verbs(tmp_path) == ["keeping.py"]
    assert twice(tmp_path) == {"Page": ["keeping.py", "page.py"]}
    assert unmarked_errors(tmp_path) == ["Busy"]


def test_identifiers_use_the_words_of_the_glossary():
    found = {one for one in identifiers(SOURCE) if has_old_word(one[1])}
    assert found == OLD_NAMES
    assert has_old_word("_what_was_told") and not has_old_word("understanding")


def identifiers(source: Path) -> Iterator[tuple[str, str]]:
    """The names in modules in which an old word is at all: most need not be read in full."""
    old = re.compile("|".join(OLD_WORDS), re.IGNORECASE)
    for path in modules(source):
        if not old.search(path.read_text()):
            continue
        with tokenize.open(path) as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type == tokenize.NAME:
                    yield str(path.relative_to(source)), token.string


def has_old_word(name: str) -> bool:
    return not OLD_WORDS.isdisjoint(name.lower().split("_"))


def test_docstrings_use_plain_words():
    old = rf"(?i)\b({'|'.join(OLD_PROSE)})\b"
    assert [(one.path, one.line) for one in docstrings(SOURCE, old) if old_prose(one.text)] == []
    assert old_prose("The wish for a terminal.") == {"wish"}


def old_prose(text: str) -> set[str]:
    return OLD_PROSE & set(re.findall(r"[a-z]+", text.lower()))


def test_exceptions_that_docstrings_name_exist():
    assert unknown_exceptions(SOURCE) == []


def test_an_exception_that_does_not_exist_is_found(tmp_path: Path):
    (tmp_path / "page.py").write_text(
        "import sqlite3\n"
        "class EmptyError(ValueError): ...\n"
        "def one(): 'Take. Raises ``Busy``, OSError, or FullError (too much); One.'\n"
        "def two():\n"
        "    '''Take.\n\n"
        "    Raises:\n"
        "        EmptyError, ValueError: it is Empty, Sir: look again, and this\n"
        "            Goes: on.\n"
        "        sqlite3.Error: the file.\n"
        "        sqlite3.NoError, Gone: the file.\n"
        "    '''\n"
        "MOST = 3\n"
        "'A further one raises ``Late``.'\n"
    )
    names = sorted((one.line, name) for one, name in unknown_exceptions(tmp_path))
    assert names == [
        (3, "Busy"),
        (3, "FullError"),
        (5, "Gone"),
        (5, "sqlite3.NoError"),
        (14, "Late"),
    ]


@dataclass(frozen=True)
class Docstring:
    """The text of something, and the classes that its module imports."""

    path: str
    line: int
    text: str
    imported: frozenset[str]


def docstrings(source: Path, pattern: str) -> Iterator[Docstring]:
    """All strings that are statements, also those of values, of modules with a pattern in them."""
    for path in modules(source):
        code = path.read_text()
        if not re.search(pattern, code):
            continue
        nodes = list(ast.walk(ast.parse(code)))
        imported = frozenset(
            alias.asname or alias.name
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        )
        for node in nodes:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                text = cleandoc(str(node.value.value))
                yield Docstring(str(path.relative_to(source)), node.lineno, text, imported)


def unknown_exceptions(source: Path) -> list[tuple[Docstring, str]]:
    """Exceptions that docstrings name, but that no code can raise."""
    defined = {
        name
        for path in modules(source)
        for name in re.findall(r"(?m)^ *class (\w+Error)\b", path.read_text())
    }
    return [
        (one, name)
        for one in docstrings(source, "[Rr]aises")
        for name in raised(one.text)
        if name not in defined | one.imported and not exists_elsewhere(name)
    ]


def raised(text: str) -> list[str]:
    """The exceptions that a docstring names, in its section and in its sentences."""
    name = r"(?:[a-z]\w*\.)*[A-Z]\w*"
    several = rf"{name}(?:,? (?:or |and )?{name})*"
    before, _, section = text.replace("`", "").partition("Raises:\n")
    lists = re.findall(rf"^    ({several})(?=:|,$)", section, re.MULTILINE)
    lists += re.findall(rf"\b[Rr]aises ({several})", " ".join(before.split()))
    return [one for some in lists for one in re.findall(name, some)]


def exists_elsewhere(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return hasattr(import_module(module) if module else builtins, last)
