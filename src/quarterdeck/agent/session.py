"""A session of the native agent: the thin object that holds state around the loop.

It owns no rule: what a turn does is in ``loop``, what may run is in ``policy.gate``, the messages
are in ``conversation``. Here turns are queued, steered, cancelled and written to the log.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec

from quarterdeck.journal import Journal, UnrecordableEventError
from quarterdeck.models.model import Effort, Model, ModelInfo
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.modes import Mode
from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.errors import LinkClosedError
from quarterdeck.wire.events import (
    Event,
    GrantUsed,
    ModeChanged,
    NoticePosted,
    OptionsChanged,
    Origin,
    Prompted,
    SessionChanged,
    SessionEnded,
    SessionResumed,
    TurnEnded,
)
from quarterdeck.wire.ids import MessageId, SessionId, TurnId, new_message_id, new_turn_id
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.record import sanitize_event
from quarterdeck.wire.settings import ConfigOption
from quarterdeck.wire.tasks import start_task

from .checkpoints.service import Checkpoints, SessionLog
from .commands import CommandRegistry
from .config_options import options_of
from .context.window import SessionContext
from .conversation import Conversation
from .limits import TurnSpending
from .ports import Turn, run_start_hooks
from .resume import ResumeState
from .session_setup import SessionSetup
from .session_system import make_sandbox_notice

__all__ = ["Session", "wait_for_turn"]

_log = logging.getLogger(__name__)


async def wait_for_turn(running: asyncio.Task[TurnEnded]) -> TurnEnded | None:
    """The turn's end, or None when it was cancelled; a cancelled caller cancels the turn."""
    try:
        await asyncio.wait([running])
    except asyncio.CancelledError:
        running.cancel()
        while not running.done():  # cancelled again: the turn still ends first
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled() and (error := running.exception()) is not None:
            _log.error("a turn failed after its caller was cancelled", exc_info=error)
        raise
    return None if running.cancelled() else running.result()


_TITLE_LENGTH = 60


