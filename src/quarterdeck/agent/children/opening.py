"""A child's session, made from its parent's: the same place, never more than the parent may."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from quarterdeck.config.schema import ChildSettings
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import Model
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.narrowing import narrowed
from quarterdeck.wire.events import SessionOpened
from quarterdeck.wire.ids import SessionId

from ..commands.book import CommandBook
from ..conversation import Conversation
from ..limits import Limits, Spending
from ..past import Past
from ..servers import NO_SERVERS
from ..session import Setup
from ..tools.spawning import SPAWNING
from ..tools.tool import ToolError
from ..tools.workspace import Workspace
from .child import ChildSession
from .hooked import LentHooks
from .profile import Profile
from .relay import Relay

if TYPE_CHECKING:
    from ..session import Session
    from ..tools.toolbox import Toolbox

__all__ = ["Wanted", "missing_tools", "open_child"]

_TITLE = 60
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A child that shall be."""

    id: SessionId
    profile: Profile
    task: str
    prompt: str
    """What it is told besides its profile."""
    can_spawn: bool
    settings: ChildSettings
    spending: Spending
    """What it spends counts there, too."""


async def open_child(
    parent: "Session", setup: Setup, wanted: Wanted, relay: Relay
) -> tuple[ChildSession, Setup]:
    """Make the session of a child; the first of its events are in the log when this returns.

    Raises:
        ToolError: its model or its tools cannot be had.
    """
    gate = _gate(parent.gate, wanted.profile, relay)
    own = await _setup(setup, wanted)
    like = own.workspace.call("read", "read")
    own.workspace.may_read = lambda path: gate.may_read(path, like)
    title = " ".join(wanted.task.split())[:_TITLE]
    session = ChildSession(wanted.id, parent.journal, own, gate, Conversation(), title=title)
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
        await session.begin(Past(cwd=parent.cwd))
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


def _gate(parent: Gate, profile: Profile, relay: Relay) -> Gate:
    return Gate(
        mode=narrowed(profile.mode or parent.mode, parent.mode),
        rules=parent.rules,
        grants=parent.grants,
        sandbox=parent.sandbox,
        find_sandbox=parent.find_sandbox,
        trusted=parent.trusted,
        pauses=parent.pauses,
        above=relay,
    )


async def _setup(setup: Setup, wanted: Wanted) -> Setup:
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
        workspace=Workspace(
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
        commands=CommandBook(()),
        spending=wanted.spending,
        beside=None,
        checkpoints=None,
        hooks=LentHooks(setup.hooks),
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
    names = [name for name in toolbox.lendable if can_spawn or name not in SPAWNING]
    if profile.tools is not None:
        names = [name for name in names if name in profile.tools]
        if not names:
            raise ToolError(
                f"The agent {profile.name!r} would have no tool: you have none of "
                f"{', '.join(profile.tools) or 'those that its profile names'}."
            )
    return toolbox.only(names)


def _limits(own: Limits, profile: Profile, settings: ChildSettings) -> Limits:
    return Limits(
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
