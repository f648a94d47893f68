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

from . import host_settings, schema
from .loader import Config, SettingSource, variable_of
from .schema import ADDED_UP, FREE_OF_TRUST, SECRET
from .validation import Key, Setting, describe_type, key_matches, list_settings, spell_key

__all__ = [
    "MASK",
    "SettingFact",
    "SettingRow",
    "describe_effect",
    "describe_setting_text",
    "field_text",
    "mask_setting",
    "reference_markdown",
    "setting_facts",
    "setting_rows",
]


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
        lines.append(f"  {describe_setting_text(setting)}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _named(key: Key) -> str:
    return spell_key(key).replace("*", "<name>")


def describe_setting_text(setting: Setting) -> str:
    """What a setting is for, as a paragraph."""
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
    trees = [ast.parse(inspect.getsource(module)) for module in (host_settings, schema)]
    nodes = (node for tree in trees for node in tree.body)
    for owner in (node for node in nodes if isinstance(node, ast.ClassDef)):
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


class SettingFact(Struct, frozen=True, kw_only=True):
    """One setting with all that is known about it."""

    key: Key
    setting: Setting
    value: Any
    """In force; None: not set. What is secret is masked. Of a list that layers add to, all."""
    source: SettingSource
    """Of a list that layers add to, the highest that adds something."""

    @property
    def is_secret(self) -> bool:
        """Whether its value is never shown."""
        return key_matches(self.key, SECRET)

    @property
    def is_added_up(self) -> bool:
        """Whether each layer adds to it."""
        return key_matches(self.key, ADDED_UP)


def setting_facts(config: Config) -> list[SettingFact]:
    """Every setting, in the order of the schema; tables with free names by what is in them."""
    settings = list(list_settings())
    facts: list[SettingFact] = []
    for key, value in _leaves(config.settings, ()):
        setting = next((one for one in settings if _names(one.key, key)), None)
        if setting is None:
            continue
        source = config.source(*key)
        if key_matches(key, ADDED_UP) and (placed := config.elements(*key)):
            source = placed[-1].source
        value = mask_setting(key, value)
        facts.append(SettingFact(key=key, setting=setting, value=value, source=source))
    return facts


def _names(pattern: Key, key: Key) -> bool:
    return key_matches(key, frozenset((".".join(pattern),)))


_HOST = frozenset(("host", "notifications"))
_NOW = frozenset(("landing", "worktrees"))


def describe_effect(key: Key) -> str:
    """When a change of a setting counts, in words."""
    if key[0] in _HOST:
        return "after a restart of the host"
    if key[0] in _NOW:
        return "now"
    return "for agents that start from now on"


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
