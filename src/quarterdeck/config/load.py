"""Put the layers of the configuration together.

From the lowest to the highest: defaults, the user's file, the project's file, its local file,
environment, flags. Tables merge in depth, other values replace each other, and the lists of
permission rules add up.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from .check import check
from .environment import misspelt, read_environment
from .errors import InvalidConfig, Problem
from .files import read_toml
from .layers import Layer, LayerName, Placed, Source, flatten, merge, nest
from .places import Places
from .schema import ADDED_UP, FREE_OF_TRUST, Settings
from .shape import Key, matches, spell
from .workspace import find_workspace

__all__ = ["Config", "Notice", "load"]

DEFAULT = Source("default")


class Notice(Struct, frozen=True, kw_only=True):
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
    notices: tuple[Notice, ...]
    files: tuple[Source, ...]
    """The files that were read, the lowest layer first."""
    layer: Layer
    """Every value that is not a default."""

    def source(self, *key: str) -> Source:
        """Where a value comes from; the element itself is the last part for permission rules."""
        placed = self.layer.get(key)
        return placed.source if placed else DEFAULT

    def elements(self, *key: str) -> tuple[Placed, ...]:
        """The elements of a list to which layers add, as they were written, in order."""
        return tuple(placed for each, placed in self.layer.items() if each[:-1] == key)


def load(
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
        directory: whose project counts; None for none.
        environ: the environment's variables; None for those of this process.
        flags: nested like the file, from the command line.
        trusted: whether the workspace is trusted. If not, what its files set beyond
            ``schema.FREE_OF_TRUST`` is left out and told as a notice.

    Raises:
        UnreadableConfig: a file cannot be read or is not TOML.
        InvalidConfig: keys or values that no setting takes, of all layers together.
    """
    environ = os.environ if environ is None else environ
    given = dict(flags or {})
    read = [found for source in _sources(places, directory) if (found := _read(source, trusted))]
    from_environment, wrong = read_environment(environ)
    problems = (
        *(problem for found in read for problem in found.problems),
        *wrong,
        *check(given, "flags"),
    )
    if problems:
        raise InvalidConfig(problems)
    layer = merge(
        *(found.layer for found in read), from_environment, flatten(given, Source("flag"))
    )
    return Config(
        settings=msgspec.convert(nest(layer), Settings),
        notices=(*(notice for found in read for notice in found.notices), *_misspelt(environ)),
        files=tuple(found.source for found in read),
        layer=layer,
    )


class _Read(Struct, frozen=True, kw_only=True):
    source: Source
    layer: Layer
    problems: tuple[Problem, ...] = ()
    notices: tuple[Notice, ...] = ()


def _read(source: Source, trusted: bool) -> _Read | None:
    path = Path(source.place or "")
    values = read_toml(path)
    if values is None:
        return None
    if problems := check(values, str(path)):
        return _Read(source=source, layer={}, problems=problems)
    layer = flatten(values, source)
    if trusted or source.layer == "user":
        return _Read(source=source, layer=layer)
    layer, notices = _narrow(layer)
    return _Read(source=source, layer=layer, notices=tuple(notices))


def _sources(places: Places, directory: Path | None) -> list[Source]:
    user = places.config_file
    sources = [Source("user", str(user))]
    if directory is None:
        return sources
    workspace = find_workspace(directory)
    found: tuple[tuple[LayerName, Path | None], ...] = (
        ("project", workspace.project_file),
        ("local", workspace.local_file),
    )
    # With QUARTERDECK_HOME=~/.quarterdeck and work in ~, the user's file is met again.
    sources.extend(
        Source(name, str(path)) for name, path in found if path and path != user.resolve()
    )
    return sources


def _narrow(layer: Layer) -> tuple[Layer, list[Notice]]:
    kept: Layer = {}
    ignored: dict[Key, Placed] = {}
    for key, placed in layer.items():
        setting = key[:-1] if matches(key[:-1], ADDED_UP) else key
        if matches(setting, FREE_OF_TRUST):
            kept[key] = placed
        else:
            ignored[setting] = placed
    return kept, [
        Notice(
            where=placed.source.place or placed.source.layer,
            key=spell(key),
            message="ignored until you trust this workspace with `quarterdeck config trust`",
        )
        for key, placed in ignored.items()
    ]


def _misspelt(environ: Mapping[str, str]) -> list[Notice]:
    return [
        Notice(where="environment", key=name, message=f"not a setting of ours{hint}")
        for name, hint in misspelt(environ)
    ]
