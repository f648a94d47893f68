"""A child's session, made from its parent's: the same place, never more rights than the parent.

``ParentHooks`` applies the parent's tool hooks to the child; ``RequestRelay`` passes the child's
permission requests and questions to the parent's gate.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from quarterdeck.config.schema import ChildSettings
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import Model
from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import Emit, Gate, PermissionAnswer, QuestionReply
from quarterdeck.policy.modes import narrow_mode
from quarterdeck.wire.events import ChildRef, Event, PermissionAsked, QuestionAsked, SessionOpened
from quarterdeck.wire.ids import SessionId, ToolCallId

from ..commands.registry import CommandRegistry
from ..conversation import Conversation
from ..limits import TurnLimits, TurnSpending
from ..ports import NO_SERVERS, HookEmit, HookPoint, Hooks, HookVerdict
from ..resume import ResumeState
from ..session_setup import SessionSetup
from ..tools.tool import ToolError
from ..tools.toolbox import SPAWN_TOOLS
from ..tools.workspace import ToolWorkspace
from .child import ChildSession
from .profile import Profile

if TYPE_CHECKING:
    from ..session import Session
    from ..tools.toolbox import Toolbox

__all__ = ["ChildRequest", "ParentHooks", "RequestRelay", "missing_tools", "open_child"]

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
        """Ask for leave in the child's name."""
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
    """A child that shall be."""

    id: SessionId
    profile: Profile
    task: str
    prompt: str
    """What it is told besides its profile."""
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
        pauses=parent.pauses,
        above=relay,
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
        hooks=ParentHooks(setup.hooks),
        goal=None,
    )


class _Borrowed:
    """A model that somebody else closes."""

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
