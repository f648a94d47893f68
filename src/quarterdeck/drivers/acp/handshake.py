"""The start of an ACP connection: version, capabilities, login, and the session."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from quarterdeck.version import __version__
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import PROTOCOL_VERSION, AcpConnection
from quarterdeck.wire.acp.errors import AUTH_REQUIRED, MalformedAnswerError
from quarterdeck.wire.acp.extensions import is_steering_supported
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.session_options import AgentMcpServer

from ..agent_process import Launch
from ..command_line import render_mode, render_option
from ..driver import Capabilities, DriverSessionOptions
from ..errors import LoginMethod, LoginNeededError, UnsupportedError, WrongProtocolError
from .extensions import TERMINAL_OUTPUT
from .quirks import NEVER_ASKS
from .settings import AcpSessionResponse

__all__ = [
    "TERMINAL_LOGIN",
    "AcpInitializeResponse",
    "AcpOpenMethod",
    "OfferedLogin",
    "capabilities_of",
    "choose_open_method",
    "command_words",
    "initialize_agent",
    "login_methods",
    "login_needed",
    "open_session",
]

TERMINAL_LOGIN: dict[str, Any] = {"terminal-auth": True}
"""The ``_meta`` of client capabilities that asks for login commands to run in a terminal."""


class OfferedLogin(acp.AuthMethod, frozen=True, kw_only=True):
    """A way to log in, with what drafts of the protocol add to it."""

    vars: Any = None
    """Of the type ``env_var``: the variables, as names or as objects with a ``name``."""
    link: Any = None


class AcpInitializeResponse(acp.InitializeResponse, frozen=True, kw_only=True):
    """The answer to ``initialize``."""

    auth_methods: tuple[OfferedLogin, ...] = ()


def login_methods(launch: Launch, offered: Sequence[OfferedLogin]) -> tuple[LoginMethod, ...]:
    """The ways to log in: by the agent on request, by a command in a terminal, by variables."""
    return tuple(_login_method(launch, method) for method in offered)


def login_needed(
    launch: Launch, error: RpcError, offered: Sequence[OfferedLogin]
) -> LoginNeededError:
    """The failure of an agent that wants to be logged in first."""
    reason = f"{launch.agent} needs a login: {error.description}."
    return LoginNeededError(reason, login_methods(launch, offered))


def _login_method(launch: Launch, method: OfferedLogin) -> LoginMethod:
    command = _command(launch, method)
    variables = _variables(method)
    return LoginMethod(
        id=method.id,
        name=method.name,
        description=method.description,
        kind="terminal" if command else "variables" if variables else "agent",
        command=command,
        variables=variables,
        link=method.link if isinstance(method.link, str) else None,
    )


def _command(launch: Launch, method: OfferedLogin) -> tuple[str, ...] | None:
    """The agent's own program with the words of this login, its variables set before it."""
    data = _object((method.meta or {}).get("terminal-auth"))
    if method.type == "terminal":
        program, words = launch.command, method.args
        variables = {**launch.environment, **method.env}
    elif isinstance(data.get("command"), str):
        program, words = (data["command"],), _texts(data.get("args"))
        own = {k: v for k, v in _object(data.get("env")).items() if isinstance(v, str)}
        variables = {**launch.environment, **own}
    else:
        return None
    settings = ("env", *(f"{name}={value}" for name, value in variables.items()))
    return (*(settings if variables else ()), *program, *words)


def _variables(method: OfferedLogin) -> tuple[str, ...]:
    variables: Any = method.vars
    if method.type != "env_var" or not isinstance(variables, list):
        return ()
    found: list[str] = []
    for one in cast("list[Any]", variables):
        fields = _object(one)
        name = one if isinstance(one, str) else fields.get("name")
        if isinstance(name, str) and fields.get("optional") is not True:
            found.append(name)
    return tuple(found)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(item for item in items if isinstance(item, str))


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
"""What the client offers an agent: only what works."""


_GREETING: Method[acp.InitializeRequest, AcpInitializeResponse] = Method(
    name=acp.INITIALIZE.name,
    params=acp.InitializeRequest,
    result=AcpInitializeResponse,
    side="agent",
)


@dataclass(frozen=True, slots=True)
class AcpOpenMethod:
    """How the session is opened."""

    method: str
    is_silent: bool = False
    """Drop the history that the agent replays."""


def command_words(launch: Launch, opening: DriverSessionOptions) -> tuple[str, ...]:
    """The words for what this agent takes on its command line rather than by the protocol.

    Raises:
        UnsupportedError: an option that cannot be one of its words.
    """
    words = list(launch.modes.get(opening.mode, ()))
    if NEVER_ASKS in launch.quirks and opening.options.agent_mode not in launch.agent_modes:
        words = list(render_mode(launch, "acp", opening.mode))
    if "model" in launch.words:
        words += render_option(launch, "acp", "model", opening.options.model)
    if "system_prompt" in launch.words:
        words += render_option(launch, "acp", "system_prompt", opening.options.system_prompt)
    if opening.options.agent_mode is not None:
        words += launch.agent_modes.get(opening.options.agent_mode, ())
    return tuple(words)