class Session:
    """One conversation. Made by ``NativeAgent``; use it from one event loop."""

    def __init__(
        self,
        id_: SessionId,
        journal: Journal,
        setup: SessionSetup,
        gate: Gate,
        conversation: Conversation,
        commands: CommandRegistry,
        *,
        title: str | None = None,
        notices: tuple[NoticePosted, ...] = (),
    ) -> None:
        self.id = id_
        self.title = title
        self.gate = gate
        self.journal = journal
        self._notices = notices
        self.setup = setup
        self.commands = commands
        """What a prompt that begins with a slash may be."""
        self._conversation = conversation
        emit = self._aside = partial(self._emit, turn=None)
        self.context = SessionContext(setup, conversation, emit)
        self._turns = asyncio.Lock()
        self.checkpoints = Checkpoints(
            SessionLog(id_, journal, lambda: self.last_seq),
            setup,
            conversation,
            emit,
            self._turns,
            self.context.close,
        )
        self._running: asyncio.Task[TurnEnded] | None = None
        self._ended: TurnEnded | None = None
        self._steering: list[Prompted] = []
        self._retired: list[Model] = []
        self._closed = False
        self.last_seq = 0
        """The last record of this session that was appended here."""

    @property
    def is_running(self) -> bool:
        """Whether a turn is under way or waits for its start."""
        return self._turns.locked()

    @property
    def cwd(self) -> str:
        """The directory the session works in."""
        return self.setup.workspace.cwd

    @property
    def model(self) -> ModelInfo:
        """The model that the next turn asks."""
        return self.setup.model.info

    @property
    def options(self) -> tuple[ConfigOption, ...]:
        """The session's settings as people see them: mode, model, effort."""
        setup = self.setup
        return options_of(self.gate.mode, setup.model.info, setup.models, setup.effort)

    async def begin(self, past: ResumeState, resumed: SessionResumed | None = None) -> None:
        """Record that the session runs, and the first notices; once, by its maker.

        ``past`` is the state from the log; where the session differs, the log gets an event.
        """
        if resumed is not None:
            await self._emit(resumed, None)
        if past.model not in (None, self.model.name):
            await self._emit(SessionChanged(model=self.model.name), None)
        if past.mode not in (None, self.gate.mode):
            await self._emit(ModeChanged(mode=self.gate.mode), None)
        for notice in self._notices:
            await self._emit(notice, None)
        if self.gate.mode == "full-auto":
            await self._emit(await make_sandbox_notice(), None)
        await self._options_changed()
        await self._emit_all(await self.commands.refresh() or (self.commands.changed(),))
        await run_start_hooks(
            self.setup.hooks, self._conversation, self._aside, resumed=resumed is not None
        )
        await self.checkpoints.opened()
        await self.journal.durable(self.last_seq)

    async def prompt(
        self,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        message: MessageId | None = None,
    ) -> TurnEnded:
        """Run a turn for a prompt, after those that were asked for earlier.

        ``message`` is the prompt's id; None: a new one. Returns when the turn has ended and its
        events are durable. Cancelling the caller cancels the turn.

        Raises:
            LinkClosedError: the session is closed.
            JournalError: the log cannot be written; the session can be prompted again.
        """
        async with self._turns:
            if self._closed:
                raise LinkClosedError(f"session {self.id!r} is closed; load it again to continue")
            message = message or new_message_id()
            prompted = Prompted(content=content, message=message, origin=origin, sender=sender)
            return await self._run(new_turn_id(), prompted)

    def steer(
        self,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        message: MessageId | None = None,
    ) -> bool:
        """Give the running turn a message, which the model gets at the next step.

        If the turn is interrupted or fails before that, the model gets it with the next prompt.
        Returns False if no turn is running; then nothing has happened, and ``prompt`` starts one.
        """
        if self._running is None or self._running.cancelling():
            return False
        message = message or new_message_id()
        self._steering.append(
            Prompted(content=content, message=message, origin=origin, sender=sender, steers=True)
        )
        return True

    async def note(self, event: Event) -> None:
        """Append an event of no turn; a prompt is sent at the next step of a turn that runs."""
        if isinstance(event, Prompted) and self._running is not None:
            self._steering.append(msgspec.structs.replace(event, steers=True))
        else:
            await self._emit(event, None)

    async def reload_conversation(self, until: int) -> None:
        """Read the conversation from the log again, between turns: others appended to it.

        ``until`` is the number of the last record that has to be in the log.
        """
        from .checkpoints.turn_history import rebuild_conversation

        await self.journal.durable(until)
        records = [record async for record in self.journal.history(session=self.id)]
        self._conversation.become(rebuild_conversation(records))

    async def cancel(self) -> None:
        """End the running turn as cancelled, if there is one; returns when it has ended."""
        running = self._running
        if running is None:
            return
        if not running.cancelling():  # a second request must not disturb what the first ends
            running.cancel()
        await asyncio.wait([running])

    async def set_mode(self, mode: Mode) -> None:
        """Change the permission mode; holds for every later call, also of a running turn."""
        if mode == "full-auto":
            self.gate.sandbox = await self.setup.find_sandbox()
            await self._emit(await make_sandbox_notice(), None)
        self.gate.mode = mode
        await self._emit(ModeChanged(mode=mode), None)
        await self._options_changed()
        if self.setup.workspace.children is not None:
            await self.setup.workspace.children.follow_mode(mode)

    async def set_model(self, name: str) -> None:
        """Change the model from the next turn on.

        Raises:
            ModelSetupError: there is no such model, or its key is missing.
        """
        made = await asyncio.to_thread(self.setup.make_model, name)
        self._retired.append(self.setup.model)
        self.setup.model = made
        if self._running is None:
            await self._close_retired()
        await self._emit(SessionChanged(model=self.setup.model.info.name), None)
        await self._options_changed()

    async def set_effort(self, effort: Effort) -> None:
        """Change how much the model may think, from the next turn on."""
        self.setup.effort = effort
        await self._options_changed()

    async def revoke(self, grant: str, by: Decider) -> bool:
        """Take a standing answer back, by its id, for every later call; False if there is none."""
        return await self.gate.revoke(lambda event: self._emit(event, None), grant, by)

    async def set_title(self, title: str) -> None:
        """Name the session; an empty title takes the name away."""
        self.title = title or None
        await self._emit(SessionChanged(title=self.title), None)

    async def close(
        self, how: Literal["closed", "killed"] = "closed", reason: str | None = None
    ) -> None:
        """Cancel what runs, write the end, free everything; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        await self.cancel()
        async with self._turns:  # what the last prompt still writes comes before the end
            try:
                facts = {"how": how, "reason": reason}
                await self.setup.hooks.run("session_end", facts, self._aside)
                await self.setup.hooks.close()
                await self.context.close()
                await self.checkpoints.settle()
                await self.setup.servers.close()
                await self.setup.workspace.close()
            finally:
                self._retired.append(self.setup.model)
                await self._close_retired()
                await self._emit(SessionEnded(how=how, reason=reason), None)
                await self.journal.durable(self.last_seq)

    async def _close_retired(self) -> None:
        """Close the models that no turn asks any more."""
        retired, self._retired = self._retired, []
        for model in retired:
            await model.close()

    async def _options_changed(self) -> None:
        await self._emit(OptionsChanged(options=self.options), None)

    async def _title_from(self, prompted: Prompted) -> None:
        if self.title is not None or self.commands.answers(prompted):
            return
        texts = (block.text for block in prompted.content if isinstance(block, TextContent))
        words = " ".join(texts).split()
        if title := " ".join(words)[:_TITLE_LENGTH]:
            self.title = title
            await self._emit(SessionChanged(title=title), None)

    async def _run(self, turn: TurnId, prompted: Prompted) -> TurnEnded:
        # Nothing is awaited before this: from its first moment on a prompt can be cancelled.
        self._ended = None
        self._running = start_task(self._open_turn(turn, prompted), name=turn)
        try:
            ended = await wait_for_turn(self._running) or self._ended or TurnEnded(stop="cancelled")
        finally:
            self._running = None
            await self.context.turn_ended()
            await self._close_retired()
        for late in self._take_steering():
            await self._emit(msgspec.structs.replace(late, steers=False), None)
        await self.journal.durable(self.last_seq)
        return ended

    async def _open_turn(self, turn: TurnId, prompted: Prompted) -> TurnEnded:
        from .loop import run_prompt  # late: a session begins without a turn

        await self._emit_all(await self.commands.refresh())
        await self._title_from(prompted)
        return await run_prompt(self, self.commands.find(prompted), self._turn(turn), prompted)

    def _turn(self, turn: TurnId) -> Turn:
        setup = self.setup

        async def emit(event: Event) -> None:
            await self._emit(event, turn)
            setup.hooks.saw(event, emit)
            if isinstance(event, TurnEnded):
                self._ended = event
            elif isinstance(event, GrantUsed):  # before the call that it allows
                await self.journal.durable(self.last_seq)

        async def durable() -> None:
            await self.journal.durable(self.last_seq)

        return Turn(
            model=setup.model,
            effort=setup.effort,
            system_prompt=setup.system_prompt,
            conversation=self._conversation,
            toolbox=setup.toolbox,
            workspace=setup.workspace,
            gate=self.gate,
            limits=setup.limits,
            spending=TurnSpending(
                limits=setup.limits,
                started=setup.pace.clock() - self.gate.pauses.seconds,
                above=setup.spending,
                beside=setup.beside,
            ),
            emit=emit,
            durable=durable,
            steering=self._take_steering,
            pace=setup.pace,
            servers=setup.servers,
            context=self.context,
            hooks=setup.hooks,
            budget=setup.budget,
            instructions=setup.instructions,
            watch=self.checkpoints.watch(turn),
        )

    def _take_steering(self) -> tuple[Prompted, ...]:
        taken, self._steering = tuple(self._steering), []
        return taken

    async def _emit_all(self, events: tuple[Event, ...]) -> None:
        for event in events:
            await self._emit(event, None)

    async def _emit(self, event: Event, turn: TurnId | None) -> None:
        """Append an event, then fold it in: the conversation is never ahead of the log."""
        try:
            record = await self.journal.append(self.id, event, turn=turn)
        except UnrecordableEventError:
            record = await self.journal.append(self.id, sanitize_event(event), turn=turn)
        self.last_seq = record.seq
        self._conversation.apply(record.event)
        self.setup.hear(record)
