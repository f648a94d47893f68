"""The client of one MCP server: the handshake, its tools, calls under way, and its own requests."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct

from quarterdeck.wire.decoders import convert, decode_json
from quarterdeck.wire.errors import LinkError, RpcError
from quarterdeck.wire.events import QuestionAnswered
from quarterdeck.wire.rpc.errors import METHOD_NOT_FOUND
from quarterdeck.wire.rpc.peer import Peer
from quarterdeck.wire.tasks import BackgroundTasks, cancel_tasks, start_task

from .protocol import (
    CANCELLED,
    INITIALIZED,
    LEGACY,
    MODERN,
    MODERN_ERRORS,
    UNSUPPORTED_VERSION,
    CallResult,
    DiscoverAnswer,
    InitializeAnswer,
    McpError,
    Mirror,
    ProbeRefusedError,
    Progress,
    SupportedVersions,
    ToolPage,
    Transport,
    UnusableServerError,
    initialize_params,
    modern_meta,
)

if TYPE_CHECKING:
    from quarterdeck.wire.rpc.handler import Handler, RequestContext

__all__ = [
    "Ask",
    "CallOwner",
    "McpAgreement",
    "McpClient",
    "PendingCalls",
    "connect",
    "shake_hands",
]

_SILENCE = 3.0
"""Seconds after which a server that does not say what it speaks is greeted in the older way too."""

Ask: TypeAlias = Callable[[str, Any], Awaitable[Raw]]
"""Sends a request and gives its result; raises RpcError and LinkError."""


class McpAgreement(Struct, frozen=True, kw_only=True):
    """What both sides speak, and what the server offers."""

    version: str
    is_modern: bool
    capabilities: dict[str, Any]
    server: str
    """What the server calls itself, for people."""

    @property
    def has_tools(self) -> bool:
        """Whether it has tools to list."""
        return "tools" in self.capabilities

    @property
    def tells_changes(self) -> bool:
        """Whether it says when its tools have changed."""
        tools = self.capabilities.get("tools")
        return isinstance(tools, dict) and bool(cast("dict[str, Any]", tools).get("listChanged"))


async def shake_hands(ask: Ask, *, may_probe: bool, silence: float = _SILENCE) -> McpAgreement:
    """Agree on a version; a modern one where the server can.

    A server that is slow to start is not taken for one of the older era: after ``silence``
    seconds it is greeted in both ways, and whichever it answers counts.

    Raises:
        McpError: it answers, but not in words that we know.
        RpcError, LinkError: it refuses, or is gone.
    """
    if not may_probe:
        return await _initialize(ask)
    probing = start_task(_discover(ask), name="MCP: discover")
    tasks: set[asyncio.Future[Any]] = {probing}
    try:
        await asyncio.wait(tasks, timeout=silence)
        if probing.done():
            return probing.result() or await _initialize(ask)
        older = start_task(_initialize(ask), name="MCP: initialize")
        tasks.add(older)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if probing.done() and (agreed := probing.result()) is not None:
            return agreed
        if older.done() and older.exception() is not None:
            agreed = await probing  # what refuses the older greeting may be modern, and slow
            return agreed or older.result()
        return await older
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _discover(ask: Ask) -> McpAgreement | None:
    """What a modern server says; None: it is of the older era."""
    try:
        raw = await ask("server/discover", {"_meta": modern_meta()})
        found = decode_json(raw, DiscoverAnswer)
    except RpcError as error:
        if error.code not in MODERN_ERRORS:
            return None
        if error.code == UNSUPPORTED_VERSION and set(_supported(error)) & set(LEGACY):
            return None
        raise UnusableServerError(
            f"it supports none of our versions ({_spoken()}): {error.message}"
        ) from error
    except msgspec.DecodeError:
        return None  # it answers anything at all, as the laxest of the older ones do
    if MODERN not in found.supported_versions:
        if set(found.supported_versions) & set(LEGACY):
            return None
        versions = ", ".join(found.supported_versions)
        raise UnusableServerError(f"it supports {versions}; we support {_spoken()}")
    return McpAgreement(
        version=MODERN,
        is_modern=True,
        capabilities=found.capabilities,
        server=_name(found.info),
    )


async def _initialize(ask: Ask) -> McpAgreement:
    raw = await ask("initialize", initialize_params())
    try:
        found = decode_json(raw, InitializeAnswer)
    except msgspec.DecodeError as error:
        raise McpError(f"its answer to 'initialize' cannot be read: {error}") from error
    if found.protocol_version not in LEGACY:
        raise UnusableServerError(f"it supports {found.protocol_version!r}; we support {_spoken()}")
    return McpAgreement(
        version=found.protocol_version,
        is_modern=False,
        capabilities=found.capabilities,
        server=_name(found.server_info),
    )


def _supported(error: RpcError) -> list[str]:
    try:
        return convert(error.data, SupportedVersions).supported
    except msgspec.ValidationError:
        return []


def _spoken() -> str:
    return ", ".join((MODERN, *LEGACY))


def _name(info: Any) -> str:
    if not isinstance(info, dict):
        return ""
    fields = cast("dict[str, Any]", info)
    words = (fields.get("title") or fields.get("name"), fields.get("version"))
    return " ".join(word for word in words if isinstance(word, str))[:100]


_MOST_FORM = 50_000
"""Bytes of a form."""
_MOST_WORDS = 4000
_LONGEST = 3600.0
"""Seconds that a call may take, whatever progress it reports."""


class CallOwner(Protocol):
    """Who makes a call."""

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        """Ask the person."""
        ...

    def progressed(self, progress: Progress) -> None:
        """Take the progress of the call; must be quick."""
        ...


@dataclass(slots=True)
class _Running:
    caller: CallOwner
    bound: asyncio.Timeout
    seconds: float
    last: float
    """The loop's time at which it ends whatever happens."""
    questions: int = 0
    asking: "set[asyncio.Task[QuestionAnswered]]" = field(
        default_factory=set["asyncio.Task[QuestionAnswered]"]
    )
    is_over: bool = False

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered | None:
        """Ask the person; None: the call ended before there was an answer."""
        asking = start_task(self.caller.ask(text, form), name="question of an MCP server")
        self.asking.add(asking)
        try:
            await asyncio.wait([asking])
        finally:
            self.asking.discard(asking)
            await cancel_tasks((asking,))
        return None if asking.cancelled() else asking.result()

    async def end(self) -> None:
        """The call has no waiter any more: take its questions back."""
        self.is_over = True
        await cancel_tasks(tuple(self.asking))

    def pause(self) -> None:
        """Count no more until it is renewed as often."""
        self.questions += 1
        self._until(None)

    def go_on(self) -> None:
        """Take a pause back."""
        self.questions -= 1
        self.renew()

    def renew(self) -> None:
        """Begin to count anew, unless a person is being asked."""
        if not self.questions:
            now = asyncio.get_running_loop().time()
            self._until(min(now + self.seconds, self.last))

    def _until(self, when: float | None) -> None:
        if not (self.is_over or self.bound.expired()):
            self.bound.reschedule(when)


