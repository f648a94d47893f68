"""``quarterdeck agents``: which agents are described, which are here, and how each is reached."""

import asyncio
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.shown import escape

from .output import echo

if TYPE_CHECKING:
    from quarterdeck.drivers.catalogue import Catalogue
    from quarterdeck.drivers.probe import AgentState, TransportState

__all__ = ["FORMAT", "agents"]

FORMAT = 1
"""Of the JSON; grows when a field changes its meaning or goes away."""


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.option("--installed", is_flag=True, help="Only agents that are here.")
@click.option("--refresh", is_flag=True, help="Ask every program for its version again.")
def agents(name: str | None, as_json: bool, installed: bool, refresh: bool) -> None:
    """List the agents that can be used; with NAME, tell everything about one.

    An agent of your own is one file: see docs/agents.md.
    """
    from quarterdeck.drivers.catalogue import load_catalogue

    catalogue = load_catalogue()
    states = asyncio.run(_probe(catalogue, name, refresh))
    shown = [state for state in states if state.is_installed or not installed]
    if as_json:
        echo(escape(json.dumps(_json(shown, catalogue), indent=2, ensure_ascii=False)))
        return
    from .agents_text import details, table

    lines = details(states[0]) if name is not None else table(shown, catalogue, _width())
    for line in lines:
        echo(line)


async def _probe(catalogue: "Catalogue", name: str | None, refresh: bool) -> "list[AgentState]":
    from quarterdeck.drivers.probe import probe

    wanted = catalogue.agents.values() if name is None else [catalogue.find(name)]
    return await probe(wanted, refresh=refresh)


def _width() -> int | None:
    """Columns to fit into; None: nobody looks, or nobody said."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(40, shutil.get_terminal_size().columns)
    return None


def _json(states: "list[AgentState]", catalogue: "Catalogue") -> dict[str, Any]:
    return {
        "format": FORMAT,
        "agents": [_agent(state) for state in states],
        "problems": [
            {"agent": name, "problem": str(problem)} for name, problem in catalogue.problems.items()
        ],
    }


def _agent(state: "AgentState") -> dict[str, Any]:
    agent = state.agent
    return {
        "name": agent.name,
        "title": agent.title,
        "vendor": agent.vendor,
        "aliases": list(agent.aliases),
        "website": agent.website,
        "installed": state.is_installed,
        "path": state.path,
        "version": state.version,
        "problem": state.problem or None,
        "login": state.login,
        "login_hint": agent.login.hint,
        "install": agent.install,
        "transports": [_transport(one) for one in state.transports],
        "history": list(agent.history),
        "notes": list(agent.notes),
        "sources": list(agent.sources),
    }


def _transport(state: "TransportState") -> dict[str, Any]:
    return {
        "name": state.name,
        "linked": state.is_linked,
        "tried": state.is_tried,
        "program": state.program,
        "path": state.path,
        "version": state.version,
        "verified": state.verified or None,
        "install": state.install,
        "problem": state.problem or None,
    }
