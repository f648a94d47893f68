"""A fleet of agents that are made of a script: no process, every prompt a command."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from quarterdeck.config.places import Places
from quarterdeck.drivers.driver import Capabilities, DriverSession, DriverSessionOptions, EventSink
from quarterdeck.drivers.enforcement import ALL, Enforcement
from quarterdeck.drivers.link import AGENT_OPTIONS, AgentExit, LinkHost, StartedAgent, TurnOutcome
from quarterdeck.drivers.open_session import start_session
from quarterdeck.drivers.session import LinkSession
from quarterdeck.fleet.agent_runner import AgentStart
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAsked,
    QuestionAsked,
    ToolCallEnded,
    ToolCallStarted,
    UsageReported,
)
from quarterdeck.wire.ids import ToolCallId, new_request_id
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.usage import Cost, TokenUsage

__all__ = ["Casting", "PlayedLink", "events_of", "fleet_of", "new_agent", "places_in"]

OPTIONS = (
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
)


class PlayedLink:
    """An agent whose prompts are commands.

    ``say X``, ``ask X`` (leave for a command), ``question X``, ``wait`` (to be interrupted),
    ``stubborn`` (is not), ``sneak PATH`` (unasked), ``stream N``, ``fail``, ``crash``,
    ``tokens N``, ``total N``, ``cost N``.
    """

    transport = "played"

    def __init__(self, start: AgentStart, casting: "Casting") -> None:
        self.capabilities = Capabilities(
            asks=True,
            resumes=True,
            forks=True,
            sets_model=True,
            steers=start.spawn.options.agent != "pi",
        )
        self.start_ = start
        self.casting = casting
        self.told: list[str] = []
        self.host: LinkHost
        self.interrupted = asyncio.Event()
        self.gone = asyncio.Event()

    supported_options = AGENT_OPTIONS

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        return Enforcement(asks=ALL, left=frozenset())

    async def start(self, host: LinkHost) -> StartedAgent:
        self.host = host
        self.casting.links.append(self)
        await self.casting.starting(self)
        opening = host.opening
        own = (
            opening.options.resume if opening.options.resume and not opening.options.fork else None
        )
        return StartedAgent(
            agent_session=own or f"own-{len(self.casting.links)}", agent_version="1"
        )

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        assert isinstance(content[0], TextContent)
        words = content[0].text
        self.told.append(words)
        self.interrupted.clear()
        command, _, rest = words.partition(" ")
        acts = {
            "ask": self._ask,
            "question": self._question,
            "sneak": self._sneak,
            "wait": self._wait,
            "stubborn": self._stubborn,
            "stream": self._stream,
            "fail": self._fail,
            "crash": self._crash,
            "tokens": self._tokens,
            "total": self._total,
            "cost": self._cost,
        }
        act = acts.get(command)
        if act is not None:
            return await act(rest)
        await self._say(words)
        return TurnOutcome(stop="end_turn")

    async def _say(self, words: str) -> None:
        await self.host.emit(MessageChunk(content=text(words)))

    async def _ask(self, title: str) -> TurnOutcome:
        question = PermissionAsked(
            request=new_request_id(),
            call=ToolCallId(f"call-{new_request_id()}"),
            title=title,
            options=OPTIONS,
            kind="execute",
            raw_input={"command": title or "rm x"},
        )
        verdict = await self.host.permit(question)
        await self._say("allowed" if verdict.allowed else "denied")
        return TurnOutcome(stop="cancelled" if verdict.cancelled else "end_turn")

    async def _sneak(self, path: str) -> TurnOutcome:
        """Claim to have changed a file that nobody was asked about."""
        call = ToolCallId(f"call-{new_request_id()}")
        named = {"file_path": path}
        start = ToolCallStarted(call=call, title=f"Write {path}", kind="edit", raw_input=named)
        await self.host.emit(start)
        await self.host.emit(ToolCallEnded(call=call, status="completed"))
        return TurnOutcome(stop="end_turn")

    async def _question(self, words: str) -> TurnOutcome:
        answered = await self.host.ask(QuestionAsked(request=new_request_id(), text=words))
        await self._say(f"{answered.action} {answered.content}")
        return TurnOutcome(stop="end_turn")

    async def _wait(self, _: str) -> TurnOutcome:
        await self._say("waiting")
        await self.interrupted.wait()
        return TurnOutcome(stop="cancelled")

    async def _stubborn(self, _: str) -> TurnOutcome:
        await self._say("never")
        await self.gone.wait()
        raise LinkBrokenError("the pipe is broken")

    async def _stream(self, number: str) -> TurnOutcome:
        for n in range(int(number)):
            await self._say(f"{n} ")
            await asyncio.sleep(0)
        return TurnOutcome(stop="end_turn")

    async def _fail(self, reason: str) -> TurnOutcome:
        return TurnOutcome(stop="failed", reason=reason or "it failed")

    async def _crash(self, _: str) -> TurnOutcome:
        error = LinkBrokenError("it crashed", exit_code=3)
        self.host.lost(error)
        raise error

    async def _tokens(self, number: str) -> TurnOutcome:
        usage = TokenUsage(input=int(number), output=1)
        return TurnOutcome(stop="end_turn", usage=usage, cost=Cost(amount=0.5, currency="USD"))

    async def _total(self, number: str) -> TurnOutcome:
        total = TokenUsage(input=int(number))
        await self.host.emit(UsageReported(session_tokens=total))
        return TurnOutcome(stop="end_turn", usage=total)

    async def _cost(self, number: str) -> TurnOutcome:
        cost = Cost(amount=float(number), currency="USD")
        await self.host.emit(UsageReported(session_cost=cost))
        return TurnOutcome(stop="end_turn")

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        assert isinstance(content[0], TextContent)
        self.told.append(f"steered: {content[0].text}")
        return True

    async def interrupt(self) -> None:
        self.interrupted.set()

    async def set_mode(self, mode: str) -> None:
        raise AssertionError(mode)

    async def set_model(self, model: str) -> None:
        self.told.append(f"model={model}")

    async def set_option(self, option: str, value: str | bool) -> None:
        self.told.append(f"{option}={value}")

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        return ()

    async def end(self) -> AgentExit | None:
        self.gone.set()
        self.interrupted.set()
        return AgentExit(exit_code=0)


class Casting:
    """Opens played agents; a test may hold or fail the start of some."""

    def __init__(self) -> None:
        self.links: list[PlayedLink] = []
        self.make: type[PlayedLink] = PlayedLink
        self.failure: Exception | None = None
        self.hold: asyncio.Event | None = None
        """When set: no agent starts until this event is set."""
        self.starting_now = asyncio.Event()

    async def starting(self, link: PlayedLink) -> None:
        self.starting_now.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.failure is not None:
            raise self.failure

    async def __call__(self, start: AgentStart, sink: EventSink) -> DriverSession:
        session = LinkSession(
            start.session, start.spawn.options.agent, start.opening, sink, start.gate, start.around
        )
        await start_session(session, [lambda: self.make(start, self)], is_known=start.is_known)
        return session


def places_in(home: Path) -> Places:
    return Places.find({"QUARTERDECK_HOME": str(home)})


@asynccontextmanager
async def fleet_of(
    home: Path, casting: Casting | None = None, **options: Any
) -> AsyncGenerator[LocalFleet]:
    """A fleet of played agents whose log is in this home."""
    opener = casting or Casting()
    async with LocalFleet.open(places_in(home), {}, open_session=opener, **options) as fleet:
        yield fleet


def new_agent(cwd: Path, agent: str = "claude", **fields: Any) -> SpawnOptions:
    return SpawnOptions.of(agent=agent, cwd=str(cwd), **fields)


async def events_of(
    fleet: LocalFleet, agent: str, keep: Callable[[Event], bool] = lambda _: True
) -> list[Event]:
    """Everything in the log about an agent."""
    events: list[Event] = []
    after = 0
    while records := await fleet.read(agent, after=after, limit=10_000):
        events += [record.event for record in records if keep(record.event)]
        after = records[-1].seq
    return events
