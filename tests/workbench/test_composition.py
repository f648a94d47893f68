"""The application and its widgets are made of parts: no class needs one that derives from it."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from textual.app import App
from textual.widget import Widget

import quarterdeck.workbench
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.widgets.terminal import TerminalView


def test_the_application_and_the_terminal_derive_from_textual_alone():
    assert [base.__name__ for base in Workbench.__mro__[:2]] == ["Workbench", "App"]
    assert TerminalView.__bases__ == (Widget,)


def test_no_class_reads_an_attribute_that_only_a_subclass_sets():
    unset = {
        f"{cls.__module__}.{cls.__qualname__}": missing
        for cls in workbench_classes()
        if (missing := read_but_unset(cls))
    }
    assert unset == {}


def test_an_attribute_that_a_subclass_sets_is_found():
    assert read_but_unset(_Base) == ["colour"]
    assert read_but_unset(_Derived) == []


class _Base:
    colour: str
    size = 1

    def shown(self) -> str:
        return f"{self.colour} {self.size}"


class _Derived(_Base):
    def __init__(self) -> None:
        self.colour = "red"


def workbench_classes() -> Iterator[type]:
    """Every class that is defined in the workbench."""
    package = quarterdeck.workbench
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for cls in vars(importlib.import_module(found.name)).values():
            if inspect.isclass(cls) and cls.__module__ == found.name:
                yield cls


def read_but_unset(cls: type) -> list[str]:
    """The attributes that the methods of a class read and that neither it nor its bases set."""
    if issubclass(cls, App) and cls is not Workbench:
        pytest.fail(f"{cls.__name__}: there is one application")
    known = set(dir(cls)) | set(getattr(cls, "__struct_fields__", ()))
    known |= set(getattr(cls, "__dataclass_fields__", ())) | set(getattr(cls, "__slots__", ()))
    for base in cls.__mro__[:-1]:
        known |= {node.attr for node in self_attributes(base) if isinstance(node.ctx, ast.Store)}
    reads = {node.attr for node in self_attributes(cls) if isinstance(node.ctx, ast.Load)}
    return sorted(reads - known)


@cache
def self_attributes(cls: type) -> list[ast.Attribute]:
    """Where the source of a class says ``self.something``."""
    found = parsed_classes(cls.__module__).get(cls.__qualname__)
    return [
        node
        for part in (found.body if found is not None else ())
        if not isinstance(part, ast.ClassDef)
        for node in ast.walk(part)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    ]


@cache
def parsed_classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module at its top; none where it is not written in Python."""
    file = getattr(importlib.import_module(module), "__file__", None) or ""
    if not file.endswith(".py"):
        return {}
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
