"""Orchestration: which agent gets which fleet tools, over MCP or in process, under which token."""

import asyncio
import sys
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace as copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from quarterdeck.agent.tools.tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    Tool,
    ToolOutcome,
    text_outcome,
)
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.drivers.agent_description import Agent, AgentTransport
from quarterdeck.drivers.driver import DriverSession, EventSink
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.policy.call import McpTool
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.rules import McpPattern, NamedTool, Rule, RuleSource
from quarterdeck.wire.content import text
from quarterdeck.wire.events import SessionSpawned
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.session_options import AgentMcpServer
from quarterdeck.wire.tool_calls import ContentItem, ToolKind
from quarterdeck.wire.worktrees import ConflictFile

from ..agent_entry import NATIVE, is_own_agent
from ..api import Fleet
from ..inbox import AgentQuestions
from ..live_index import LiveIndex, LogWriter
from ..permissions.delegation import DelegationLimits
from .agent_text import cut
from .child_tools import CHILD_TOOLS, PEER_TOOLS
from .handover_tools import HANDOVER_TOOLS, LEAD_HANDOVER_TOOLS
from .landing_tools import LANDING_TOOLS, RADAR_TOOLS, tell_leads
from .lead_tools import LEAD_TOOLS
from .plan_tools import PLAN_TOOLS
from .protocol import McpEndpoint
from .review_tools import REVIEW_TOOLS
from .screen_tools import SCREEN_TOOLS
from .tokens import TOKEN_VARIABLE, URL_VARIABLE, AgentTokens
from .tool import FleetTool, Toolset
from .tool_context import FleetToolContext, FleetToolServices, PlanStarter

if TYPE_CHECKING:
    from ..agent_runner import AgentStart, SessionOpener
    from .http import McpHttpServer

__all__ = [
    "SERVER",
    "NativeTool",
    "Orchestration",
    "native_tools",
    "takes_system_prompt",
    "takes_tools",
]

_WITH_TOOLS = {"pipe": frozenset(("claude", "qwen", "codex", "opencode")), "daemon": ("codex",)}
"""Dialects in which tool servers can be named for one session, by transport."""
_WITH_PROMPT = frozenset(("codex",))
"""Dialects in which a system prompt needs no words of the agent's file."""


def takes_tools(agent: Agent, transport: str | None) -> bool:
    """Whether it can be given tool servers, over this transport or one that is tried."""
    return any(
        name == "acp" or reach.dialect in _WITH_TOOLS.get(name, ())
        for name, reach in _reaches(agent, transport)
    )


def takes_system_prompt(agent: Agent, transport: str | None) -> bool:
    """Whether it takes a system prompt over this transport, or the first that is tried."""
    return any(
        "system_prompt" in reach.words or (name == "pipe" and reach.dialect in _WITH_PROMPT)
        for name, reach in _reaches(agent, transport)[:1]
    )


def _reaches(agent: Agent, transport: str | None) -> list[tuple[str, AgentTransport]]:
    """The ways to it, in the order in which they are tried."""
    tried: tuple[str, ...] = (transport,) if transport is not None else agent.tried
    known = [(name, reach) for name, reach in agent.transports.items() if name in tried]
    return sorted(known, key=lambda pair: tried.index(pair[0]))


_SHOWN = 200


class NativeTool:
    """One of the fleet's tools as our own agent calls it."""

    kind: ToolKind = "other"
    for_children = False
    """An agent that ours starts by itself is not known to the fleet."""

    def __init__(self, toolset: Toolset[Any], tool: FleetTool[Any], server: str) -> None:
        self.name = tool.name
        self.arguments: type[Arguments] = tool.arguments
        self._toolset = toolset
        self._tool = tool
        self._server = server

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return self._tool.description

    async def prepare(self, arguments: Arguments, workspace: ToolWorkspace) -> PreparedCall:
        """Say what will be done; rules see it as they see the same tool over MCP."""
        call = workspace.call(self.name, self.kind)
        shown = msgspec.json.encode(arguments).decode()
        first = next((_words(one) for one in msgspec.structs.astuple(arguments) if one), "")

        async def run(live: LiveCall) -> ToolOutcome:
            answered = await self._toolset.run(self._tool, arguments)
            return text_outcome(answered.text, is_error=answered.is_error)

        return PreparedCall(
            title=f"{self.name}: {cut(first, _SHOWN)}" if first else self.name,
            call=replace(call, mcp=McpTool(server=self._server, tool=self.name)),
            run=run,
            content=(ContentItem(content=text(shown)),),
        )


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(one) for one in cast("tuple[object, ...]", value))
    return str(value)


