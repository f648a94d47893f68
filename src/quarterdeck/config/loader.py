"""The layers of the configuration, and how their files are read and merged.

From the lowest to the highest: defaults, the user's file, the project's file, its local file,
environment, flags. A layer is flat, one entry per setting, so that merging tables in depth is a
union of entries and every value carries its source. Lists of ``schema.ADDED_UP`` become one entry
per element: a layer can add to them and never take away. ``limits.seconds`` is
``QUARTERDECK_LIMITS_SECONDS`` in the environment; an empty variable counts as not set.
"""

import os
import re
import stat
import types
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import convert

from .errors import ConfigProblem, InvalidConfigError, UnreadableConfigError
from .places import Places
from .schema import ADDED_UP, FREE_OF_TRUST, Settings
from .validation import (
    ANY_NAME,
    Key,
    Setting,
    check_layer,
    choices_of,
    describe_type,
    key_matches,
    list_settings,
    spell_key,
    suggest_name,
)
from .workspace import find_workspace

__all__ = [
    "LARGEST",
    "PREFIX",
    "Config",
    "ConfigNotice",
    "Layer",
    "LayerName",
    "PlacedValue",
    "SettingSource",
    "find_approver_table",
    "find_misspelt_variables",
    "flatten_layer",
    "list_variables",
    "load_config",
    "merge_layers",
    "nest_layer",
    "parse_setting_text",
    "read_environment",
    "read_toml",
    "variable_of",
]

LARGEST = 1_048_576
"""Bytes; a larger file is an error, not a configuration."""


def read_toml(path: Path) -> dict[str, Any] | None:
    """Read a TOML file; None if there is none.

    The file may come with a repository that was not reviewed: a pipe, a device or an
    endless file is refused without waiting for it.

    Raises:
        UnreadableConfigError: it is there and cannot be used; the reason names line and column
            where the text is at fault.
    """
    data = _read_file(path)
    if data is None:
        return None
    import tomllib  # late: most directories have no file of ours

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableConfigError(
            str(path), f"not UTF-8 in line {line}; save the file as UTF-8"
        ) from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableConfigError(
            str(path), f"not TOML: {_with_line(str(error), text)}"
        ) from error
    except RecursionError as error:
        raise UnreadableConfigError(str(path), "unsupported TOML: nested too deeply") from error


def _read_file(path: Path) -> bytes | None:
    try:
        # Without O_NONBLOCK opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableConfigError(str(path), _reason(error)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableConfigError(str(path), "not a file; a configuration file goes here")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UnreadableConfigError(str(path), _reason(error)) from error
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise UnreadableConfigError(str(path), f"larger than {LARGEST} bytes")
    return data


