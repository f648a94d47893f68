"""The settings reference, made from the texts under the fields of the schema."""

import ast
import inspect
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec import Struct

from . import schema
from .environment import variable_of
from .schema import ADDED_UP, FREE_OF_TRUST
from .shape import Key, Setting, describe, matches, settings, spell

__all__ = ["document", "markdown"]


def document(owner: type[Struct], name: str) -> str:
    """The text under a field of the schema; empty if there is none."""
    return _documents().get((owner.__name__, name), "")


def markdown() -> str:
    """Every setting as Markdown, grouped by its table."""
    lines: list[str] = []
    title = None
    for setting in settings():
        above = setting.key[:-1]
        if title != above:
            title = above
            lines += ["", f"### `[{_named(above)}]`" if above else "### Top level", ""]
        lines.append(f"- **`{_named(setting.key[-1:])}`**: {'; '.join(_facts(setting))}.")
        lines.append(f"  {_text(setting)}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _named(key: Key) -> str:
    return spell(key).replace("*", "<name>")


def _text(setting: Setting) -> str:
    name = next(part for part in reversed(setting.key) if part != "*")
    return " ".join(document(setting.owner, name).replace("``", "`").split())


def _facts(setting: Setting) -> Iterator[str]:
    yield describe(setting.accepts)
    yield f"default `{_toml(setting.default)}`" if setting.default is not None else "not set"
    if variable := variable_of(setting):
        yield f"`{variable}`"
    if matches(setting.key, ADDED_UP):
        yield "layers add up"
    if matches(setting.key, FREE_OF_TRUST):
        yield "counts in a project that is not trusted"


def _toml(value: Any) -> str:
    return json.dumps(value)


@cache
def _documents() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    tree = ast.parse(inspect.getsource(schema))
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, text in zip(owner.body, owner.body[1:], strict=False):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(told))),
                ):
                    found[owner.name, name] = told
                case _:
                    pass
    return found
