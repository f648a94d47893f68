"""Settings for people: the values in force, and the reference of every setting."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import Struct

from . import schema
from .loader import Config, SettingSource, variable_of
from .schema import ADDED_UP, FREE_OF_TRUST, SECRET
from .validation import Key, Setting, describe_type, key_matches, list_settings, spell_key

__all__ = ["MASK", "SettingRow", "field_text", "mask_setting", "reference_markdown", "setting_rows"]


def field_text(owner: type[Struct], name: str) -> str:
    """The text under a field of the schema; empty if there is none."""
    return _documents().get((owner.__name__, name), "")


def reference_markdown() -> str:
    """Every setting as Markdown, grouped by its table."""
    lines: list[str] = []
    title = None
    for setting in list_settings():
        above = setting.key[:-1]
        if title != above:
            title = above
            lines += ["", f"### `[{_named(above)}]`" if above else "### Top level", ""]
        lines.append(f"- **`{_named(setting.key[-1:])}`**: {'; '.join(_facts(setting))}.")
        lines.append(f"  {_text(setting)}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _named(key: Key) -> str:
    return spell_key(key).replace("*", "<name>")


def _text(setting: Setting) -> str:
    name = next(part for part in reversed(setting.key) if part != "*")
    return " ".join(field_text(setting.owner, name).replace("``", "`").split())


def _facts(setting: Setting) -> Iterator[str]:
    yield describe_type(setting.accepts)
    yield f"default `{_toml(setting.default)}`" if setting.default is not None else "not set"
    if variable := variable_of(setting):
        yield f"`{variable}`"
    if key_matches(setting.key, ADDED_UP):
        yield "layers are merged"
    if key_matches(setting.key, FREE_OF_TRUST):
        yield "applies in a project that is not trusted"


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
                    ast.Expr(value=ast.Constant(value=str(docstring))),
                ):
                    found[owner.name, name] = docstring
                case _:
                    pass
    return found


MASK = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting."""

    key: str
    value: Any
    """None: not set. What is secret is masked."""
    source: SettingSource


def setting_rows(config: Config) -> Iterator[SettingRow]:
    """Every setting with its value and source, in the order of the schema."""
    for key, value in _leaves(config.settings, ()):
        if not key_matches(key, ADDED_UP):
            yield SettingRow(
                key=spell_key(key), value=mask_setting(key, value), source=config.source(*key)
            )
            continue
        for placed in config.elements(*key):
            yield SettingRow(key=f"{spell_key(key)}[]", value=placed.value, source=placed.source)


def mask_setting(key: Key, value: Any) -> Any:
    """Hide what is secret: whole values by their key, and passwords within URLs."""
    if key_matches(key, SECRET):
        return MASK
    if isinstance(value, str) and "://" in value:
        value = re.sub(r"(?<=://)[^/@\s]*@", f"{MASK}@", value)
        return re.sub(r"\?.*", f"?{MASK}", value)
    return value


def _leaves(value: Any, key: Key) -> Iterator[tuple[Key, Any]]:
    if isinstance(value, Struct):
        for item in msgspec.structs.fields(value):
            yield from _leaves(getattr(value, item.name), (*key, item.name))
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from _leaves(inner, (*key, name))
    else:
        yield key, value
