"""The link to an agent that speaks ACP over its standard input and output, and its turns."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from quarterdeck.system.errors import PathError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.errors import MalformedAnswerError
from quarterdeck.wire.acp.extensions import PROMPT_IF_IDLE, SESSION_STEERING, SteeringRequest
from quarterdeck.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    text,
)
from quarterdeck.wire.errors import LinkError, RpcError
from quarterdeck.wire.events import NoticePosted, RateLimited, StopReason
from quarterdeck.wire.rpc.errors import REQUEST_CANCELLED
from quarterdeck.wire.rpc.handler import RpcLimits
from quarterdeck.wire.rpc.stream import ByteStream
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.usage import Cost, TokenUsage

from ..agent_process import AgentProcess, AgentProcessStream, Launch
from ..driver import Capabilities, DriverSessionOptions
from ..enforcement import Enforcement, enforcement_of
from ..errors import DriverError, OpenFailedError, UnsupportedError
from ..link import AGENT_OPTIONS, AgentExit, LinkHost, StartedAgent, TurnOutcome
from .extensions import quota
from .files import ServedFiles
from .handshake import (
    capabilities_of,
    choose_open_method,
    command_words,
    initialize_agent,
    open_session,
)
from .quirks import ECHOES_PROMPTS, EMPTY_FOR_MISSING, NEVER_ASKS, STREAMS_INPUT
from .requests import AcpClientRouter, AcpRequestHandler
from .settings import AcpSettings, AcpSettingsWriter
from .terminals import ContainedTerminals, ServedTerminals
from .updates import AcpTranslator, to_plain_data

__all__ = [
    "AcpLink",
    "blocks_for",
    "cost_between",
    "list_sessions",
    "outcome_of_answer",
    "outcome_of_error",
    "rate_limit",
]


def blocks_for(
    agent: str, content: tuple[ContentBlock, ...], able: acp.PromptCapabilities
) -> tuple[ContentBlock, ...]:
    """The blocks to send: resources that the agent does not take become text or links.

    Raises:
        UnsupportedError: images or sounds that it does not take.
    """
    return tuple(_block(agent, block, able) for block in content)


def _block(agent: str, block: ContentBlock, able: acp.PromptCapabilities) -> ContentBlock:
    match block:
        case ImageContent() if not able.image:
            raise UnsupportedError(agent, "acp", "take images")
        case AudioContent() if not able.audio:
            raise UnsupportedError(agent, "acp", "take audio")
        case EmbeddedResource(resource=resource) if not able.embedded_context:
            if resource.text is None:
                return ResourceLink(uri=resource.uri, name=resource.uri.rpartition("/")[2])
            return text(f'<resource uri="{resource.uri}">\n{resource.text}\n</resource>')
        case _:
            return block


_KNOWN: dict[str, StopReason] = {reason: reason for reason in get_args(StopReason)}
_FAILURES = ("error", "failed")
"""Words of later versions of the protocol, and of agents that mix them up."""
_TOO_MANY = 429


def outcome_of_answer(
    answer: acp.PromptResponse, *, failure: str | None = None, cost: Cost | None = None
) -> TurnOutcome:
    """The outcome of a prompt that was answered; ``failure`` is one reported beside the answer."""
    usage = _tokens(answer.usage) if answer.usage is not None else quota(answer.meta)
    word = answer.stop_reason
    if failure is not None and word == "end_turn":
        return TurnOutcome(stop="failed", reason=failure, usage=usage, cost=cost)
    stop = _KNOWN.get(word)
    if stop is not None:
        return TurnOutcome(stop=stop, usage=usage, cost=cost)
    if word in _FAILURES:
        return TurnOutcome(stop="failed", reason=word, usage=usage, cost=cost)
    return TurnOutcome(stop="end_turn", reason=word, usage=usage, cost=cost)


def outcome_of_error(error: RpcError, cost: Cost | None = None) -> TurnOutcome:
    """The outcome of a prompt that was answered with an error."""
    if error.code == REQUEST_CANCELLED:
        return TurnOutcome(stop="cancelled", cost=cost)
    return TurnOutcome(stop="failed", reason=_error_text(error), cost=cost)


def rate_limit(error: RpcError) -> RateLimited | None:
    """The limit that the vendor set, where the error says that it is one."""
    data: Any = error.data
    kind = cast("dict[str, Any]", data).get("errorKind") if isinstance(data, dict) else None
    if error.code == _TOO_MANY or kind in ("rate_limit", "rate_limit_error"):
        return RateLimited(reason=_error_text(error))
    return None


def cost_between(before: Cost | None, after: Cost | None, *, is_first: bool) -> Cost | None:
    """What a turn cost, from the session's totals; ``is_first``: it had cost nothing before.

    None where the agent reported nothing new, or too little to compute it.
    """
    if after is None or after is before or (before is None and not is_first):
        return None
    if before is not None and before.currency != after.currency:
        return None
    spent = after.amount - (before.amount if before is not None else 0.0)
    return Cost(amount=max(0.0, round(spent, 12)), currency=after.currency)


def _tokens(usage: acp.Usage) -> TokenUsage:
    """Count each token once: agents differ in what ``inputTokens`` and ``outputTokens`` include."""
    cached, written = usage.cached_read_tokens or 0, usage.cached_write_tokens or 0
    thought = usage.thought_tokens or 0
    read, generated = usage.input_tokens, usage.output_tokens
    beside = usage.total_tokens - read - generated
    if beside > 0 and beside in (cached + written, cached + written + thought):
        read += cached + written
    if beside > 0 and beside in (thought, cached + written + thought):
        generated += thought
    return TokenUsage(
        input=read, output=generated, cached=cached, cache_written=written, thought=thought
    )


def _error_text(error: RpcError) -> str:
    """What an error says; some put the vendor's whole answer, as JSON, into the message."""
    if not error.message.startswith("{"):
        return error.description
    try:
        inner = msgspec.json.decode(error.message)["error"]["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return error.description
    return inner if isinstance(inner, str) else error.description


_PAGES = 50
"""An agent whose list has more is asked no further."""


async def list_sessions(
    connection: AcpConnection, launch: Launch, cwd: str
) -> tuple[Mapping[str, Any], ...]:
    """The sessions of a directory, in the agent's own words.

    Raises:
        UnsupportedError: it refuses.
        LinkError: it is gone.
    """
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        request = acp.ListSessionsRequest(cwd=cwd, cursor=cursor)
        try:
            page = await connection.call(acp.SESSION_LIST, request)
        except (RpcError, MalformedAnswerError) as error:
            raise UnsupportedError(launch.agent, "acp", "list its sessions", str(error)) from error
        found += [to_plain_data(session) for session in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(found)


_LIMITS = RpcLimits(grace_seconds=0.5)
_ANSWERING = 1.0
"""Seconds that cancelled questions may take to be answered before the agent is stopped."""
_TELLING = 1.0
"""Seconds that the last output of terminals may take to be emitted."""


class AcpLink:
    """One session with an agent that speaks ACP; see ``drivers.link.Link``.

    Args:
        launch: how the agent is started.
        login: a way to log in, by the agent's id of it, before the session is opened.
        stream: talk over this, and start no program.
    """

    transport = "acp"
    supported_options = AGENT_OPTIONS

    def __init__(
        self, launch: Launch, *, login: str | None = None, stream: ByteStream | None = None
    ) -> None:
        self._launch = launch
        self._login = login
        self._stream = stream
        self._capabilities = Capabilities(asks=True, streams=True)
        self._settings = AcpSettings(launch.agent)
        self._child: AgentProcess | None = None
        self._outlet: AgentProcessStream | None = None
        self._system: LocalSystem | None = None
        self._contained: ContainedTerminals | None = None
        self._terminals: ServedTerminals | None = None
        self._watching: asyncio.Task[None] | None = None
        self._over: asyncio.Future[LinkError] | None = None
        self._ending: asyncio.Task[AgentExit | None] | None = None
        self._reported_malformed = 0
        self._has_spent = True
        """Whether the session may have a cost that was not reported to us."""

    _host: LinkHost
    _connection: AcpConnection
    _translator: AcpTranslator
    _request_handler: AcpRequestHandler
    _router: AcpClientRouter
    _chooser: AcpSettingsWriter
    _prompts: acp.PromptCapabilities
    _session: str

    @property
    def capabilities(self) -> Capabilities:
        """What the agent can do."""
        return self._capabilities

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=NEVER_ASKS not in self._launch.quirks)

    # Beginning

    async def start(self, host: LinkHost) -> StartedAgent:
        """Start the agent and open, resume or fork its session.

        Raises:
            OpenFailedError, UnsupportedError: and ``end`` is all that is left to do.
        """
        self._host = host
        opening = host.opening
        self._system = LocalSystem(
            [opening.options.cwd, *opening.options.roots], guard=shared_guard()
        )
        stream = self._stream or await self._run(opening, self._system)
        self._connect(host, self._system, stream)
        await self._connection.__aenter__()
        self._over = asyncio.get_running_loop().create_future()
        self._watching = start_task(self._watch(), name="acp: connection")
        return await self._open(opening)

    async def _run(self, opening: DriverSessionOptions, system: LocalSystem) -> ByteStream:
        words = command_words(self._launch, opening)
        try:
            self._child = await AgentProcess.start(self._launch, opening, system, words)
        except PathError as error:
            raise OpenFailedError(f"{self._launch.agent} could not be started: {error}") from error
        self._outlet = AgentProcessStream(self._launch.agent, self._child)
        return self._outlet

    def _connect(self, host: LinkHost, system: LocalSystem, stream: ByteStream) -> None:
        quirks = self._launch.quirks
        contained = self._contained = ContainedTerminals(system)
        terminals = ServedTerminals(contained, host, host.emit)
        self._terminals = terminals
        self._translator = AcpTranslator(
            self._launch.agent,
            self._settings,
            host.emit,
            terminals.show,
            drops_echoes=ECHOES_PROMPTS in quirks,
            streams_input=STREAMS_INPUT in quirks,
        )
        files = ServedFiles(system.files, host, is_missing_empty=EMPTY_FOR_MISSING in quirks)
        self._request_handler = AcpRequestHandler(host, self._translator, files, terminals)
        self._router = AcpClientRouter(self._translator)
        self._request_handler.serve(self._router)
        self._connection = AcpConnection(
            stream,
            self._router,
            limits=_LIMITS,
            answer_malformed=False,
            name=self._launch.agent,
        )

    async def _open(self, opening: DriverSessionOptions) -> StartedAgent:
        connection, launch = self._connection, self._launch
        hello = await initialize_agent(connection, launch)
        agent = hello.agent_capabilities
        self._capabilities = capabilities_of(launch, hello)
        way = choose_open_method(launch, opening, agent)
        if (login := self._login or opening.login) is not None:
            await connection.call(acp.AUTHENTICATE, acp.AuthenticateRequest(method_id=login))
        if opening.options.resume is not None and not opening.options.fork:
            self._router.session = opening.options.resume
        self._translator.mute(way.is_silent)
        opened = await open_session(connection, launch, opening, hello, way)
        self._translator.mute(False)
        session = self._router.session or opened.session_id
        self._request_handler.session = self._router.session = session
        for event in self._settings.opened(opened):
            await self._host.emit(event)
        await self._router.catch_up()
        self._prompts = agent.prompt_capabilities
        self._session = session or ""
        self._has_spent = opening.options.resume is not None
        self._chooser = AcpSettingsWriter(
            launch.agent, self._session, connection, self._settings, self._host.emit
        )
        await self._chooser.begin(launch, opening, agent.session_capabilities)
        self._capabilities = replace(
            self._capabilities,
            sets_mode=self._settings.has_modes,
            sets_model=self._settings.has_models,
        )
        info = hello.agent_info
        return StartedAgent(
            agent_session=session,
            agent_version=info.version if info is not None else None,
            model=self._settings.model,
            mode=self._settings.mode,
        )

    # Turns

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        """Send a prompt and return when the turn is over.

        Raises:
            LinkError: the agent is gone.
            UnsupportedError: it does not take this kind of content.
        """
        blocks = blocks_for(self._launch.agent, content, self._prompts)
        request = acp.PromptRequest(session_id=self._session, prompt=blocks)
        translator, before = self._translator, self._translator.cost
        translator.begin_turn()
        try:
            answer = await self._connection.call(acp.SESSION_PROMPT, request)
        except RpcError as error:
            if (limit := rate_limit(error)) is not None:
                await self._host.emit(limit)
            return outcome_of_error(error, self._spent(before))
        except MalformedAnswerError as error:
            return TurnOutcome(stop="failed", reason=str(error))
        except LinkError:
            raise await self._verdict() from None
        finally:
            translator.end_turn()
            await self._request_handler.drop_questions()
        await self._tell_malformed()
        return outcome_of_answer(answer, failure=translator.failure, cost=self._spent(before))

    def _spent(self, before: Cost | None) -> Cost | None:
        cost = cost_between(before, self._translator.cost, is_first=not self._has_spent)
        self._has_spent = True
        return cost

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        """Add a message to the turn by ``_session/steering``; False: no turn takes it."""
        blocks = blocks_for(self._launch.agent, content, self._prompts)
        request = SteeringRequest(session_id=self._session, prompt=blocks, meta=PROMPT_IF_IDLE)
        try:
            answer = await self._connection.call(SESSION_STEERING, request)
        except (RpcError, MalformedAnswerError) as error:
            raise DriverError(f"{self._launch.agent} did not take the message: {error}") from error
        except LinkError:
            raise await self._verdict() from None
        return answer.outcome != "promptRequired"

    async def interrupt(self) -> None:
        """Ask the agent to stop; its open requests are answered as cancelled before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWERING):
                await self._request_handler.all_answered()
        note = acp.CancelNotification(session_id=self._session)
        await self._connection.send(acp.SESSION_CANCEL, note)

    async def _tell_malformed(self) -> None:
        """Say so, once a turn, when the agent printed what is no message."""
        seen = self._connection.peer.counters.malformed
        count, self._reported_malformed = seen - self._reported_malformed, seen
        if count:
            title = f"{count} lines of its output were not messages and were ignored."
            await self._host.emit(NoticePosted(title=title, severity="warning"))

    # Settings

    async def set_mode(self, mode: str) -> None:
        """Change the agent's own mode."""
        await self._chooser.mode(mode)

    async def set_model(self, model: str) -> None:
        """Change the model."""
        await self._chooser.model(model)

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change another setting."""
        await self._chooser.option(option, value)

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The sessions of this directory that the agent knows."""
        return await list_sessions(self._connection, self._launch, self._host.opening.options.cwd)

    # The end

    async def end(self) -> AgentExit | None:
        """End the agent and everything it started, here or through us; may be called again."""
        if self._ending is None:
            self._ending = start_task(self._end(), name="acp: end")
        return await asyncio.shield(self._ending)

    async def _end(self) -> AgentExit | None:
        departure: AgentExit | None = None
        try:
            if self._watching is not None:
                await self._connection.close()
            elif self._stream is not None:
                await self._stream.close()
            if self._child is not None:
                departure = await self._child.end()
        finally:
            if self._contained is not None:
                await self._contained.close()
            if self._system is not None:
                await self._system.close()
            if self._terminals is not None:
                await self._terminals.close(_TELLING)
            if self._watching is not None:
                await asyncio.wait([self._watching])
        return departure

    async def _watch(self) -> None:
        """Wait for the end of the connection and report to the session what it means."""
        ending = await self._connection.wait_closed()
        verdict = await self._outlet.explain(ending) if self._outlet is not None else ending
        assert self._over is not None
        self._over.set_result(verdict)
        self._host.lost(verdict)

    async def _verdict(self) -> LinkError:
        """What the end of the connection means; the process may have more to say than it."""
        assert self._over is not None
        return await asyncio.shield(self._over)


if TYPE_CHECKING:
    from ..link import AgentLink

    _link: AgentLink = AcpLink(Launch(agent="", command=()))
