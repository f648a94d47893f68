"""Agents that lead agents: who gets which tools, by which way, under whose token."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace as copy
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.drivers.description import Agent
from quarterdeck.drivers.driver import McpServer, Session, Sink
from quarterdeck.drivers.errors import Unsupported
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.rules import McpPattern, NamedTool, Rule, Source
from quarterdeck.wire.events import SessionSpawned
from quarterdeck.wire.ids import SessionId

from ..abilities import takes_system_prompt, takes_tools
from ..asking import Asking
from ..current import Current
from ..entry import NATIVE
from ..notes import Notes
from ..port import Fleet
from ..scope import Reach
from .child_tools import CHILD_TOOLS, PEER_TOOLS
from .http import McpHttp, serve_http
from .lead_tools import LEAD_TOOLS
from .native_tools import native_tools
from .protocol import Endpoint
from .screen_tools import SCREEN_TOOLS
from .seat import Bridge, Seat
from .tokens import TOKEN_VARIABLE, URL_VARIABLE, Tokens
from .tool import FleetTool, Toolset

if TYPE_CHECKING:
    from ..member import Opener, Start

__all__ = ["SERVER", "Orchestration"]

SERVER = "quarterdeck"
"""The name under which agents know the fleet's tools."""
_ALL_TOOLS = (*LEAD_TOOLS, *SCREEN_TOOLS, *CHILD_TOOLS, *PEER_TOOLS)
_SOURCE = Source(origin="built-in", where="the fleet's own tools")
_RULES = tuple(
    Rule(effect="allow", pattern=pattern, scope="session", source=_SOURCE)
    for pattern in (
        McpPattern(server=SERVER),
        # Agents that do not join the two names as most do.
        *(NamedTool(name=f"{SERVER}_{tool.name}") for tool in _ALL_TOOLS),
    )
)
"""What the fleet gives it checks itself; a person's rule that denies still wins."""
_LEAD = "use tools of ours, so it cannot lead agents"
_PATIENT = frozenset((NATIVE, "claude"))
"""Agents that wait for a tool as long as it takes; others give up after about a minute."""
_PATIENCE, _LONG_PATIENCE = 50.0, 3_600.0
_OWN_TOOLS = ("ask_user",)
"""Tools that our own agent has itself."""


class Orchestration:
    """The tools of every agent of a fleet; ``close`` it."""

    def __init__(
        self,
        fleet: Fleet,
        current: Current,
        notes: Notes,
        gate_of: Callable[[SessionId], Gate | None],
        find: Callable[[str], Agent],
        reach: Reach,
    ) -> None:
        """Args:
        fleet: whose agents get tools.
        current: where they stand.
        notes: writes to the log.
        gate_of: the gate of a live agent.
        find: what an agent's file says, from the disk.
        reach: how far they may go.
        """
        asking = Asking(current, notes, gate_of)
        self._bridge = Bridge(fleet=fleet, current=current, asking=asking, reach=reach)
        self._find = find
        self._tokens = Tokens()
        self._endpoints: dict[SessionId, Endpoint] = {}
        self._serving = AsyncExitStack()
        self._http: McpHttp | None = None
        self._opening_http = asyncio.Lock()

    def giving(self, inner: "Opener") -> "Opener":
        """An opener that gives each agent its tools, then opens it as another does."""

        async def open_(start: "Start", sink: Sink) -> Session:
            return await inner(await self.outfit(start), sink)

        return open_

    async def outfit(self, start: "Start") -> "Start":
        """A start with the tools that it shall have; as it is where it shall have none."""
        wish = start.wish
        if not wish.lead and wish.parent_session is None:
            return start
        instructions = await asyncio.to_thread(_instructions, wish)
        toolset = self._toolset(start.session, wish, instructions)
        opening = start.opening
        if _is_native(wish):
            tools = native_tools(toolset, SERVER, without=_OWN_TOOLS)
            prompt = _joined(instructions, opening.system_prompt)
            return copy(
                start, opening=copy(opening, system_prompt=prompt), tools=tools, rules=_RULES
            )
        agent = await asyncio.to_thread(self._find, wish.agent)
        if not takes_tools(agent, wish.transport):
            if wish.lead:
                instead = "Let an agent lead that can use MCP servers."
                raise Unsupported(wish.agent, wish.transport or "any protocol", _LEAD, instead)
            return start  # a child without tools still has its task
        start.gate.rules = (*start.gate.rules, *_RULES)
        server = await self._server(start.session, toolset)
        opening = copy(opening, mcp_servers=(*opening.mcp_servers, server))
        if takes_system_prompt(agent, wish.transport):
            opening = copy(opening, system_prompt=_joined(instructions, opening.system_prompt))
        return copy(start, opening=opening)

    async def introduction(self, wish: SessionSpawned) -> str | None:
        """What stands before the first prompt of an agent that takes no system prompt."""
        if not wish.lead or _is_native(wish):
            return None
        agent = await asyncio.to_thread(self._find, wish.agent)
        if takes_system_prompt(agent, wish.transport):
            return None
        return await asyncio.to_thread(_instructions, wish)

    async def close(self) -> None:
        """Serve nobody any more."""
        await self._bridge.notices.close()
        await self._serving.aclose()

    def endpoint_of(self, token: str) -> Endpoint | None:
        """Whose tools a token opens; None once the agent has ended."""
        session = self._tokens.holder(token)
        if session is None:
            return None
        if not self._bridge.current.get(session).is_started:
            self._tokens.revoke(session)
            self._endpoints.pop(session).cancel_all()
            return None
        return self._endpoints[session]

    def _toolset(
        self, session: SessionId, wish: SessionSpawned, instructions: str
    ) -> Toolset[Seat]:
        tools: list[FleetTool[Seat]] = []
        if wish.lead:
            tools += (*LEAD_TOOLS, *SCREEN_TOOLS)
        if wish.parent_session is not None:
            tools += CHILD_TOOLS
            tools += PEER_TOOLS if self._bridge.reach.peers else ()
        patience = _LONG_PATIENCE if wish.agent in _PATIENT else _PATIENCE
        seat = Seat(bridge=self._bridge, session=session, patience=patience)
        return Toolset(seat, tools, instructions)

    async def _server(self, session: SessionId, toolset: Toolset[Seat]) -> McpServer:
        """The way to the tools: by the address where the agent can, else by our bridge."""
        async with self._opening_http:
            if self._http is None:
                serving = serve_http(self.endpoint_of)
                self._http = await self._serving.enter_async_context(serving)
        self._endpoints[session] = Endpoint(toolset)
        token, url = self._tokens.issue(session), self._http.url
        return McpServer(
            name=SERVER,
            url=url,
            headers={"Authorization": f"Bearer {token}"},
            # -P: an agent runs in somebody's project, whose folders are not to be imported.
            command=(sys.executable, "-P", "-m", "quarterdeck", "mcp"),
            environment={TOKEN_VARIABLE: token, URL_VARIABLE: url},
            is_ours=True,
        )


def _is_native(wish: SessionSpawned) -> bool:
    return wish.agent == NATIVE and wish.transport in (None, NATIVE)


def _instructions(wish: SessionSpawned) -> str:
    """What an agent is told about its place. Reads files."""
    told: list[str] = []
    if wish.lead:
        told.append(_read("lead.md"))
    if wish.parent_session is not None:
        told.append(_read("child.md"))
    return "\n\n".join(told)


def _read(name: str) -> str:
    return (Path(__file__).parents[1] / name).read_text(encoding="utf-8").strip()


def _joined(*texts: str | None) -> str:
    return "\n\n".join(filter(None, texts))
