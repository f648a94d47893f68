"""A session that is open on a connection: its turns, its updates, its questions."""

import asyncio
import logging
from collections.abc import Callable

from quarterdeck.agent.options import modes_of
from quarterdeck.agent.session import Session
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.events import TurnEnded
from quarterdeck.wire.record import Record
from quarterdeck.wire.rpc.codes import INTERNAL_ERROR, FrameTooLarge
from quarterdeck.wire.usage import TokenUsage

from .asking import Asker
from .client import Client
from .prompt_queue import PromptQueue
from .pump import Pump
from .refusals import refused
from .subsessions import SubSessions
from .updates import Translator, without_bulk

__all__ = ["Hosted"]

_log = logging.getLogger(__name__)


class Hosted:
    """One session for one client. Made and closed by the ``Desk``."""

    def __init__(
        self,
        connection: AcpConnection,
        client: Client,
        session: Session,
        is_clients_terminal: Callable[[str], bool],
    ) -> None:
        self.session = session
        self._client = client
        self._connection = connection
        self._asker = Asker(connection, client, session)

        def translator(knows_cost: bool) -> Translator:
            return Translator(client, is_clients_terminal, knows_cost=knows_cost)

        self._children = SubSessions(connection, session.journal, lambda: translator(True))
        self._takes_children = client.takes_children
        self._pump = Pump(session, translator, self._send, self._notice)
        self._queue = PromptQueue()
        self._cancelling: set[asyncio.Task[None]] = set()

    @property
    def modes(self) -> acp.SessionModeState:
        """The permission modes, for clients that do not know options."""
        return acp.SessionModeState(
            current_mode_id=self.session.gate.mode, available_modes=modes_of()
        )

    async def begin(self, *, after: int) -> None:
        """Tell what follows a sequence number, once the caller's answer is on its way.

        An answer is written in the same step in which its handler returns, and the pump begins
        in a later one: no client sees an update of a session that it does not know.
        """
        await self._pump.start(after=after, first=(self._commands,))

    async def replay(self) -> None:
        """Tell the whole past; returns when it was sent. What comes later follows it."""
        until = self.session.last_seq
        await self._pump.start(after=0, replay_until=until)
        await self._pump.caught_up(until)
        await self._send(self._commands)

    async def prompt(self, content: tuple[ContentBlock, ...]) -> acp.PromptResponse:
        """Run a turn, after those asked for earlier; every update of it was sent when this returns.

        A prompt that still waits when turns are cancelled is answered as cancelled, in its order;
        the model never hears of it.

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

    def cancel(self) -> None:
        """Cancel the turn that runs, and prompts that wait; each is answered in its order."""
        self._queue.cancel()
        task = asyncio.create_task(self.session.cancel(), name=f"cancel {self.session.id}")
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

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
        if self._cancelling:
            await asyncio.wait(self._cancelling)

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
        except FrameTooLarge as error:
            _log.warning("session %s: an update is cut: %s", self.session.id, error)
            if (rest := without_bulk(update)) is not None:
                await self._notify(rest)

    async def _notify(self, update: acp.SessionUpdate) -> None:
        note = acp.SessionNotification(session_id=self.session.id, update=update)
        await self._connection.send(acp.SESSION_UPDATE, note)


def _response(ended: TurnEnded, client: Client) -> acp.PromptResponse:
    if ended.stop == "failed":
        raise _failure(ended)
    usage = None if ended.usage is None else _usage(ended.usage)
    if usage is None or client.knows_unstable:
        return acp.PromptResponse(stop_reason=ended.stop, usage=usage)
    meta = {"quarterdeck": {"usage": usage}}
    return acp.PromptResponse(stop_reason=ended.stop, meta=meta)


def _failure(ended: TurnEnded) -> RpcError:
    return refused(INTERNAL_ERROR, ended.reason or "the turn failed", "turn_failed")


def _usage(usage: TokenUsage) -> acp.Usage:
    return acp.Usage(
        total_tokens=usage.total,
        input_tokens=usage.input,
        output_tokens=usage.output,
        thought_tokens=usage.thought or None,
        cached_read_tokens=usage.cached or None,
        cached_write_tokens=usage.cache_written or None,
    )
