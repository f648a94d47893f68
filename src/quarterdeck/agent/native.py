"""The native agent: makes, loads, forks, lists and deletes sessions."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from msgspec import Struct, field

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal, SessionSummary
from quarterdeck.models.choosing import choose, make_model
from quarterdeck.models.model import Effort, Model
from quarterdeck.policy.book import GrantBook
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.modes import NO_SANDBOX, Mode, parse_mode
from quarterdeck.policy.pauses import Pauses
from quarterdeck.wire.events import Event, Notice, SessionOpened, SessionResumed
from quarterdeck.wire.ids import SessionId, TurnId, new_session_id

from .assembly import (
    Ground,
    limits_of,
    model_options,
    offered_models,
    prepare_ground,
    rules_of,
    tool_options,
)
from .cage import Cage, local_cage
from .checkpoints.forgetting import forget_checkpoints
from .children.seam import children_of, introduce, shelves_of
from .hooks.seam import find_hooks
from .instructions import Nested
from .library.shelves import stock
from .pace import Pace
from .past import Past, allow_for_damage, recall, shared_events
from .recovery import FORKED, close_children
from .servers import ServerDefinition, find_servers
from .session import Session, Setup
from .store import NoSuchSession, SessionStore, Store
from .telemetry import find_telemetry
from .tools.shipped import LaterTool, shipped_tools
from .tools.tool import Tool
from .tools.toolbox import Toolbox
from .tools.workspace import Workspace

if TYPE_CHECKING:
    from quarterdeck.policy.rules import Rule

__all__ = ["MakeCage", "NativeAgent", "Wishes"]

MakeCage: TypeAlias = Callable[[tuple[str, ...], Ground], Cage]
"""Makes the system a session works on, from its directories."""


class Wishes(Struct, frozen=True, kw_only=True):
    """How a session shall be; what is left out comes from the configuration."""

    model: str | None = None
    mode: Mode | None = None
    effort: Effort | None = None
    system_prompt: str | None = None
    """Added to ours."""
    rules: "tuple[Rule, ...]" = ()
    tools: tuple[str, ...] | None = None
    """Only these tools; None for all."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings that outrank every file, as nested tables."""
    attended: bool = True
    """Whether anybody can answer a question."""
    servers: tuple[ServerDefinition, ...] = ()
    """Servers that lend tools, besides those of the configuration."""
    make_cage: MakeCage = local_cage
    make_tools: Callable[[], Iterable[Tool | LaterTool]] = shipped_tools
    """Makes the tools; give your own, or ours and your own."""
    make_model: Callable[[str], Model] | None = None
    """Makes a model from its name, in a thread; None for those of the known vendors."""
    pace: Pace = field(default_factory=Pace)


_DEFAULTS = Wishes()


