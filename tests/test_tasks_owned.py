"""Tasks are started by a ``TaskGroup`` or by ``wire.tasks``, so that each has an owner."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import quarterdeck

STARTERS = {"create_task", "ensure_future"}
HOME = Path("wire", "tasks.py")


def test_no_task_is_started_without_an_owner():
    package = Path(quarterdeck.__file__).parent
    found = [
        f"{path.relative_to(package)}:{line}"
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package) != HOME
        for line in find_bare_starts(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "asyncio.create_task(work())",
        "asyncio.get_running_loop().create_task(work())",
        "loop.create_task(work())",
        "create_task(work())",
        "asyncio.ensure_future(work())",
        "start = asyncio.create_task",
        "from asyncio import ensure_future",
        "async with open() as group:\n        group.create_task(work())",
    ],
)
def test_a_bare_start_is_found(text: str):
    assert len(list(find_bare_starts(f"async def f():\n    {text}\n"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "async def f():\n async with asyncio.TaskGroup() as group:\n  group.create_task(work())",
        "async def f():\n async with open(), TaskGroup() as group:\n  group.create_task(work())",
        "async def f(group: asyncio.TaskGroup):\n group.create_task(work())",
        "async def f(group: 'TaskGroup'):\n group.create_task(work())",
        "async def f():\n await start_task(work(), name='work')",
    ],
)
def test_a_start_with_an_owner_is_none(text: str):
    assert list(find_bare_starts(text)) == []


def find_bare_starts(text: str) -> Iterator[int]:
    """The lines that name a way to start a task other than that of a ``TaskGroup``."""
    tree = ast.parse(text)
    groups = {name for node in ast.walk(tree) for name in _groups(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="create_task") if name in groups:
                pass
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
                if name in STARTERS:
                    yield node.lineno
            case _:
                pass


def _groups(node: ast.AST) -> Iterator[str]:
    """The names that a node gives to a ``TaskGroup``."""
    match node:
        case ast.withitem(context_expr=ast.Call(func=func), optional_vars=ast.Name(id=name)):
            if ast.unparse(func).endswith("TaskGroup"):
                yield name
        case ast.arg(arg=name, annotation=ast.expr() as annotation):
            if ast.unparse(annotation).strip("'\"").endswith("TaskGroup"):
                yield name
        case _:
            pass
