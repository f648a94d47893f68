"""Finds what the form that starts an agent offers: agents, their models, directories, worktrees."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import OptionsChanged

from ..sanitize import sanitize_line
from .spawn_model import (
    ModelPrice,
    SpawnAgent,
    SpawnDirectory,
    list_directory_options,
    list_model_options,
)

if TYPE_CHECKING:
    from quarterdeck.config.schema import Settings
    from quarterdeck.drivers.agent_description import Agent
    from quarterdeck.models.registry import ModelOptions
    from quarterdeck.wire.settings import ConfigChoice

    from ..context import WorkbenchContext
    from ..widgets.select import SelectOption

__all__ = ["SpawnLookup", "SpawnSource", "look_at_directory"]

_MOST_BRANCHES = 200
_MOST_BELOW = 100
_FIRST_RECORDS = 60
"""Records of a session among which an agent reports its models."""
_VENDORS = {"Anthropic": "anthropic", "OpenAI": "openai", "Google": "google"}
"""Vendors of agents whose models are in the catalogue under the names that the agent takes."""
_MODEL = "model"
_FIRST = {name: at for at, name in enumerate(("native", "claude", "codex", "gemini", "opencode"))}
"""The agents that people know best, in the order of the list."""


class SpawnSource(Protocol):
    """Where the form gets its values from."""

    async def look(self, cwd: str) -> SpawnDirectory:
        """What there is in a directory."""
        ...

    async def agents(self, *, with_versions: bool) -> Sequence[SpawnAgent]:
        """Every agent; versions take longer, as programs are started for them."""
        ...

    async def models(self, agent: SpawnAgent) -> "Sequence[SelectOption]":
        """The models of an agent."""
        ...

    async def directories(self, typed: str) -> "Sequence[SelectOption]":
        """Directories for what is typed."""
        ...


class SpawnLookup:
    """Finds everything on this machine and in the fleet. What cannot be found is not offered."""

    def __init__(self, context: "WorkbenchContext") -> None:
        self._app_context = context

    async def look(self, cwd: str) -> SpawnDirectory:
        """See ``SpawnSource``."""
        return await look_at_directory(self._app_context, cwd)

    async def agents(self, *, with_versions: bool) -> Sequence[SpawnAgent]:
        """See ``SpawnSource``."""
        from quarterdeck.drivers.catalogue import load_catalogue

        discovery = self._app_context.discovery
        try:
            catalogue = await asyncio.to_thread(load_catalogue, discovery.places)
        except QuarterdeckError:
            return [SpawnAgent(name="native", is_here=True)]
        described = list(catalogue.agents.values())
        environment = discovery.environment
        found = await asyncio.to_thread(_describe_agents, described, environment)
        if self._app_context.remote is not None:  # its host says which of them it lacks
            return [replace(one, is_here=True) for one in found]
        # Without places of our own, as in a test, no program is started.
        if not with_versions or discovery.places is None:
            return found
        from quarterdeck.drivers.probe import probe

        here = [agent for agent in described if _find(found, agent.name).is_here]
        states = await probe(here, places=discovery.places, environment=environment)
        versions = {state.agent.name: state.version or "" for state in states}
        return [replace(one, version=versions.get(one.name, "")) for one in found]

    async def models(self, agent: SpawnAgent) -> "Sequence[SelectOption]":
        """See ``SpawnSource``."""
        options = await self._read_model_options()
        environment = self._app_context.discovery.environment
        known = await asyncio.to_thread(_price_models, agent, options.models)
        usable = None
        if agent.name == "native":
            from quarterdeck.agent.environment import offered_models

            usable = frozenset(await asyncio.to_thread(offered_models, environment, options))
        own = await self._read_reported(agent.name)
        used = [
            one.model
            for one in self._app_context.roster.everyone
            if one.agent == agent.name and one.model
        ]
        taken = {name for name, _ in own} | known.keys()
        own += [(name, "used before") for name in dict.fromkeys(used) if name not in taken]
        return list_model_options(known, own, usable)

    async def directories(self, typed: str) -> "Sequence[SelectOption]":
        """See ``SpawnSource``."""
        context = self._app_context
        agents = context.roster.everyone
        places = [one.worktree.repository if one.worktree else one.cwd for one in agents]
        is_here = context.remote is None
        below = await asyncio.to_thread(_list_below, typed, context.cwd) if is_here else []
        recent = (context.cwd, *context.preferences.choices.directories)
        # What is no plain text cannot be typed either.
        texts = [one for one in dict.fromkeys(places) if one == sanitize_line(one)]
        return list_directory_options(typed, recent, texts, below)

    async def _read_model_options(self) -> "ModelOptions":
        """What the settings say about models; nothing where they cannot be read."""
        from quarterdeck.agent.environment import model_options
        from quarterdeck.models.registry import ModelOptions

        try:
            settings = await _read_settings(self._app_context, self._app_context.cwd)
        except QuarterdeckError:
            settings = None
        return ModelOptions() if settings is None else model_options(settings)

    async def _read_reported(self, agent: str) -> list[tuple[str, str]]:
        """The models that an agent reported in its latest session that has any."""
        sessions = [one for one in self._app_context.roster.everyone if one.agent == agent]
        for one in sorted(sessions, key=lambda one: one.spawned, reverse=True)[:3]:
            try:
                records = await self._app_context.fleet.read(one.session, limit=_FIRST_RECORDS)
            except QuarterdeckError:
                continue
            for record in reversed(records):
                if isinstance(record.event, OptionsChanged) and (found := _reported(record.event)):
                    return found
        return []


def _find(agents: Sequence[SpawnAgent], name: str) -> SpawnAgent:
    return next(one for one in agents if one.name == name)


def _describe_agents(agents: "Sequence[Agent]", environment: Mapping[str, str]) -> list[SpawnAgent]:
    found = [_describe_agent(agent, environment) for agent in agents]
    return sorted(found, key=lambda one: (_FIRST.get(one.name, len(_FIRST)), one.name))


def _describe_agent(agent: "Agent", environment: Mapping[str, str]) -> SpawnAgent:
    import shutil

    from quarterdeck.drivers.option_support import find_option_support
    from quarterdeck.drivers.probe import login_state

    path = environment.get("PATH")
    is_own = agent.name == "native"
    programs = {reach.command[0] for reach in agent.transports.values()} | {agent.program}
    is_here = is_own or any(shutil.which(program, path=path) for program in programs if program)
    described = SpawnAgent(
        name=agent.name,
        title=agent.title,
        is_here=is_here,
        login=login_state(agent.login, environment),
        install=agent.install or agent.website,
        vendor=_VENDORS.get(agent.vendor, ""),
    )
    if is_own or not is_here:
        return described
    support = find_option_support(agent, path)
    return replace(described, problem=support.problem, modes=support.modes, options=support.options)


def _price_models(
    agent: SpawnAgent, overrides: Mapping[str, Mapping[str, object]]
) -> dict[str, ModelPrice | None]:
    """The models of the catalogue, by the names that an agent takes, with their prices."""
    from quarterdeck.models.catalogue import known_models, profile_of
    from quarterdeck.models.errors import ModelSetupError

    names = list(dict.fromkeys((*known_models(), *overrides)))
    found: dict[str, ModelPrice | None] = {}
    for name in names:
        vendor, _, id_ = name.partition("/")
        if agent.name != "native" and vendor != agent.vendor:
            continue
        try:
            prices = profile_of(vendor, id_, overrides).info.prices
        except ModelSetupError:
            prices = None
        shown = name if agent.name == "native" else id_
        price = ModelPrice(input=prices.input, output=prices.output) if prices else None
        found[shown] = price
    return found


def _reported(event: OptionsChanged) -> list[tuple[str, str]]:
    for option in event.options:
        if option.category == _MODEL or option.id == _MODEL:
            return [pair for choice in option.options or () for pair in _choices(choice)]
    return []


def _choices(choice: "ConfigChoice") -> list[tuple[str, str]]:
    if choice.options is not None:
        return [pair for inner in choice.options for pair in _choices(inner)]
    if not choice.value or choice.value != sanitize_line(choice.value, 200):
        return []
    words = choice.description or (choice.name if choice.name != choice.value else "")
    return [(choice.value, sanitize_line(words, 80))]


def _list_below(typed: str, cwd: str) -> list[str]:
    """The directories that a path that is begun can become. Blocks."""
    if not typed.startswith(("/", "~", ".")):
        return []
    head, _, begun = typed.rpartition("/")
    try:
        top = Path(cwd, Path(f"{head}/").expanduser()) if "/" in typed else None
        if top is None:
            return []
        with os.scandir(top) as entries:
            names = sorted(entry.name for entry in entries if _is_directory(entry))
    except (OSError, RuntimeError, ValueError):
        return []
    fitting = [
        name
        for name in names
        if name.lower().startswith(begun.lower()) and (begun.startswith(".") or name[:1] != ".")
    ]
    texts = [name for name in fitting if name == sanitize_line(name, 300)]
    return [f"{head}/{name}" for name in texts[:_MOST_BELOW]]


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


async def look_at_directory(context: "WorkbenchContext", cwd: str) -> SpawnDirectory:
    """What there is for worktrees in a directory, and what the settings say there."""
    if context.remote is not None:
        found = SpawnDirectory(head="HEAD")
    else:
        found = await asyncio.to_thread(_read_directory, cwd)
    try:
        settings = await _read_settings(context, cwd)
    except QuarterdeckError as error:
        return replace(found, problem=found.problem or str(error))
    if settings is not None:
        found = replace(
            found,
            has_default=settings.worktrees.default and not found.problem,
            mode=settings.mode,
            model=settings.model or "",
            effort=settings.effort or "",
            is_lenient=settings.permissions.unheld == "warn",
        )
    if found.problem:
        return found
    try:
        listed = await context.fleet.worktrees(repository=cwd)
    except QuarterdeckError as error:
        return replace(found, problem=str(error))
    return replace(found, worktrees=tuple(one.name for one in listed if one.problem is None))


async def _read_settings(context: "WorkbenchContext", cwd: str) -> "Settings | None":
    """The settings that count in a directory; None: there are no places to read them from.

    Raises ConfigError: a file is wrong.
    """
    places = context.discovery.places
    if places is None or not await asyncio.to_thread(os.path.isdir, cwd):
        return None
    from quarterdeck.agent.environment import prepare_environment

    found = await prepare_environment(places, context.discovery.environment, cwd)
    return found.settings


def _read_directory(cwd: str) -> SpawnDirectory:
    from quarterdeck.system.errors import GitError
    from quarterdeck.system.git.references import BRANCHES, list_references
    from quarterdeck.system.git.repository import find_repository

    if not Path(cwd).is_dir():
        return SpawnDirectory(problem=f"there is no directory {cwd!r}")
    try:
        repository = find_repository(cwd)
        if repository is None:
            return SpawnDirectory(problem="the directory is not in a git repository")
        names = [name.removeprefix(BRANCHES) for name in list_references(repository, BRANCHES)]
        head = repository.branch if repository.is_on_branch else "HEAD"
    except GitError as error:
        return SpawnDirectory(problem=str(error))
    return SpawnDirectory(head=head or "HEAD", branches=tuple(names[:_MOST_BRANCHES]))