async def initialize_agent(
    connection: AcpConnection, launch: Launch, able: acp.ClientCapabilities = _CLIENT
) -> AcpInitializeResponse:
    """Exchange names and capabilities with the agent.

    Raises:
        WrongProtocolError: it speaks another version, or something else.
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
    except MalformedAnswerError as error:
        raise WrongProtocolError(f"{launch.agent} does not speak ACP: {error}") from error
    if answer.protocol_version != PROTOCOL_VERSION:
        raise WrongProtocolError(
            f"{launch.agent} uses ACP version {answer.protocol_version}; we support "
            f"{PROTOCOL_VERSION}. Use a version of it that supports {PROTOCOL_VERSION}."
        )
    return answer


def capabilities_of(launch: Launch, hello: AcpInitializeResponse) -> Capabilities:
    """What a session with this agent can do, as far as it says so before there is one."""
    agent = hello.agent_capabilities
    session, prompt = agent.session_capabilities, agent.prompt_capabilities
    return Capabilities(
        asks=NEVER_ASKS not in launch.quirks,
        streams=True,
        interrupts=True,
        steers=is_steering_supported(hello.meta),
        resumes=agent.load_session or session.resume is not None,
        forks=session.fork is not None,
        lists=session.list is not None,
        images=prompt.image,
        resources=prompt.embedded_context,
        questions=True,
        mcp=True,
    )


def choose_open_method(
    launch: Launch, opening: DriverSessionOptions, agent: acp.AgentCapabilities
) -> AcpOpenMethod:
    """How to open the session that is wanted; once every option is known to be possible.

    Raises:
        UnsupportedError: an option that this agent cannot honour.
    """
    session = agent.session_capabilities
    if opening.options.roots and session.additional_directories is None:
        raise UnsupportedError(launch.agent, "acp", "work in additional directories (roots)")
    by_words = "system_prompt" in launch.words
    if opening.options.system_prompt is not None and session.system_prompt is None and not by_words:
        raise UnsupportedError(launch.agent, "acp", "accept a system_prompt")
    if opening.options.resume is None:
        return AcpOpenMethod(acp.SESSION_NEW.name)
    if opening.options.fork:
        if session.fork is None:
            raise UnsupportedError(launch.agent, "acp", "fork a session")
        return AcpOpenMethod(acp.SESSION_FORK.name)
    if opening.replay and agent.load_session:
        return AcpOpenMethod(acp.SESSION_LOAD.name)
    if session.resume is not None:
        return AcpOpenMethod(acp.SESSION_RESUME.name)
    if agent.load_session:
        return AcpOpenMethod(acp.SESSION_LOAD.name, is_silent=True)
    raise UnsupportedError(launch.agent, "acp", "resume a session")


async def open_session(
    connection: AcpConnection,
    launch: Launch,
    opening: DriverSessionOptions,
    hello: AcpInitializeResponse,
    way: AcpOpenMethod,
) -> AcpSessionResponse:
    """Open the session.

    Raises:
        LoginNeededError: the agent wants to be logged in first.
        WrongProtocolError: its answer is none.
        RpcError, LinkError: as ``AcpConnection.call``.
    """
    servers = tuple(
        _server(launch, each, hello.agent_capabilities) for each in opening.options.mcp_servers
    )
    try:
        opened = await _open(connection, launch, opening, servers, way)
    except RpcError as error:
        if error.code == AUTH_REQUIRED:
            raise login_needed(launch, error, hello.auth_methods) from error
        raise
    except MalformedAnswerError as error:
        raise WrongProtocolError(f"{launch.agent} does not speak ACP: {error}") from error
    if opened.session_id is None and way.method in (acp.SESSION_NEW.name, acp.SESSION_FORK.name):
        raise WrongProtocolError(f"{launch.agent} opened a session without an id")
    return opened


async def _open(
    connection: AcpConnection,
    launch: Launch,
    opening: DriverSessionOptions,
    servers: tuple[acp.McpServer, ...],
    way: AcpOpenMethod,
) -> AcpSessionResponse:
    cwd, roots, prompt = opening.options.cwd, opening.options.roots, _system_prompt(launch, opening)
    id_ = opening.options.resume or ""
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
    return await connection.call(_open_method(way.method, type(request)), request)


def _open_method(name: str, params: type[P]) -> Method[P, AcpSessionResponse]:
    return Method(name=name, params=params, result=AcpSessionResponse, side="agent")


def _system_prompt(launch: Launch, opening: DriverSessionOptions) -> acp.SystemPrompt | None:
    if opening.options.system_prompt is None or "system_prompt" in launch.words:
        return None
    return acp.SystemPrompt(mode="append", content=(text(opening.options.system_prompt),))


def _server(launch: Launch, server: AgentMcpServer, agent: acp.AgentCapabilities) -> acp.McpServer:
    able = agent.mcp_capabilities
    if server.command and not (server.url and able.http):
        program, *words = server.command
        return acp.McpServer(
            name=server.name,
            command=program,
            args=tuple(words),
            env=tuple(acp.EnvVariable(name=n, value=v) for n, v in server.variables.items()),
        )
    if not (able.http or able.sse):
        what = f"use the MCP server {server.name!r}, which is reached by a URL"
        raise UnsupportedError(launch.agent, "acp", what)
    return acp.McpServer(
        name=server.name,
        type="http" if able.http else "sse",
        url=server.url,
        headers=tuple(acp.HttpHeader(name=n, value=v) for n, v in server.sent_headers.items()),
    )
