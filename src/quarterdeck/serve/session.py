"""An open session on a connection: its prompts, updates, permission requests and child sessions.

A child is announced on its parent's session, then its own updates follow under its own id, and at
its end it is idle. A client without support for children sees only the progress of the call.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from quarterdeck.agent.config_options import modes_of
from quarterdeck.agent.session import Session
from quarterdeck.journal import Journal
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.methods import Notification
from quarterdeck.wire.acp.schema import SessionUpdate
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.events import ChildEnded, ChildStarted, SessionEnded, TurnEnded
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, FrameTooLargeError
from quarterdeck.wire.tasks import BackgroundTasks, start_task
from quarterdeck.wire.usage import TokenUsage
from quarterdeck.wire.values import AcpValue

from .errors import make_refusal
from .handshake import EditorClient
from .permissions import RequestForwarder
from .updates import Updates, UpdateTranslator, without_bulk

__all__ = ["ServedChildSessions", "ServedPromptQueue", "ServedSession", "UpdatePump"]

_TITLE = 60
_log = logging.getLogger(__name__)


class _Subagent(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="subagent_update"
):
    """A child's place below its parent. Unstable in ACP, so it is not among the generated types."""

    session_id: str
    title: str | None = None
    description: str | None = None
    state: dict[str, str] | None = None


class _Note(AcpValue, frozen=True, kw_only=True):
    """What is sent on the parent's session."""

    session_id: str
    update: _Subagent


_UPDATE: Notification[_Note] = Notification(name="session/update", params=_Note, side="client")


