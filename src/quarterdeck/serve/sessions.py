"""The sessions of one connection: opened, prompted, configured and closed as the client asks."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from quarterdeck.agent.config_options import EFFORTS
from quarterdeck.agent.environment import SessionEnvironment, model_options, prepare_environment
from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.agent.session import Session
from quarterdeck.agent.session_store import NoSuchSessionError
from quarterdeck.agent.session_system import SessionSystem, make_local_system
from quarterdeck.agent.tool_servers import ServerDefinition
from quarterdeck.config.places import Places
from quarterdeck.journal import SessionSummary
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.registry import choose_model_name, make_model
from quarterdeck.policy.errors import UnknownModeError
from quarterdeck.policy.modes import parse_mode
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.extensions import (
    SteeringRequest,
    SteeringResponse,
    wants_prompt_if_idle,
)
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.acp.schema import McpServer
from quarterdeck.wire.clock import format_iso_time
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import LinkError

from .errors import make_invalid_params, refusal_of
from .handshake import EditorClient
from .session import ServedSession

if TYPE_CHECKING:
    from .delegated_system import DelegatedSystem

__all__ = ["ConnectionSessions", "servers_of"]


def servers_of(servers: tuple[McpServer, ...]) -> tuple[ServerDefinition, ...]:
    """The servers as the agent takes them.

    Raises:
        RpcError: one is of a transport that we did not offer.
    """
    return tuple(_definition(server) for server in servers)


def _definition(server: McpServer) -> ServerDefinition:
    if server.type not in (None, "stdio", "http"):
        raise make_invalid_params(
            f"MCP server {server.name!r} uses the transport {server.type!r}; this agent supports "
            "'stdio' and 'http'"
        )
    if server.command is not None:
        return ServerDefinition(
            name=server.name,
            command=(server.command, *(server.args or ())),
            env={variable.name: variable.value for variable in server.env or ()},
            source="the client",
        )
    return ServerDefinition(
        name=server.name,
        url=server.url,
        headers={header.name: header.value for header in server.headers or ()},
        source="the client",
    )


P = TypeVar("P")
R = TypeVar("R")


class _Delegation:
    """The way to one client for one session; ``session_id`` is set once it is known."""

    def __init__(self, connection: AcpConnection, client: EditorClient) -> None:
        self.session_id = ""
        self._connection = connection
        self._client = client
        self._system: DelegatedSystem | None = None

    def make_system(
        self, roots: tuple[str, ...], session_environment: SessionEnvironment
    ) -> SessionSystem:
        """Make the system of the session; this machine's for a client that offers nothing."""
        inner = make_local_system(roots, session_environment)
        if not (self._client.edits_files or self._client.has_terminals):
            return inner
        from .delegated_system import DelegatedSystem

        self._system = DelegatedSystem(self, inner, self._client)
        return self._system

    def runs(self, terminal_id: str) -> bool:
        """Whether this is a terminal of the client."""
        return self._system is not None and self._system.runs(terminal_id)

    async def call(self, method: Method[P, R], params: P, *, timeout: float | None = None) -> R:
        """Ask the client.

        Raises:
            OperatingSystemError: it is gone.
            RpcError: it answered with an error.
            TimeoutError: it did not answer in time.
        """
        try:
            return await self._connection.call(method, params, timeout=timeout)
        except LinkError as error:
            raise OperatingSystemError(f"{self._client.name!r} disconnected: {error}") from error


_PAGE = 50


