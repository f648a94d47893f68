"""Changes one setting in the user's file; every other line stays as it is. Blocks on files."""

import copy
import json
import re
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from quarterdeck.wire.private_files import write_private

from .errors import ConfigError, InvalidConfigError, UnreadableConfigError
from .validation import check_layer, spell_key

if TYPE_CHECKING:
    from pathlib import Path

    from .places import Places

__all__ = ["UnwritableConfigError", "write_user_setting"]

_COMMENT = re.compile(r"""^\s*("[^"]*"|'[^']*'|[^#"'\s]+)(\s*#.*)$""")
"""A value without an escape, and the comment behind it."""


class UnwritableConfigError(ConfigError):
    """A setting cannot be written to the file; it is as it was."""


def write_user_setting(places: "Places", key: Sequence[str], value: str | bool | float) -> "Path":
    """Set a key of the user's file, and make the file if there is none; returns its path.

    Comments, order and all other settings stay. A file that would be wrong is not written.

    Raises:
        InvalidConfigError: no setting takes the value, or the file has other errors.
        UnreadableConfigError: the file cannot be read or is not TOML.
        UnwritableConfigError: it cannot be written, or its form is one that only a person can edit.
    """
    path = places.config_file
    try:
        text = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
        before = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnreadableConfigError(
            str(path), f"cannot be changed, fix it first: {error}"
        ) from error
    wanted = _with_value(before, key, value)
    if problems := check_layer(wanted, str(path)):
        raise InvalidConfigError(problems)
    after = _edit(text, key, json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f"))
    if not _means(after, wanted):
        raise UnwritableConfigError(f"{path}: {spell_key(tuple(key))} must be edited by hand")
    try:
        write_private(path, after)
    except OSError as error:
        raise UnwritableConfigError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _with_value(values: dict[str, Any], key: Sequence[str], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(values)
    table = changed
    for part in key[:-1]:
        below: Any = table.setdefault(part, {})
        if not isinstance(below, dict):
            raise UnwritableConfigError(f"{spell_key(tuple(key))}: {part!r} is not a table")
        table = cast("dict[str, Any]", below)
    table[key[-1]] = value
    return changed


def _edit(text: str, key: Sequence[str], value: str) -> str:
    # Not ``splitlines``: a string may hold other ends of lines.
    lines = text.removesuffix("\n").split("\n") if text else []
    start, end = _find_table(lines, key[:-1])
    if start is None:
        head = f"[{'.'.join(map(_spell, key[:-1]))}]"
        return "\n".join(
            [*lines, *([""] if lines else []), head, f"{_spell(key[-1])} = {value}", ""]
        )
    name = re.compile(rf"^\s*(?:{re.escape(_spell(key[-1]))}|{re.escape(json.dumps(key[-1]))})\s*=")
    for number in range(start, end):
        if found := name.match(lines[number]):
            comment = _COMMENT.match(lines[number][found.end() :])
            lines[number] = f"{found[0]} {value}{comment[2] if comment else ''}"
            return "\n".join(lines) + "\n"
    while end > start and not lines[end - 1].strip():
        end -= 1
    lines.insert(end, f"{_spell(key[-1])} = {value}")
    return "\n".join(lines) + "\n"


def _find_table(lines: list[str], table: Sequence[str]) -> tuple[int | None, int]:
    """The lines of a table, from the one after its head; the first part of the file has none."""
    heads = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
    ends = [*heads, len(lines)][1:]
    if not table:
        return 0, heads[0] if heads else len(lines)
    for number, end in zip(heads, ends, strict=True):
        if lines[number].partition("#")[0].strip() == f"[{'.'.join(map(_spell, table))}]":
            return number + 1, end
    return None, 0


def _spell(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part, ensure_ascii=False)


def _means(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False
