"""The beginning of a conversation: versions, abilities, login, and the session to work in."""

from dataclasses import dataclass
from typing import TypeVar

from quarterdeck import __version__
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.codec import PROTOCOL_VERSION
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.errors import AUTH_REQUIRED, MalformedAnswer
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import RpcError

from ..child import Launch
from ..driver import Capabilities, McpServer, Opening
from ..errors import Unsupported, WrongProtocol
from ..words import render, render_mode
from .extensions import TERMINAL_OUTPUT
from .login import TERMINAL_LOGIN, Greeting, login_needed
from .quirks import NEVER_ASKS
from .settings import OpenedSession

__all__ = ["Way", "capabilities_of", "choose_way", "command_words", "greet", "open_session"]

P = TypeVar("P")

_HERE = acp.Empty()
_CLIENT = acp.ClientCapabilities(
    fs=acp.FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    session=acp.ClientSessionCapabilities(
        compaction=_HERE,
        notices=_HERE,
        config_options=acp.SessionConfigOptionsCapabilities(boolean=_HERE),
    ),
    auth=acp.AuthCapabilities(terminal=True),
    elicitation=acp.ElicitationCapabilities(form=_HERE, url=_HERE),
    meta={**TERMINAL_OUTPUT, **TERMINAL_LOGIN, "quarterdeck": {"unstable": True}},
)
"""What we can do for an agent: all of it works, and nothing else is said."""


_GREETING: Method[acp.InitializeRequest, Greeting] = Method(
    name=acp.INITIALIZE.name, params=acp.InitializeRequest, result=Greeting, side="agent"
)


@dataclass(frozen=True, slots=True)
class Way:
    """How the session is opened."""

    method: str
    is_silent: bool = False
    """The agent will tell the past, and nobody wants it."""


def command_words(launch: Launch, opening: Opening) -> tuple[str, ...]:
    """The words for what this agent takes on its command line rather than by the protocol.

    Raises:
        Unsupported: an option that cannot be one of its words.
    """
    words = list(launch.modes.get(opening.mode, ()))
    if NEVER_ASKS in launch.quirks and opening.agent_mode not in launch.agent_modes:
        words = list(render_mode(launch, "acp", opening.mode))
    if "model" in launch.words:
        words += render(launch, "acp", "model", opening.model)
    if "system_prompt" in launch.words:
        words += render(launch, "acp", "system_prompt", opening.system_prompt)
    if opening.agent_mode is not None:
        words += launch.agent_modes.get(opening.agent_mode, ())
    return tuple(words)


async def greet(
    connection: AcpConnection, launch: Launch, able: acp.ClientCapabilities = _CLIENT
) -> Greeting:
    """Say who we are and what we can do, and hear the same.

    Raises:
        WrongProtocol: it speaks another version, or something else.
        RpcError, LinkError: as ``AcpConnection.call``.
    """
    request = acp.InitializeRequest(
        protocol_version=PROTOCOL_VERSION,
        client_capabilities=able,
        client_info=acp.Implementation(
            name="quarterdeck", title="Quarterdeck", version=__version__
        ),
    )
    try:
        answer = await connection.call(_GREETING, request)
    except MalformedAnswer as error:
        raise WrongProtocol(f"{launch.agent} does not speak ACP: {error}") from error
    if answer.protocol_version != PROTOCOL_VERSION:
        raise WrongProtocol(
            f"{launch.agent} speaks version {answer.protocol_version} of ACP, we speak "
            f"{PROTOCOL_VERSION}. Use a version of it that speaks {PROTOCOL_VERSION} as well."
        )
    return answer


def capabilities_of(launch: Launch, agent: acp.AgentCapabilities) -> Capabilities:
    """What a session with this agent can do, as far as it says so before there is one."""
    session, prompt = agent.session_capabilities, agent.prompt_capabilities
    return Capabilities(
        asks=NEVER_ASKS not in launch.quirks,
        streams=True,
        interrupts=True,
        resumes=agent.load_session or session.resume is not None,
        forks=session.fork is not None,
        lists=session.list is not None,
        images=prompt.image,
        resources=prompt.embedded_context,
        questions=True,
        mcp=True,
    )