def _reason(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def _with_line(message: str, text: str) -> str:
    end = "(at end of document)"
    if not message.endswith(end):
        return message
    line, column = text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
    return f"{message.removesuffix(end)}(at line {line}, column {column}, the end)"


LayerName: TypeAlias = Literal["default", "user", "project", "local", "environment", "flag"]
"""From the lowest to the highest."""


class SettingSource(Struct, frozen=True):
    """Where a value comes from."""

    layer: LayerName
    place: str | None = None
    """The file or the variable; None for defaults and flags."""


class PlacedValue(Struct, frozen=True):
    """A value and its source."""

    value: Any
    source: SettingSource


Layer: TypeAlias = dict[Key, PlacedValue]
"""The settings of one layer, or of several merged; never changed once it is made."""


def flatten_layer(values: Mapping[str, Any], source: SettingSource, above: Key = ()) -> Layer:
    """Turn nested tables, already checked, into a layer. Empty tables leave no trace."""
    layer: Layer = {}
    for name, value in values.items():
        key = (*above, name)
        if isinstance(value, dict):
            layer |= flatten_layer(cast("dict[str, Any]", value), source, key)
        elif key_matches(key, ADDED_UP):
            layer |= {
                (*key, _element_key(item)): PlacedValue(item, source)
                for item in cast("list[Any]", value)
            }
        else:
            layer[key] = PlacedValue(value, source)
    return layer


def _element_key(element: Any) -> str:
    """What stands in a key for an element of a list that adds up: the text, or the table's JSON."""
    if isinstance(element, str):
        return element
    return msgspec.json.encode(element, order="sorted").decode()


def merge_layers(*layers: Layer) -> Layer:
    """Put layers over each other, the lowest first.

    Associative; the empty layer changes nothing; each entry is the one of the highest layer
    that has it.
    """
    merged: Layer = {}
    for layer in layers:
        merged = merged | layer
    return merged


def nest_layer(layer: Layer) -> dict[str, Any]:
    """Turn a layer back into nested tables."""
    nested: dict[str, Any] = {}
    for key, placed in layer.items():
        added = key_matches(key[:-1], ADDED_UP)
        *tables, name = key[:-1] if added else key
        inner = nested
        for table in tables:
            inner = inner.setdefault(table, {})
        if added:
            inner.setdefault(name, []).append(placed.value)
        else:
            inner[name] = placed.value
    return nested


PREFIX = "QUARTERDECK_"
OTHERS = frozenset({"QUARTERDECK_HOME", "QUARTERDECK_DEBUG", "QUARTERDECK_POOL"})
"""Variables of ours that are no settings; that of a pool may hold a password."""


def variable_of(setting: Setting) -> str | None:
    """The variable of a setting, or None if it has none."""
    if ANY_NAME in setting.key or get_origin(setting.accepts) is tuple:
        return None
    name = PREFIX + "_".join(setting.key).upper()
    return None if name in OTHERS else name


@cache  # the schema does not change, and going through it takes milliseconds
def list_variables() -> Mapping[str, Setting]:
    """Every setting that has a variable, by the variable's name."""
    return {name: setting for setting in list_settings() if (name := variable_of(setting))}


def read_environment(environ: Mapping[str, str]) -> tuple[Layer, tuple[ConfigProblem, ...]]:
    """Read the layer of the environment, and what is wrong with it."""
    layer: Layer = {}
    problems: list[ConfigProblem] = []
    if not _names_of_ours(environ):
        return layer, ()
    for name, setting in list_variables().items():
        if not (text := environ.get(name)):
            continue
        try:
            value = parse_setting_text(text, setting)
        except (msgspec.ValidationError, ValueError):
            hint = suggest_name(text, choices_of(setting.accepts))
            expected = describe_type(setting.accepts)
            problems.append(
                ConfigProblem("environment", name, f"expected {expected}, found {text!r}{hint}")
            )
        else:
            layer[setting.key] = PlacedValue(value, SettingSource("environment", name))
    return layer, tuple(problems)


def find_misspelt_variables(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Variables that are none of ours but nearly one, each with its suggestion.

    Other variables with our prefix may be meant for programs that use us, and are let be.
    """
    if not (ours := _names_of_ours(environ)):
        return ()
    known = {*list_variables(), *OTHERS}
    others = sorted(name for name in ours if name not in known)
    hints = ((name, suggest_name(name, known, PREFIX)) for name in others)
    return tuple((name, hint) for name, hint in hints if hint)


def _names_of_ours(environ: Mapping[str, str]) -> list[str]:
    return [name for name in environ if name.startswith(PREFIX) and name not in OTHERS]


def parse_setting_text(text: str, setting: Setting) -> Any:
    """The value of a text in the environment. Raises ValueError or msgspec.ValidationError."""
    words = {"on": "true", "yes": "true", "off": "false", "no": "false"}
    if bool in (setting.accepts, *get_args(setting.accepts)):
        text = words.get(text.lower(), text)
    if text.lower() in ("null", "nan", "inf", "-inf", "infinity", "-infinity"):
        raise ValueError(text)
    value = convert(text, setting.accepts, strict=False)
    assert not isinstance(value, types.NoneType)
    return value


DEFAULT = SettingSource("default")


class ConfigNotice(Struct, frozen=True, kw_only=True):
    """Something that was not used, and why; for a person to see once."""

    where: str
    key: str
    message: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.where}: {self.key}: {self.message}"


class Config(Struct, frozen=True, kw_only=True):
    """The settings that count, and where each comes from."""

    settings: Settings
    notices: tuple[ConfigNotice, ...]
    files: tuple[SettingSource, ...]
    """The files that were read, the lowest layer first."""
    layer: Layer
    """Every value that is not a default."""

    def source(self, *key: str) -> SettingSource:
        """Where a value comes from; the element itself is the last part for permission rules."""
        placed = self.layer.get(key)
        return placed.source if placed else DEFAULT

    def elements(self, *key: str) -> tuple[PlacedValue, ...]:
        """The elements of a list to which layers add, as they were written, in order."""
        return tuple(placed for each, placed in self.layer.items() if each[:-1] == key)


def load_config(
    places: Places,
    *,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    trusted: bool = False,
) -> Config:
    """Read every layer and merge them. Blocks on files.

    Args:
        places: where the user's file is.
        directory: its project counts; None for none.
        environ: the environment's variables; None for those of this process.
        flags: nested like the file, from the command line.
        trusted: whether the workspace is trusted. If not, what its files set beyond
            ``schema.FREE_OF_TRUST`` is left out, with a notice.

    Raises:
        UnreadableConfigError: a file cannot be read or is not TOML.
        InvalidConfigError: keys or values that no setting takes, of all layers together.
    """
    environ = os.environ if environ is None else environ
    given = dict(flags or {})
    read = [found for source in _sources(places, directory) if (found := _read(source, trusted))]
    from_environment, wrong = read_environment(environ)
    problems = (
        *(problem for found in read for problem in found.problems),
        *wrong,
        *check_layer(given, "flags"),
    )
    if problems:
        raise InvalidConfigError(problems)
    layer = merge_layers(
        *(found.layer for found in read),
        from_environment,
        flatten_layer(given, SettingSource("flag")),
    )
    if problems := (*_check_people(layer), *_check_hosts(layer)):
        raise InvalidConfigError(problems)
    return Config(
        settings=convert(nest_layer(layer), Settings) if layer else Settings(),
        notices=(*(notice for found in read for notice in found.notices), *_misspelt(environ)),
        files=tuple(found.source for found in read),
        layer=layer,
    )


class _Read(Struct, frozen=True, kw_only=True):
    source: SettingSource
    layer: Layer
    problems: tuple[ConfigProblem, ...] = ()
    notices: tuple[ConfigNotice, ...] = ()


def _read(source: SettingSource, trusted: bool) -> _Read | None:
    path = Path(source.place or "")
    values = read_toml(path)
    if values is None:
        return None
    if problems := check_layer(values, str(path)):
        return _Read(source=source, layer={}, problems=problems)
    layer = flatten_layer(values, source)
    if trusted or source.layer == "user":
        return _Read(source=source, layer=layer)
    layer, notices = _narrow(layer)
    return _Read(source=source, layer=layer, notices=tuple(notices))


def _sources(places: Places, directory: Path | None) -> list[SettingSource]:
    user = places.config_file
    sources = [SettingSource("user", str(user))]
    if directory is None:
        return sources
    workspace = find_workspace(directory)
    found: tuple[tuple[LayerName, Path | None], ...] = (
        ("project", workspace.project_file),
        ("local", workspace.local_file),
    )
    # With QUARTERDECK_HOME=~/.quarterdeck and work in ~, the user's file is met again.
    sources.extend(
        SettingSource(name, str(path)) for name, path in found if path and path != user.resolve()
    )
    return sources


def _narrow(layer: Layer) -> tuple[Layer, list[ConfigNotice]]:
    kept: Layer = {}
    ignored: dict[Key, PlacedValue] = {}
    for key, placed in layer.items():
        setting = key[:-1] if key_matches(key[:-1], ADDED_UP) else key
        if key_matches(setting, FREE_OF_TRUST):
            kept[key] = placed
        else:
            ignored[setting] = placed
    return kept, [
        ConfigNotice(
            where=placed.source.place or placed.source.layer,
            key=spell_key(key),
            message="ignored until you trust this workspace with `quarterdeck config trust`",
        )
        for key, placed in ignored.items()
    ]


def _check_people(layer: Layer) -> Iterator[ConfigProblem]:
    """Find people who cannot be, and approvers that no one could ever satisfy."""
    uids: dict[int, str] = {}
    known: set[str] = set()
    for key, placed in layer.items():
        if key[0] != "people":
            continue
        where = placed.source.place or placed.source.layer
        if placed.source.layer != "user":
            yield ConfigProblem(where, spell_key(key), "only your own file can name people")
            continue
        if placed.value is not False:
            known.add(key[1])
        if key[2] == "uid" and (other := uids.setdefault(placed.value, key[1])) != key[1]:
            message = f"user {placed.value} is {other!r} already; a user is one person"
            yield ConfigProblem(where, spell_key(key), message)
    numbers: dict[str, int] = {}
    for key, placed in layer.items():
        if key[:-1] == ("permissions", "approvers"):
            where = placed.source.place or placed.source.layer
            numbers[where] = number = numbers.get(where, 0) + 1
            line = find_approver_table(where, number)
            name = f"permissions.approvers.{number}" + (f" (line {line})" if line else "")
            for message in _check_approvers(placed.value, known):
                yield ConfigProblem(where, name, message)


def _check_hosts(layer: Layer) -> Iterator[ConfigProblem]:
    """Find hosts and pools that a project names: it must not choose where commands go."""
    for key, placed in layer.items():
        if key[0] in ("hosts", "pool") and placed.source.layer != "user":
            where = placed.source.place or placed.source.layer
            what = "hosts" if key[0] == "hosts" else "a pool"
            yield ConfigProblem(where, spell_key(key), f"only your own file can name {what}")


def _check_approvers(given: dict[str, Any], known: set[str]) -> Iterator[str]:
    people: list[str] = given.get("people", [])
    if not people:
        yield "people: it is empty; name at least one person who may answer"
        return
    for person in people:
        if person not in known:
            hint = suggest_name(person, known)
            yield f"people: there is no person {person!r} with a uid or devices in `people`{hint}"
    needed = given.get("needed", 1)
    if needed > len(set(people)):
        names = ", ".join(dict.fromkeys(people))
        yield f"needed: {needed} is more than the people who may answer ({names})"


def find_approver_table(where: str, number: int) -> int | None:
    """The line at which the n-th table of approvers begins in a file; None: that is not clear."""
    try:
        lines = Path(where).read_text("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return None
    heads = [
        at
        for at, line in enumerate(lines, 1)
        if re.fullmatch(r"\s*\[\[\s*permissions\s*\.\s*approvers\s*\]\]\s*(#.*)?", line)
    ]
    if number <= len(heads):
        return heads[number - 1]
    lists = [at for at, line in enumerate(lines, 1) if re.match(r"\s*approvers\s*=", line)]
    return lists[0] if lists else None


def _misspelt(environ: Mapping[str, str]) -> list[ConfigNotice]:
    return [
        ConfigNotice(where="environment", key=name, message=f"unknown setting{hint}")
        for name, hint in find_misspelt_variables(environ)
    ]
