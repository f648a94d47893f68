"""One child: its session, made from its parent's, how far it has got, and its result.

``ParentHooks`` applies the parent's tool hooks to the child; ``RequestRelay`` passes the child's
permission requests and questions to the parent's gate.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from quarterdeck.config.schema import ChildSettings
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import Model
from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import Emit, Gate, PermissionAnswer, QuestionReply
from quarterdeck.policy.modes import narrow_mode
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    ChildEnd,
    ChildEnded,
    ChildRef,
    ChildStarted,
    Event,
    ModelCallFinished,
    PermissionAsked,
    QuestionAsked,
    SessionOpened,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnd,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.tool_calls import ContentItem

from ..commands import CommandRegistry
from ..conversation import Conversation
from ..limits import TurnLimits, TurnSpending
from ..ports import (
    NO_SERVERS,
    NO_TURN_WATCH,
    HookEmit,
    HookPoint,
    Hooks,
    HookVerdict,
    Turn,
    TurnWatch,
)
from ..resume import ResumeState
from ..session import Session
from ..session_setup import SessionSetup
from ..tools.tool import LiveCall, ToolError
from ..tools.toolbox import SPAWN_TOOLS
from ..tools.truncation import keep_ends
from ..tools.workspace import ToolWorkspace
from .profile import Profile

if TYPE_CHECKING:
    from ..tools.toolbox import Toolbox

__all__ = [
    "ChildAgent",
    "ChildRequest",
    "ChildSession",
    "ParentHooks",
    "ParentWatch",
    "RequestRelay",
    "answer_in",
    "missing_tools",
    "open_child",
]

_EVERY = 0.25
"""Seconds between two updates of the call that waits."""
_ENDS: dict[TurnEnd, ChildEnd] = {
    "end_turn": "completed",
    "max_tokens": "limit",
    "max_turn_requests": "limit",
    "refusal": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
}


async def _unwatched(_: Event) -> None:
    pass


class ChildSession(Session):
    """A session watched by the agent that started it."""

    watch: Callable[[Event], Awaitable[None]] = staticmethod(_unwatched)

    files: TurnWatch = NO_TURN_WATCH
    """Keeps the earlier content of files, for the turn of the waiting parent."""

    def _turn(self, turn: TurnId) -> Turn:
        return replace(super()._turn(turn), watch=self.files)

    async def _emit(self, event: Event, turn: TurnId | None) -> None:
        await super()._emit(event, turn)
        await self.watch(event)


class ParentWatch:
    """The watch of the turn that waits for a child, over the child's own calls."""

    def __init__(self, live: LiveCall) -> None:
        self._live = live

    async def before_call(self, turn: Turn, call: Call) -> None:
        """Keep what the call may change, with what else that turn changes."""
        await self._live.before_change(call)

    async def finish(self, turn: Turn, *, hurried: bool = False) -> None:
        """Nothing: the turn that waits writes it down."""


def answer_in(event: Event) -> str | None:
    """The agent's text in an event that ends a call of the model; None for any other."""
    if not isinstance(event, ModelCallFinished) or event.reply is None:
        return None
    words = [part.text for part in event.reply.parts if isinstance(part, TextPart)]
    return "\n".join(words).strip()


