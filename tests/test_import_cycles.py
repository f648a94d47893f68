"""No module of the package imports itself by way of others.

All imports count: those in functions, and those for the type checker alone.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import quarterdeck


def test_no_module_imports_itself_by_way_of_others():
    assert find_cycles(read_imports(Path(quarterdeck.__file__).parent)) == set()


def test_imports_for_types_and_in_functions_count(tmp_path: Path):
    package = tmp_path / "ship"
    (package / "deck").mkdir(parents=True)
    (package / "__init__.py").write_text("from ship.hull import keel\n")
    (package / "hull.py").write_text("if TYPE_CHECKING:\n    from .deck import mast\n")
    (package / "deck" / "__init__.py").write_text("")
    (package / "deck" / "mast.py").write_text("def f():\n    from ..sail import Sail\n")
    (package / "sail.py").write_text("import ship.hull\n")
    assert find_cycles(read_imports(package)) == {
        frozenset({"ship.hull", "ship.deck.mast", "ship.sail"})
    }


def read_imports(package: Path) -> dict[str, set[str]]:
    """The modules of a package, and which of them each imports anywhere in its text."""
    files = {_name(path, package): path for path in sorted(package.rglob("*.py"))}
    return {
        name: {found for found in _imports(name, path, files) if found != name}
        for name, path in files.items()
    }


def _name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imports(name: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    home = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in files)
        elif isinstance(node, ast.ImportFrom):
            above = home[: len(home) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for each in node.names:
                target = f"{base}.{each.name}"
                if (found := target if target in files else base) in files:
                    yield found


def find_cycles(imports: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The groups of modules that can all be reached from each other."""
    below = {name: _reachable(name, imports) for name in imports}
    return {
        frozenset(other for other in reached if name in below[other])
        for name, reached in below.items()
        if name in reached
    }


def _reachable(name: str, imports: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = list(imports[name])
    while left:
        if (each := left.pop()) not in found:
            found.add(each)
            left += imports[each]
    return found
