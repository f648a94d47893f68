"""Reads one session of ``opencode serve``: its stream, which may be cut, and what it has kept."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from quarterdeck.net.http1 import HttpError
from quarterdeck.wire.errors import LinkBrokenError, LinkError
from quarterdeck.wire.events import NoticePosted
from quarterdeck.wire.tasks import start_task

from ...foreign_json import as_list, as_map, as_text
from ...link import LinkHost, TurnOutcome
from .client import OpencodeAnswerError, OpencodeClient, OpencodeStatusError, path_of
from .events import EventOfCall, OpencodeServerReader
from .requests import OpencodeRequestHandler

__all__ = ["FAULTS", "TAKING", "OpencodeListener"]

FAULTS = (HttpError, OpencodeStatusError, OpencodeAnswerError)
"""What a request to a server may fail with."""
TAKING = 5.0
"""Seconds in which a server that has taken a prompt must have written it down."""
_SILENCE = 30.0
"""Seconds without a byte after which the stream counts as cut; its heart beats every ten."""

_decode = msgspec.json.Decoder().decode


class OpencodeListener:
    """Listens to a session and emits each event once, over any number of connections.

    After a cut the stream is opened first and what the server has kept is read next: what falls
    between the two is read twice, and emitted once, by the ids of messages and parts.

    Args:
        lost: called when the server was away for ``away`` seconds.
        again: seconds until a connection is tried again.
    """

    def __init__(
        self,
        agent: str,
        session: str,
        host: LinkHost,
        api: OpencodeClient,
        reader: OpencodeServerReader,
        lost: Callable[[LinkError], None],
        *,
        away: float,
        again: float,
    ) -> None:
        self._agent = agent
        self._session = session
        self._host = host
        self._api = api
        self._lost = lost
        self._away = away
        self._again = again
        self._garbage = 0
        self._checking: asyncio.Task[None] | None = None
        self._request_handler = OpencodeRequestHandler(agent, host, api)
        self.reader = reader
        self.turn: asyncio.Future[TurnOutcome] | None = None
        """Waits for the end of the turn that runs."""
        self.connected = asyncio.Event()
        """The stream was open, once."""

    # Turns

    def begin(self, prompt: str) -> "asyncio.Future[TurnOutcome]":
        """From now on listen for the answer to this prompt."""
        self.turn = asyncio.get_running_loop().create_future()
        self.reader.begin_turn(prompt)
        self._request_handler.is_interrupted = False
        return self.turn

    async def finish(self) -> None:
        """The turn is over."""
        self.turn = None
        self.reader.end_turn()
        if self._checking is not None:
            self._checking.cancel()
        count, self._garbage = self._garbage, 0
        if count:
            title = f"{count} events of its stream were not JSON and were ignored."
            await self._host.emit(NoticePosted(title=title, severity="warning"))

    def interrupt(self) -> None:
        """The turn is being stopped: what is asked is not answered any more."""
        self._request_handler.is_interrupted = True

    def fail(self, error: LinkError) -> None:
        """The server is gone, and the turn with it."""
        if self.turn is not None and not self.turn.done():
            self.turn.set_exception(error)

    async def close(self) -> None:
        """Leave everything unanswered; ``run`` has been cancelled."""
        await self._request_handler.close()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])

    # Listening

    async def run(self) -> None:
        """Read the stream until it is away for too long; when it is cut, connect again."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            problem = "the stream of events ended"
            try:
                async with aclosing(self._api.events("/event", _SILENCE)) as events:
                    async for data in events:
                        await self._hear(data)
                        since = loop.time()
            except FAULTS as error:
                problem = str(error)
            self.reader.gap()
            if loop.time() - since > self._away:
                self._lost(
                    LinkBrokenError(f"the server of {self._agent} is not reachable: {problem}")
                )
                return
            await asyncio.sleep(self._again)

    async def _hear(self, data: str) -> None:
        try:
            event = as_map(_decode(data.encode("utf-8", "replace")))
        except (msgspec.DecodeError, RecursionError):
            self._garbage += 1
            return
        kind, properties = as_text(event.get("type")), as_map(event.get("properties"))
        if kind == "server.connected":
            if self.connected.is_set():
                await self._catch_up()
            self.connected.set()
            return
        if kind.startswith(("permission.", "question.")):
            self._hear_request(kind, properties)
        for one in self.reader.read(kind, properties):
            await self._emit(one)
        if kind == "session.error" and properties.get("sessionID") == self._session:
            await self._catch_up()  # one that fails before it begins does not say that it rests
        self._settle()

    def _hear_request(self, kind: str, data: Mapping[str, Any]) -> None:
        if as_text(data.get("sessionID")) not in self.reader.family:
            return
        match kind:
            case "permission.asked":
                call = as_text(as_map(data.get("tool")).get("callID"))
                self._request_handler.permission(data, self.reader.calls.get(call, {}))
            case "question.asked":
                self._request_handler.question(data)
            case "permission.replied" | "question.replied" | "question.rejected":
                self._request_handler.withdraw(as_text(data.get("requestID")))
            case _:
                pass

    async def _catch_up(self) -> None:
        """Read what was missed while disconnected. The stream is open, so nothing is lost.

        Whether it rests is asked first: what is kept of a session that rests is complete.
        """
        if self.turn is None:
            return
        states = as_map(await self._api.get("/session/status"))
        rests = as_map(states.get(self._session)).get("type") not in ("busy", "retry")
        for session in list(self.reader.family):
            for one in self.reader.catch_up(await self.kept(session)):
                await self._emit(one)
        await self._catch_up_requests()
        if rests:
            self._rest()

    async def _catch_up_requests(self) -> None:
        open_: list[str] = []
        for path, kind in (("/permission", "permission.asked"), ("/question", "question.asked")):
            for asked in map(as_map, as_list(await self._api.get(path))):
                open_.append(as_text(asked.get("id")))
                self._hear_request(kind, asked)
        self._request_handler.keep(open_)

    async def kept(self, session: str) -> list[Mapping[str, Any]]:
        """The messages of a session, as the server has them. Raises as ``OpencodeClient.send``."""
        listed = await self._api.get(path_of("session", session, "message"))
        return [as_map(one) for one in as_list(listed)]

    def _rest(self) -> None:
        """The session rests: the turn is over, or the prompt is not yet, or no longer, known."""
        if self.reader.has_begun or self.reader.is_answered:
            self.reader.is_over = True
            self._settle()
        elif self.turn is not None and self._checking is None:
            self._checking = start_task(self._check(self.turn), name="opencode: check the turn")
            self._checking.add_done_callback(self._checked)

    async def _check(self, turn: "asyncio.Future[TurnOutcome]") -> None:
        """Give a prompt up that a server has taken and forgotten."""
        await asyncio.sleep(TAKING)
        if not self.reader.has_begun and not turn.done():
            turn.set_result(
                TurnOutcome(stop="failed", reason="the server no longer knows the prompt")
            )

    def _checked(self, _: object) -> None:
        self._checking = None

    def _settle(self) -> None:
        if self.reader.is_over and self.turn is not None and not self.turn.done():
            self.turn.set_result(self._outcome())

    def _outcome(self) -> TurnOutcome:
        outcome = self.reader.outcome()
        if (
            outcome.stop != "end_turn"
            or self.reader.is_answered
            or self._request_handler.is_interrupted
        ):
            return outcome
        reason = f"{self._agent} left its answer unfinished"
        return TurnOutcome(stop="failed", reason=reason, usage=outcome.usage, cost=outcome.cost)

    async def _emit(self, item: EventOfCall) -> None:
        event, parent = item
        await self._host.emit(event, parent=parent)