@dataclass(slots=True, kw_only=True)
class ChildAgent:
    """A child from its start to its end; ``run`` once."""

    session: ChildSession
    profile: Profile
    started: ChildStarted
    answer_bytes: int
    answer: str = ""
    """Its last message."""
    doing: str = "begins"
    steps: int = 0
    tokens: int = 0
    ended: ChildEnded | None = None
    _reported_at: float = field(default=0.0)

    @property
    def id(self) -> SessionId:
        """Its session."""
        return self.started.child

    @property
    def progress(self) -> str:
        """How far it has got, in one line."""
        steps = f"{self.steps} step{'s' * (self.steps != 1)}"
        return f"{self.profile.name}: {self.doing} ({steps}, {self.tokens} tokens)"

    async def run(self, parent: SessionId, emit: Emit) -> ChildEnded:
        """Let it do its task; its end is recorded before this returns or is cancelled.

        ``emit`` appends to the parent's log. What is not in the background shows its progress.
        """
        self.session.watch = lambda event: self._watch(event, emit)
        turn: TurnEnded | None = None
        try:
            content = (text(self.started.task),)
            turn = await self.session.prompt(content, origin="agent", sender=parent)
        except QuarterdeckError as error:
            turn = TurnEnded(stop="failed", reason=str(error))
        finally:
            await self._end(turn or TurnEnded(stop="cancelled"), emit)
        assert self.ended is not None
        return self.ended

    async def _end(self, turn: TurnEnded, emit: Emit) -> None:
        how = _ENDS[turn.stop]
        if how == "cancelled":
            await self.session.close("killed", "stopped by the agent that started it")
        else:
            await self.session.close()
        self.ended = ChildEnded(
            child=self.id,
            call=self.started.call,
            how=how,
            answer=self._answer(how, turn.reason),
            usage=turn.usage,
            cost=turn.cost,
        )
        await emit(self.ended)

    def _answer(self, how: ChildEnd, reason: str | None) -> str:
        kept = keep_ends(self.answer or "(no answer)", self.answer_bytes)
        answer = kept.text
        if not kept.is_whole:
            answer += f"\n[Full answer: `children` with action `read` and id {self.id}.]"
        match how:
            case "completed":
                return answer
            case "limit":
                return f"The agent was stopped at a limit ({reason}). Its last message:\n{answer}"
            case "failed":
                return f"The agent failed: {reason or 'no reason is known'}."
            case "cancelled":
                return "The agent was stopped before it had finished."

    async def _watch(self, event: Event, emit: Emit) -> None:
        match event:
            case ToolCallStarted(title=title):
                self.steps += 1
                self.doing = " ".join(title.split())[:100]
            case ModelCallFinished(usage=usage):
                self.tokens += usage.total if usage else 0
                self.answer = answer_in(event) or self.answer
            case _:
                return
        if not self.started.background and time.monotonic() - self._reported_at >= _EVERY:
            self._reported_at = time.monotonic()
            shown = ContentItem(content=text(self.progress))
            await emit(ToolCallUpdated(call=self.started.call, content=(shown,)))


_POINTS: frozenset[HookPoint] = frozenset(("before_tool", "after_tool"))


class ParentHooks:
    """What may refuse a call of the parent's may refuse one of its child's.

    Points of a session, a prompt or a turn are the parent's own.
    """

    most_continued = 0

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def has(self, point: HookPoint) -> bool:
        """Whether there is any hook for a point."""
        return point in _POINTS and self._hooks.has(point)

    async def run(
        self, point: HookPoint, facts: Mapping[str, Any], emit: HookEmit, call: Call | None = None
    ) -> HookVerdict:
        """Run the hooks of a point."""
        if point not in _POINTS:
            return HookVerdict()
        return await self._hooks.run(point, facts, emit, call)

    def saw(self, event: Event, emit: HookEmit) -> None:
        """Nothing: people are notified of the parent."""

    async def close(self) -> None:
        """Nothing: they end with the parent."""


if TYPE_CHECKING:
    from typing import cast

    _hooks: Hooks = ParentHooks(cast("Hooks", None))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRelay:
    """Passes a child's requests to its parent's gate, which passes them on or asks the person.

    The person answers once; the answer reaches the child, and a request that the child no longer
    waits for is taken back.
    """

    gate: Gate
    """The parent's."""
    emit: Emit
    """Appends to the parent's log."""
    child: SessionId
    name: str
    call: ToolCallId
    """The parent's call that started the child."""

    async def leave(self, question: PermissionAsked) -> PermissionAnswer:
        """Request permission in the child's name."""
        asked = replace(
            question,
            title=f"{self.name} ▸ {question.title}",
            call=self.call,
            child=self._ref(question.child, question.call),
        )
        return await self.gate.leave(self.emit, asked)

    async def reply(self, question: QuestionAsked) -> QuestionReply:
        """Ask a question in the child's name."""
        asked = replace(
            question,
            text=f"{self.name} ▸ {question.text}",
            call=self.call,
            child=self._ref(question.child, question.call),
        )
        answered = await self.gate.ask(self.emit, asked)
        return QuestionReply(action=answered.action, by=answered.by, content=answered.content)

    def _ref(self, below: ChildRef | None, call: ToolCallId | None) -> ChildRef:
        if below is not None:
            return replace(below, path=(self.name, *below.path))
        return ChildRef(session=self.child, name=self.name, path=(self.name,), call=call)


_TITLE = 60
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """A child to be started."""

    id: SessionId
    profile: Profile
    task: str
    prompt: str
    """What it is sent besides its profile."""
    can_spawn: bool
    settings: ChildSettings
    spending: TurnSpending
    """What it spends counts there, too."""


