"""A session of another agent: keeps the contract's rules around a link that speaks its language."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from quarterdeck.policy.decision import Ask, Deny
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate, PermissionAnswer, PermissionGranted, QuestionReply
from quarterdeck.policy.modes import Containment
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import (
    LinkBrokenError,
    LinkBusyError,
    LinkClosedError,
    LinkEndedError,
    LinkError,
    QuarterdeckError,
)
from quarterdeck.wire.events import (
    Event,
    ModeChanged,
    NoticePosted,
    Origin,
    PermissionAsked,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    SessionChanged,
    SessionEnded,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
)
from quarterdeck.wire.ids import (
    MessageId,
    RequestId,
    SessionId,
    ToolCallId,
    TurnId,
    new_message_id,
)
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.tasks import BackgroundTasks, start_task

from .driver import Capabilities, ClosedAs, DriverSessionOptions, EventSink
from .enforcement import Enforcement, explain_unenforceable
from .errors import (
    NotPermittedError,
    SteeringUnsupportedError,
    UnenforceableError,
    UnsupportedError,
)
from .link import AgentExit, AgentLink, PermissionVerdict, RewindableLink, ServedCall
from .permissions import UnusedPermissions, call_of, own_options, verdict_of
from .tool_calls import CallMonitor, ServedCallRunner, ToolCallNormalizer
from .turn import DriverTurn

if TYPE_CHECKING:
    from quarterdeck.terminal.headless_terminal import HeadlessTerminal

__all__ = ["LinkSession"]

_log = logging.getLogger(__name__)
_CANCELLED = PermissionVerdict(allowed=False, cancelled=True)
T = TypeVar("T")


class LinkSession:
    """One conversation with one agent, over whatever link; made by ``open_session``."""

    def __init__(
        self,
        id_: SessionId,
        agent: str,
        opening: DriverSessionOptions,
        sink: EventSink,
        gate: Gate,
        around: CallContext,
        on_terminal: "Callable[[HeadlessTerminal], None] | None" = None,
    ) -> None:
        self.id = id_
        self.agent = agent
        self.opening = opening
        self.gate = gate
        self.agent_session: str | None = (
            opening.options.resume if not opening.options.fork else None
        )
        self._sink = sink
        self._around = around
        self._on_terminal = on_terminal
        self._link: AgentLink | None = None
        self._ledger = ToolCallNormalizer(agent)
        self._turns = asyncio.Lock()
        self._turn: DriverTurn | None = None
        self._requests = _Requests()
        self._agent_mode = opening.options.agent_mode
        """The mode of the agent's own that a person has chosen, if any."""
        self._clearances = UnusedPermissions()
        self._conduct = CallMonitor(gate, around)
        self._services = ServedCallRunner(self, around, self._clearances, self._conduct)
        self._stopping = BackgroundTasks()
        self._early: list[tuple[Event, ToolCallId | None]] | None = []
        """The events of the link before the session was announced; None from then on."""
        self._over: LinkError | None = None
        self._closed_as: tuple[ClosedAs, str | None] = ("closed", None)
        self._ending: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[SessionEnded] = asyncio.get_running_loop().create_future()

    # What the agent is and can do

    @property
    def transport(self) -> str:
        """How the agent is reached."""
        return self._link.transport if self._link is not None else ""

    @property
    def capabilities(self) -> Capabilities:
        """What this session can do."""
        return self._link.capabilities if self._link is not None else Capabilities()

    @property
    def is_running(self) -> bool:
        """Whether a turn is under way or waits for its start."""
        return self._turns.locked()

    @property
    def around(self) -> CallContext:
        """Where its calls come from."""
        return self._around

    @property
    def enforcement(self) -> Enforcement:
        """What it asks about, and what it does unasked."""
        if self._link is None:
            return Enforcement()
        return self._link.enforcement(self.opening.with_options(agent_mode=self._agent_mode))

    # Beginning

    def attach(self, link: AgentLink) -> None:
        """Use this link; events of the previous one are dropped."""
        self._link = link
        self._early = []
        self._over = None
        self._ledger = ToolCallNormalizer(link.transport)

    async def announce(self, events: Iterable[Event]) -> None:
        """Write the first events, then those emitted by the link meanwhile; once, by the opener."""
        for event in events:
            await self._sink(event)
        early, self._early = self._early or [], None
        for event, parent in early:
            await self.emit(event, parent=parent)
        if self._over is not None:
            self._end_soon()

    async def fail(self, events: Iterable[Event], ended: SessionEnded) -> None:
        """Write that the session could not be opened; once, by the opener."""
        self._early = None
        self._over = LinkBrokenError(ended.reason or "the agent could not be started")
        for event in events:
            await self._sink(event)
        self._ended.set_result(ended)
        await self._sink(ended)

    # What the link reports (link.Host)

    async def emit(self, event: Event, *, parent: ToolCallId | None = None) -> None:
        """Take the agent's events, in its order; see ``link.Host``."""
        if self._early is not None:
            self._early.append((event, parent))
            return
        turn = self._here(event)
        match event:
            case ToolCallStarted():
                kept = self._ledger.begin(event)
            case ToolCallUpdated():
                kept = self._ledger.update(event)
            case ToolCallEnded():
                kept = self._ledger.end(event)
            case SessionChanged() if isinstance(event.agent_session, str):
                self.agent_session = event.agent_session
                kept = (event,)
            case ModeChanged():
                kept = (event,)
            case _:
                await self._sink(event, turn=turn, parent=parent)
                return
        for one in kept:
            await self._sink(one, turn=turn, parent=parent)
            await self._watch(one)

    async def _watch(self, event: Event) -> None:
        """Hold what the agent says it does against what was decided."""
        match event:
            case ToolCallStarted():
                self._conduct.started(event)
            case ToolCallUpdated():
                self._conduct.updated(event)
            case ToolCallEnded():
                violation = await self._conduct.violation(event, self.enforcement)
                if violation is not None:
                    await self._sink(violation, turn=self._here())
                    if self._around.on_violation == "stop":
                        self._stop_soon(f"it did this without permission: {violation.title}")
            case ModeChanged(mode=mode):
                asking = self.enforcement.asking_modes
                if asking and mode not in asking:
                    await self._sink(_left_asking(mode, asking[0]), turn=self._here())
                    self._soon(self._ask_again(asking[0]))
            case _:
                pass

    async def _ask_again(self, mode: str) -> None:
        """Have the agent back in a mode in which it asks; one that will not go is stopped."""
        try:
            await self._alive().set_mode(mode)
        except QuarterdeckError as error:
            if self._turn is not None:
                await self._turn.stop_for(f"it did not return to its mode {mode!r}: {error}")

    def _stop_soon(self, reason: str) -> None:
        """End the turn; not from within what the agent says, which would wait for itself."""
        if self._turn is not None:
            self._soon(self._turn.stop_for(reason))

    def _soon(self, step: Coroutine[Any, Any, None]) -> None:
        self._stopping.start(step, name=f"{self.agent}: stop the turn")

    async def permit(self, question: PermissionAsked) -> PermissionVerdict:
        """Have a tool call decided: by the rules, else by the answer to a request."""
        if self.is_interrupted or self._early is not None:
            return _CANCELLED
        with self._requests:
            return await self._decide(question)

    async def _decide(self, question: PermissionAsked) -> PermissionVerdict:
        for event in self._ledger.ask(question):
            await self.emit_asked(event)
            await self._watch(event)
        theirs = own_options(question.options, self.agent)
        name = self._ledger.name(question.call)
        ours = replace(question, call=name, options=theirs)
        call = await call_of(question, self._around, self.gate)
        if self.is_interrupted:  # meanwhile: what is asked now would be asked after the cancelling
            return _CANCELLED
        decided = await self.gate.permit(self.emit_asked, ours, call)
        verdict = verdict_of(decided, theirs)
        self._conduct.decided(name, allowed=verdict.allowed)
        if isinstance(decided, PermissionGranted) and verdict.allowed:
            self._clearances.add(call, decided, question.content)
            self._conduct.permitted(call, by_person=decided.option is not None, of=name)
        return verdict

    async def forbids(self, question: PermissionAsked) -> PermissionVerdict | None:
        """The objection to a call that the agent may do unasked; see ``link.Host``."""
        call = await call_of(question, self._around, self.gate)
        match await self.gate.judge(call):
            case Deny():
                return await self.permit(question)
            case Ask() as asked if question.kind in ("read", "search"):
                return PermissionVerdict(allowed=False, cancelled=True, model_reason=asked.reason)
            case _:
                return None

    async def carry_out(self, call: ServedCall, act: Callable[[Containment], Awaitable[T]]) -> T:
        """Decide what the agent has us do, and do it; see ``link.Host``."""
        if self.is_interrupted or self._early is not None:
            raise NotPermittedError("the turn is being stopped", cancelled=True)
        with self._requests:
            return await self._services.carry_out(call, act)

    def shows(self, terminal: str) -> None:
        """A terminal of ours was started with permission."""
        self._conduct.shows(terminal)

    async def ask(self, question: QuestionAsked) -> QuestionAnswered:
        """Put a question to the person."""
        if self.is_interrupted or self._early is not None:
            by = Decider(kind="cancel")
            return QuestionAnswered(request=question.request, action="cancel", by=by)
        with self._requests:
            return await self.gate.ask(self.emit_asked, question)

    async def emit_asked(self, event: Event) -> None:
        """Write what was asked, decided or answered, in its place."""
        await self._sink(event, turn=self._here())

    def _here(self, event: Event | None = None) -> TurnId | None:
        """The turn that something belongs to which the agent says now; a sign of its life."""
        if self._turn is None:
            return None
        self._turn.shows_life(event)
        return self._turn.id

    @property
    def is_interrupted(self) -> bool:
        """Whether the running turn is being stopped."""
        return self._turn is not None and self._turn.is_interrupted

    def runs_in(self, terminal: "HeadlessTerminal") -> None:
        """The agent runs in this terminal."""
        if self._on_terminal is not None:
            self._on_terminal(terminal)

    def lost(self, error: LinkError) -> None:
        """The agent is gone; the session ends."""
        if self._over is None:
            self._over = error
            if self._early is None:
                self._end_soon()

    # What callers do

    async def prompt(
        self,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        message: MessageId | None = None,
    ) -> TurnEnded:
        """Run a turn, after those asked for earlier; see ``driver.Session``."""
        _check(self._link, self.agent, content)
        async with self._turns:
            link = self._alive()
            prompted = _prompted(content, origin, sender, message)
            turn = DriverTurn(
                link, self.opening, self._sink, self.gate, self._ledger, self.lost, self._settle
            )
            self._turn = turn
            self._clearances.clear()
            await self._conduct.begin_turn(self.enforcement)
            try:
                return await turn.run(prompted)
            finally:
                self._turn = None
                self._clearances.clear()
                self._conduct.end_turn()

    async def _settle(self) -> None:
        """Wait for open requests; then report what changed although nothing may."""
        await self._requests.settled()
        violation = await self._conduct.changed_on_disk()
        if violation is not None:
            await self._sink(violation, turn=self._here())
            if self._around.on_violation == "stop" and self._turn is not None:
                self._turn.fails_for(f"without permission it {violation.title}")

    def answer(self, request: RequestId, answer: PermissionAnswer) -> bool:
        """Answer a permission request; False if it is not, or no longer, open."""
        return self.gate.answer(request, answer)

    def reply(self, request: RequestId, reply: QuestionReply) -> bool:
        """Answer a question; False if it is not, or no longer, open."""
        return self.gate.reply(request, reply)

    async def steer(
        self,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        message: MessageId | None = None,
    ) -> bool:
        """Give the running turn a message; see ``driver.DriverSession``."""
        link = self._alive()
        if not link.capabilities.steers:
            raise SteeringUnsupportedError(self.agent, self.transport)
        _check(link, self.agent, content)
        prompted = _prompted(content, origin, sender, message, steers=True)
        return self._turn is not None and await self._turn.steer(prompted)

    async def interrupt(self) -> None:
        """End the running turn as cancelled, if there is one; returns when it has ended."""
        if self._turn is not None:
            await self._turn.interrupt()

    async def rewind(self, turns: int) -> None:
        """Take the last turns out of the agent's conversation; see ``driver.DriverSession``."""
        self._need(self.capabilities.rewinds, "go back in its conversation")
        await _rewind(self._alive(), turns, self._turns)

    async def set_mode(self, mode: str) -> None:
        """Change the agent's own mode."""
        link = self._alive()
        self._need(link.capabilities.sets_mode, "change its mode while it runs")
        opening = self.opening.with_options(agent_mode=mode)
        reasons = explain_unenforceable(link.enforcement(opening), opening, self.gate, self._around)
        if reasons and self._around.on_unheld == "refuse":
            raise UnenforceableError(self.agent, self.transport, f"enforce {'; '.join(reasons)}")
        before, self._agent_mode = self._agent_mode, mode
        try:
            await link.set_mode(mode)
        except BaseException:
            self._agent_mode = before
            raise

    async def set_model(self, model: str) -> None:
        """Change the model, by the agent's own name of it."""
        link = self._alive()
        self._need(link.capabilities.sets_model, "change its model while it runs")
        await link.set_model(model)

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change another setting that the agent offers."""
        await self._alive().set_option(option, value)

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The sessions of this directory that the agent knows."""
        link = self._alive()
        self._need(link.capabilities.lists, "list its sessions")
        return await link.list_sessions()

    async def close(self, how: ClosedAs = "closed", reason: str | None = None) -> SessionEnded:
        """Interrupt what runs, end the agent and all its processes; see ``driver.Session``."""
        if self._over is None:
            self._closed_as = (how, reason)
            if how == "killed":
                if self._turn is not None:
                    self._turn.is_interrupted = True
            else:
                with suppress(QuarterdeckError):
                    await self.interrupt()
            self.lost(LinkClosedError(f"session {self.id!r} is closed"))
        return await self.wait()

    async def wait(self) -> SessionEnded:
        """Wait until the session is over, by whatever cause."""
        return await asyncio.shield(self._ended)

    # Ending

    def _end_soon(self) -> None:
        if self._ending is None:
            self._ending = start_task(self._end(), name=f"{self.agent}: end")

    async def _end(self) -> None:
        """End the agent, then the turn, then the session; nothing here may be skipped."""
        assert self._over is not None
        self.gate.cancel_open()
        departure = await _end_link(self._link)
        if self._turn is not None:
            await self._turn.give_up()
        ended = _session_ended(self._over, departure, self._closed_as)
        try:
            async with self._turns:
                await self._sink(ended)
        except Exception as error:
            # A waiter for the end must get this error: it must not wait for ever.
            self._ended.set_exception(error)
        else:
            self._ended.set_result(ended)

    # Checks

    def _alive(self) -> AgentLink:
        if self._over is not None:
            raise self._over
        assert self._link is not None
        return self._link

    def _need(self, ability: bool, what: str) -> None:
        if not ability:
            raise UnsupportedError(self.agent, self.transport, what)


