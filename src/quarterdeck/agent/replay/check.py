"""Runs our own agent again on a recorded session, and reports where it differs."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.models.catalogue import profile_of
from quarterdeck.models.model import ModelInfo
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.modes import SandboxState
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    ChildStarted,
    CommandStarted,
    GoalSet,
    NoticePosted,
    Prompted,
    Redone,
    Rewound,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions

from ..environment import SessionEnvironment, model_options
from ..native import NativeAgent, NativeSessionOptions
from ..ports import SessionClock
from ..resume import ResumeState
from ..session import Session
from ..session_setup import SessionSetup
from ..session_store import NoSuchSessionError
from ..session_system import SessionSystem
from ..tools.tool import Tool
from ..tools.toolbox import LazyTool, shipped_tools
from .conductor import Conductor, Divergence
from .recorded_run import RecordedItem, Recording, split_runs
from .recorded_tools import RecordedServers, RecordedSystem, make_recorded_tools
from .stand_ins import (
    RecordedHooks,
    RecordedInstructions,
    RecordedModel,
    ReplayGate,
    was_attended,
)

__all__ = ["ReplayChanges", "ReplayError", "ReplayReport", "check_session", "read_family"]

_END = 10.0
"""Seconds that a session may take to close."""


class ReplayError(QuarterdeckError):
    """A session cannot be replayed; the message says why."""


class ReplayChanges(Struct, frozen=True, kw_only=True):
    """What is to be different in a replay; nothing by default."""

    allow: tuple[str, ...] = ()
    """Further rules."""
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    mode: str | None = None
    """Another permission mode from the beginning."""
    model: str | None = None
    """Another model: its window and limits count, the recorded answers stay."""
    system_prompt: str | None = None
    """Added to the system prompt."""
    tools: tuple[Tool | LazyTool, ...] | None = None
    """In place of those that come with the program."""
    settings: Mapping[str, Any] = {}
    """Settings that outrank every file, as nested tables."""


class ReplayReport(Struct, frozen=True, kw_only=True):
    """What came of a replay."""

    session: SessionId
    runs: int
    steps: int
    """Model calls that were replayed, those of sub-agents included."""
    compared: int
    """Events and requests that were compared."""
    divergences: tuple[Divergence, ...] = ()
    notes: tuple[str, ...] = ()
    """What was not replayed or compared, and why."""

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.divergences


async def read_family(journal: Journal, session: SessionId) -> list[Record]:
    """The records of a session and of all sub-agents that it started, in their order.

    Raises:
        NoSuchSessionError: the log has none of that id.
    """
    wanted, found = [session], list[Record]()
    while wanted:
        own = [record async for record in journal.history(session=wanted.pop())]
        wanted += (r.event.child for r in own if isinstance(r.event, ChildStarted))
        found += own
    if not found:
        raise NoSuchSessionError(session)
    return sorted(found, key=lambda record: record.seq)


async def check_session(
    session: SessionId,
    records: Iterable[Record],
    *,
    places: Places,
    environment: Mapping[str, str],
    changes: ReplayChanges | None = None,
) -> ReplayReport:
    """Replay a recorded session and compare every step.

    Settings, rules and instructions are those of now; model answers, tool results, answers of
    people and effects of hooks are the recorded ones. The disk of the session is not touched.

    Raises:
        ReplayError: it is no session of our own agent, or too little of it was recorded.
    """
    kept = list(records)
    _expect_native(session, kept)
    runs = split_runs(session, kept)
    wanted = changes or ReplayChanges()
    reports = [await _replay_run(run, places, environment, wanted) for run in runs]
    return ReplayReport(
        session=session,
        runs=len(runs),
        steps=sum(len(a) for run in runs for a in run.answers.values()),
        compared=sum(one.compared for one in reports),
        divergences=tuple(found for one in reports for found in one.divergences),
        notes=tuple(dict.fromkeys(note for one in reports for note in one.notes)),
    )


def _expect_native(session: SessionId, records: list[Record]) -> None:
    opened = next(
        (r.event for r in records if r.session == session and isinstance(r.event, SessionOpened)),
        None,
    )
    if opened is None:
        raise ReplayError(f"session {session!r} cannot be replayed: its beginning is not recorded")
    if opened.agent != "native":
        raise ReplayError(
            f"session {session!r} is of {opened.agent}: only sessions of our own agent can be "
            "run again; `quarterdeck replay` without --check plays any session"
        )
    if opened.parent_session is not None:
        raise ReplayError(
            f"session {session!r} is a sub-agent; replay the session that started it: "
            f"{opened.parent_session}"
        )
    if opened.forked_from is not None:
        raise ReplayError(
            f"session {session!r} is a fork of {opened.forked_from}: where its own part begins is "
            "not recorded; replay that session"
        )


async def _replay_run(
    run: Recording, places: Places, environment: Mapping[str, str], changes: ReplayChanges
) -> Conductor:
    conductor = Conductor(run)
    _note_gaps(conductor)
    async with _scratch_places(places, run) as scratch:
        agent = _ReplayAgent(scratch, environment, conductor, changes)
        try:
            session = await agent.start()
            conductor.session = session
            await _Player(conductor, session).play()
        finally:
            await conductor.tasks.close()
            async with asyncio.timeout(_END):
                await agent.__aexit__()
    return conductor


@asynccontextmanager
async def _scratch_places(places: Places, run: Recording) -> AsyncGenerator[Places]:
    """Places for one replay: settings and trust as they are, everything else new and empty."""
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="quarterdeck-replay-")
    try:
        root = Path(folder)
        await asyncio.to_thread(_copy_state, places, root / "state", run)
        yield Places(
            config=places.config, state=root / "state", cache=root / "cache", runtime=root / "run"
        )
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _copy_state(places: Places, state: Path, run: Recording) -> None:
    """Take over which directories are trusted, and the grants from before the run."""
    state.mkdir(mode=0o700)
    if places.trust_file.is_file():
        shutil.copyfile(places.trust_file, state / places.trust_file.name)
    grants = places.state / "grants.json"
    if grants.is_file() and run.records:
        from quarterdeck.policy.grants import grants_from_json, grants_to_json

        began = run.records[0].time
        kept = [one for one in grants_from_json(grants.read_bytes()) if one.created < began]
        (state / "grants.json").write_bytes(grants_to_json(kept))


def _note_gaps(conductor: Conductor) -> None:
    """Say beforehand what of this recording is not replayed."""
    notes, run = conductor.notes, conductor.recording
    if run.is_cut:
        notes["the recording ends within a turn: it is replayed up to there"] = None
    for event in run.events():
        if isinstance(event, Rewound | Redone):
            notes["undo, redo and rewind were taken from the recording: files are not as then"] = (
                None
            )
        if isinstance(event, CommandStarted):
            notes["commands that a person ran were left out: the agent has no part in them"] = None
    names = [call.started.name or "" for call in run.calls.values() if call.started is not None]
    if any(name.startswith("mcp__") for name in names):
        notes["tools of MCP servers were not prepared: their calls are as recorded"] = None


class _ReplayAgent(NativeAgent):
    """Our own agent, with everything outside of it replaced."""

    def __init__(
        self,
        places: Places,
        environment: Mapping[str, str],
        conductor: Conductor,
        changes: ReplayChanges,
    ) -> None:
        super().__init__(places, environment)
        self._conductor = conductor
        self._changes = changes
        self._run = conductor.recording
        self._figures: Mapping[str, Mapping[str, Any]] = {}

    async def start(self) -> Session:
        """Begin the recorded run."""
        options = await asyncio.to_thread(self._options)
        run = self._run
        first = next(r.event for r in run.records if r.session == run.root)
        if isinstance(first, SessionOpened):
            options = options.at(first.cwd, first.roots)
            options = options.with_options(
                model=self._changes.model or first.model, mode=self._changes.mode or first.mode
            )
            return await self.new(options, id_=run.root)
        async with self._store.create(run.root) as journal:
            for record in run.earlier:
                await journal.append(record.session, record.event, turn=record.turn)
        return await self.load(run.root, options=options)

    def _options(self) -> NativeSessionOptions:
        conductor, run, changes = self._conductor, self._run, self._changes
        given = _started_with(run)
        own = changes.tools if changes.tools is not None else tuple(shipped_tools())
        tools = make_recorded_tools(conductor, own)
        assert all(tool.description is not None for tool in tools)  # read here, in a thread
        prompt = "\n\n".join(filter(None, (given.system_prompt, changes.system_prompt)))
        wanted = given.tools if given.tools is not None else tuple(tool.name for tool in tools)
        options = replace(
            given,
            tools=tuple(name for name in wanted if not name.startswith("mcp__")),
            denied_tools=tuple(n for n in given.denied_tools if not n.startswith("mcp__")),
            mcp_servers=(),
            system_prompt=prompt or None,
            allow=(*given.allow, *changes.allow),
            deny=(*given.deny, *changes.deny),
            limits=replace(given.limits, seconds=None),
            mode=changes.mode,
            model=changes.model,
        )
        return NativeSessionOptions(
            options=options,
            rules=_ask_rules(changes.ask),
            flags={**changes.settings, "checkpoints": {"enabled": False}},
            attended=was_attended(run.events()),
            make_system=lambda roots, _: RecordedSystem(roots, _sandbox_of(run)),
            make_tools=lambda: tools,
            make_model=self._make_model,
            pace=SessionClock(sleep=_no_wait),
        )

    def _make_model(self, name: str) -> RecordedModel:
        vendor, _, id_ = name.partition("/")
        known = vendor != "scripted" or name in self._figures
        info = profile_of(vendor, id_, self._figures).info if known else _scripted_info(id_)
        if (window := self._run.windows.get(name)) is not None:
            info = structs.replace(info, window=window)
        return RecordedModel(self._conductor, info)

    async def _gate(
        self,
        session_environment: SessionEnvironment,
        past: ResumeState,
        options: NativeSessionOptions,
        system: SessionSystem,
    ) -> Gate:
        gate = await super()._gate(session_environment, past, options, system)
        fields: dict[str, Any] = {name: getattr(gate, name) for name in Gate.__struct_fields__}
        fields["patience"] = None
        return ReplayGate(**fields, conductor=self._conductor)

    async def _setup(
        self,
        id_: SessionId,
        session_environment: SessionEnvironment,
        past: ResumeState,
        options: NativeSessionOptions,
        system: SessionSystem,
    ) -> SessionSetup:
        self._figures = model_options(session_environment.settings).models
        return await super()._setup(id_, session_environment, past, options, system)

    async def _assemble(
        self,
        id_: SessionId,
        journal: Journal,
        past: ResumeState,
        options: NativeSessionOptions,
        stack: AsyncExitStack,
    ) -> Session:
        whole = (*self._run.earlier, *self._run.records)
        past.began = next(record.time for record in whole if record.session == id_)
        session = await super()._assemble(id_, journal, past, options, stack)
        setup: SessionSetup = session.setup
        setup.hooks = RecordedHooks(self._conductor)
        setup.servers = RecordedServers(self._conductor)
        setup.instructions = RecordedInstructions(root=Path("/"), conductor=self._conductor)
        setup.hear = self._conductor.hear
        return session


def _started_with(run: Recording) -> SessionOptions:
    """The options of a run, as far as the log has them."""
    for record in run.records:
        event = record.event
        if record.session == run.root and isinstance(event, SessionOpened | SessionResumed):
            if event.options is not None:
                return event.options.without_missing()
            break
    for record in reversed(run.earlier):
        if record.session == run.root and isinstance(record.event, SessionSpawned):
            given = record.event.options.without_missing()
            return SessionOptions(
                allow=given.allow,
                deny=given.deny,
                tools=given.tools,
                denied_tools=given.denied_tools,
                system_prompt=given.system_prompt,
                limits=given.limits,
                effort=given.effort,
            )
    return SessionOptions()


def _ask_rules(texts: tuple[str, ...]) -> tuple[Any, ...]:
    from quarterdeck.policy.grammar import parse_pattern
    from quarterdeck.policy.rules import Rule, RuleSource

    source = RuleSource(origin="flag", where="given to the replay")
    return tuple(
        Rule(effect="ask", pattern=parse_pattern(text), scope="session", source=source)
        for text in texts
    )


def _sandbox_of(run: Recording) -> SandboxState:
    """The sandbox then, as the notice about it says."""
    titles = [event.title for event in run.events() if isinstance(event, NoticePosted)]
    is_there = any(title.startswith("Commands run in a sandbox") for title in titles)
    return SandboxState(in_force=is_there)


def _scripted_info(name: str) -> ModelInfo:
    return ModelInfo(vendor="scripted", id=name, window=200_000, max_output=32_000, thinking=True)


async def _no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


class _Player:
    """Gives a session its recorded prompts."""

    def __init__(self, conductor: Conductor, session: Session) -> None:
        self._conductor = conductor
        self._session = session

    async def play(self) -> None:
        """Run all turns, then wait for what is left."""
        conductor = self._conductor
        own = conductor.recording.of_session.get(conductor.recording.root, [])
        for item in list(own):
            if item.is_done or conductor.is_over:
                continue
            if (act := self._act(item)) is not None:
                await conductor.reach(item.index)
                if not item.is_done:
                    await act()
        conductor.poke()
        await conductor.reach_end()

    def _act(self, item: RecordedItem) -> Callable[[], Coroutine[Any, Any, None]] | None:
        match item.record.event:
            case GoalSet() as event:
                return lambda: self._pursue(event)
            case Prompted(steers=False) as event if item.record.turn is not None:
                if self._is_move(item):
                    return lambda: self._take_over(item)
                return lambda: self._prompt(item, event)
            case _:
                return None

    async def _prompt(self, item: RecordedItem, event: Prompted) -> None:
        session = self._session
        own = session.setup.limits
        session.setup.limits = _recorded_limits(own, self._end_of(item))
        try:
            await session.prompt(
                event.content, origin=event.origin, sender=event.sender, message=event.message
            )
        finally:
            session.setup.limits = own

    async def _pursue(self, event: GoalSet) -> None:
        from ..goals.pursuit import pursue_goal
        from ..goals.state import GoalBudget

        if event.seconds is not None:
            note = "the time that a goal has left is not as then: its prompts may name another"
            self._conductor.notes[note] = None
        budget = GoalBudget(
            tokens=event.tokens, cost=event.cost, seconds=event.seconds, turns=event.turns
        )
        await pursue_goal(self._session, event.goal, budget)

    def _end_of(self, item: RecordedItem) -> TurnEnded | None:
        for one in self._conductor.recording.following(item):
            if isinstance(one.record.event, TurnEnded):
                return one.record.event
        return None

    def _is_move(self, item: RecordedItem) -> bool:
        """Whether a command of this turn needs the files of then: undo, rewind …"""
        event = item.record.event
        assert isinstance(event, Prompted)
        if event.model_content != ():
            return False
        words = " ".join(getattr(block, "text", "") for block in event.content)
        return words.startswith(("/undo", "/redo", "/rewind", "/changes"))

    async def _take_over(self, item: RecordedItem) -> None:
        """Take the events of a turn from the recording."""
        conductor, session = self._conductor, self._session
        turn, last = item.record.turn, session.last_seq
        for record in conductor.recording.records:
            if record.session == item.session and _belongs(record, item, turn, conductor):
                event = record.event
                if isinstance(event, Rewound):
                    known = conductor.turns
                    files = tuple(known.get(one, one) for one in event.files)
                    event = replace(event, to=known.get(event.to, event.to), files=files)
                last = (await session.journal.append(session.id, event, turn=turn)).seq
        for one in list(conductor.recording.of_session[item.session]):
            if one.record.turn == turn:
                conductor.skip(one)
        await session.reload_conversation(last)


def _belongs(record: Record, item: RecordedItem, turn: Any, conductor: Conductor) -> bool:
    if record.turn == turn:
        return True
    end = next(
        (
            one.record.seq
            for one in conductor.recording.following(item)
            if isinstance(one.record.event, TurnEnded)
        ),
        item.record.seq,
    )
    is_move = isinstance(record.event, Rewound | Redone)
    return is_move and item.record.seq < record.seq < end


_LIMITS = (
    ("model_calls", re.compile(r"(\d+) model calls in one turn")),
    ("tokens", re.compile(r"(\d+) tokens in one turn")),
    ("cost", re.compile(r"a cost of ([\d.e-]+) USD in one turn")),
    ("repeats", re.compile(r"no progress: .* results (\d+) times")),
)


def _recorded_limits(own: Any, ended: TurnEnded | None) -> Any:
    """The limits of a turn: the one that ended it then ends it now."""
    own = replace(own, seconds=None)
    for name, pattern in _LIMITS:
        found = pattern.fullmatch(ended.reason or "") if ended is not None else None
        if found is not None:
            number = float(found[1])
            return replace(own, **{name: number if name == "cost" else int(number)})
    return own