def choose_way(launch: Launch, opening: Opening, agent: acp.AgentCapabilities) -> Way:
    """How to open the session that is wanted; once every option is known to be possible.

    Raises:
        Unsupported: an option that this agent cannot honour.
    """
    session = agent.session_capabilities
    if opening.roots and session.additional_directories is None:
        raise Unsupported(launch.agent, "acp", "work in further roots than its directory")
    by_words = "system_prompt" in launch.words
    if opening.system_prompt is not None and session.system_prompt is None and not by_words:
        raise Unsupported(launch.agent, "acp", "take a system_prompt")
    if opening.resume is None:
        if opening.fork:
            raise Unsupported(launch.agent, "acp", "fork without a session to resume")
        return Way(acp.SESSION_NEW.name)
    if opening.fork:
        if session.fork is None:
            raise Unsupported(launch.agent, "acp", "fork a session")
        return Way(acp.SESSION_FORK.name)
    if opening.replay and agent.load_session:
        return Way(acp.SESSION_LOAD.name)
    if session.resume is not None:
        return Way(acp.SESSION_RESUME.name)
    if agent.load_session:
        return Way(acp.SESSION_LOAD.name, is_silent=True)
    raise Unsupported(launch.agent, "acp", "resume a session")


async def open_session(
    connection: AcpConnection,
    launch: Launch,
    opening: Opening,
    hello: Greeting,
    way: Way,
) -> OpenedSession:
    """Open the session.

    Raises:
        LoginNeeded: the agent wants to be logged in first.
        WrongProtocol: its answer is none.
        RpcError, LinkError: as ``AcpConnection.call``.
    """
    servers = tuple(_server(launch, each, hello.agent_capabilities) for each in opening.mcp_servers)
    try:
        opened = await _open(connection, launch, opening, servers, way)
    except RpcError as error:
        if error.code == AUTH_REQUIRED:
            raise login_needed(launch, error, hello.auth_methods) from error
        raise
    except MalformedAnswer as error:
        raise WrongProtocol(f"{launch.agent} does not speak ACP: {error}") from error
    if opened.session_id is None and way.method in (acp.SESSION_NEW.name, acp.SESSION_FORK.name):
        raise WrongProtocol(f"{launch.agent} opened a session and did not say which")
    return opened


async def _open(
    connection: AcpConnection,
    launch: Launch,
    opening: Opening,
    servers: tuple[acp.McpServer, ...],
    way: Way,
) -> OpenedSession:
    cwd, roots, prompt = opening.cwd, opening.roots, _system_prompt(launch, opening)
    id_ = opening.resume or ""
    request: (
        acp.NewSessionRequest
        | acp.LoadSessionRequest
        | acp.ResumeSessionRequest
        | acp.ForkSessionRequest
    )
    match way.method:
        case acp.SESSION_LOAD.name:
            request = acp.LoadSessionRequest(
                session_id=id_,
                cwd=cwd,
                additional_directories=roots,
                mcp_servers=servers,
                system_prompt=prompt,
            )
        case acp.SESSION_RESUME.name:
            request = acp.ResumeSessionRequest(
                session_id=id_,
                cwd=cwd,
                additional_directories=roots,
                mcp_servers=servers,
                system_prompt=prompt,
            )
        case acp.SESSION_FORK.name:
            request = acp.ForkSessionRequest(
                session_id=id_,
                cwd=cwd,
                additional_directories=roots,
                mcp_servers=servers,
                system_prompt=prompt,
            )
        case _:
            request = acp.NewSessionRequest(
                cwd=cwd, additional_directories=roots, mcp_servers=servers, system_prompt=prompt
            )
    return await connection.call(_method(way.method, type(request)), request)


def _method(name: str, params: type[P]) -> Method[P, OpenedSession]:
    return Method(name=name, params=params, result=OpenedSession, side="agent")


def _system_prompt(launch: Launch, opening: Opening) -> acp.SystemPrompt | None:
    if opening.system_prompt is None or "system_prompt" in launch.words:
        return None
    return acp.SystemPrompt(mode="append", content=(text(opening.system_prompt),))


def _server(launch: Launch, server: McpServer, agent: acp.AgentCapabilities) -> acp.McpServer:
    able = agent.mcp_capabilities
    if server.command and not (server.url and able.http):
        program, *words = server.command
        return acp.McpServer(
            name=server.name,
            command=program,
            args=tuple(words),
            env=tuple(acp.EnvVariable(name=n, value=v) for n, v in server.environment.items()),
        )
    if not (able.http or able.sse):
        what = f"use the MCP server {server.name!r}, which is reached by a URL"
        raise Unsupported(launch.agent, "acp", what)
    return acp.McpServer(
        name=server.name,
        type="http" if able.http else "sse",
        url=server.url,
        headers=tuple(acp.HttpHeader(name=n, value=v) for n, v in server.headers.items()),
    )