async def _rewind(link: AgentLink, turns: int, running: asyncio.Lock) -> None:
    """Raises LinkBusyError while a turn runs."""
    if running.locked():
        raise LinkBusyError("a turn is running; interrupt it first")
    assert isinstance(link, RewindableLink)
    async with running:
        await link.rewind(turns)


def _check(link: AgentLink | None, agent: str, content: Sequence[ContentBlock]) -> None:
    """Raise UnsupportedError for content that the agent does not take."""
    transport = link.transport if link is not None else ""
    if not content:
        raise UnsupportedError(agent, transport, "answer an empty prompt")
    for block in content:
        tag = block.__struct_config__.tag
        if tag in ("image", "audio") and not (link is not None and link.capabilities.images):
            raise UnsupportedError(agent, transport, f"accept {tag}s")


def _prompted(
    content: tuple[ContentBlock, ...],
    origin: Origin,
    sender: SessionId | None,
    message: MessageId | None,
    *,
    steers: bool = False,
) -> Prompted:
    message = message or new_message_id()
    return Prompted(content=content, message=message, origin=origin, sender=sender, steers=steers)


async def _end_link(link: AgentLink | None) -> AgentExit | None:
    try:
        return await link.end() if link is not None else None
    except QuarterdeckError as error:
        _log.warning("an agent could not be ended: %s", error)
        return AgentExit(stderr=str(error))


