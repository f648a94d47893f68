"""``codex app-server``: one process, or one connection to a server that runs, for a session."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import LinkClosedError, LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.events import ModeChanged, NoticePosted, SessionChanged
from quarterdeck.wire.rpc.handler import RequestContext
from quarterdeck.wire.rpc.stream import ByteStream
from quarterdeck.wire.tasks import start_task

from ...agent_process import Launch
from ...driver import Capabilities, DriverSessionOptions
from ...enforcement import Enforcement, enforcement_of
from ...errors import UnsupportedError, WrongProtocolError
from ...foreign_json import as_list, as_map, as_text
from ...link import AGENT_OPTIONS, AgentExit, LinkHost, StartedAgent, TurnOutcome
from .connection import CodexConnection, CodexConnectionCutError, CodexRequester
from .events import CodexServerReader
from .listener import LAST_TURNS, CodexListener, CodexTurn, emit_thread_history, find_turn
from .params import input_of, parse_codex_mode, thread_params
from .requests import CodexRequestHandler
from .server import CodexServer

__all__ = ["CodexLink"]

_log = logging.getLogger(__name__)
_AGAIN = 0.1
"""Seconds until a turn that was not yet there to be interrupted is interrupted again."""
_AWAY = 30.0
"""Seconds for which a shared server may be away before the session counts as lost."""
_PAUSE = 0.2
"""Seconds until a connection is tried again."""
_TAKING = 5.0
_STOPPING = 1.0
"""Seconds that a shared server may take to stop a turn when the session is closed."""
_LOOKS = 10
"""How often it is looked, with ``_AGAIN`` between, for the end of a turn that was cut."""
_PAGE = 100

_decode = msgspec.json.Decoder().decode


class CodexLink:
    """One thread of codex; see ``drivers.link.Link``.

    Args:
        launch: how the server is started, or where it is.
        stream: talk over this, and start no program.
        away: seconds for which a shared server may be away before the session counts as lost.
        again: seconds until a connection is tried again.
        taking: seconds after a cut within which the server must report a prompt that it has.
    """

    transport = "daemon"
    supported_options = AGENT_OPTIONS
    capabilities = Capabilities(
        asks=True,
        streams=True,
        steers=True,
        resumes=True,
        forks=True,
        rewinds=True,
        lists=True,
        sets_mode=True,
        sets_model=True,
        images=True,
        questions=True,
        mcp=True,
    )

    def __init__(
        self,
        launch: Launch,
        *,
        stream: ByteStream | None = None,
        away: float = _AWAY,
        again: float = _PAUSE,
        taking: float = _TAKING,
    ) -> None:
        self._launch = launch
        self._taking = taking
        self._reader = CodexServerReader(launch.agent)
        self._server = CodexServer(launch, stream)
        self._connection = CodexConnection(
            launch.agent, self._server, self, self._resume, self._lose, away=away, pause=again
        )
        self._listening: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[AgentExit | None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._changes: dict[str, Any] = {}
        """What the next turn changes."""
        self._chosen: dict[str, Any] = {}
        """What was changed since the start; a new thread needs it again."""
        self._is_used = False
        """Whether the thread has had a prompt."""

    _host: LinkHost
    _request_handler: CodexRequestHandler
    _listener: CodexListener
    _params: dict[str, Any]
    _thread: str = ""

    # Beginning

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=True)

    async def start(self, host: LinkHost) -> StartedAgent:
        """Start the server, or connect to it, and open, resume or fork its thread.

        Raises:
            OpenFailedError, UnsupportedError: and ``end`` is all that is left to do.
        """
        self._host = host
        self._request_handler = CodexRequestHandler(host)
        self._listener = CodexListener(
            host, self._reader, self._request_handler, is_shared=self._server.is_shared
        )
        opening = host.opening
        codex_mode = parse_codex_mode(self._launch, opening.options.agent_mode)
        self._params = thread_params(self._launch, opening, codex_mode)
        self._listening = start_task(self._listener.run(), name="codex: listen")
        version = await self._connection.open(opening)
        opened = await self._open(opening)
        self._changes = codex_mode.differences(opened, opening.options.roots)
        self._is_used = opening.options.resume is not None
        self._connection.keep()
        return StartedAgent(
            agent_session=self._thread,
            agent_version=version,
            model=as_text(opened.get("model")) or None,
            mode=opening.options.agent_mode,
        )

    async def _open(self, opening: DriverSessionOptions) -> Mapping[str, Any]:
        if opening.options.resume is None:
            opened = await self._connection.ask("thread/start", self._params)
        else:
            way = "thread/fork" if opening.options.fork else "thread/resume"
            past = {"threadId": opening.options.resume, "excludeTurns": True}
            opened = await self._connection.ask(way, {**self._params, **past})
        self._name(opened)
        if opening.title is not None:
            name = {"threadId": self._thread, "name": opening.title}
            await self._connection.ask("thread/name/set", name)
        if opening.options.resume is None:
            self._reader.begin_thread()
        elif opening.replay:
            await emit_thread_history(self._connection, self._thread, self._host, self._reader)
        return opened

    async def _resume(self, ask: CodexRequester) -> None:
        """Go on with the thread over a new connection; its notifications from now on come after."""
        past = {"threadId": self._thread, "excludeTurns": True, "initialTurnsPage": LAST_TURNS}
        try:
            opened = await ask("thread/resume", {**self._params, **past})
        except RpcError as error:
            if self._is_used:
                raise
            _log.debug("%s: %s", self._launch.agent, error)
            opened = await self._start_anew(ask)
        self._listener.add(partial(self._listener.catch_up, opened))

    async def _start_anew(self, ask: CodexRequester) -> Mapping[str, Any]:
        """Open another thread: codex drops one without messages when its client disconnects."""
        opened = await ask("thread/start", self._params)
        self._name(opened)
        event = SessionChanged(agent_session=self._thread)
        self._listener.add(partial(self._host.emit, event))
        return opened

    def _name(self, opened: Mapping[str, Any]) -> None:
        self._thread = self._listener.thread = as_text(as_map(opened.get("thread")).get("id"))
        if not self._thread:
            raise WrongProtocolError(f"{self._launch.agent} opened a thread without an id")

    # Turns

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        """Send a prompt and return when the turn is over.

        Raises:
            LinkError: the server is gone.
            UnsupportedError: it does not take this kind of content.
        """
        params = {"threadId": self._thread, "input": input_of(self._launch, content)}
        changes, self._changes = self._changes, {}
        turn = self._listener.turn = CodexTurn()
        self._stopping = None
        self._reader.begin_turn()
        try:
            begun = {**params, **changes, "clientUserMessageId": turn.client}
            if not await self._begin(turn, begun):
                return TurnOutcome(stop="failed", reason="the prompt was not delivered")
            outcome = await self._complete(turn, await turn.outcome)
        except QuarterdeckError:
            self._changes = {**changes, **self._changes}
            raise
        finally:
            turn.close()
            self._listener.turn = None
            if self._stopping is not None:
                await asyncio.wait([self._stopping])
            self._request_handler.forget()
            await self._tell_malformed()
        return outcome

    async def _begin(self, turn: CodexTurn, params: Mapping[str, Any]) -> bool:
        """Send the prompt, once; False: it cannot be known to have arrived."""
        try:
            begun = await self._connection.ask("turn/start", params)
            turn.know(as_text(as_map(begun.get("turn")).get("id")))
            self._is_used = True
            return True
        except CodexConnectionCutError as error:
            _log.debug("%s: %s", self._launch.agent, error)
        await self._connection.ready()
        signs = (turn.id, turn.outcome)
        await asyncio.wait(signs, timeout=self._taking, return_when=asyncio.FIRST_COMPLETED)
        return turn.id.done() or turn.outcome.done()

    async def _complete(self, turn: CodexTurn, outcome: TurnOutcome) -> TurnOutcome:
        """Emit what is still missing of a turn during which the connection was cut.

        What the server has written down may be a moment behind what it sends; a turn whose end is
        not there yet looks like one that was interrupted.
        """
        if not self._reader.has_gap:
            return outcome
        was_stopped = self._stopping is not None
        kept: Mapping[str, Any] = {}
        for _ in range(_LOOKS):
            with suppress(CodexConnectionCutError):
                kept = await find_turn(self._connection, self._thread, turn.id.result())
                if kept.get("status") in ("completed", "failed") or was_stopped:
                    break
            await asyncio.sleep(_AGAIN)
        self._listener.add(
            partial(self._listener.tell_missed, map(as_map, as_list(kept.get("items"))))
        )
        await self._listener.reached()
        return outcome if was_stopped else _judged(outcome, kept, self._reader)

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        """Add a message to the turn; False: the turn is over, or of a kind that takes none."""
        turn = self._listener.turn
        if turn is None:
            return False
        await asyncio.wait([turn.id, turn.outcome], return_when=asyncio.FIRST_COMPLETED)
        if not turn.id.done() or turn.id.cancelled() or turn.outcome.done():
            return False
        params = {
            "threadId": self._thread,
            "expectedTurnId": turn.id.result(),
            "input": input_of(self._launch, content),
            "clientUserMessageId": turn.name_message(),
        }
        try:
            await self._connection.ask("turn/steer", params)
        except RpcError as error:
            _log.debug("%s: %s", self._launch.agent, error)
            return False
        return True

    async def interrupt(self) -> None:
        """Stop the turn, and what it left running."""
        turn = self._listener.turn
        if turn is None:
            return
        if self._stopping is None or self._stopping.done():
            self._stopping = start_task(self._stop(turn), name="codex: interrupt")
            # Who interrupts may have given up waiting.
            self._stopping.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._stopping)

    async def _stop(self, turn: CodexTurn) -> None:
        await asyncio.wait([turn.id, turn.outcome], return_when=asyncio.FIRST_COMPLETED)
        if not turn.id.done() or turn.id.cancelled():
            return
        await self._server.remember_orphans()
        params = {"threadId": self._thread, "turnId": turn.id.result()}
        while not turn.outcome.done():
            try:
                await self._connection.ask("turn/interrupt", params)
                break
            except (RpcError, CodexConnectionCutError) as error:
                _log.debug("%s: %s", self._launch.agent, error)
                await asyncio.wait([turn.outcome], timeout=_AGAIN)
        with suppress(
            RpcError, CodexConnectionCutError
        ):  # one that does not know this leaves them to our ending
            await self._connection.ask(
                "thread/backgroundTerminals/clean", {"threadId": self._thread}
            )
        if count := await self._server.end_orphans():
            _log.info("%s left %d processes behind; they were killed", self._launch.agent, count)

    async def rewind(self, turns: int) -> None:
        """Go on in a copy of the thread without its last turns; the thread itself stays on disk.

        Raises:
            UnsupportedError: it does not have so many, or codex is too old for this.
            LinkError: the server is gone.
        """
        wanted = {"threadId": self._thread, "limit": turns + 1, "itemsView": "notLoaded"}
        try:
            listed = await self._connection.ask("thread/turns/list", wanted)
            known = [as_text(as_map(one).get("id")) for one in as_list(listed.get("data"))]
            if len(known) < turns:
                raise RpcError(0, f"the thread has {len(known)} turns")
            if len(known) > turns:
                copied = {"threadId": self._thread, "lastTurnId": known[turns]}
                words = {**self._params, **copied, "excludeTurns": True}
                opened = await self._connection.ask("thread/fork", words)
            else:
                opened = await self._connection.ask("thread/start", self._params)
        except RpcError as error:
            what = f"go back {turns} turns in its conversation"
            raise UnsupportedError(
                self._launch.agent, self.transport, what, error.message
            ) from error
        self._name(opened)
        self._is_used = len(known) > turns
        options = self._host.opening.options
        codex_mode = parse_codex_mode(self._launch, options.agent_mode)
        self._changes = {**codex_mode.differences(opened, options.roots), **self._chosen}
        await self._host.emit(SessionChanged(agent_session=self._thread))

    async def _tell_malformed(self) -> None:
        """Say so, once a turn, when the server printed what is no message."""
        if count := self._connection.take_malformed():
            title = f"{count} lines of its output were not messages and were ignored."
            await self._host.emit(NoticePosted(title=title, severity="warning"))

    # Settings

    async def set_mode(self, mode: str) -> None:
        """Use another of its modes from the next turn on."""
        self._choose(parse_codex_mode(self._launch, mode).turn(self._host.opening.options.roots))
        await self._host.emit(ModeChanged(mode=mode))

    async def set_model(self, model: str) -> None:
        """Use another model from the next turn on."""
        self._choose({"model": model})
        await self._host.emit(SessionChanged(model=model))

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change the effort, from the next turn on."""
        if option != "effort" or not isinstance(value, str):
            raise UnsupportedError(
                self._launch.agent, self.transport, f"change the option {option!r}"
            )
        self._choose({"effort": value})

    def _choose(self, changes: Mapping[str, Any]) -> None:
        self._changes |= changes
        self._chosen |= changes

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The threads of this directory, newest first."""
        listed = await self._connection.ask(
            "thread/list", {"cwd": self._host.opening.options.cwd, "limit": _PAGE}
        )
        return tuple(as_map(one) for one in as_list(listed.get("data")))

    # Listening (wire.rpc.Handler)

    async def on_request(
        self, method: str, params: msgspec.Raw | None, context: RequestContext
    ) -> Mapping[str, Any]:
        """Answer a request of the server, after the notifications that came before it."""
        asked = as_map(_decode(params or b"{}"))
        await self._listener.reached()
        return await self._request_handler.answer(context.id, method, asked)

    def on_notification(self, method: str, params: msgspec.Raw | None) -> Awaitable[Any] | None:
        """Take a notification of the server."""
        return self._listener.hear(method, as_map(_decode(params or b"{}")))

    # The end

    def _lose(self, error: LinkError) -> None:
        self._listener.add(partial(self._leave, error))

    async def _leave(self, error: LinkError) -> None:
        """Fail the running turn and report the loss, after all events of the server."""
        if self._listener.turn is not None:
            self._listener.turn.fail(error)
        self._host.lost(error)

    async def end(self) -> AgentExit | None:
        """End a server of our own and everything it started; may be called again."""
        if self._ending is None:
            self._ending = start_task(self._end(), name="codex: end")
        return await asyncio.shield(self._ending)

    async def _end(self) -> AgentExit | None:
        try:
            await self._leave_shared()
            await self._connection.close()
            return await self._server.end()
        finally:
            if self._listening is not None:
                self._listening.cancel()
                await asyncio.wait([self._listening])
                await self._request_handler.close()
                if self._listener.turn is not None:
                    self._listener.turn.fail(
                        LinkClosedError(f"the session of {self._launch.agent} is closed")
                    )

    async def _leave_shared(self) -> None:
        """Stop what we began at a server that goes on without us."""
        turn = self._listener.turn if self._listening is not None else None
        if self._server.is_shared and turn is not None and not turn.outcome.done():
            with suppress(TimeoutError, QuarterdeckError):
                async with asyncio.timeout(_STOPPING):
                    await self.interrupt()


def _judged(
    outcome: TurnOutcome, kept: Mapping[str, Any], reader: CodexServerReader
) -> TurnOutcome:
    """The outcome of a turn that was not stopped from here."""
    if outcome.stop != "cancelled":
        return outcome
    if kept.get("status") == "interrupted":
        reason = "the turn was unfinished when the connection broke"
        return TurnOutcome(stop="failed", reason=reason, usage=outcome.usage)
    return reader.outcome(kept)


if TYPE_CHECKING:
    from quarterdeck.wire.rpc.handler import Handler

    from ...link import AgentLink

    _link: AgentLink = CodexLink(Launch(agent="", command=()))
    _handler: Handler = CodexLink(Launch(agent="", command=()))