class PendingCalls:
    """The calls under way with one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._running: dict[str, _Running] = {}

    @asynccontextmanager
    async def timed(self, caller: CallOwner, token: str, seconds: float) -> AsyncGenerator[str]:
        """Bound a call by seconds without progress. Raises TimeoutError."""
        async with asyncio.timeout(seconds) as bound:
            last = asyncio.get_running_loop().time() + max(_LONGEST, seconds)
            running = self._running[token] = _Running(caller, bound, seconds, last)
            try:
                yield token
            finally:
                del self._running[token]
                await running.end()

    def progressed(self, progress: Progress) -> None:
        """Hand progress to the call that it is of; of none that runs: nothing happens."""
        running = self._running.get(str(progress.progress_token))
        if running is not None:
            running.renew()
            running.caller.progressed(progress)

    async def elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the person for the server; declined where no call runs that it can be about."""
        text, form = params.get("message"), params.get("requestedSchema")
        running = next(reversed(self._running.values()), None)
        if running is None or params.get("mode", "form") != "form" or not _is_form(form):
            return {"action": "decline"}
        words = f"The MCP server {self._server!r} asks: {str(text)[:_MOST_WORDS]}"
        with self._paused():
            answered = await running.ask(words, cast("dict[str, Any]", form))
        if answered is None:
            return {"action": "cancel"}
        if answered.action != "accept":
            return {"action": answered.action}
        return {"action": "accept", "content": answered.content or {}}

    @contextmanager
    def _paused(self) -> Generator[None]:
        """Stop the time of every call: the server does not name the call that it asks about."""
        paused = tuple(self._running.values())
        for running in paused:
            running.pause()
        try:
            yield
        finally:
            for running in paused:
                running.go_on()


