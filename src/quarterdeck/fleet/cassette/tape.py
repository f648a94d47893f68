"""A run of another agent that is recorded on a cassette, or played from one."""

import secrets
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from quarterdeck.drivers.agent_description import Agent
from quarterdeck.system.environment import child_environment
from quarterdeck.wire.event_text import describe_content
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAnswered,
    SessionOpened,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.redaction import find_secret_variables
from quarterdeck.wire.session_options import SessionOptions

from ..meter.api import CallEnd, CallPlayer, CallRecorder, CallRefusal, MeteredRequest
from ..meter.route import MeterRoute, make_route
from ..meter.server import serve_meter
from .file import Cassette, CassetteError
from .player import CassettePlayer
from .recorder import CassetteRecorder
from .request_parts import PlainForm

if TYPE_CHECKING:
    from quarterdeck.agent.replay.check import ReplayReport

    from ..meter.exchange import MeterSeat
    from ..meter.upstream import Upstream

__all__ = ["CassetteTape", "describe_transcript", "open_player", "open_recorder"]

_NOWHERE = "http://127.0.0.1:9"
_PLACEHOLDER = "replayed-from-a-cassette"
"""For keys that are not set: the agent needs one, and it reaches nobody."""


class _TapeSeat(Struct, kw_only=True):
    """The agent at its own meter; a ``MeterSeat``."""

    upstreams: "Mapping[str, Upstream]"
    is_exposed: bool
    recorder: CallRecorder | None = None
    player: CallPlayer | None = None

    async def begin(self, request: MeteredRequest) -> CallRefusal | None:
        """Every call may be made: `run` has no budget that could refuse."""
        return None

    def finish(self, request: MeteredRequest, end: CallEnd) -> None:
        """Nothing is counted."""

    def pass_other(self) -> None:
        """Nothing is counted."""


class CassetteTape:
    """What a run needs of a cassette: where the agent is pointed, and what came of it."""

    def __init__(
        self,
        form: PlainForm,
        *,
        recorder: CassetteRecorder | None = None,
        player: CassettePlayer | None = None,
    ) -> None:
        self.report: ReplayReport | None = None
        """Of a rerun, once it is over."""
        self._form = form
        self._recorder = recorder
        self._player = player

    @asynccontextmanager
    async def lead(
        self, agent: Agent, options: SessionOptions, environment: Mapping[str, str]
    ) -> AsyncGenerator[MeterRoute]:
        """Listen while the agent runs; gives what has to be set for it.

        Raises:
            CassetteError: the agent cannot be led here, or the cassette is of another.
        """
        own = dict(options.variables)
        if self._player is not None:
            agent, own = _offline(agent, self._player.cassette, own, environment)
        token = secrets.token_urlsafe(24)
        seat: _TapeSeat | None = None
        async with serve_meter(lambda one: seat if one == token else None, environment) as server:
            route = make_route(agent, f"{server.address}/{token}", own, environment)
            if route is None:
                raise CassetteError(
                    f"the model calls of {agent.name} cannot be led to a cassette: its file has no "
                    "way to, or its base URL is not known; docs/meter.md says what to add"
                )
            seat = _TapeSeat(
                upstreams=route.upstreams,
                is_exposed=bool(route.arguments),
                recorder=self._recorder,
                player=self._player,
            )
            added = {name: one for name, one in own.items() if name not in options.variables}
            if self._recorder is not None:
                inherit = (*agent.inherit, *agent.login.variables)
                seen = child_environment(own, inherit, source=environment)
                keys = {name for name in agent.login.variables if seen.get(name)}
                names = sorted(keys | options.environment.keys())
                await self._recorder.start(options, route.upstreams, names)
            yield structs.replace(route, environment={**added, **route.environment})

    async def add_prompt(self, text: str) -> None:
        """A turn begins."""
        for one in (self._recorder, self._player):
            if one is not None:
                await one.add_prompt(text)

    async def settle(self) -> None:
        """The last turn is over: give calls that are left some seconds."""
        for one in (self._recorder, self._player):
            if one is not None:
                await one.settle()

    async def finish(self, session: SessionId, records: Iterable[Record]) -> None:
        """The agent has ended: write the cassette, or compare. Raises CassetteError."""
        kept = list(records)
        lines = tuple(self._form.text(line) for line in describe_transcript(kept))
        opened = next((r.event for r in kept if isinstance(r.event, SessionOpened)), None)
        if self._recorder is not None:
            transport = opened.transport if opened is not None else None
            version = opened.agent_version if opened is not None else None
            await self._recorder.finish(lines, transport, version)
        if self._player is not None:
            self._note_version(opened)
            self.report = self._player.report(session, lines)

    async def close(self) -> None:
        """Let go of the file."""
        if self._recorder is not None:
            await self._recorder.close()
        if self._player is not None:
            self._player.cassette.close()

    def _note_version(self, opened: SessionOpened | None) -> None:
        assert self._player is not None
        then = self._player.cassette.end.agent_version
        now = opened.agent_version if opened is not None else None
        if then and now and then != now:
            note = f"it was recorded with version {then} of the agent; this is {now}"
            self._player.notes[note] = None


