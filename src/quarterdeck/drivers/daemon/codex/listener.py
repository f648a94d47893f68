"""Listens to one codex thread over any number of connections, and reads its history."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.events import MessageChunk
from quarterdeck.wire.ids import new_message_id

from ...foreign_json import as_list, as_map, as_text, message
from ...link import LinkHost, TurnOutcome
from .connection import CodexConnection
from .events import CodexServerReader
from .requests import CodexRequestHandler

__all__ = [
    "LAST_TURNS",
    "CodexListener",
    "CodexTurn",
    "emit_thread_history",
    "find_turn",
    "prompt_chunk",
]

_log = logging.getLogger(__name__)
_MANY = 64
"""Notifications that wait to be reported, above which the server is held back."""


class CodexTurn:
    """A turn that we began. ``client`` is our name of its prompt, which the server repeats."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.client = new_message_id()
        self._steering: set[str] = set()
        """Our names of further messages in it."""
        self.id: asyncio.Future[str] = loop.create_future()
        self.outcome: asyncio.Future[TurnOutcome] = loop.create_future()
        self._early: dict[str, TurnOutcome] = {}
        """Of turns that ended before the server answered which one is ours."""

    def know(self, id_: str) -> None:
        """The server calls it so."""
        if not self.id.done():
            self.id.set_result(id_)
            if id_ in self._early:
                self.finish(id_, self._early[id_])

    def name_message(self) -> str:
        """A name for a further message, which the server repeats."""
        name = new_message_id()
        self._steering.add(name)
        return name

    def recognise(self, id_: str, item: Mapping[str, Any]) -> bool:
        """Whether this is a message of ours; the turn that has our prompt is ours."""
        if item.get("type") != "userMessage":
            return False
        is_ours = item.get("clientId") == self.client
        if is_ours:
            self.know(id_)
        return is_ours or item.get("clientId") in self._steering

    def finish(self, id_: str, outcome: TurnOutcome) -> None:
        """A turn has ended, perhaps this one."""
        if not self.id.done():
            self._early[id_] = outcome
        elif self.id.result() == id_ and not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: LinkError) -> None:
        """The server is gone."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # it may be that no one waits for it yet

    def close(self) -> None:
        """No one waits any more."""
        self.id.cancel()
        self.outcome.cancel()


class CodexListener:
    """Emits the notifications of a server one after another, whatever connection they came by.

    The reader of a connection may be cancelled at any moment; what it has handed over here is
    reported all the same. Cuts take their place in the order.

    Args:
        is_shared: others may talk in the thread: what they say is reported too.
    """

    def __init__(
        self,
        host: LinkHost,
        reader: CodexServerReader,
        request_handler: CodexRequestHandler,
        *,
        is_shared: bool,
    ) -> None:
        self._host = host
        self._reader = reader
        self._request_handler = request_handler
        self._is_shared = is_shared
        self._steps: deque[Callable[[], Awaitable[None]]] = deque()
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self.thread = ""
        self.turn: CodexTurn | None = None

    async def run(self) -> None:
        """Emit what is received until cancelled."""
        while True:
            await self._filled.wait()
            while self._steps:
                await self._do(self._steps.popleft())
                if len(self._steps) < _MANY:
                    self._roomy.set()
            self._filled.clear()

    async def _do(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception:  # what could not be reported must not keep the rest from being reported
            _log.exception("could not report an event of codex")

    def add(self, step: Callable[[], Awaitable[None]]) -> None:
        """Do this in its place."""
        self._steps.append(step)
        self._filled.set()
        if len(self._steps) >= _MANY:
            self._roomy.clear()

    async def reached(self) -> None:
        """Wait until everything that was heard by now has been reported."""
        here = asyncio.get_running_loop().create_future()

        async def arrive() -> None:
            if not here.done():
                here.set_result(None)

        self.add(arrive)
        await here

    def hear(self, method: str, params: Mapping[str, Any]) -> Awaitable[object] | None:
        """A notification; what is returned, if anything, is waited for before the next."""
        self.add(partial(self._tell, method, params))
        return None if self._roomy.is_set() else self._roomy.wait()

    async def _tell(self, method: str, data: Mapping[str, Any]) -> None:
        if as_text(data.get("threadId")) not in ("", self.thread):
            return  # of an agent that ours has started, or of someone else
        self._request_handler.saw(method, data)
        if method == "turn/completed":
            self._finish(as_map(data.get("turn")))
            return
        item = as_map(data.get("item"))
        if item.get("type") == "userMessage":
            await self._prompted(method, as_text(data.get("turnId")), item)
            return
        for event in self._reader.read(method, data):
            await self._host.emit(event)

    async def _prompted(self, method: str, turn: str, item: Mapping[str, Any]) -> None:
        if self.turn is not None and self.turn.recognise(turn, item):
            return
        if self._is_shared and method == "item/completed" and self._reader.is_new(item):
            await self._host.emit(prompt_chunk(item))

    def _finish(self, turn: Mapping[str, Any]) -> None:
        if self.turn is not None:
            self.turn.finish(as_text(turn.get("id")), self._reader.outcome(turn))

    # After a cut

    async def catch_up(self, opened: Mapping[str, Any]) -> None:
        """The thread was resumed over a new connection: emit what was missed of our turn."""
        self._reader.gap()
        status = as_map(as_map(opened.get("thread")).get("status"))
        if not as_list(status.get("activeFlags")):
            self._request_handler.withdraw_all()
        if self.turn is None:
            return
        page = as_map(opened.get("initialTurnsPage"))
        ours = self._ours(self.turn, [as_map(one) for one in as_list(page.get("data"))])
        if ours is None:
            if self.turn.id.done():
                self._give_up("the server reports nothing more about the turn")
            return
        await self.tell_missed(map(as_map, as_list(ours.get("items"))))
        if ours.get("status") != "inProgress":
            self._finish(ours)
        elif status.get("type") != "active":
            self._give_up("the server was restarted and dropped the turn")

    def _ours(self, turn: CodexTurn, listed: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        for one in listed:
            for item in map(as_map, as_list(one.get("items"))):
                turn.recognise(as_text(one.get("id")), item)
        known = turn.id.result() if turn.id.done() else None
        return next((one for one in listed if as_text(one.get("id")) == known), None)

    def _give_up(self, reason: str) -> None:
        assert self.turn is not None
        self.turn.finish(self.turn.id.result(), TurnOutcome(stop="failed", reason=reason))

    async def tell_missed(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Tell those complete items of our turn that were not reported yet."""
        for item in items:
            if item.get("type") == "userMessage":
                await self._prompted("item/completed", "", item)
                continue
            for event in self._reader.catch_up(item):
                await self._host.emit(event)


