"""``quarterdeck agents``: which agents are described, which are installed, and how each is
reached.
"""

import asyncio
import json
import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.terminal_text import escape_json

from .output import echo

if TYPE_CHECKING:
    from quarterdeck.drivers.agent_description import AgentTransport
    from quarterdeck.drivers.catalogue import Catalogue
    from quarterdeck.drivers.probe import AgentInstallation, TransportInstallation

__all__ = ["FORMAT", "agents", "describe_agent", "make_agent_table"]

_HEAD = ("NAME", "TITLE", "VERSION", "TRANSPORTS", "LOGIN", "WHERE")
_NARROWEST = 24
"""Columns that the last cell must have to stand in its row."""
_LONGEST_TITLE = 24


def make_agent_table(
    states: "Sequence[AgentInstallation]", catalogue: "Catalogue", width: int | None
) -> Iterator[str]:
    """Every agent in a row, those that are here first; within ``width`` columns if given."""
    ordered = sorted(states, key=lambda state: (not state.is_installed, state.agent.name))
    rows = [_HEAD, *(_row(state) for state in ordered)]
    widths = [max(_columns(row[place]) for row in rows) for place in range(len(_HEAD) - 1)]
    for row in rows:
        yield from _laid_out(row, widths, width)
    yield ""
    yield from _folded(
        "acp: proven with a stated version; acp?: wired, unverified; (acp): its program is not "
        "installed. `quarterdeck agents NAME` shows details.",
        width,
    )
    for problem in catalogue.problems.values():
        yield ""
        yield from _folded(f"Not used: {problem}", width)


def describe_agent(state: "AgentInstallation") -> Iterator[str]:
    """All about one agent."""
    agent = state.agent
    yield _clean(f"{agent.title} ({agent.name})" + (f" by {agent.vendor}" if agent.vendor else ""))
    yield from _fact("also called", ", ".join(agent.aliases))
    yield from _fact("website", agent.website)
    yield from _fact("program", state.path or f"not found; install: {agent.install or 'unknown'}")
    yield from _fact("version", state.version or state.problem or ("unknown" * bool(state.path)))
    hint = f" ({agent.login.hint})" if agent.login.hint and state.login != "yes" else ""
    yield from _fact("login", state.login + hint)
    yield from _fact("sessions in", ", ".join(agent.history))
    yield from _fact("described in", ", ".join(agent.sources))
    for transport in state.transports:
        yield ""
        yield from _transport(agent.transports[transport.name], transport)
    if not any(one.is_tried for one in state.transports):
        yield ""
        yield "No transport is available: use it in a terminal."
    if agent.notes:
        yield ""
        yield "Notes"
        for note in agent.notes:
            yield f"  - {_clean(note)}"


def _transport(reach: "AgentTransport", state: "TransportInstallation") -> Iterator[str]:
    yield f"Over {state.name}: {_clean(_proof(state))}"
    yield from _fact("command", " ".join(reach.command))
    yield from _fact("program", state.path or f"not found; install: {state.install or 'unknown'}")
    yield from _fact("version", state.version or (state.problem if state.path else ""))
    yield from _fact("options", ", ".join(reach.words))
    yield from _fact("modes", ", ".join(reach.modes))
    yield from _fact("its own modes", ", ".join(reach.agent_modes))
    yield from _fact("set for it", " ".join(f"{k}={v}" for k, v in reach.environment.items()))
    yield from _fact("quirks", ", ".join(sorted(reach.quirks)))


def _proof(state: "TransportInstallation") -> str:
    if not state.is_linked:
        return "described; not used for sessions yet"
    proof = f"proven with {state.verified}" if state.verified else "wired, unverified"
    return proof if state.is_tried else f"{proof}; only if it is named"


