"""Every agent that is described: by the files that ship with us, and by the user's own.

A user's file adds an agent, or changes the shipped one of the same name field by field: tables
merge in depth, everything else replaces. A file of the user's that cannot be used harms no other
agent; it is reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from quarterdeck.config.errors import UnreadableConfigError
from quarterdeck.config.loader import read_toml
from quarterdeck.config.places import Places

from .agent_description import Agent, check_agent_name, make_launch, parse_agent
from .errors import BadAgentFileError, UnknownAgentError

__all__ = ["Agent", "Catalogue", "find_agent", "load_catalogue", "make_launch"]

SHIPPED = Path(__file__).with_name("agents")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The agents that can be used, by name, and the files that cannot."""

    agents: Mapping[str, Agent]
    """In the order of their names."""
    problems: Mapping[str, BadAgentFileError]
    """The user's files that cannot be used, by the name of the agent."""

    def find(self, name: str) -> Agent:
        """The agent of this name or alias; case does not matter.

        Raises:
            BadAgentFileError: the user's file of that name cannot be used, and none ships.
            UnknownAgentError: there is none; says which there are and which was meant.
        """
        wanted = name.strip().casefold()
        for agent in self.agents.values():
            if agent.name.casefold() == wanted:
                return agent
        # A user's alias takes precedence over a shipped one.
        for agent in sorted(self.agents.values(), key=lambda agent: not agent.is_own):
            if wanted in (alias.casefold() for alias in agent.aliases):
                return agent
        for bad, problem in self.problems.items():
            if bad.casefold() == wanted:
                raise problem
        raise UnknownAgentError(name, tuple(self.agents))


def load_catalogue(places: Places | None = None) -> Catalogue:
    """Read every description. Blocks on files; the user's are read anew each time.

    Raises:
        BadAgentFileError: a shipped file is wrong.
        UnusablePlaceError: the place of the user's files is unknown.
    """
    fields: dict[str, Mapping[str, Any]] = dict(_shipped_fields())
    agents = dict(_shipped())
    problems: dict[str, BadAgentFileError] = {}
    for file in _files((places or Places.find()).agents):
        name = file.stem
        try:
            check_agent_name(str(file), name)
            own = _read(file)
            below = agents[name].sources if name in agents else ()
            merged = _merge(fields.get(name, {}), own)
            agents[name] = parse_agent(name, merged, (*below, str(file)))
        except BadAgentFileError as problem:
            problems[name] = problem
    return Catalogue(
        agents=MappingProxyType(dict(sorted(agents.items()))), problems=MappingProxyType(problems)
    )


def find_agent(name: str, places: Places | None = None) -> Agent:
    """The agent of this name or alias. Blocks on files; raises as ``Catalogue.find``."""
    return load_catalogue(places).find(name)


@cache
def _shipped_fields() -> Mapping[str, Mapping[str, Any]]:
    return {file.stem: _read(file) for file in _files(SHIPPED)}


@cache
def _shipped() -> Mapping[str, Agent]:
    return {
        name: parse_agent(name, fields, (f"{name}.toml",))
        for name, fields in _shipped_fields().items()
    }


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix == ".toml")
    except OSError:
        return []


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return read_toml(file) or {}
    except UnreadableConfigError as error:
        raise BadAgentFileError(str(error)) from error


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(value, dict) and isinstance(under, dict):
            merged[key] = _merge(cast("dict[str, Any]", under), cast("dict[str, Any]", value))
        else:
            merged[key] = value
    return merged
