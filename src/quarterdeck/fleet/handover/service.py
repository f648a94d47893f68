"""Hands the work of an agent over to an agent of another vendor.

The new agent is started first, without a prompt: one that does not start leaves the old one as it
was. Then the old one is closed, its log is complete, and the brief is made from it.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quarterdeck.config.places import Places, make_private
from quarterdeck.journal.export import export_session
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import NoticePosted, SessionChanged, Severity
from quarterdeck.wire.ids import SessionId, new_message_id
from quarterdeck.wire.private_files import open_private
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionLimits, SessionOptions
from quarterdeck.wire.tasks import BackgroundTasks
from quarterdeck.wire.worktrees import WorktreeOptions

from ..agent_control import AgentLifecycle
from ..agent_entry import AgentEntry, is_own_agent
from ..api import AgentInfo, Fleet, QueuedPrompt, SpawnOptions
from ..budgets.service import BudgetService
from ..errors import AgentNotReadyError, InvalidOptionsError, NoSuchAgentError
from ..live_index import LiveIndex, LogWriter
from ..mcp.handover_tools import READ_TOOL
from ..mcp.orchestration import Orchestration, takes_tools
from ..mcp.transcript import last_words
from ..prompt_queue import PromptQueues
from ..session_factory import SessionFactory
from ..supervisor import Supervisor
from .api import HandoverBrief, HandoverOptions

__all__ = ["HandoverService"]

_log = logging.getLogger(__name__)
_PAGE = 500
_DIFF = 10_000
_MOST_EARLIER = 16
"""Hand-overs before this one whose sessions are read for the brief."""
_STARTING = 300.0
"""Seconds within which the new agent has to start."""
_SUMMARISING = 180.0
_SUMMARY_PROMPT = (
    "Another agent will continue your work. Write a summary for it: goal, what is done and what "
    "is not, decisions with their reasons, what failed, open questions. Change nothing."
)
_SUMMARY = 4_000


class HandoverService:
    """Hand-overs of a fleet; see ``Fleet`` for each method."""

    def __init__(
        self,
        fleet: Fleet,
        current: LiveIndex,
        notes: LogWriter,
        queues: PromptQueues,
        supervisor: Supervisor,
        lifecycle: AgentLifecycle,
        starting: SessionFactory,
        tools: Orchestration,
        budgets: BudgetService,
        work: BackgroundTasks,
    ) -> None:
        """Args:
        fleet: reads logs and changes.
        current: who is in the fleet.
        notes: writes to the log.
        queues: the prompts that wait.
        supervisor: ends the old agent.
        lifecycle: starts the new one.
        starting: knows agents and places.
        tools: introduces leads that take no system prompt.
        budgets: knows what the old agent may use.
        work: what is begun here is finished there, also when the caller goes away.
        """
        self._fleet = fleet
        self._current = current
        self._notes = notes
        self._queues = queues
        self._supervisor = supervisor
        self._lifecycle = lifecycle
        self._starting = starting
        self._tools = tools
        self._budgets = budgets
        self._work = work
        self._under_way: set[SessionId] = set()

    async def hand_over(self, agent: str, request: HandoverOptions) -> AgentInfo:
        """Let another agent continue the work of an agent; see ``Fleet``."""
        entry = await self._lifecycle.find(agent)
        self._check_requests(entry)
        return await self._work.finish(self.continue_with(entry.session, request))

    async def handover_brief(self, agent: str) -> HandoverBrief:
        """The brief that another agent would get now; see ``Fleet``."""
        info = await self._fleet.agent(agent)
        return await self._make_brief(info, "")

    async def continue_with(
        self, session: SessionId, request: HandoverOptions, *, reason: str | None = None
    ) -> AgentInfo:
        """Hand over what an agent is at. ``reason``: why it is done without a person.

        Raises:
            QuarterdeckError: it cannot be; the old agent is as it was.
        """
        if session in self._under_way:
            name = self._current.get(session).name
            raise AgentNotReadyError(f"{name!r} is being handed over already; wait for that")
        self._under_way.add(session)
        try:
            entry = self._current.get(session)
            await self._check(entry, request)
            new = await self._start(entry, request)
            await self._move(entry, new, request, reason)
            return self._current.info(self._current.get(new))
        finally:
            self._under_way.discard(session)

    # Before anything is changed

    def _check_requests(self, entry: AgentEntry) -> None:
        if entry.status.waits_for is not None and entry.is_started:
            raise AgentNotReadyError(
                f"{entry.name!r} waits for an answer; answer it (`quarterdeck inbox`) or interrupt "
                "it first"
            )

    async def _check(self, entry: AgentEntry, request: HandoverOptions) -> None:
        """Raise what is in the way."""
        name, status = entry.name, entry.status
        agent = await asyncio.to_thread(self._starting.find, request.to)
        is_same = agent.name == entry.spawn.options.agent
        if is_same and request.model in (None, entry.model):
            raise InvalidOptionsError(
                f"{name!r} is a {agent.name} agent already; resume or fork it, or choose another "
                "agent or model"
            )
        if status.is_archived:
            raise AgentNotReadyError(f"{name!r} is archived; unarchive it first")
        if status.phase == "starting":
            raise AgentNotReadyError(f"{name!r} is starting; wait for it")
        if request.keep and entry.state in ("running", "waiting"):
            raise AgentNotReadyError(
                f"{name!r} is {entry.state}; interrupt it first, or let it be closed"
            )
        if not entry.turns and not entry.queue and request.prompt is None:
            raise AgentNotReadyError(
                f"{name!r} has no work to hand over; start {agent.name} with `quarterdeck spawn`"
            )

    # The new agent

    async def _start(self, entry: AgentEntry, request: HandoverOptions) -> SessionId:
        """Start the new agent, and wait until it has. Raises AgentNotReadyError."""
        spawned = await self._lifecycle.spawn(self._spawn_options(entry, request))
        new = spawned.session
        reason = "it did not start in time"
        with suppress(TimeoutError):
            async with asyncio.timeout(_STARTING):
                await self._current.until(
                    lambda: self._current.get(new).status.phase != "starting", new
                )
        now = self._current.get(new)
        if now.status.is_live:
            return new
        reason = now.status.reason or reason
        await self._supervisor.archive(new)
        raise AgentNotReadyError(
            f"{request.to} did not start, so {entry.name!r} keeps its work: {reason}"
        )

    def _spawn_options(self, entry: AgentEntry, request: HandoverOptions) -> SpawnOptions:
        """The new agent works where the old one does, and may do no more."""
        old, worktree = entry.spawn.options, entry.worktree
        parent = self._current.find_parent(entry)
        if parent is not None and self._supervisor.get(parent) is None:
            parent = None  # no one is there any more whose it could be
        return SpawnOptions(
            options=SessionOptions(
                agent=request.to,
                cwd=old.cwd,
                roots=old.roots,
                worktree=WorktreeOptions(path=worktree.path)
                if worktree is not None
                else WorktreeOptions(is_off=True),
                transport=request.transport,
                model=request.model,
                mode=entry.mode or old.mode,
                allow=old.allow,
                deny=old.deny,
                tools=old.tools,
                denied_tools=old.denied_tools,
                environment=request.environment,
                limits=SessionLimits(seconds=old.limits.seconds),
            ),
            name=request.name,
            parent=parent,
            lead=entry.spawn.lead,
            budget=self._budgets.list_limits(entry.session),
            continues=entry.session,
            fallback=entry.spawn.fallback,
        )

    # The work

    async def _move(
        self, entry: AgentEntry, new: SessionId, request: HandoverOptions, reason: str | None
    ) -> None:
        """End the old agent, then give the new one its work."""
        session = entry.session
        summary = await self._ask_summary(session) if request.summary else ""
        to = self._current.get(new)
        handed = f"handed over to {to.name!r} ({to.spawn.options.agent})"
        if not request.keep:
            if self._current.get(session).is_started:
                await self._supervisor.end(session, "closed", handed)
            else:
                await self._post(session, handed, reason)
        await self._notes.settled()
        prompt = await self._compose(session, new, request, summary)
        title = self._current.get(session).title
        if title is not None:
            await self._notes.note(new, SessionChanged(title=title))
        await self._queues.add(new, prompt)
        if not request.keep:
            await self._move_queue(session, new, handed)
        await self._post(new, f"continues the work of {entry.name!r}", reason)

    async def _post(self, session: SessionId, title: str, reason: str | None) -> None:
        severity: Severity = "info" if reason is None else "warning"
        notice = NoticePosted(title=title, description=reason, severity=severity)
        await self._notes.note(session, notice)

    async def _move_queue(self, old: SessionId, new: SessionId, reason: str) -> None:
        """Queue again what waits; a prompt is dropped only where it is queued elsewhere."""
        for waiting in self._current.get(old).queue:
            prompt = self._current.words(waiting.message)
            await self._queues.add(new, replace(prompt, message=new_message_id()))
        await self._queues.drop(old, reason)

    async def _compose(
        self, old: SessionId, new: SessionId, request: HandoverOptions, summary: str
    ) -> QueuedPrompt:
        """The first prompt of the new agent: the brief, then the task as a block of its own."""
        from .brief import CONTINUE_PROMPT, compose_brief  # with our own agent's context

        brief = await self._make_brief(self._current.info(self._current.get(old)), summary)
        to = self._current.get(new)
        transcript = await self._offer_transcript(old, to)
        words = compose_brief(brief, transcript=transcript)
        task = request.prompt or CONTINUE_PROMPT
        introduction = await self._tools.introduction(to.spawn)
        lead = (text(introduction),) if introduction is not None else ()
        content: tuple[ContentBlock, ...] = (*lead, text(f"{words}\n\nYour task now:"), text(task))
        return QueuedPrompt(message=new_message_id(), content=content)

    async def _offer_transcript(self, old: SessionId, to: AgentEntry) -> str:
        """How the new agent reads the whole transcript: by a tool, or in a file."""
        options = to.spawn.options
        agent = await asyncio.to_thread(self._starting.find, options.agent)
        if is_own_agent(options) or takes_tools(agent, options.transport):
            return f"The tool {READ_TOOL} reads the whole transcript."
        try:
            path = await _write_transcript(self._fleet, self._starting.places, old)
        except (QuarterdeckError, OSError) as error:
            _log.warning("the transcript of %s is not written: %s", old, error)
            return "The whole transcript is not available."
        return f"The whole transcript is in {path} (Markdown)."

    async def _ask_summary(self, session: SessionId) -> str:
        """What the old agent says about its work; empty if it does not answer."""
        entry = self._current.get(session)
        if not entry.status.is_live or entry.state not in ("idle", "interrupted") or entry.queue:
            return ""
        content = (TextContent(text=_SUMMARY_PROMPT),)
        try:
            await self._fleet.send(session, content, origin="hook", resume=False)
            rested = await self._fleet.wait([session], timeout=_SUMMARISING)
            if not rested or rested[0].state != "idle":
                return ""
            return await last_words(self._fleet, session, _SUMMARY)
        except QuarterdeckError as error:
            _log.info("%s writes no summary: %s", session, error)
            return ""

    # The brief

    async def _make_brief(self, info: AgentInfo, summary: str) -> HandoverBrief:
        from .brief import BriefBuilder, mask_brief  # with our own agent's context

        builder = BriefBuilder()
        chain = await self._list_chain(info.session)
        for number, session in enumerate(chain):
            if number:
                builder.begin_continuation()
            last = 0
            while records := await self._fleet.read(session, after=last, limit=_PAGE):
                for record in records:
                    if record.parent is None:
                        builder.take(record.event)
                last = records[-1].seq
                await asyncio.sleep(0)
        facts = await self._find_facts(info, chain)
        if summary:
            facts |= {"summary": summary, "answer": ""}
        brief = builder.build(info.agent, info.name, info.session, info.cwd)
        return mask_brief(replace(brief, **facts))

    async def _list_chain(self, session: SessionId) -> list[SessionId]:
        """The sessions that worked on this, the first one first."""
        found = [session]
        while len(found) <= _MOST_EARLIER:
            try:
                earlier = (await self._current.find(found[-1])).spawn.continues
                if earlier is None or earlier in found:
                    break
                await self._current.find(earlier)
            except NoSuchAgentError:
                break  # it was deleted, or ran without a host
            found.append(earlier)
        return found[::-1]

    async def _find_facts(self, info: AgentInfo, chain: list[SessionId]) -> dict[str, Any]:
        """What the log of the session does not say: the diff, and its children."""
        children = [
            f"{one.name} ({one.spawn.options.agent}, {self._current.info(one).state_word})"
            for one in self._current.all()
            if one.spawn.parent_session in chain and not one.status.is_archived
        ]
        facts: dict[str, Any] = {"children": tuple(children[:20])}
        try:
            patch = await self._fleet.patch_text(info.session)
        except QuarterdeckError as error:
            _log.debug("no diff of %s: %s", info.session, error)
            return facts
        diff = patch.data.decode("utf-8", "replace")
        is_cut = len(diff) > _DIFF or patch.is_cut or patch.next is not None
        return facts | {"diff": diff[:_DIFF], "is_diff_cut": is_cut}


async def _write_transcript(fleet: Fleet, places: Places, session: SessionId) -> Path:
    """Write a session as Markdown, secrets masked, for its owner alone; the path.

    Raises:
        UnusablePlaceError: the directory cannot be made.
    """
    folder = await asyncio.to_thread(make_private, places.state / "transcripts")
    path = folder / f"{session}.md"
    unfinished = path.with_suffix(".part")
    number = await asyncio.to_thread(
        open_private, unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    )
    with os.fdopen(number, "wb") as file:
        async for piece in _exported(fleet, session):
            await asyncio.to_thread(file.write, piece.encode("utf-8", "replace"))
        await asyncio.to_thread(file.flush)
    await asyncio.to_thread(unfinished.replace, path)
    return path


def _exported(fleet: Fleet, session: SessionId) -> AsyncIterable[str]:
    records = _records(fleet, session)
    return export_session(session, records, "markdown", masked=True, environment={})


async def _records(fleet: Fleet, session: SessionId) -> AsyncGenerator[Record]:
    last = 0
    while records := await fleet.read(session, after=last, limit=_PAGE):
        for record in records:
            yield record
        last = records[-1].seq
