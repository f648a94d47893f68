"""What this machine and this workspace offer: agents, keys, trust."""

import asyncio
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.drivers.agent_description import Agent
    from quarterdeck.drivers.probe import LoginState
    from quarterdeck.fleet.demo import DemoScratch
    from quarterdeck.fleet.permissions.workspace_trust import WorkspaceTrust

__all__ = [
    "DemoControl",
    "DiscoveredAgent",
    "DiscoveryStore",
    "MachineDiscovery",
    "find_versions",
]


class DiscoveredAgent(Struct, frozen=True, kw_only=True):
    """An agent of the catalogue on this machine."""

    name: str
    title: str
    is_here: bool
    """Whether a program of it is on PATH."""
    version: str = ""
    """Of its program; empty: not asked, or not known."""
    login: "LoginState" = "unknown"
    install: str = ""
    """A command that installs it, or where to find one."""
    login_hint: str = ""
    """How to log in, for a person."""
    offers_logins: bool = False
    """It is here and speaks ACP, by which it may offer ways to log in."""


class MachineDiscovery(Struct, frozen=True, kw_only=True):
    """What was found on this machine, without starting anything."""

    agents: tuple[DiscoveredAgent, ...] = ()
    """Those that are here first, then as people know them. Our own is not among them."""
    keys: tuple[str, ...] = ()
    """Variables with keys of vendors that are set; their names, never what they hold."""
    key_names: tuple[str, ...] = ()
    """Variables that could be set."""

    def agent(self, name: str) -> DiscoveredAgent | None:
        """An agent by its name."""
        return next((agent for agent in self.agents if agent.name == name), None)


class DemoControl(Protocol):
    """What leads through a demo."""

    async def begin(self) -> None:
        """Start its agents. Raises QuarterdeckError."""
        ...

    def skip(self) -> None:
        """Do what the stage waits for."""
        ...

    async def keep(self) -> str:
        """Let the folder stay when the demo ends; returns where it is."""
        ...


class DiscoveryStore(Struct, kw_only=True):
    """What is known so far; everything None until someone has looked."""

    places: "Places | None" = None
    """Ours; None: there are none, as in a test, and nothing is looked for."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    found: MachineDiscovery | None = None
    has_versions: bool = False
    """The programs that were found were asked for their versions."""
    trust: "WorkspaceTrust | None" = None
    demo: "DemoScratch | None" = None
    """The folder of the demo that this workbench is for."""
    has_captions: bool = True
    """Of the demo."""
    guide: "DemoControl | None" = None
    """Leads through the demo."""
    wants_demo: bool = False
    """The person wants the demo, which has a workbench of its own."""


async def find_versions(discovery: "DiscoveryStore") -> bool:
    """Ask the programs that were found for their versions, once; True: some are known now.

    Answers are kept with the binary, so that nothing is started twice to learn the same.
    """
    found, places = discovery.found, discovery.places
    if found is None or places is None or discovery.has_versions:
        return False
    discovery.has_versions = True
    names = {agent.name for agent in found.agents if agent.is_here}
    if not names:
        return False
    # Imported in a thread: that takes longer than a key may wait.
    catalogue = await asyncio.to_thread(_load_agents, places)
    from quarterdeck.drivers.probe import probe

    wanted = [agent for agent in catalogue if agent.name in names]
    states = await probe(wanted, places=places, environment=discovery.environment)
    versions = {state.agent.name: state.version or "" for state in states}
    agents = tuple(replace(agent, version=versions.get(agent.name, "")) for agent in found.agents)
    discovery.found = replace(found, agents=agents)
    return any(versions.values())


def _load_agents(places: "Places") -> "Iterable[Agent]":
    import_module("quarterdeck.drivers.probe")  # so that the loop finds it imported
    from quarterdeck.drivers.catalogue import load_catalogue

    try:
        return tuple(load_catalogue(places).agents.values())
    except QuarterdeckError:
        return ()