class ConnectionSessions:
    """Answers every request that is about a session.

    Each method takes ACP's request and returns its answer; what it raises becomes an answer by
    ``refusal_of``. Opening and closing one session take turns; different sessions do not wait
    for each other.
    """

    refusal_of = staticmethod(refusal_of)

    def __init__(
        self,
        connection: AcpConnection,
        client: EditorClient,
        places: Places,
        environment: Mapping[str, str],
    ) -> None:
        self._connection = connection
        self._client = client
        self._places = places
        self._environment = environment
        self._agent = NativeAgent(places, environment)
        self._hosted: dict[str, ServedSession] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    # ---- the connection

    async def check_model(self) -> acp.Empty:
        """Make sure that a model can be used. Raises ModelSetupError."""
        home = self._environment.get("HOME") or "/"
        session_environment = await prepare_environment(self._places, self._environment, home)
        options = model_options(session_environment.settings)
        name = await choose_model_name(self._environment, options)
        model = await asyncio.to_thread(make_model, name, self._environment, options)
        await model.close()
        return acp.Empty()

    def cancel(self, session_id: str) -> None:
        """Cancel the turn of a session; one that is not open is no error."""
        if (hosted := self._hosted.get(session_id)) is not None:
            hosted.cancel()

    def cancel_all(self) -> None:
        """Cancel every turn."""
        for hosted in self._hosted.values():
            hosted.cancel()

    async def close_all(self) -> None:
        """Close every session, all at once."""
        async with asyncio.TaskGroup() as group:
            for id_ in tuple(self._hosted):
                group.create_task(self._close(id_))

    async def close(self) -> None:
        """Close every session and the agent."""
        try:
            await self.close_all()
        finally:
            await self._agent.__aexit__()

    # ---- opening and closing

    async def new(self, request: acp.NewSessionRequest) -> acp.NewSessionResponse:
        """Begin a session."""
        roots = await _check_places(request.cwd, request.additional_directories)
        delegation = self._delegation()
        options = _native_options(delegation, request.mcp_servers).at(request.cwd, roots)
        session = await self._agent.new(options)
        delegation.session_id = session.id
        hosted = self._host(session, delegation)
        await hosted.begin(after=0)
        return acp.NewSessionResponse(
            session_id=session.id, modes=hosted.modes, config_options=session.options
        )

    async def load(self, request: acp.LoadSessionRequest) -> acp.LoadSessionResponse:
        """Go on with a session and send its whole history first."""
        async with self._locks[request.session_id]:
            hosted, _ = await self._reopen(request)
            await hosted.replay()
        return acp.LoadSessionResponse(modes=hosted.modes, config_options=hosted.session.options)

    async def resume(self, request: acp.ResumeSessionRequest) -> acp.ResumeSessionResponse:
        """Go on with a session without sending its history."""
        async with self._locks[request.session_id]:
            hosted, is_new = await self._reopen(request)
            if is_new:
                await hosted.begin(after=hosted.session.last_seq)
        return acp.ResumeSessionResponse(modes=hosted.modes, config_options=hosted.session.options)

    async def fork(self, request: acp.ForkSessionRequest) -> acp.ForkSessionResponse:
        """Begin a session with the history of another."""
        roots = await _check_places(request.cwd, request.additional_directories)
        delegation = self._delegation()
        session = await self._agent.fork(
            request.session_id,
            options=_native_options(delegation, request.mcp_servers).at(request.cwd, roots),
        )
        delegation.session_id = session.id
        hosted = self._host(session, delegation)
        await hosted.begin(after=session.last_seq)
        return acp.ForkSessionResponse(
            session_id=session.id, modes=hosted.modes, config_options=session.options
        )

    async def list(self, request: acp.ListSessionsRequest) -> acp.ListSessionsResponse:
        """The sessions there are, in pages, newest first."""
        found = await self._agent.sessions(
            cwd=request.cwd, limit=_PAGE, before=_time_in(request.cursor)
        )
        cursor = str(found[-1].updated) if len(found) == _PAGE else None
        return acp.ListSessionsResponse(
            sessions=tuple(_info(summary) for summary in found), next_cursor=cursor
        )

    async def close_session(self, request: acp.CloseSessionRequest) -> acp.Empty:
        """Close a session; its turn is cancelled first."""
        self._find(request.session_id)
        await self._close(request.session_id)
        return acp.Empty()

    async def delete(self, request: acp.DeleteSessionRequest) -> acp.Empty:
        """Delete a session for good; one that is not there is no error."""
        await self._close(request.session_id)
        with suppress(NoSuchSessionError):
            await self._agent.delete(request.session_id)
        return acp.Empty()

    # ---- within a session

    async def prompt(self, request: acp.PromptRequest) -> acp.PromptResponse:
        """Run a turn."""
        hosted = self._find(request.session_id)
        _check_prompt(request.prompt)
        return await hosted.prompt(request.prompt)

    async def steer(self, request: SteeringRequest) -> SteeringResponse:
        """Give the running turn a message; see ``wire.acp.extensions``."""
        hosted = self._find(request.session_id)
        _check_prompt(request.prompt)
        if hosted.session.steer(request.prompt):
            return SteeringResponse(outcome="injected")
        if wants_prompt_if_idle(request.meta):
            return SteeringResponse(outcome="promptRequired", reason="noRunningTurn")
        hosted.prompt_unattended(request.prompt)
        return SteeringResponse(outcome="startedNewTurn")

    async def set_mode(self, request: acp.SetSessionModeRequest) -> acp.Empty:
        """Change the permission mode."""
        hosted = self._find(request.session_id)
        await _set_mode(hosted.session, request.mode_id)
        await hosted.flush()
        return acp.Empty()

    async def set_option(
        self, request: acp.SetSessionConfigOptionRequest
    ) -> acp.SetSessionConfigOptionResponse:
        """Change a setting; the answer has all of them."""
        hosted = self._find(request.session_id)
        await _set_option(hosted.session, request.config_id, request.value)
        await hosted.flush()
        return acp.SetSessionConfigOptionResponse(config_options=hosted.session.options)

    async def set_title(self, request: acp.SetSessionTitleRequest) -> acp.SetSessionTitleResponse:
        """Name a session."""
        hosted = self._find(request.session_id)
        await hosted.session.set_title(request.title.strip())
        await hosted.flush()
        return acp.SetSessionTitleResponse(title=hosted.session.title or "")

    # ---- inside

    def _find(self, session_id: str) -> ServedSession:
        hosted = self._hosted.get(session_id)
        if hosted is None:
            raise NoSuchSessionError(session_id)
        return hosted

    def _host(self, session: Session, delegation: _Delegation) -> ServedSession:
        hosted = ServedSession(self._connection, self._client, session, delegation.runs)
        self._hosted[session.id] = hosted
        return hosted

    async def _reopen(
        self, request: acp.LoadSessionRequest | acp.ResumeSessionRequest
    ) -> tuple[ServedSession, bool]:
        """The session of a request, and whether it was opened just now."""
        roots = await _check_places(request.cwd, request.additional_directories)
        if (hosted := self._hosted.get(request.session_id)) is not None:
            if hosted.session.cwd != str(PurePosixPath(request.cwd)):
                raise make_invalid_params(
                    f"session {request.session_id!r} is open in {hosted.session.cwd!r}; close it "
                    f"before loading it in {request.cwd!r}"
                )
            return hosted, False
        delegation = self._delegation()
        delegation.session_id = request.session_id
        session = await self._agent.load(
            request.session_id,
            options=_native_options(delegation, request.mcp_servers).at(request.cwd, roots),
        )
        return self._host(session, delegation), True

    async def _close(self, session_id: str) -> None:
        if session_id not in self._locks and session_id not in self._hosted:
            return
        async with self._locks[session_id]:
            hosted = self._hosted.pop(session_id, None)
            if hosted is not None:
                try:
                    await hosted.close()
                finally:
                    await self._agent.close(session_id)

    def _delegation(self) -> _Delegation:
        return _Delegation(self._connection, self._client)


