"""Changes one setting in a file of settings; every other line stays as it is. Blocks on files."""

import copy
import json
import re
import stat
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_origin

import msgspec

from quarterdeck.wire.decoders import convert
from quarterdeck.wire.private_files import write_private

from .errors import ConfigError, ConfigProblem, InvalidConfigError, UnreadableConfigError
from .loader import parse_setting_text, read_toml
from .validation import (
    ANY_NAME,
    Key,
    Setting,
    check_layer,
    choices_of,
    describe_type,
    list_settings,
    spell_key,
    suggest_name,
    tables_of,
)
from .workspace import FOLDER, find_workspace

if TYPE_CHECKING:
    from .places import Places

__all__ = [
    "SETTING_SCOPES",
    "SettingScope",
    "SettingValue",
    "UnwritableConfigError",
    "find_scope_file",
    "find_setting",
    "parse_setting_value",
    "read_own_value",
    "remove_setting",
    "write_setting",
    "write_user_setting",
]

SettingScope: TypeAlias = Literal["user", "project", "local"]
"""The files that a person writes settings to."""
SETTING_SCOPES: tuple[SettingScope, ...] = ("user", "project", "local")
SettingValue: TypeAlias = "str | bool | float | list[str]"
_COMMENT = re.compile(r"""^\s*("[^"]*"|'[^']*'|[^#"'\s\[]+|\[[^#\]]*\])(\s*#.*)$""")
"""A value without an escape, and the comment behind it."""


class UnwritableConfigError(ConfigError):
    """A setting cannot be written to the file; it is as it was."""


def find_setting(text: str) -> tuple[Key, Setting]:
    """The key that a text names, as TOML writes it, and the setting that it is of.

    Raises:
        InvalidConfigError: there is no such setting; the message says which was meant.
    """
    key = _parse_key(text)
    for setting in list_settings():
        if len(setting.key) == len(key) and all(
            want in (ANY_NAME, part) for want, part in zip(setting.key, key, strict=True)
        ):
            return key, setting
    known = [spell_key(setting.key) for setting in list_settings()]
    near = suggest_name(text, known)
    hint = near or "; `quarterdeck config reference` lists all"
    raise InvalidConfigError((ConfigProblem("settings", text, f"unknown key{hint}"),))


def _parse_key(text: str) -> Key:
    try:
        found: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        found = None
    parts: list[str] = []
    while isinstance(found, dict) and len(cast("dict[str, Any]", found)) == 1:
        ((name, found),) = cast("dict[str, Any]", found).items()
        parts.append(name)
    if found != 0 or not parts or "\n" in text:
        hint = 'write it with dots, and parts with other signs in quotes: models."a/b".window'
        raise InvalidConfigError((ConfigProblem("settings", text, f"is no key; {hint}"),))
    return tuple(parts)


def parse_setting_value(key: Key, setting: Setting, texts: Sequence[str]) -> SettingValue:
    """The value that texts stand for; a list is one text for each element, or one TOML list.

    Raises:
        InvalidConfigError: the setting does not take it.
        UnwritableConfigError: only a person can write it, such as a list of tables.
    """
    if tables_of(setting.accepts) is not None:
        raise UnwritableConfigError(f"{spell_key(key)} is a list of tables; edit it in the file")
    if get_origin(setting.accepts) is tuple:
        value: Any = _parse_list(texts)
        fits = _is_accepted(value, setting.accepts)
    elif len(texts) != 1:
        raise _refuse(key, setting, f"{len(texts)} values")
    else:
        try:
            value, fits = parse_setting_text(texts[0], setting), True
        except (msgspec.ValidationError, ValueError):
            value, fits = None, False
        # What the environment reads leniently is written strictly.
        fits = fits and not check_layer(_with_value({}, key, value), "settings")
    if not fits:
        found = repr(texts[0]) if len(texts) == 1 else "others"
        raise _refuse(key, setting, found, texts[0] if texts else "")
    return value


def _parse_list(texts: Sequence[str]) -> Any:
    if len(texts) == 1 and texts[0].lstrip().startswith("["):
        try:
            return tomllib.loads(f"x = {texts[0].strip()}")["x"]
        except tomllib.TOMLDecodeError:
            return None
    return list(texts)


def _is_accepted(value: Any, annotation: Any) -> bool:
    try:
        convert(value, annotation)
    except msgspec.ValidationError:
        return False
    return isinstance(value, list)


def _refuse(key: Key, setting: Setting, found: str, typed: str = "") -> InvalidConfigError:
    hint = suggest_name(typed, choices_of(setting.accepts)) if typed else ""
    expected = describe_type(setting.accepts)
    problem = ConfigProblem("settings", spell_key(key), f"expected {expected}, found {found}{hint}")
    return InvalidConfigError((problem,))