class ServedChildSessions:
    """Sends one client the updates of one session's children, and of theirs.

    Args:
        translator: makes one for a child.
    """

    def __init__(
        self,
        connection: AcpConnection,
        journal: Journal,
        translator: Callable[[], UpdateTranslator],
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._translator = translator
        self._telling: dict[SessionId, asyncio.Task[None]] = {}
        self._ended: set[SessionId] = set()

    def notice(self, record: Record) -> None:
        """Take a record of the parent that was sent: a child that starts is followed from then."""
        match record.event:
            case ChildStarted(child=child) as started:
                work = self._tell(record.session, started, record.seq)
                self._telling[child] = start_task(work, name=f"child {child}")
            case ChildEnded(child=child):
                self._ended.add(child)
            case _:
                pass

    async def settle(self) -> None:
        """Wait until all was sent of those that are over."""
        over = [task for child, task in self._telling.items() if child in self._ended]
        if over:
            await asyncio.wait(over)

    async def close(self) -> None:
        """Send nothing more."""
        tasks = tuple(self._telling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, parent: SessionId, started: ChildStarted, after: int) -> None:
        child = started.child
        try:
            words = " ".join(started.task.split())
            await self._place(
                parent,
                _Subagent(
                    session_id=child,
                    title=f"{started.name}: {words[:_TITLE]}",
                    description=words,
                    state={"state": "running"},
                ),
            )
            await self._follow(child, after)
            await self._place(parent, _Subagent(session_id=child, state={"state": "idle"}))
        except QuarterdeckError as error:
            _log.debug("child %s: its updates end here: %s", child, error)

    async def _follow(self, child: SessionId, after: int) -> None:
        translator = self._translator()
        records = self._journal.follow(after, child)
        async with aclosing(records):
            async for record in records:
                # As in a replay: its prompt is shown, its settings cannot be changed.
                for update in translator.translate(record, is_replay=True):
                    note = acp.SessionNotification(session_id=child, update=update)
                    await self._connection.send(acp.SESSION_UPDATE, note)
                self.notice(record)
                if isinstance(record.event, SessionEnded):
                    return

    async def _place(self, parent: SessionId, update: _Subagent) -> None:
        await self._connection.send(_UPDATE, _Note(session_id=parent, update=update))


_MOST = 100
"""Prompts that may wait."""


class ServedPromptQueue:
    """Lets one prompt at a time run, in the order of ``enter``."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()
        """Set while none runs."""
        self.idle.set()
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._cancelled: set[asyncio.Future[bool]] = set()

    async def enter(self) -> bool:
        """Wait for the prompts before this one; False: it was cancelled. ``leave`` after True.

        Returns at once, without giving way to others, where none runs.

        Raises:
            RpcError: too many wait.
        """
        if self.idle.is_set():
            self.idle.clear()
            return True
        if len(self._waiting) >= _MOST:
            text = (
                f"{_MOST} prompts are queued in this session; wait for the turn to end or cancel it"
            )
            raise make_refusal(INVALID_REQUEST, text, "too_many_prompts")
        mine: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.result():
                self.leave()  # it was its turn already
            elif mine in self._waiting:
                self._waiting.remove(mine)
            self._cancelled.discard(mine)
            raise

    def leave(self) -> None:
        """Let the next one go; those that were cancelled are answered in their order."""
        while self._waiting:
            following = self._waiting.popleft()
            is_cancelled = following in self._cancelled
            self._cancelled.discard(following)
            if following.done():
                continue
            following.set_result(not is_cancelled)
            if not is_cancelled:
                return
        self.idle.set()

    def cancel(self) -> None:
        """Cancel every prompt that waits now."""
        self._cancelled.update(self._waiting)


class UpdatePump:
    """Sends what a session's log says to the client.

    There is one task, and so one order. Starting again ends the one before: whatever is loaded
    twice is replayed, and never sent twice from then on.

    Args:
        translator: makes one; takes whether it will see the session from its first record on.
        send: sends one update; raises ``LinkError`` when the client is gone.
        notice: takes each record that is new, after its updates were sent; must not wait.
    """

    def __init__(
        self,
        session: Session,
        translator: Callable[[bool], UpdateTranslator],
        send: Callable[[SessionUpdate], Awaitable[None]],
        notice: Callable[[Record], None],
    ) -> None:
        self._session = session
        self._translator = translator
        self._send = send
        self._notice = notice
        self._task: asyncio.Task[None] | None = None
        self._passed = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def start(self, *, after: int, replay_until: int = 0, first: Updates = ()) -> None:
        """Begin behind a sequence number; up to ``replay_until`` records are sent as history.

        Nothing is sent before the caller waits for something; ``first`` is sent before all else.
        """
        await self.stop()
        self._passed = after
        self._task = start_task(
            self._run(after, replay_until, first), name=f"pump {self._session.id}"
        )

    async def caught_up(self, seq: int) -> None:
        """Wait until every record up to ``seq`` was sent, or the pump is over."""
        if self._passed >= seq or self._task is None or self._task.done():
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((seq, future))
        await future

    async def stop(self) -> None:
        """End the task; who waits for it goes on waiting for the next."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """End for good."""
        await self.stop()
        self._wake()

    async def _run(self, after: int, replay_until: int, first: Updates) -> None:
        try:
            for update in first:
                await self._send(update)
            await self._follow(after, replay_until)
        except LinkError:
            _log.debug("session %s: the client disconnected", self._session.id)
        except Exception:
            _log.exception("session %s: its updates end here", self._session.id)
        # Not when it was cancelled: then another run takes over those who wait.
        self._wake()

    async def _follow(self, after: int, replay_until: int) -> None:
        translator = self._translator(after == 0)
        records = self._session.journal.follow(after, self._session.id)
        async with aclosing(records):
            async for record in records:
                is_replay = record.seq <= replay_until
                for update in translator.translate(record, is_replay=is_replay):
                    await self._send(update)
                if not is_replay:
                    self._notice(record)
                self._passed = record.seq
                if self._waiting:
                    self._wake(record.seq)

    def _wake(self, passed: int | None = None) -> None:
        waiting, self._waiting = self._waiting, []
        for seq, future in waiting:
            if passed is not None and seq > passed:
                self._waiting.append((seq, future))
            elif not future.done():
                future.set_result(None)


class ServedSession:
    """One session for one client. Made and closed by ``ConnectionSessions``."""

    def __init__(
        self,
        connection: AcpConnection,
        client: EditorClient,
        session: Session,
        is_clients_terminal: Callable[[str], bool],
    ) -> None:
        self.session = session
        self._client = client
        self._connection = connection
        self._asker = RequestForwarder(connection, client, session)

        def translator(knows_cost: bool) -> UpdateTranslator:
            return UpdateTranslator(client, is_clients_terminal, knows_cost=knows_cost)

        self._children = ServedChildSessions(connection, session.journal, lambda: translator(True))
        self._takes_children = client.takes_children
        self._pump = UpdatePump(session, translator, self._send, self._notice)
        self._queue = ServedPromptQueue()
        self._cancelling = BackgroundTasks()
        self._unattended = BackgroundTasks()

    @property
    def modes(self) -> acp.SessionModeState:
        """The permission modes, for clients that do not know options."""
        return acp.SessionModeState(
            current_mode_id=self.session.gate.mode, available_modes=modes_of()
        )

    async def begin(self, *, after: int) -> None:
        """Send what follows a sequence number, once the caller's answer is on its way.

        An answer is written in the same step in which its handler returns, and the pump begins
        in a later one: no client sees an update of a session that it does not know.
        """
        await self._pump.start(after=after, first=(self._commands,))

    async def replay(self) -> None:
        """Send the whole history; returns when it was sent. What comes later follows it."""
        until = self.session.last_seq
        await self._pump.start(after=0, replay_until=until)
        await self._pump.caught_up(until)
        await self._send(self._commands)

    async def prompt(self, content: tuple[ContentBlock, ...]) -> acp.PromptResponse:
        """Run a turn, after those asked for earlier; every update of it was sent when this returns.

        A prompt that still waits when turns are cancelled is answered as cancelled, in its order;
        it is never sent to the model.

        Raises:
            RpcError: the turn failed, or too many prompts wait.
        """
        if not await self._queue.enter():
            return acp.PromptResponse(stop_reason="cancelled")
        try:
            ended = await self.session.prompt(content)
            await self.flush()
            return _response(ended, self._client)
        finally:
            self._queue.leave()

    def prompt_unattended(self, content: tuple[ContentBlock, ...]) -> None:
        """Run a turn without waiting for its end; the client sees its updates."""
        self._unattended.start(self._run_unattended(content), name=f"prompt {self.session.id}")

    async def _run_unattended(self, content: tuple[ContentBlock, ...]) -> None:
        try:
            await self.prompt(content)
        except Exception as error:
            _log.info("session %s: a turn has failed: %s", self.session.id, error)

    def cancel(self) -> None:
        """Cancel the turn that runs, and prompts that wait; each is answered in its order."""
        self._queue.cancel()
        self._cancelling.start(self.session.cancel(), name=f"cancel {self.session.id}")

    async def flush(self) -> None:
        """Wait until the client was sent everything that is in the log."""
        await self._pump.caught_up(self.session.last_seq)
        await self._children.settle()

    async def close(self) -> None:
        """Cancel what runs, let its prompt be answered, and end."""
        self._queue.cancel()
        await self.session.cancel()
        await self._queue.idle.wait()
        await self._pump.close()
        await self._asker.close()
        await self._children.close()
        await self._cancelling.wait()
        await self._unattended.wait()

    def _notice(self, record: Record) -> None:
        self._asker.notice(record)
        if self._takes_children:
            self._children.notice(record)

    @property
    def _commands(self) -> acp.AvailableCommandsUpdate:
        return acp.AvailableCommandsUpdate(available_commands=self.session.commands.listed)

    async def _send(self, update: acp.SessionUpdate) -> None:
        """Send an update; of one that is too large for a message, what matters most."""
        try:
            await self._notify(update)
        except FrameTooLargeError as error:
            _log.warning("session %s: an update is cut: %s", self.session.id, error)
            if (rest := without_bulk(update)) is not None:
                await self._notify(rest)

    async def _notify(self, update: acp.SessionUpdate) -> None:
        note = acp.SessionNotification(session_id=self.session.id, update=update)
        await self._connection.send(acp.SESSION_UPDATE, note)


def _response(ended: TurnEnded, client: EditorClient) -> acp.PromptResponse:
    if ended.stop == "failed":
        raise _failure(ended)
    usage = None if ended.usage is None else _usage(ended.usage)
    if usage is None or client.knows_unstable:
        return acp.PromptResponse(stop_reason=ended.stop, usage=usage)
    meta = {"quarterdeck": {"usage": usage}}
    return acp.PromptResponse(stop_reason=ended.stop, meta=meta)


def _failure(ended: TurnEnded) -> RpcError:
    return make_refusal(INTERNAL_ERROR, ended.reason or "the turn failed", "turn_failed")


def _usage(usage: TokenUsage) -> acp.Usage:
    return acp.Usage(
        total_tokens=usage.total,
        input_tokens=usage.input,
        output_tokens=usage.output,
        thought_tokens=usage.thought or None,
        cached_read_tokens=usage.cached or None,
        cached_write_tokens=usage.cache_written or None,
    )
