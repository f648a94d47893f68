"""One agent that this process runs: started, given its prompts one by one, ended.

All of it happens in one task. The one who wants the agent to end says so, at any moment, and waits;
no one else cancels anything, so that the end is always written and no process is left.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from quarterdeck.drivers.driver import ClosedAs, DriverSession, DriverSessionOptions, EventSink
from quarterdeck.journal import JournalError
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.content import ContentBlock, text
from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.events import Event, NoticePosted, SessionEnded, SessionSpawned
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.tasks import run_beside, start_task

from .api import QueuedPrompt
from .budgets.service import BudgetService, SessionBudget
from .checkpoints.service import CheckpointService
from .checkpoints.turn_snapshots import SNAPSHOT_EVENTS
from .live_index import LiveIndex, LogWriter
from .prompt_queue import PromptQueues

if TYPE_CHECKING:
    from quarterdeck.agent.ports import CallBudget, TurnRecorder
    from quarterdeck.agent.tools.tool import Tool
    from quarterdeck.policy.rules import Rule
    from quarterdeck.terminal.headless_terminal import HeadlessTerminal

__all__ = ["AgentRunner", "AgentStart", "SessionOpener"]

_log = logging.getLogger(__name__)
_AGAIN = 0.5
"""Seconds until a prompt is tried again that the log could not take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStart:
    """All that is needed to start an agent."""

    session: SessionId
    spawn: SessionSpawned
    opening: DriverSessionOptions
    gate: Gate
    """For agents that we drive; our own makes its own from the same configuration."""
    around: CallContext
    is_known: bool = False
    """The log has an earlier run of it."""
    missing: tuple[str, ...] = ()
    """What was set at its first start and is not kept, such as values of variables."""
    tools: "tuple[Tool, ...]" = ()
    """Tools of the fleet for our own agent; others get theirs with the opening."""
    noted: tuple[Event, ...] = ()
    """What is written to the log right after the start, such as the worktree that it works in."""
    rules: "tuple[Rule, ...]" = ()
    """Rules for our own agent, besides those of the options."""
    recorder: "TurnRecorder | None" = None
    """Records what turns of our own agent do to files; other drivers report it by events."""
    budget: "CallBudget | None" = None
    """Where our own agent reserves its model calls."""
    on_terminal: "Callable[[HeadlessTerminal], None] | None" = None
    """Called with where the agent runs, if in a terminal, as soon as its process is there."""


