"""Looking for agents and keys on this machine. Starts no program, reads no key; blocks on files."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

from .stores.ground import Found, FoundAgent

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.drivers.description import Agent

__all__ = ["find"]

_WELL_KNOWN = ("claude", "codex", "gemini", "opencode")
"""These are offered first where none is here."""


def find(places: "Places", environment: Mapping[str, str]) -> Found:
    """Every agent of the catalogue, and the keys whose variables are set."""
    from quarterdeck.drivers.catalogue import load_catalogue

    try:
        described = load_catalogue(places).agents.values()
    except QuarterdeckError:
        described = ()
    agents = [_look(agent, environment) for agent in described if agent.name != "native"]
    names = _key_names()
    return Found(
        agents=tuple(sorted(agents, key=_order)),
        keys=tuple(name for name in names if environment.get(name, "").strip()),
        key_names=names,
    )


def _look(agent: "Agent", environment: Mapping[str, str]) -> FoundAgent:
    import shutil

    from quarterdeck.drivers.probe import login_state

    path = environment.get("PATH")
    programs = {reach.command[0] for reach in agent.transports.values()} | {agent.program}
    acp = agent.transports.get("acp")
    return FoundAgent(
        name=agent.name,
        title=agent.title or agent.name,
        is_here=any(shutil.which(program, path=path) for program in programs if program),
        login=login_state(agent.login, environment),
        install=agent.install,
        login_hint=agent.login.hint,
        offers_logins=acp is not None and shutil.which(acp.command[0], path=path) is not None,
    )


def _order(agent: FoundAgent) -> tuple[bool, int, str]:
    known = _WELL_KNOWN.index(agent.name) if agent.name in _WELL_KNOWN else len(_WELL_KNOWN)
    return not agent.is_here, known, agent.name


def _key_names() -> tuple[str, ...]:
    from quarterdeck.models.vendors import VENDORS

    def names() -> Iterable[str]:
        for vendor in VENDORS.values():
            if vendor.needs_key:
                yield from vendor.key_names
        yield from (vendor.token_name for vendor in VENDORS.values() if vendor.token_name)

    return tuple(dict.fromkeys(names()))
