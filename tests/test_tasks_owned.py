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


def test_no_worker_is_given_a_coroutine_that_a_cancel_leaves_unawaited():
    package = Path(quarterdeck.__file__).parent
    found = [
        f"{path.relative_to(package)}:{line}"
        for path in sorted(package.rglob("*.py"))
        for line in find_made_coroutines(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("self.run_worker(self._look(3), group='look')", [1]),
        ("self.run_worker(look())", [1]),
        ("work = self._look(3)\nself.run_worker(work)", [2]),
        ("self.run_worker(self._look)", []),
        ("self.run_worker(partial(self._look, 3))", []),
        ("work = partial(self._look, 3)\nself.run_worker(work)", []),
        ("async def run(): ...\nself.run_worker(run)", []),
    ],
)
def test_a_coroutine_that_is_made_too_early_is_found(text: str, lines: list[int]):
    assert list(find_made_coroutines(text)) == lines


def find_made_coroutines(text: str) -> Iterator[int]:
    """The lines that hand a worker a coroutine, and not a function that makes it."""
    if "run_worker(" not in text:
        return
    tree = ast.parse(text)
    made = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="run_worker"), args=[work, *_]):
                work = made.get(work.id, work) if isinstance(work, ast.Name) else work
                if isinstance(work, ast.Call) and ast.unparse(work.func) != "partial":
                    yield node.lineno
            case _:
                pass


def find_bare_starts(text: str) -> Iterator[int]:
    """The lines that name a way to start a task other than that of a ``TaskGroup``."""
    if not any(name in text for name in STARTERS):
        return
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