def _native_options(
    delegation: _Delegation, servers: tuple[acp.McpServer, ...]
) -> NativeSessionOptions:
    return NativeSessionOptions(make_system=delegation.make_system, servers=servers_of(servers))


def _check_prompt(prompt: tuple[ContentBlock, ...]) -> None:
    if not prompt:
        raise make_invalid_params("the prompt is empty; send at least one block", "empty_prompt")


async def _check_places(cwd: str, more: tuple[str, ...]) -> tuple[str, ...]:
    for place in (cwd, *more):
        if not place.startswith("/"):
            raise make_invalid_params(
                f"the directory {place!r} is not absolute; send an absolute path"
            )
        if not await asyncio.to_thread(Path(place).is_dir):
            raise make_invalid_params(
                f"the directory {place!r} does not exist; create it or send another"
            )
    return more


async def _set_mode(session: Session, mode: str) -> None:
    try:
        await session.set_mode(parse_mode(mode))
    except UnknownModeError as error:
        raise make_invalid_params(str(error), "invalid_config_option") from error


async def _set_option(session: Session, id_: str, value: str | bool) -> None:
    match id_:
        case "mode":
            await _set_mode(session, str(value))
        case "model":
            try:
                await session.set_model(str(value))
            except ModelSetupError as error:
                raise make_invalid_params(str(error), "invalid_config_option") from error
        case "effort":
            await _set_effort(session, value)
        case _:
            known = ", ".join(option.id for option in session.options)
            raise make_invalid_params(
                f"no option {id_!r}; available: {known}", "invalid_config_option"
            )


async def _set_effort(session: Session, value: str | bool) -> None:
    for effort in EFFORTS:
        if effort == value:
            await session.set_effort(effort)
            return
    known = ", ".join(EFFORTS)
    raise make_invalid_params(f"no effort {value!r}; available: {known}", "invalid_config_option")


def _time_in(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    try:
        return int(cursor)
    except ValueError:
        raise make_invalid_params(f"{cursor!r} is not a valid cursor; start without one") from None


def _info(summary: SessionSummary) -> acp.SessionInfo:
    return acp.SessionInfo(
        session_id=summary.id,
        cwd=summary.cwd,
        title=summary.title,
        updated_at=format_iso_time(summary.updated),
    )
