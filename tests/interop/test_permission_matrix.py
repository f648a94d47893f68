"""Real agents and our policy: what happened on disk is what the policy said.

For each agent and transport, each column opens a session and has a scripted model read a file,
write one and run a command. Nobody is there to ask. The table is printed at the end and kept in
docs/agents.md. ``QUARTERDECK_MATRIX=FILE`` writes each cell down as it comes.
"""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

from quarterdeck.drivers.agent_description import Agent
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.drivers.open_session import open_session
from quarterdeck.drivers.session import LinkSession
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import Mode
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import PermissionViolated
from tests.interop.matrix import MATRIX, Cell
from tests.support import real_agents
from tests.support.driver_rig import Driven

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]
LONG = 100.0
MARKER = "the-marker-is-4711"

AGENTS = {
    ("claude", "pipe"): "claude",
    ("claude", "acp"): "claude-agent-acp",
    ("claude", "pty"): "claude",
    ("codex", "acp"): "codex-acp",
    ("codex", "daemon"): "codex",
    ("codex", "pipe"): "codex",
    ("codex", "pty"): "codex",
    ("gemini", "acp"): "gemini",
    ("gemini", "pipe"): "gemini",
    ("gemini", "pty"): "gemini",
    ("opencode", "acp"): "opencode",
    ("opencode", "daemon"): "opencode",
    ("opencode", "pipe"): "opencode",
    ("opencode", "pty"): "opencode",
    ("goose", "acp"): "goose",
    ("kimi", "acp"): "kimi",
    ("qwen", "acp"): "qwen",
    ("qwen", "pipe"): "qwen",
    ("vibe", "acp"): "vibe",
    ("pi", "pipe"): "pi",
}
SET_UP = ("claude-agent-acp", "qwen", "kimi", "goose", "vibe")
"""Agents whose model is chosen by their configuration here."""
DIALOGS = frozenset(("accept-trust", "decline-update"))
"""What is to be pressed where a screen shows a dialog before its prompt."""


LESS = {
    ("codex", "acp"): frozenset(("run",)),
    ("codex", "pty"): frozenset(("run",)),
    ("gemini", "acp"): frozenset(("run",)),
}
"""What is not done though a rule allows it: Codex has a sandbox of its own around commands, and
Gemini tells the command by its title only, which is never certain enough for a rule."""


@dataclass(frozen=True)
class Column:
    mode: Mode
    rules: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset(("read",))
    """What the policy says; less than that is no fault of an agent that cannot ask."""


_RUN = ("allow bash(touch made-by-shell.txt)", "allow bash(echo scripted-output)")
COLUMNS = {
    "allow": Column("ask", ("allow edit(**)", *_RUN), frozenset(("read", "edit", "run"))),
    "ask": Column("ask"),
    "deny": Column("accept-edits", ("allow bash", "deny edit(hello.txt)", "deny bash(touch)")),
    "deny read": Column("ask", ("deny read(README.md)",), frozenset()),
    "read-only": Column("read-only", ("allow edit(**)", *_RUN)),
    "plan": Column("plan", ("allow edit(**)", *_RUN)),
    "full-auto": Column("full-auto", (), frozenset(("read", "edit", "run"))),
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(
    ("agent", "transport", "real"),
    [
        pytest.param(
            *cell,
            real,
            id="-".join(cell),
            marks=pytest.mark.skipif(
                real_agents.find(real) is None, reason=f"{real} is not installed"
            ),
        )
        for cell, real in AGENTS.items()
    ],
)
async def test_what_happens_is_what_the_policy_says(
    agent: str, transport: str, real: str, column: str, tmp_path: Path
) -> None:
    wanted = COLUMNS[column]
    project = tmp_path / "project"
    await asyncio.to_thread(project.mkdir)
    await asyncio.to_thread((project / "README.md").write_text, f"{MARKER}\n")
    driven = Driven()
    async with ModelServer() as server:
        variables = await asyncio.to_thread(
            real_agents.environment, real, tmp_path / "home", server.url
        )
        opening = DriverSessionOptions.of(
            cwd=str(project),
            mode=wanted.mode,
            model=None if real in SET_UP else real_agents.model_of(real),
            environment=variables,
            start_limit=LONG,
        )
        gate = Gate(
            mode=wanted.mode,
            rules=tuple(parse_rule(one) for one in wanted.rules),
            attended=False,
        )
        described = await asyncio.to_thread(reached, agent, transport)
        try:
            session = await open_session(
                described, opening, driven.sink, gate=gate, transport=transport
            )
        except UnsupportedError as error:
            keep(Cell(agent=agent, transport=transport, column=column, refused=str(error)))
            return
        driven.session = session
        stops = await _talk(driven, session)
        read = any(MARKER.encode() in one.body for one in server.requests)
    done = {
        "read": read,
        "edit": await asyncio.to_thread((project / "hello.txt").exists),
        "run": await asyncio.to_thread((project / "made-by-shell.txt").exists),
    }
    happened = frozenset(deed for deed, was in done.items() if was)
    cell = Cell(
        agent=agent,
        transport=transport,
        column=column,
        done=happened,
        violations=len(driven.all(PermissionViolated)),
        is_asking=session.capabilities.asks,
        stops=stops,
    )
    keep(cell)
    assert happened <= wanted.allowed, (happened, driven.all(PermissionViolated))
    if cell.is_asking and column == "allow":
        assert happened == wanted.allowed - LESS.get((agent, transport), frozenset())
    assert driven.all(PermissionViolated) == []


def reached(name: str, transport: str) -> Agent:
    """The agent as it ships, with the dialogs of a screen answered as somebody has said."""
    agent = find_agent(name)
    if transport != "pty":
        return agent
    reach = structs.replace(agent.transports["pty"], quirks=DIALOGS)
    return structs.replace(agent, transports={**agent.transports, "pty": reach})


async def _talk(driven: Driven, session: LinkSession) -> tuple[str, ...]:
    stops: list[str] = []
    try:
        for scene in ("read", "write", "shell"):
            ended = await driven.say(f"scene:{scene} please", within=LONG)
            stops.append(f"{ended.stop}: {ended.reason}" if ended.reason else ended.stop)
    finally:
        await session.close()
    return tuple(stops)


def keep(cell: Cell) -> None:
    MATRIX.append(cell)
    if place := os.environ.get("QUARTERDECK_MATRIX"):
        with Path(place).open("a") as file:
            file.write(json.dumps(cell.as_dict()) + "\n")