def find_scope_file(places: "Places", directory: Path, scope: SettingScope) -> Path:
    """The file of a scope, whether it is there or not."""
    if scope == "user":
        return places.config_file
    workspace = find_workspace(directory)
    folder = workspace.folder or workspace.project / FOLDER
    return folder / ("config.toml" if scope == "project" else "config.local.toml")


def read_own_value(path: Path, key: Key) -> Any:
    """The value that a file itself has for a key; None: it has none.

    Raises UnreadableConfigError.
    """
    found: Any = read_toml(path)
    for part in key:
        found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
    return found


def write_user_setting(places: "Places", key: Sequence[str], value: SettingValue) -> Path:
    """Set a key of the user's file; see ``write_setting``. Returns the path."""
    write_setting(places.config_file, key, value)
    return places.config_file


def write_setting(
    path: Path, key: Sequence[str], value: SettingValue, *, is_shared: bool = False
) -> None:
    """Set a key of a file of settings, and make the file if there is none.

    Comments, order and all other settings stay. A file that would be wrong is not written.
    ``is_shared``: it comes with a project, so that others may read it, and it is no link.

    Raises:
        InvalidConfigError: no setting takes the value, or the file has other errors.
        UnreadableConfigError: the file cannot be read or is not TOML.
        UnwritableConfigError: it cannot be written, or its form is one that only a person can edit.
    """
    spelled = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    _change(
        path,
        key,
        lambda before: _with_value(before, key, value),
        lambda text: _edit(text, key, spelled),
        is_shared=is_shared,
    )


def remove_setting(path: Path, key: Sequence[str], *, is_shared: bool = False) -> bool:
    """Take a key out of a file of settings; False if it has none. Raises as ``write_setting``."""
    if read_own_value(path, tuple(key)) is None:
        return False
    _change(
        path,
        key,
        lambda before: _without_value(before, key),
        lambda text: _edit(text, key, None),
        is_shared=is_shared,
    )
    return True


def _change(
    path: Path,
    key: Sequence[str],
    change: Callable[[dict[str, Any]], dict[str, Any]],
    edit: Callable[[str], str],
    *,
    is_shared: bool,
) -> None:
    if is_shared and (path.is_symlink() or path.parent.is_symlink()):
        # It comes with a repository, and would let that choose which file is written.
        raise UnwritableConfigError(f"{path} is a link, or in one; edit it by hand")
    try:
        text = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
        before = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnreadableConfigError(
            str(path), f"cannot be changed, fix it first: {error}"
        ) from error
    wanted = change(before)
    if problems := check_layer(wanted, str(path)):
        raise InvalidConfigError(problems)
    after = edit(text)
    if not _means(after, wanted):
        raise UnwritableConfigError(f"{path}: {spell_key(tuple(key))} must be edited by hand")
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
        if is_shared:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, after)
        if is_shared:
            path.chmod(mode)
    except OSError as error:
        raise UnwritableConfigError(f"cannot write {path}: {error.strerror or error}") from error


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


def _without_value(values: dict[str, Any], key: Sequence[str]) -> dict[str, Any]:
    changed = copy.deepcopy(values)
    table = changed
    for part in key[:-1]:
        table = table[part]
    del table[key[-1]]
    return changed


def _edit(text: str, key: Sequence[str], value: str | None) -> str:
    """The text with another value; None: without the key."""
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
            last = _find_value_end(lines, number, end)
            comment = _COMMENT.match(lines[number][found.end() :]) if last == number + 1 else None
            line = f"{found[0]} {value}{comment[2] if comment else ''}"
            lines[number:last] = [] if value is None else [line]
            return "\n".join(lines) + "\n" if lines else ""
    while end > start and not lines[end - 1].strip():
        end -= 1
    lines.insert(end, f"{_spell(key[-1])} = {value}")
    return "\n".join(lines) + "\n"


def _find_value_end(lines: list[str], number: int, end: int) -> int:
    """The line after a value that may go over several; one with comments within stays as it is."""
    for last in range(number + 1, end + 1):
        block = "\n".join(lines[number:last])
        try:
            tomllib.loads(block)
        except tomllib.TOMLDecodeError:
            continue
        return last if last == number + 1 or "#" not in block else number + 1
    return number + 1


def _find_table(lines: list[str], table: Sequence[str]) -> tuple[int | None, int]:
    """The lines of a table, from the one after its head; the first part of the file has none."""
    heads = [number for number, line in enumerate(lines) if _HEAD.match(line)]
    ends = [*heads, len(lines)][1:]
    if not table:
        return 0, heads[0] if heads else len(lines)
    for number, end in zip(heads, ends, strict=True):
        if lines[number].partition("#")[0].strip() == f"[{'.'.join(map(_spell, table))}]":
            return number + 1, end
    return None, 0


_HEAD = re.compile(r"""^\s*\[\[?[^\[\],]+\]\]?\s*(#.*)?$""")
"""The head of a table; a line within a list is none, or the result is found to be wrong."""


def _spell(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part, ensure_ascii=False)


def _means(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False