class NativeAgent:
    """Our own agent. An async context manager; leaving it closes every session.

    Args:
        places: where configuration and sessions are.
        environment: variables for the configuration and the vendors' keys; nothing else is read
            from the process's own environment.
        store: where sessions are kept; None: each in a log of its own.
    """

    def __init__(
        self, places: Places, environment: Mapping[str, str], *, store: Store | None = None
    ) -> None:
        self._places = places
        self._environment = environment
        self._store: Store = store or SessionStore(places.state / "sessions")
        self._open: dict[SessionId, tuple[Session, AsyncExitStack]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        async with AsyncExitStack() as closing:  # one that fails does not keep others open
            for id_ in tuple(self._open):
                closing.push_async_callback(self.close, id_)

    def get(self, id_: str) -> Session | None:
        """The open session of that id."""
        found = self._open.get(SessionId(id_))
        return found[0] if found else None

    async def new(
        self,
        cwd: str,
        *,
        roots: tuple[str, ...] = (),
        wishes: Wishes = _DEFAULTS,
        id_: SessionId | None = None,
    ) -> Session:
        """Begin a session in a directory; ``id_``: None for a new one.

        Raises:
            QuarterdeckError: the configuration, the model or the directory is not usable; the
                message says what to do. Nothing is left behind.
        """
        past = Past(cwd=cwd, roots=roots)
        return await self._begin(id_ or new_session_id(), past, wishes, ())

    async def load(
        self,
        id_: str,
        *,
        cwd: str | None = None,
        roots: tuple[str, ...] | None = None,
        wishes: Wishes = _DEFAULTS,
    ) -> Session:
        """Go on with a session, open or stored; where it works may be another place now.

        Raises:
            NoSuchSession: there is none of that id.
            Locked: another process has it open.
            DamagedSessionError: its log no longer says where it works.
            QuarterdeckError: as ``new``.
        """
        if (session := self.get(id_)) is not None:
            return session
        stack = AsyncExitStack()
        try:
            journal = await stack.enter_async_context(await self._store.open(id_))
            session_id = SessionId(id_)
            records = [record async for record in journal.history(session=session_id)]
            past = recall(records)
            if past.agent != "native":
                raise NoSuchSession(id_, agent=past.agent)
            past.cwd = cwd or past.cwd
            allow_for_damage(id_, records, past)
            past.roots = past.roots if roots is None else roots
            session = await self._assemble(session_id, journal, past, wishes, stack)
            for turn, event in past.closing:
                await journal.append(session_id, event, turn=turn)
            await close_children(journal, records)
            await session.begin(past, SessionResumed())
        except BaseException:
            await stack.aclose()
            raise
        self._open[session_id] = (session, stack)
        return session

    async def fork(
        self,
        id_: str,
        *,
        cwd: str | None = None,
        roots: tuple[str, ...] | None = None,
        until: int | None = None,
        wishes: Wishes = _DEFAULTS,
        new_id: SessionId | None = None,
    ) -> Session:
        """Begin a session that shares the past of another, whole or up to a sequence number.

        Raises:
            NoSuchSession, Locked, QuarterdeckError: as ``load``.
        """
        source = SessionId(id_)
        if (session := self.get(id_)) is not None:
            await session.journal.durable(session.last_seq)
            records = [record async for record in session.journal.history(session=source)]
        else:
            async with await self._store.open(id_) as journal:
                records = [record async for record in journal.history(session=source)]
        shared = shared_events(records, until)
        kept = [record for record in records if until is None or record.seq <= until]
        past = recall(kept, FORKED)
        past.cwd, past.closing, past.began = cwd or past.cwd, (), None
        past.roots = past.roots if roots is None else roots
        if past.goal is not None:
            past.goal.seq = -1  # its own log has other numbers
        last = kept[-1].seq if kept else 0
        new_id = new_id or new_session_id()
        return await self._begin(new_id, past, wishes, shared, forked=(source, last))

    async def sessions(
        self, *, cwd: str | None = None, limit: int = 50, before: int | None = None
    ) -> list[SessionSummary]:
        """The sessions that changed last, newest first; ``before`` is an ``updated`` time."""
        return await self._store.sessions(cwd=cwd, agent="native", limit=limit, before=before)

    async def close(
        self,
        id_: str,
        how: Literal["closed", "killed"] = "closed",
        reason: str | None = None,
    ) -> None:
        """Close a session; one that is not open is no error."""
        entry = self._open.pop(SessionId(id_), None)
        if entry is not None:
            session, stack = entry
            async with stack:
                await session.close(how, reason)

    async def delete(self, id_: str) -> bool:
        """Close a session and delete it for good; False if there was none."""
        await self.close(id_)
        deleted = await self._store.delete(id_)
        await asyncio.to_thread(forget_checkpoints, self._places.state, id_)
        return deleted

    async def _begin(
        self,
        id_: SessionId,
        past: Past,
        wishes: Wishes,
        shared: tuple[tuple[TurnId | None, Event], ...],
        forked: tuple[SessionId, int] | None = None,
    ) -> Session:
        stack = AsyncExitStack()
        try:
            journal = await stack.enter_async_context(self._store.create(id_))
            session = await self._assemble(id_, journal, past, wishes, stack)
            opened = SessionOpened(
                agent="native",
                cwd=past.cwd,
                roots=past.roots,
                title=past.title,
                model=session.model.name,
                mode=session.gate.mode,
                forked_from=forked[0] if forked else None,
                forked_at=forked[1] if forked else None,
            )
            await journal.append(id_, opened)
            for turn, event in shared:
                await journal.append(id_, event, turn=turn)
            await session.begin(past)
        except BaseException:
            await stack.aclose()
            await self._store.delete(id_)
            raise
        self._open[id_] = (session, stack)
        return session

    async def _assemble(
        self, id_: SessionId, journal: Journal, past: Past, wishes: Wishes, stack: AsyncExitStack
    ) -> Session:
        ground = await prepare_ground(
            self._places, self._environment, past.cwd, past.roots, wishes.flags, past.began
        )
        cage = wishes.make_cage((past.cwd, *past.roots), ground)
        stack.push_async_callback(cage.close)
        gate = await self._gate(ground, past, wishes, cage)
        setup = await self._setup(id_, ground, past, wishes, cage)
        await stock(setup, self._places.config, ground)
        if ground.trusted:
            known = frozenset(Path(path) for path in ground.instructions)
            setup.instructions = Nested(root=Path(ground.project), known=known)
        setup.hooks = await asyncio.to_thread(find_hooks, ground, self._environment, id_)
        stack.push_async_callback(setup.hooks.close)
        setup.servers, told = await find_servers(
            ground, self._environment, cage.roots, given=wishes.servers, wanted=wishes.tools
        )
        stack.push_async_callback(setup.servers.close)
        setup.servers.start()
        if past.goal is not None:
            from .goals.pursuit import take_up

            await take_up(setup, past.goal)
        shelves = shelves_of(self._places.config, ground)
        profiles, problems = await introduce(shelves, setup.toolbox)
        setup.system_prompt = "\n\n".join(filter(None, (setup.system_prompt, profiles)))
        like = setup.workspace.call("read", "read")
        setup.workspace.may_read = lambda path: gate.may_read(path, like)
        notices = tuple(
            Notice(title=str(notice), severity="warning")
            for notice in (*ground.config.notices, *ground.problems)
        )
        told = (*notices, *told, *problems)
        session = Session(
            id_, journal, setup, gate, past.conversation, title=past.title, notices=told
        )
        setup.workspace.children = children_of(session, setup, ground, shelves)
        return session

    async def _gate(self, ground: Ground, past: Past, wishes: Wishes, cage: Cage) -> Gate:
        grants = GrantBook(self._places.state / "grants.json")
        await grants.load()
        await grants.add(past.grants)
        mode = wishes.mode or (parse_mode(past.mode) if past.mode else ground.settings.mode)
        return Gate(
            mode=mode,
            rules=(*rules_of(ground.config), *wishes.rules),
            grants=grants,
            sandbox=await cage.sandbox() if mode == "full-auto" else NO_SANDBOX,
            find_sandbox=None if mode == "full-auto" else cage.sandbox,
            trusted=ground.trusted,
            attended=wishes.attended,
            patience=ground.settings.permissions.patience,
            pauses=Pauses(wishes.pace.clock),
        )

    async def _setup(
        self, id_: SessionId, ground: Ground, past: Past, wishes: Wishes, cage: Cage
    ) -> Setup:
        options = model_options(ground.settings)
        name = wishes.model or past.model or await choose(self._environment, options)
        toolbox = await asyncio.to_thread(_toolbox, wishes)
        make: Callable[[str], Model] = wishes.make_model or (
            lambda other: make_model(other, self._environment, options)
        )
        return Setup(
            model=await asyncio.to_thread(make, name),
            make_model=make,
            models=await asyncio.to_thread(offered_models, self._environment, options),
            effort=wishes.effort or past.effort or ground.settings.effort,
            system_prompt="\n\n".join(filter(None, (ground.system_prompt, wishes.system_prompt))),
            toolbox=toolbox,
            workspace=Workspace(
                system=cage,
                contain=cage.terminals_for,
                home=self._environment.get("HOME", ""),
                project=ground.project,
                session=id_,
                options=tool_options(ground.settings),
            ),
            limits=limits_of(ground.settings),
            context=ground.settings.context,
            checkpoints=self._places.state if ground.settings.checkpoints.enabled else None,
            checkpoint_patience=ground.settings.checkpoints.patience,
            find_sandbox=cage.sandbox,
            pace=wishes.pace,
            hear=find_telemetry(),
        )


def _toolbox(wishes: Wishes) -> Toolbox:
    """The tools of a session; their texts are read here, in a thread."""
    toolbox = Toolbox(wishes.make_tools())
    if wishes.tools is not None:
        toolbox = toolbox.only(name for name in wishes.tools if not name.startswith("mcp__"))
    assert toolbox.specs is not None
    return toolbox