class _Requests:
    """Counts the requests that are being decided; a context manager around each."""

    def __init__(self) -> None:
        self._open = 0
        self._calm = asyncio.Event()
        self._calm.set()

    def __enter__(self) -> None:
        self._open += 1
        self._calm.clear()

    def __exit__(self, *_: object) -> None:
        self._open -= 1
        if not self._open:
            self._calm.set()

    async def settled(self) -> None:
        """Wait until none is."""
        await self._calm.wait()


def _left_asking(mode: str, back: str) -> NoticePosted:
    title = f"It reports that its mode is now {mode!r}, in which it does not ask."
    description = f"You did not choose that; it is set back to {back!r}."
    return NoticePosted(title=title, severity="error", description=description)


def _session_ended(
    over: LinkError, departure: AgentExit | None, closed_as: tuple[ClosedAs, str | None]
) -> SessionEnded:
    left = departure or AgentExit()
    if isinstance(over, LinkClosedError):
        how, reason = closed_as
    else:
        how, reason = "ended" if isinstance(over, LinkEndedError) else "broken", str(over)
    exit_code = left.exit_code if left.exit_code is not None else getattr(over, "exit_code", None)
    return SessionEnded(
        how=how,
        reason=reason,
        exit_code=exit_code,
        signal=left.signal or getattr(over, "signal", None),
        stderr=(left.stderr or getattr(over, "stderr", "")) or None,
    )


if TYPE_CHECKING:
    from typing import cast

    from .driver import DriverSession
    from .link import LinkHost

    _session: DriverSession = cast("LinkSession", None)
    _host: LinkHost = cast("LinkSession", None)