async def open_child(
    parent: "Session", setup: SessionSetup, wanted: ChildRequest, relay: RequestRelay
) -> tuple[ChildSession, SessionSetup]:
    """Make the session of a child; the first of its events are in the log when this returns.

    Raises:
        ToolError: its model or its tools cannot be had.
    """
    gate = _gate(parent.gate, wanted.profile, relay)
    own = await _setup(setup, wanted)
    like = own.workspace.call("read", "read")
    own.workspace.may_read = lambda path: gate.may_read(path, like)
    title = " ".join(wanted.task.split())[:_TITLE]
    session = ChildSession(
        wanted.id, parent.journal, own, gate, Conversation(), CommandRegistry(()), title=title
    )
    opened = SessionOpened(
        agent="native",
        cwd=parent.cwd,
        roots=tuple(own.workspace.system.roots[1:]),
        title=title,
        model=own.model.info.name,
        mode=gate.mode,
        parent_session=parent.id,
    )
    try:
        await parent.journal.append(wanted.id, opened)
        await session.begin(ResumeState(cwd=parent.cwd))
    except BaseException:
        await own.model.close()
        raise
    return session, own


def missing_tools(profile: Profile, toolbox: "Toolbox") -> tuple[str, ...]:
    """The tools of a profile that a session does not have; those of servers may come later."""
    return tuple(
        name
        for name in profile.tools or ()
        if name not in toolbox.names and not name.startswith("mcp__")
    )


def _gate(parent: Gate, profile: Profile, relay: RequestRelay) -> Gate:
    return Gate(
        mode=narrow_mode(profile.mode or parent.mode, parent.mode),
        rules=parent.rules,
        grants=parent.grants,
        sandbox=parent.sandbox,
        find_sandbox=parent.find_sandbox,
        trusted=parent.trusted,
        approvers=parent.approvers,
        pauses=parent.pauses,
        above=relay,
        find_leads=parent.find_leads,
    )


async def _setup(setup: SessionSetup, wanted: ChildRequest) -> SessionSetup:
    toolbox = _toolbox(setup.toolbox, wanted.profile, can_spawn=wanted.can_spawn)
    name = wanted.profile.model or setup.model.info.name
    try:
        model = _own(await asyncio.to_thread(setup.make_model, name), setup.model)
    except ModelSetupError as error:
        raise ToolError(f"The agent cannot use the model {name!r}: {error}") from error
    workspace = setup.workspace
    return replace(
        setup,
        model=model,
        models=(name,),
        system_prompt=f"{wanted.prompt.rstrip()}\n\n{wanted.profile.prompt}\n",
        toolbox=toolbox,
        workspace=ToolWorkspace(
            system=workspace.system,
            contain=workspace.contain,
            home=workspace.home,
            project=workspace.project,
            # What a person allows a child for the session is allowed for the whole family.
            session=workspace.session,
            options=workspace.options,
            seen=workspace.seen.unseen(),
        ),
        limits=_limits(setup.limits, wanted.profile, wanted.settings),
        servers=NO_SERVERS,
        spending=wanted.spending,
        beside=None,
        checkpoints=None,
        recorder=None,
        hooks=ParentHooks(setup.hooks),
        goal=None,
    )


class _Borrowed:
    """A model that its owner closes."""

    def __init__(self, model: Model) -> None:
        self.lender = model
        self.info = model.info
        self.stream = model.stream

    async def close(self) -> None:
        pass


def _own(model: Model, parents: Model) -> Model:
    """A model to be closed with the child: one that is made only once is its parent's to close."""
    lender = parents.lender if isinstance(parents, _Borrowed) else parents
    return _Borrowed(model) if model is lender else model


def _toolbox(toolbox: "Toolbox", profile: Profile, *, can_spawn: bool) -> "Toolbox":
    names = [name for name in toolbox.lendable if can_spawn or name not in SPAWN_TOOLS]
    if profile.tools is not None:
        names = [name for name in names if name in profile.tools]
        if not names:
            raise ToolError(
                f"The agent {profile.name!r} would have no tools: you have none of "
                f"{', '.join(profile.tools) or 'those that its profile names'}."
            )
    return toolbox.only(names)


def _limits(own: TurnLimits, profile: Profile, settings: ChildSettings) -> TurnLimits:
    return TurnLimits(
        model_calls=profile.max_turns or settings.model_calls,
        tokens=_least(own.tokens, profile.max_tokens),
        seconds=_least(_least(own.seconds, settings.seconds), profile.max_seconds),
        cost=_least(own.cost, profile.max_cost),
        max_concurrent_tools=own.max_concurrent_tools,
        retries=own.retries,
        repeats=own.repeats,
    )


def _least(one: _Number | None, other: _Number | None) -> _Number | None:
    given = [limit for limit in (one, other) if limit is not None]
    return min(given) if given else None