def prompt_chunk(item: Mapping[str, Any]) -> MessageChunk:
    """What someone has said in the thread."""
    blocks = map(as_map, as_list(item.get("content")))
    text = "\n".join(as_text(block.get("text")) for block in blocks)
    chunk = message(text, as_text(item.get("id")))
    return MessageChunk(content=chunk.content, message=chunk.message, role="user")


LAST_TURNS: Mapping[str, Any] = {"limit": 5, "itemsView": "full"}
"""Which turns are looked at to find one of ours among those of others."""
_PAGE = 100


async def emit_thread_history(
    line: CodexConnection, thread: str, host: LinkHost, reader: CodexServerReader
) -> None:
    """Emit the messages and calls of a thread. Raises as ``CodexConnection.ask``."""
    for item in await _items_of(line, thread):
        if item.get("type") == "userMessage":
            await host.emit(prompt_chunk(item))
            continue
        for event in reader.past(item):
            await host.emit(event)


async def _items_of(line: CodexConnection, thread: str) -> list[Mapping[str, Any]]:
    """The complete items of a thread, oldest first, page by page."""
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    while True:
        page = {"threadId": thread, "limit": _PAGE, "cursor": cursor}
        listed = await line.ask("thread/items/list", page)
        entries = map(as_map, as_list(listed.get("data")))
        found += [as_map(entry.get("item")) or entry for entry in entries]
        cursor = as_text(listed.get("nextCursor")) or None
        if cursor is None:
            return found


async def find_turn(line: CodexConnection, thread: str, id_: str) -> Mapping[str, Any]:
    """One of the last turns, with its complete items; empty if it is none of them. Raises so."""
    listed = await line.ask("thread/turns/list", {"threadId": thread, **LAST_TURNS})
    turns = map(as_map, as_list(listed.get("data")))
    return as_map(next((one for one in turns if one.get("id") == id_), None))
