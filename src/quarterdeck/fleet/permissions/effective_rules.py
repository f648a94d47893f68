"""What stands about permissions in a directory: rules of every layer, and grants."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from quarterdeck.config.loader import Config, load_config
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.policy.effects import Effect
from quarterdeck.policy.errors import RuleError
from quarterdeck.policy.grammar import parse_pattern
from quarterdeck.policy.grants import Grant
from quarterdeck.policy.modes import Mode

if TYPE_CHECKING:
    from quarterdeck.config.loader import Layer

__all__ = ["EffectivePermissions", "EffectiveRule", "find_effective_permissions"]

_EFFECTS: tuple[Effect, ...] = ("deny", "ask", "allow")
_UNTRUSTED = "the workspace is not trusted"


class EffectiveRule(Struct, frozen=True, kw_only=True):
    """A rule of the settings."""

    effect: Effect
    pattern: str
    layer: str
    place: str | None = None
    """The file or the variable."""
    key: str
    line: int | None = None
    """In that file, where it can be told."""
    idle: str | None = None
    """Why it has no effect; None: it has."""


class EffectivePermissions(Struct, frozen=True, kw_only=True):
    """Everything that was said beforehand about calls in a directory."""

    directory: str
    project: str
    """What grants for a project name."""
    trusted: bool
    mode: Mode
    rules: tuple[EffectiveRule, ...]
    """Those that deny first, then those that ask."""
    grants: tuple[Grant, ...]


async def find_effective_permissions(
    places: Places,
    environment: Mapping[str, str],
    directory: str,
    grants: Iterable[Grant],
    *,
    everywhere: bool = False,
    agent: str | None = None,
    session: str | None = None,
) -> EffectivePermissions:
    """Tell what stands in a directory.

    ``grants`` are all that there are; those of other projects are left out unless
    ``everywhere``. ``agent`` and ``session``: only what holds for this agent of the catalogue, or
    this session.

    Raises:
        ConfigError: a settings file is wrong; the message names file and key.
    """
    config, whole, project, trusted = await asyncio.to_thread(_look, places, environment, directory)

    def is_wanted(grant: Grant) -> bool:
        here = everywhere or grant.project in (None, project)
        whose = agent is None or grant.agent in (None, agent)
        return here and whose and (session is None or grant.session in (None, session))

    return EffectivePermissions(
        directory=directory,
        project=project,
        trusted=trusted,
        mode=config.settings.mode,
        rules=await asyncio.to_thread(lambda: tuple(_rules(config, whole))),
        grants=tuple(grant for grant in grants if is_wanted(grant)),
    )


def _look(
    places: Places, environment: Mapping[str, str], directory: str
) -> tuple[Config, Config, str, bool]:
    root = find_workspace(Path(directory)).root
    trusted = TrustStore(places.trust_file).is_trusted(root)
    config = load_config(places, directory=Path(directory), environ=environment, trusted=trusted)
    whole = load_config(places, directory=Path(directory), environ=environment, trusted=True)
    return config, whole, str(root), trusted


def _rules(config: Config, whole: Config) -> Iterator[EffectiveRule]:
    for effect in _EFFECTS:
        counted = _of(config.layer, effect)
        yield from (_rule(effect, text, *counted[text], None) for text in counted)
        for text, (layer, place) in _of(whole.layer, effect).items():
            if counted.get(text) != (layer, place):
                yield _rule(effect, text, layer, place, _UNTRUSTED)


def _of(layer: "Layer", effect: Effect) -> dict[str, tuple[str, str | None]]:
    """The rules of an effect, with the layer and place of each."""
    return {
        key[-1]: (placed.source.layer, placed.source.place)
        for key, placed in layer.items()
        if key[:-1] == ("permissions", effect)
    }


def _rule(
    effect: Effect, text: str, layer: str, place: str | None, idle: str | None
) -> EffectiveRule:
    try:
        parse_pattern(text)
    except RuleError as error:
        idle = str(error)
    line = _line(Path(place), text) if place and layer in ("user", "project", "local") else None
    key = f"permissions.{effect}"
    return EffectiveRule(
        effect=effect, pattern=text, layer=layer, place=place, key=key, line=line, idle=idle
    )


def _line(file: Path, text: str) -> int | None:
    """Where a text stands in a file of settings, if just one line has it."""
    forms = (json.dumps(text), json.dumps(text, ensure_ascii=False), f"'{text}'")
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    found = [number for number, line in enumerate(lines, 1) if any(form in line for form in forms)]
    return found[0] if len(found) == 1 else None
