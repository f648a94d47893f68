"""The context of a fleet tool call: the calling agent, its reach, messages and notices.

A notice is a prompt: it wakes a lead that is idle and waits for one that works. A lead gets no
notice about a result that ``wait_for`` returned or an end that it caused itself.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from quarterdeck.journal import JournalClosedError
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.tasks import start_task

from ..agent_entry import AgentEntry
from ..api import AgentInfo, Fleet
from ..errors import NoSuchAgentError, NotAChildError
from ..inbox import AgentQuestions
from ..live_index import LiveIndex
from ..permissions.delegation import DelegationLimits, find_child
from .agent_text import (
    NOT_A_PERSON,
    AgentMessageKind,
    describe_agent,
    extract_prompt_text,
    frame_agent_message,
)
from .transcript import last_words

__all__ = [
    "CompletionNotices",
    "DeliveredMessage",
    "FleetToolContext",
    "FleetToolServices",
    "PlanDraft",
    "PlanStarter",
    "collect_messages",
    "deliver_message",
    "is_done",
    "is_notice",
]

log = logging.getLogger(__name__)

_LAST_WORDS = 2_000
_FRAME = re.compile(r'^<message-from-agent name="[^"]*" kind="done">$', re.MULTILINE)


def is_done(entry: AgentEntry) -> bool:
    """Whether an agent has come to the end of what it was given."""
    if not entry.is_started:
        return True
    return entry.state in ("idle", "interrupted", "failed") and not entry.queue


def is_notice(words: str) -> bool:
    """Whether a prompt is one of ours; no agent can write such a frame itself."""
    return _FRAME.search(words) is not None


class CompletionNotices:
    """Who is watched for which agent; ``close`` it."""

    def __init__(self) -> None:
        self._watching: dict[SessionId, asyncio.Task[None]] = {}
        self._awaited: Counter[SessionId] = Counter()
        self._known: dict[SessionId, int] = {}
        """The record up to which a lead knows how its agent stands."""

    def watch(self, seat: "FleetToolContext", child: SessionId) -> None:
        """Tell the agent of this seat whenever the child is done, until the child has ended."""
        task = start_task(self._watch(seat, child), name=f"notices of {child}")
        self._watching[child] = task
        task.add_done_callback(lambda _: self._forget(child))

    @contextmanager
    def suppress_notices(self, children: Iterable[SessionId]) -> Generator[None]:
        """No notices of these: what becomes of them is the result of a call."""
        ids = tuple(children)
        self._awaited.update(ids)
        try:
            yield
        finally:
            self._awaited.subtract(ids)

    def known(self, entry: AgentEntry) -> None:
        """The lead has been sent how this agent stands now."""
        if entry.session in self._watching:
            self._known[entry.session] = entry.last_seq

    def is_watched(self, child: SessionId) -> bool:
        """Whether its lead wants to be notified about it."""
        return child in self._watching

    async def close(self) -> None:
        """Watch no one any more."""
        tasks = tuple(self._watching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, seat: "FleetToolContext", child: SessionId) -> None:
        current = seat.bridge.current
        try:
            while True:
                await current.until(lambda: is_done(current.get(child)), child)
                await self._tell(seat, current.get(child))
                if not current.get(child).is_started:
                    return
                await current.until(lambda: not is_done(current.get(child)), child)
        except (NoSuchAgentError, JournalClosedError):
            return  # deleted, or the fleet ends
        except QuarterdeckError as error:
            log.info("%s is no longer notified about %s: %s", seat.session, child, error)

    async def _tell(self, seat: "FleetToolContext", entry: AgentEntry) -> None:
        child = entry.session
        if self._awaited[child] or self._known.get(child) == entry.last_seq:
            return
        info = await seat.fleet.agent(child)
        words = await last_words(seat.fleet, child, _LAST_WORDS)
        framed = frame_agent_message(
            info.name, "done", "\n".join(filter(None, (describe_agent(info, None), words)))
        )
        if self._awaited[child] or self._known.get(child) == entry.last_seq:
            return  # meanwhile
        content = (text(f"{NOT_A_PERSON}\n\n{framed}"),)
        await seat.fleet.send(seat.session, content, origin="agent", sender=child, resume=False)

    def _forget(self, child: SessionId) -> None:
        self._watching.pop(child, None)
        self._known.pop(child, None)
        self._awaited.pop(child, None)


class PlanDraft(Struct, frozen=True, kw_only=True):
    """A plan that was checked and can run."""

    name: str
    tasks: int
    text: str
    """For the person who decides: the graph, then the whole plan."""
    content: object
    """The plan itself, for the one who made this."""


class PlanStarter(Protocol):
    """Checks and starts plans; behind the fleet, which knows none. Methods block."""

    def draft(self, file: Path, inputs: Mapping[str, str]) -> PlanDraft:
        """Read and check a plan. Raises QuarterdeckError: it cannot run; says why."""
        ...

    def start(self, draft: PlanDraft, request: str) -> str:
        """Run what was drafted, after this request approved it; the name of the run.

        Raises:
            QuarterdeckError: it cannot be started.
        """
        ...


@dataclass(slots=True, kw_only=True)
class FleetToolServices:
    """What all seats share."""

    fleet: Fleet
    current: LiveIndex
    asking: AgentQuestions
    reach: DelegationLimits
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from counting agents until one more is noted."""
    coming: set[RequestId] = field(default_factory=set[RequestId])
    """Questions that are being put."""
    late: dict[RequestId, SessionId] = field(default_factory=dict[RequestId, SessionId])
    """Who put the questions that were put lately, so that a late answer still finds them."""
    notices: CompletionNotices = field(default_factory=CompletionNotices)
    plans: PlanStarter | None = None
    """Where plans are run, if they can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetToolContext:
    """One agent's."""

    bridge: FleetToolServices
    session: SessionId
    patience: float
    """Seconds that a call may take before the agent itself gives it up."""
    reported: set[str] = field(default_factory=set[str])
    """Requests for a person that ``wait_for`` has reported."""

    @property
    def fleet(self) -> Fleet:
        """The fleet."""
        return self.bridge.fleet

    @property
    def entry(self) -> AgentEntry:
        """The agent itself."""
        return self.bridge.current.get(self.session)

    async def own(self, name: str) -> AgentInfo:
        """A child, by name or id. Raises NotAChildError."""
        reach = self.bridge.reach
        try:
            found = find_child(await self.fleet.agents(), self.session, name, reach)
        except NotAChildError:
            everybody = await self.fleet.agents(archived=True)
            found = find_child(everybody, self.session, name, reach)
        return await self.fleet.agent(found.session)

    def seconds(self, wanted: float | None, usual: float) -> float:
        """How long to wait: what was asked for, as far as the agent itself waits for us."""
        return max(0.0, min(usual if wanted is None else wanted, self.patience))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredMessage:
    """Words of an agent that waited for another."""

    sender: SessionId
    words: str
    """Wrapped."""


async def deliver_message(
    seat: FleetToolContext,
    to: SessionId,
    kind: AgentMessageKind,
    words: str,
    *,
    request: str | None = None,
    hint: str = "",
) -> MessageId:
    """Give another agent a prompt that shows who wrote it.

    Raises:
        AgentNotReadyError: it is not live.
    """
    framed = frame_agent_message(seat.entry.name, kind, words, request=request)
    message = "\n\n".join(filter(None, (NOT_A_PERSON, framed, hint)))
    content = (text(message),)
    # Only a lead starts agents, and only those that it has started.
    return await seat.fleet.send(to, content, origin="agent", sender=seat.session, resume=False)


async def collect_messages(
    seat: FleetToolContext, senders: Collection[SessionId]
) -> list[DeliveredMessage]:
    """Take what waits for this agent from these; what is taken here is not prompted later."""
    info = await seat.fleet.agent(seat.session)
    letters: list[DeliveredMessage] = []
    for queued in info.queue:
        if queued.origin != "agent" or queued.sender not in senders or queued.sender is None:
            continue
        if await seat.fleet.edit(seat.session, queued.message, None):
            letters.append(
                DeliveredMessage(sender=queued.sender, words=extract_prompt_text(queued.content))
            )
    return letters