def open_recorder(
    path: Path, options: SessionOptions, environment: Mapping[str, str]
) -> CassetteTape:
    """A tape that is recorded; blocks. Raises CassetteError."""
    form = _make_form(options, environment)
    return CassetteTape(form, recorder=CassetteRecorder(path, form))


def open_player(
    cassette: Cassette, options: SessionOptions, environment: Mapping[str, str]
) -> CassetteTape:
    """A tape that is played; blocks.

    Raises:
        CassetteError: it is of another agent.
    """
    head = cassette.head
    if head.agent != options.agent:
        raise CassetteError(
            f"{str(cassette.path)!r} is a cassette of {head.agent!r} and cannot answer "
            f"{options.agent!r}: record one with `quarterdeck run -a {options.agent} --record FILE`"
        )
    form = _make_form(options, environment)
    player = CassettePlayer(cassette, form)
    if head.mode is not None and options.mode != head.mode:
        player.notes[f"it was recorded with --mode {head.mode}; give it to run it the same"] = None
    keys = find_secret_variables(dict.fromkeys(head.variables, _PLACEHOLDER))
    for name in head.variables:
        if name not in keys and name not in options.environment:
            player.notes[f"it was recorded with -e {name}; give it to run it the same"] = None
    return CassetteTape(form, player=player)


def _make_form(options: SessionOptions, environment: Mapping[str, str]) -> PlainForm:
    whole = {**environment, **options.variables}
    return PlainForm(
        cwd=options.cwd,
        home=whole.get("HOME", ""),
        secrets=find_secret_variables(whole),
    )


def _offline(
    agent: Agent, cassette: Cassette, own: dict[str, str], environment: Mapping[str, str]
) -> tuple[Agent, dict[str, str]]:
    """The agent with the recorded addresses alone, and a placeholder for each missing key."""
    head = cassette.head
    missing = [name for name in head.endpoints if name not in agent.meter]
    if missing:
        raise CassetteError(
            f"the file of {agent.name} has no address {missing[0]!r} below [meter], to which "
            f"{str(cassette.path)!r} answers; docs/meter.md says how to add it"
        )
    meter = {
        name: structs.replace(agent.meter[name], requires="", upstream=_NOWHERE)
        for name in head.endpoints
    }
    seen = child_environment(own, agent.login.variables, source=environment)
    keys = find_secret_variables(dict.fromkeys(head.variables, _PLACEHOLDER))
    added = {name: one for name, one in keys.items() if not seen.get(name)}
    return structs.replace(agent, meter=meter), {**added, **own}


def describe_transcript(records: Iterable[Record]) -> Iterator[str]:
    """What an agent wrote and did, as lines, without how a text was cut into pieces."""
    words: list[str] = []
    for record in records:
        event = record.event
        if isinstance(event, MessageChunk):
            words.append(describe_content(event.content))
            continue
        line = _describe(event)
        if line is not None:
            if words:
                yield f"says: {''.join(words)}"
                words.clear()
            yield line
    if words:
        yield f"says: {''.join(words)}"


def _describe(event: object) -> str | None:
    match event:
        case ToolCallStarted():
            return f"calls: {event.title}"
        case ToolCallEnded():
            return f"call ends: {event.status}"
        case PermissionAnswered():
            return f"permission: {event.kind or 'none'}"
        case TurnEnded():
            return f"turn ends: {event.stop}" + (f": {event.reason}" if event.reason else "")
        case _:
            return None


if TYPE_CHECKING:
    from typing import cast

    _seat: MeterSeat = cast("_TapeSeat", None)
