"""Files, classes and functions stay small enough to read: the caps of the style guide."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "quarterdeck"
GENERATED = {SOURCE / "wire" / "acp" / "schema.py"}
FILE_CAP, CLASS_CAP, FUNCTION_CAP = 600, 400, 60


def oversized(path: Path) -> list[str]:
    text = path.read_text()
    found = [f"{path}: {n} lines"] if (n := text.count("\n")) > FILE_CAP else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            cap = CLASS_CAP
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            cap = FUNCTION_CAP
        else:
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > cap:
            found.append(f"{path}:{node.lineno} {node.name}: {length} lines, cap {cap}")
    return found


def test_source_stays_within_the_caps():
    files = [path for path in SOURCE.rglob("*.py") if path not in GENERATED]
    assert files
    assert [line for path in files for line in oversized(path)] == []


def test_an_oversized_function_is_found(tmp_path: Path):
    path = tmp_path / "long.py"
    path.write_text("def f():\n" + "    pass\n" * (FUNCTION_CAP + 1))
    assert len(oversized(path)) == 1