def native_tools(
    toolset: Toolset[Any], server: str, *, without: Iterable[str] = ()
) -> tuple[Tool, ...]:
    """The tools of a set; those that our agent has itself are left out."""
    left_out = frozenset(without)
    return tuple(
        NativeTool(toolset, tool, server)
        for tool in toolset.tools.values()
        if tool.name not in left_out
    )


if TYPE_CHECKING:
    _tool: Tool = cast("NativeTool", None)


SERVER = "quarterdeck"
"""The name under which agents know the fleet's tools."""
_OF_LEADS = (
    *(*LEAD_TOOLS, *LEAD_HANDOVER_TOOLS, *REVIEW_TOOLS, *LANDING_TOOLS),
    *(*RADAR_TOOLS, *SCREEN_TOOLS),
)
_ALL_TOOLS = (*_OF_LEADS, *PLAN_TOOLS, *CHILD_TOOLS, *PEER_TOOLS, *HANDOVER_TOOLS)
_SOURCE = RuleSource(origin="built-in", where="the fleet's own tools")
_RULES = tuple(
    Rule(effect="allow", pattern=pattern, scope="session", source=_SOURCE)
    for pattern in (
        McpPattern(server=SERVER),
        # Agents that do not join the two names as most do.
        *(NamedTool(name=f"{SERVER}_{tool.name}") for tool in _ALL_TOOLS),
    )
)
"""What the fleet gives it checks itself; a person's rule that denies still wins."""
_LEAD = "use our tools, so it cannot lead agents"
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
        current: LiveIndex,
        notes: LogWriter,
        gate_of: Callable[[SessionId], Gate | None],
        find: Callable[[str], Agent],
        reach: DelegationLimits,
    ) -> None:
        """Args:
        fleet: whose agents get tools.
        current: where they stand.
        notes: writes to the log.
        gate_of: the gate of a live agent.
        find: what an agent's file says, from the disk.
        reach: how far they may go.
        """
        asking = AgentQuestions(current, notes, gate_of)
        self._bridge = FleetToolServices(fleet=fleet, current=current, asking=asking, reach=reach)
        self._find = find
        self._tokens = AgentTokens()
        self._endpoints: dict[SessionId, McpEndpoint] = {}
        self._serving = AsyncExitStack()
        self._http: McpHttpServer | None = None
        self._opening_http = asyncio.Lock()

    def offer_plans(self, starter: PlanStarter) -> None:
        """Let leads that start from now on propose plans."""
        self._bridge.plans = starter

    def wrap_opener(self, inner: "SessionOpener") -> "SessionOpener":
        """An opener that gives each agent its tools, then opens it as another does."""

        async def open_(start: "AgentStart", sink: EventSink) -> DriverSession:
            return await inner(await self.add_tools(start), sink)

        return open_

    async def add_tools(self, start: "AgentStart") -> "AgentStart":
        """A start with the tools that it is to have; as it is where it is to have none."""
        spawn, options = start.spawn, start.spawn.options
        if not spawn.lead and spawn.parent_session is None and spawn.continues is None:
            return start
        instructions = await asyncio.to_thread(_instructions, spawn)
        toolset = self._toolset(start.session, spawn, instructions)
        opening = start.opening
        if is_own_agent(options):
            tools = native_tools(toolset, SERVER, without=_OWN_TOOLS)
            prompt = _joined(instructions, opening.options.system_prompt) or None
            return copy(
                start, opening=opening.with_options(system_prompt=prompt), tools=tools, rules=_RULES
            )
        agent = await asyncio.to_thread(self._find, options.agent)
        if not takes_tools(agent, options.transport):
            if spawn.lead:
                instead = "Choose a lead agent that can use MCP servers."
                raise UnsupportedError(
                    options.agent, options.transport or "any protocol", _LEAD, instead
                )
            return start  # a child without tools still has its task, and an heir its brief
        start.gate.rules = (*start.gate.rules, *_RULES)
        server = await self._server(start.session, toolset)
        opening = opening.with_options(mcp_servers=(*opening.options.mcp_servers, server))
        if takes_system_prompt(agent, options.transport):
            prompt = _joined(instructions, opening.options.system_prompt) or None
            opening = opening.with_options(system_prompt=prompt)
        return copy(start, opening=opening)

    async def introduction(self, spawn: SessionSpawned) -> str | None:
        """What stands before the first prompt of an agent that takes no system prompt."""
        if not spawn.lead or is_own_agent(spawn.options):
            return None
        agent = await asyncio.to_thread(self._find, spawn.options.agent)
        if takes_system_prompt(agent, spawn.options.transport):
            return None
        return await asyncio.to_thread(_instructions, spawn)

    async def tell_conflict(
        self, one: SessionId, other: SessionId, files: tuple[ConflictFile, ...]
    ) -> None:
        """Tell the leads of two agents, where they want notices, what both change."""
        await tell_leads(self._bridge, one, other, files)

    async def close(self) -> None:
        """Serve no one any more."""
        await self._bridge.notices.close()
        await self._serving.aclose()

    def endpoint_of(self, token: str) -> McpEndpoint | None:
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
        self, session: SessionId, spawn: SessionSpawned, instructions: str
    ) -> Toolset[FleetToolContext]:
        tools: list[FleetTool[FleetToolContext]] = []
        if spawn.lead:
            tools += _OF_LEADS
            tools += PLAN_TOOLS if self._bridge.plans is not None else ()
        if spawn.parent_session is not None:
            tools += CHILD_TOOLS
            tools += PEER_TOOLS if self._bridge.reach.peers else ()
        if spawn.continues is not None:
            tools += HANDOVER_TOOLS
        patience = _LONG_PATIENCE if spawn.options.agent in _PATIENT else _PATIENCE
        seat = FleetToolContext(bridge=self._bridge, session=session, patience=patience)
        return Toolset(seat, tools, instructions)

    async def _server(
        self, session: SessionId, toolset: Toolset[FleetToolContext]
    ) -> AgentMcpServer:
        """The way to the tools: by the address where the agent can, else by our bridge."""
        async with self._opening_http:
            if self._http is None:
                from .http import serve_http  # with h11: hosts without leads do not need it

                serving = serve_http(self.endpoint_of)
                self._http = await self._serving.enter_async_context(serving)
        self._endpoints[session] = McpEndpoint(toolset)
        token, url = self._tokens.issue(session), self._http.url
        return AgentMcpServer(
            name=SERVER,
            url=url,
            headers={"Authorization": f"Bearer {token}"},
            # -P: an agent runs in someone's project, whose folders are not to be imported.
            command=(sys.executable, "-P", "-m", "quarterdeck", "mcp"),
            environment={TOKEN_VARIABLE: token, URL_VARIABLE: url},
            is_ours=True,
        )


def _instructions(spawn: SessionSpawned) -> str:
    """What an agent is sent about its place. Reads files."""
    parts: list[str] = []
    if spawn.lead:
        parts.append(_read("lead.md"))
    if spawn.parent_session is not None:
        parts.append(_read("child.md"))
    return "\n\n".join(parts)


def _read(name: str) -> str:
    return (Path(__file__).parents[1] / name).read_text(encoding="utf-8").strip()


def _joined(*texts: str | None) -> str:
    return "\n\n".join(filter(None, texts))
