"""Turns of a plan's agents, each sent once: found again in the log whenever the runner was killed.

The host and its agents outlive the runner. What the runner has asked for is in the log of the
fleet; so a step that is repeated first looks there, and only asks for what is not there.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import NoSuchAgentError
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAsked,
    PromptDropped,
    Prompted,
    PromptQueued,
    SessionEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId
from quarterdeck.wire.record import Record
from quarterdeck.wire.values import Value

__all__ = [
    "PATIENCE",
    "SentPrompt",
    "TurnOutput",
    "TurnResult",
    "count_permissions",
    "find_or_send",
    "find_or_spawn",
    "resume_and_repeat",
    "wait_for_turn",
]

_PAGE = 2_000
PATIENCE = 30.0
"""Seconds for which another host is waited for when one goes away."""
_LONGEST_OUTPUT = 100_000


class SentPrompt(Value, frozen=True, kw_only=True):
    """A prompt that an agent has, or had in its queue."""

    session: str
    name: str
    message: str


class TurnResult(Value, frozen=True, kw_only=True):
    """What became of a turn."""

    stop: str
    """As in ``TurnEnded``; ``gone``: its session ended before the turn did."""
    reason: str = ""
    output: str = ""
    """The last message of the agent in it."""
    seconds: float = 0.0
    seq: int = 0
    """The last record that was looked at."""
    is_queued: bool = False
    """With ``gone``: the prompt still waits; resuming the session sends it."""


async def find_or_spawn(fleet: HostClient, request: SpawnOptions) -> SentPrompt:
    """Start an agent on a prompt, or find the one of that name which has it already.

    Raises:
        QuarterdeckError: it cannot be started; nothing is in the log.
    """
    assert request.name is not None
    try:
        info = await fleet.agent(request.name)
    except NoSuchAgentError:
        info = await fleet.spawn(request)
    # The prompt is written to the log together with the agent.
    async with aclosing(_read_all(fleet, info.session)) as records:
        async for record in records:
            match record.event:
                case PromptQueued(message=message) | Prompted(message=message):
                    return SentPrompt(session=info.session, name=info.name, message=message)
                case _:
                    continue
    raise AssertionError(f"{request.name!r} was started without a prompt")


async def find_or_send(fleet: HostClient, session: str, after: int, words: str) -> SentPrompt:
    """Send a prompt, or find the same one that was sent after a position in the log."""
    info = await fleet.agent(session)
    content = (text(words),)
    async with aclosing(_read_all(fleet, session, after)) as records:
        async for record in records:
            match record.event:
                # The host may add to what it sends in the end.
                case (
                    PromptQueued(content=sent, message=message)
                    | Prompted(content=sent, message=message)
                ) if content[0] in sent:
                    return SentPrompt(session=info.session, name=info.name, message=message)
                case _:
                    continue
    message = await fleet.send(session, content, resume=False)
    return SentPrompt(session=info.session, name=info.name, message=message)


async def resume_and_repeat(
    fleet: HostClient, sent: SentPrompt, result: TurnResult, words: str
) -> SentPrompt | None:
    """Send a prompt once more whose session ended; None: the session cannot be resumed.

    One that still waits in the queue is not sent again: resuming does that.
    """
    info = await fleet.agent(sent.session)
    if not info.is_live and info.state != "starting":
        if not info.can_resume:
            return None
        await fleet.resume(sent.session)
        info = await fleet.agent(sent.session)
    if result.is_queued:
        return sent
    return await find_or_send(fleet, sent.session, result.seq, words)


class TurnOutput:
    """Reads the records of a session and puts together what one turn came to."""

    def __init__(self, message: str) -> None:
        self._message = MessageId(message)
        self._turn: str | None = None
        self._begun = 0
        self._is_prompted = False
        self._pieces: list[str] = []
        self._piece_of: str | None = None

    def take(self, record: Record) -> TurnResult | None:
        """Look at the next record; the result once the turn is over."""
        match record.event:
            case Prompted(message=message) if message == self._message:
                self._is_prompted = True
            case PromptDropped(message=message, reason=reason) if message == self._message:
                return self._end(record, "cancelled", reason or "the prompt was dropped")
            case TurnStarted(prompt=prompt) if prompt == self._message:
                self._turn, self._begun = record.turn, record.time
            case TurnEnded(stop=stop, reason=reason) if self._is_ours(record):
                return self._end(record, stop, reason or "")
            case SessionEnded(reason=reason):
                queued = not self._is_prompted
                return self._end(record, "gone", reason or "its session ended", queued)
            case MessageChunk() | ToolCallStarted() if self._is_ours(record):
                self._take_output(record)
            case _:
                pass
        return None

    def _is_ours(self, record: Record) -> bool:
        return self._turn is not None and record.turn == self._turn

    def _take_output(self, record: Record) -> None:
        match record.event:
            case MessageChunk(role="agent", content=TextContent(text=words), message=of):
                if self._pieces and of != self._piece_of:
                    self._pieces.clear()
                self._piece_of = of
                self._pieces.append(words)
            case ToolCallStarted():
                self._pieces.clear()
            case _:
                return

    def _end(self, record: Record, stop: str, reason: str, queued: bool = False) -> TurnResult:
        return TurnResult(
            stop=stop,
            reason=reason,
            output="".join(self._pieces)[-_LONGEST_OUTPUT:],
            seconds=round((record.time - self._begun) / 1e6, 3) if self._begun else 0.0,
            seq=record.seq,
            is_queued=queued,
        )


async def wait_for_turn(fleet: HostClient, sent: SentPrompt, after: int = 0) -> TurnResult:
    """Wait for the end of a turn by the log, from wherever it is.

    ``after``: where its session was resumed; an earlier end of the session does not count.

    Raises:
        NoHostError, LinkError: the host went away, and no other came.
    """
    output = TurnOutput(sent.message)
    records = fleet.follow(after, agent=sent.session, patience=PATIENCE)
    async with aclosing(records):
        async for record in records:
            if (result := output.take(record)) is not None:
                return await _settle(fleet, sent, result)
    raise AssertionError("the log has no end")


async def _settle(fleet: HostClient, sent: SentPrompt, result: TurnResult) -> TurnResult:
    """A turn that failed together with its session is gone: it did not fail by itself."""
    if result.stop not in ("failed", "cancelled"):
        return result
    info = await _at_rest(fleet, sent.session)
    if info.is_live:
        return result
    from msgspec.structs import replace

    return replace(result, stop="gone", reason=info.reason or result.reason, seq=info.last_seq)


async def _at_rest(fleet: HostClient, session: str) -> AgentInfo:
    """An agent once the end of its session, if that is what ended the turn, is in the log."""
    info = await fleet.agent(session)
    for _ in range(20):
        if not info.is_live:
            break
        await asyncio.sleep(0.01)
        info = await fleet.agent(session)
    return info


async def count_permissions(fleet: HostClient, session: str) -> int:
    """How often an agent asked for permission."""
    count = 0
    async with aclosing(_read_all(fleet, session)) as records:
        async for record in records:
            count += isinstance(record.event, PermissionAsked)
    return count


async def _read_all(fleet: HostClient, session: str, after: int = 0) -> AsyncGenerator[Record]:
    while page := await fleet.read(session, after=after, limit=_PAGE):
        for record in page:
            yield record
        after = page[-1].seq