def _is_form(form: Any) -> bool:
    if not isinstance(form, dict):
        return False
    properties = cast("dict[str, Any]", form).get("properties")
    return isinstance(properties, dict) and len(msgspec.json.encode(form)) <= _MOST_FORM


_log = logging.getLogger(__name__)

_MOST_PAGES = 100
_MOST_TOOLS = 1000
_MOST_ROUNDS = 10
"""How often a server may want something of us before it makes one call."""
_GRAVE = frozenset(("error", "critical", "alert", "emergency"))
_SHOWN = 300


class McpClient:
    """One server while it is connected; made by ``connect``."""

    def __init__(
        self, name: str, roots: tuple[str, ...], complain: Callable[[str], None] | None = None
    ) -> None:
        self.name = name
        self.changed = asyncio.Event()
        """Set when the server says that its tools have changed; cleared by who lists them."""
        self.agreement = McpAgreement(version="", is_modern=False, capabilities={}, server="")
        self._roots = roots
        self._complain = complain
        self._calls = PendingCalls(name)
        self._tokens = count(1)
        self._tasks = BackgroundTasks()
        self._peer: Peer | None = None
        self._transport: Transport | None = None

    @property
    def peer(self) -> Peer:
        """The link."""
        assert self._peer is not None
        return self._peer

    async def open(self, transport: Transport, *, may_probe: bool) -> None:
        """Greet the server. Raises McpError, RpcError, LinkError."""
        self._transport = transport
        self._peer = Peer(
            transport, self, answer_malformed=False, cancel=CANCELLED, name=f"MCP {self.name}"
        )
        await self._peer.__aenter__()
        try:
            agreement = await shake_hands(self._peer.request, may_probe=may_probe)
        except LinkError as error:
            if may_probe:
                raise ProbeRefusedError(str(error)) from error
            raise
        self.agreement = agreement
        transport.agreed(agreement.version, is_modern=agreement.is_modern)
        if not agreement.is_modern:
            await self._peer.notify(INITIALIZED)
        elif agreement.tells_changes:
            self._run(self._subscribe())

    def mirror(self, headers_of: Mirror) -> None:
        """Show arguments of calls in headers as well, where there are headers."""
        assert self._transport is not None
        self._transport.mirror(headers_of)

    async def close(self) -> None:
        """End the link; calls that wait raise ``LinkClosedError``."""
        await self._tasks.close()
        if self._peer is not None:
            await self._peer.close()

    async def tools(self) -> list[Any]:
        """Every tool as the server describes it, unread.

        Raises:
            McpError: the list cannot be read.
            RpcError, LinkError: the server refuses, or is gone.
        """
        if not self.agreement.has_tools:
            return []
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._page(cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) >= _MOST_TOOLS:
                break
        return found[:_MOST_TOOLS]

    async def call(
        self, tool: str, arguments: Mapping[str, Any], caller: CallOwner, timeout: float
    ) -> CallResult:
        """Call a tool; cancelling notifies the server.

        ``timeout``: seconds without a sign of progress; those in which a person is asked do not
        count.

        Raises:
            McpError: the answer cannot be read, or it wants what we do not have.
            TimeoutError: no answer in time; the request is cancelled at the server.
            RpcError, LinkError: it refuses, or is gone.
        """
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        extra: dict[str, Any] = {}
        async with self._calls.timed(caller, f"call-{next(self._tokens)}", timeout) as token:
            for _ in range(_MOST_ROUNDS):
                asked = self._params({**params, **extra}, token)
                result = _decoded(await self.peer.request("tools/call", asked), CallResult)
                if result.result_type != "input_required":
                    return result
                extra = await self._input(result)
        raise McpError(f"it sent {_MOST_ROUNDS} requests of its own and did not answer the call")

    # ---- what the server sends

    async def on_request(self, method: str, params: Raw | None, context: "RequestContext") -> Any:
        """Answer the server."""
        given: Any = {} if params is None else msgspec.json.decode(params)
        fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        return await self._answer(method, fields)

    def on_notification(self, method: str, params: Raw | None) -> None:
        """Take note."""
        match method:
            case "notifications/tools/list_changed":
                self.changed.set()
            case "notifications/progress" if params is not None:
                with suppress(msgspec.DecodeError):
                    self._calls.progressed(decode_json(params, Progress))
            case "notifications/message" if params is not None:
                self._log_message(params)
            case _:
                pass

    async def _answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        match method:
            case "ping":
                return {}
            case "roots/list":
                return {"roots": [{"uri": Path(root).as_uri()} for root in self._roots]}
            case "elicitation/create":
                return await self._calls.elicit(params)
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"this client does not offer {method[:100]!r}")

    def _log_message(self, params: Raw) -> None:
        with suppress(msgspec.DecodeError, AttributeError):
            fields = msgspec.json.decode(params)
            words = str(fields.get("data"))[:_SHOWN]
            _log.debug("MCP server %s says: %s", self.name, words)
            if fields.get("level") in _GRAVE and self._complain is not None:
                self._complain(words)

    # ---- inside

    async def _page(self, cursor: str | None) -> ToolPage:
        params = self._params({} if cursor is None else {"cursor": cursor})
        return _decoded(await self.peer.request("tools/list", params), ToolPage)

    def _params(self, params: dict[str, Any], token: str | None = None) -> dict[str, Any]:
        meta = modern_meta() if self.agreement.is_modern else {}
        if token is not None:
            meta["progressToken"] = token
        return {**params, "_meta": meta} if meta else params

    async def _input(self, result: CallResult) -> dict[str, Any]:
        """What the server wants before it makes the call. Raises McpError."""
        answers: dict[str, Any] = {}
        for key, request in (result.input_requests or {}).items():
            try:
                answers[key] = await self._answer(request["method"], request.get("params") or {})
            except (RpcError, TypeError, KeyError, AttributeError) as error:
                raise McpError(
                    f"it needs a feature that this client does not offer: {error}"
                ) from error
        extra: dict[str, Any] = {"inputResponses": answers} if answers else {}
        if result.request_state is not None:
            extra["requestState"] = result.request_state
        return extra

    async def _subscribe(self) -> None:
        """Receive changes, as long as the server sends them."""
        wanted = {"notifications": {"toolsListChanged": True}}
        try:
            await self.peer.request("subscriptions/listen", self._params(wanted))
        except (RpcError, LinkError) as error:
            _log.debug("MCP server %s does not report changes: %s", self.name, error)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work, name=f"MCP {self.name}")


@asynccontextmanager
async def connect(
    transport: Transport,
    *,
    name: str,
    roots: tuple[str, ...],
    may_probe: bool,
    complain: Callable[[str], None] | None = None,
) -> AsyncGenerator[McpClient]:
    """Talk to a server over a transport, which is ended by the caller that opened it.

    ``complain`` is called with what the server reports as its own error. ``may_probe``: ask first
    what it speaks; without it the older greeting is used at once.

    Raises:
        ProbeRefusedError: it left when it was asked.
        McpError, RpcError, LinkError: it cannot be talked to.
    """
    client = McpClient(name, roots, complain)
    try:
        await client.open(transport, may_probe=may_probe)
        yield client
    finally:
        await client.close()


def _decoded(raw: Raw, kind: type[Any]) -> Any:
    try:
        return decode_json(raw, kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise McpError(f"its answer cannot be read: {error}") from error


if TYPE_CHECKING:
    _handler: Handler = McpClient("", ())