class SessionOpener(Protocol):
    """Opens a session; its events go to the sink, or to the fleet's log by itself."""

    async def __call__(self, start: AgentStart, sink: EventSink) -> DriverSession:
        """Start the agent; when this raises or is cancelled nothing of it is left.

        Raises:
            QuarterdeckError: why it did not start.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Fate:
    how: ClosedAs
    reason: str | None


class AgentRunner:
    """An agent of this process. ``begin`` it once; it is over by itself or by ``end``."""

    def __init__(
        self,
        start: AgentStart,
        opener: SessionOpener,
        *,
        current: LiveIndex,
        notes: LogWriter,
        queues: PromptQueues,
        checkpoints: CheckpointService,
        budgets: BudgetService,
    ) -> None:
        self.id = start.session
        self.session: DriverSession | None = None
        """Once it is open."""
        self.terminal: HeadlessTerminal | None = None
        """Where it runs, if it does in one; also while it is starting."""
        self._opener = opener
        self._current = current
        self._notes = notes
        self._queues = queues
        self._budgets = budgets
        self._turns = checkpoints.attach(
            lambda: current.get(start.session), start.around, self._write
        )
        self._start = replace(
            start,
            on_terminal=self._runs_in,
            recorder=self._turns,
            budget=SessionBudget(budgets, start.session),
        )
        self._fate: _Fate | None = None
        self._ending = asyncio.Event()
        self._killing = asyncio.Event()
        self._busy: asyncio.Event | None = None
        """Set when the prompt that has been taken is done with; None when there is none."""
        self._is_sent = False
        """The prompt that has been taken is the session's by now."""
        self._is_withdrawn = False
        """It must not be sent."""
        self._failure: BaseException | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def gate(self) -> Gate:
        """Where its requests are answered, also those of its start."""
        return self.session.gate if self.session is not None else self._start.gate

    @property
    def is_busy(self) -> bool:
        """Whether a prompt has been taken that is not done with."""
        return self._busy is not None

    @property
    def is_ending(self) -> bool:
        """Whether someone ends it."""
        return self._fate is not None

    def _runs_in(self, terminal: "HeadlessTerminal") -> None:
        self.terminal = terminal

    def begin(self, left: Callable[[], object]) -> None:
        """Start the agent, and then work on its queue; ``left`` is called when it is over."""
        self._task = start_task(self._run(), name=f"agent {self.id}")
        self._task.add_done_callback(lambda _: left())

    def end(self, how: ClosedAs, reason: str | None = None) -> None:
        """Have the agent end, wherever it is; ``over`` tells when it has."""
        if self._fate is None or (how == "killed" and self._fate.how != "killed"):
            self._fate = _Fate(how, reason)
        self._ending.set()
        if how == "killed":
            self._killing.set()

    async def over(self) -> None:
        """Wait until the agent is over and its end is written."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def steer(self, prompt: QueuedPrompt) -> bool:
        """Give the running turn a message; False if none takes it. See ``DriverSession.steer``."""
        if self.session is None or self._busy is None:
            return False
        return await self.session.steer(
            prompt.content, origin=prompt.origin, sender=prompt.sender, message=prompt.message
        )

    async def interrupt(self) -> None:
        """End the running turn, if there is one; returns when it has ended."""
        busy = self._busy
        if self.session is None or busy is None:
            return
        if self._is_sent:
            await self.session.interrupt()
        else:
            self._is_withdrawn = True
        await busy.wait()

    # The task

    async def _run(self) -> None:
        try:
            await self._turns.open()
            async with run_beside(self._turns.warm(), name=f"first snapshot of {self.id}"):
                self.session = await self._open()
            if self.session is not None:
                await self._live(self.session)
        except Exception as error:
            _log.exception("the runner of agent %s failed", self.id)
            self._failure = error
        finally:
            await self._write_end()

    async def _open(self) -> DriverSession | None:
        """Open the session; None if it failed, or was ended before it was open."""
        starting = start_task(self._opener(self._start, self._sink), name=f"start {self.id}")
        ending = start_task(self._ending.wait(), name=f"end {self.id}")
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(ending)
        if not starting.done():
            await _cancelled(starting)
        if starting.cancelled():
            return None
        if (error := starting.exception()) is not None:
            if not isinstance(error, QuarterdeckError):
                _log.error("internal error while starting agent %s", self.id, exc_info=error)
            self._failure = error
            return None
        return starting.result()

    async def _live(self, session: DriverSession) -> None:
        """Work on the queue until the session is over or is to be."""
        serving = start_task(self._serve(session), name=f"prompts of {self.id}")
        over = start_task(session.wait(), name=f"exit of {self.id}")
        ending = start_task(self._ending.wait(), name=f"end {self.id}")
        try:
            await asyncio.wait([serving, over, ending], return_when=asyncio.FIRST_COMPLETED)
            if serving.done() and not over.done():
                await self._tell_failure(serving)
        finally:
            await self._close(session)
            for task in (serving, over, ending):
                await _cancelled(task)

    async def _close(self, session: DriverSession) -> None:
        """Close the session; in good order at first, at once if it is killed meanwhile."""
        fate = self._fate or _Fate("closed", None)
        closing = start_task(session.close(fate.how, fate.reason), name=f"close {self.id}")
        killing = start_task(self._killing.wait(), name=f"kill {self.id}")
        await asyncio.wait([closing, killing], return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(killing)
        if not closing.done() and self._fate is not None:
            await session.close(self._fate.how, self._fate.reason)
        await closing

    async def _serve(self, session: DriverSession) -> None:
        while True:
            await self._queues.wait(self.id)
            await self._budgets.admit(self.id)
            queued = await self._queues.take(self.id)
            self._busy = asyncio.Event()
            reason: str | None = None
            try:
                async with self._turns.run(queued.content) as content:
                    await self._prompt(session, queued, content)
                reason = "interrupted before it was sent"
            except LinkError:
                # It is over: what waits may be sent when it is resumed.
                await session.wait()
                return
            except JournalError as error:
                _log.warning("a prompt for agent %s waits for the log: %s", self.id, error)
                await asyncio.sleep(_AGAIN)
            except QuarterdeckError as error:
                reason = str(error)
            finally:
                await self._queues.release(self.id, reason)
                self._busy.set()
                self._busy = None
                self._is_sent = self._is_withdrawn = False

    async def _prompt(
        self, session: DriverSession, queued: QueuedPrompt, content: tuple[ContentBlock, ...]
    ) -> None:
        if self._is_withdrawn:
            return
        self._is_sent = True
        if (words := self._budgets.stops.take_words(self.id)) is not None:
            content = (*content, text(words))
        await session.prompt(
            content, origin=queued.origin, sender=queued.sender, message=queued.message
        )

    async def _tell_failure(self, serving: "asyncio.Task[None]") -> None:
        error = serving.exception() if not serving.cancelled() else None
        if isinstance(error, JournalError):
            _log.warning("agent %s cannot be served: %s", self.id, error)
        elif error is not None:
            _log.error("agent %s cannot be served", self.id, exc_info=error)
            title = "The agent was ended because of an internal error."
            await self._sink(NoticePosted(title=title, severity="error", description=repr(error)))

    async def _write_end(self) -> None:
        """Write the end of a start that came to nothing, or that no one else could write."""
        try:
            await self._notes.settled()
            if self._current.get(self.id).is_started:
                await self._sink(self._end_event())
            await self._notes.settled()
        except JournalError as error:
            _log.warning("the end of agent %s is not in the log yet: %s", self.id, error)

    def _end_event(self) -> SessionEnded:
        if self._fate is not None:
            return SessionEnded(how=self._fate.how, reason=self._fate.reason)
        error = self._failure
        reason = str(error) if isinstance(error, QuarterdeckError) else f"internal error: {error!r}"
        details: dict[str, Any] = {
            name: getattr(error, name, None) or None for name in ("exit_code", "signal", "stderr")
        }
        return SessionEnded(how="broken", reason=reason, **details)

    async def _sink(
        self, event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
    ) -> None:
        if type(event) not in SNAPSHOT_EVENTS:  # most are pieces of text
            await self._write(event, turn=turn, parent=parent)
            return
        await self._turns.before(event)
        await self._write(event, turn=turn, parent=parent)
        await self._turns.after(event, turn)

    async def _write(
        self, event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
    ) -> None:
        await self._notes.take(self.id, event, turn=turn, parent=parent)


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    """Cancel a task of ours and wait for it; what it raised was looked at, or is logged."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task that was no longer needed has failed", exc_info=error)
    elif not task.cancelled():
        task.exception()