def _fact(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {name:<14} {_clean(text)}"


def _row(state: "AgentInstallation") -> tuple[str, ...]:
    agent = state.agent
    return (
        _clean(agent.name),
        _cut(_clean(agent.title), _LONGEST_TITLE),
        _clean(state.version or ("?" if state.is_installed else "-")),
        _transports(state) or "terminal only",
        state.login if state.is_installed else "-",
        _clean(state.path or f"install: {agent.install or 'unknown'}"),
    )


def _transports(state: "AgentInstallation") -> str:
    cells: list[str] = []
    for one in state.transports:
        if one.is_tried:
            name = one.name if one.verified else f"{one.name}?"
            cells.append(name if one.path is not None else f"({name})")
    return " ".join(cells)


def _laid_out(row: Sequence[str], widths: Sequence[int], width: int | None) -> Iterator[str]:
    """A row in columns; its last cell is cut, or goes below where the rest leaves no room."""
    *cells, last = row
    start = "  ".join(_padded(cell, wide) for cell, wide in zip(cells, widths, strict=True))
    if width is None:
        yield f"{start}  {last}".rstrip()
        return
    room = width - sum(widths) - 2 * len(widths)
    if room >= _NARROWEST:
        yield f"{start}  {_cut(last, room)}".rstrip()
        return
    yield _cut(start.rstrip(), width)
    if row is not _HEAD:
        yield _cut(f"    {last}", width)


def _folded(text: str, width: int | None) -> Iterator[str]:
    # A path stays whole: it is copied from here.
    yield from textwrap.wrap(
        _clean(text), width or 100, break_long_words=False, break_on_hyphens=False
    )


def _clean(text: str) -> str:
    """One line, and nothing that a terminal would obey."""
    return "".join(char if char.isprintable() else "�" for char in text)


def _columns(text: str) -> int:
    return sum(_wide(char) for char in text)


def _wide(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _columns(text))


def _cut(text: str, width: int) -> str:
    if _columns(text) <= width:
        return text
    kept, used = "", 1
    for char in text:
        used += _wide(char)
        if used > width:
            break
        kept += char
    return f"{kept}…"


FORMAT = 1
"""Of the JSON; grows when a field changes its meaning or goes away."""


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.option("--installed", is_flag=True, help="Only installed agents.")
@click.option("--refresh", is_flag=True, help="Query every program's version again.")
def agents(name: str | None, as_json: bool, installed: bool, refresh: bool) -> None:
    """List the known agents; with NAME, show details of one.

    To add an agent, write one file: see docs/agents.md.
    """
    from quarterdeck.drivers.catalogue import load_catalogue

    catalogue = load_catalogue()
    states = asyncio.run(_probe(catalogue, name, refresh))
    shown = [state for state in states if state.is_installed or not installed]
    if as_json:
        echo(escape_json(json.dumps(_json(shown, catalogue), indent=2, ensure_ascii=False)))
        return

    lines = (
        describe_agent(states[0])
        if name is not None
        else make_agent_table(shown, catalogue, _width())
    )
    for line in lines:
        echo(line)


async def _probe(
    catalogue: "Catalogue", name: str | None, refresh: bool
) -> "list[AgentInstallation]":
    from quarterdeck.drivers.probe import probe

    wanted = catalogue.agents.values() if name is None else [catalogue.find(name)]
    return await probe(wanted, refresh=refresh)


def _width() -> int | None:
    """Columns to fit into; None: the output is no terminal, and ``COLUMNS`` is not set."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(40, shutil.get_terminal_size().columns)
    return None


def _json(states: "list[AgentInstallation]", catalogue: "Catalogue") -> dict[str, Any]:
    return {
        "format": FORMAT,
        "agents": [_agent(state) for state in states],
        "problems": [
            {"agent": name, "problem": str(problem)} for name, problem in catalogue.problems.items()
        ],
    }


def _agent(state: "AgentInstallation") -> dict[str, Any]:
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
        "transports": [_transport_json(one) for one in state.transports],
        "history": list(agent.history),
        "notes": list(agent.notes),
        "sources": list(agent.sources),
    }


def _transport_json(state: "TransportInstallation") -> dict[str, Any]:
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
