"""A fleet in memory for tests of hosts, clients and commands. Prompts are commands:

``say WORDS`` answers, ``ask`` asks for permission, ``question`` asks the person, ``form`` asks
for more, ``work`` runs until interrupted, ``big N`` answers with N characters. Without a prompt an
agent is idle. Its terminals run real programs; ``give_screen`` makes one an agent's screen.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.drivers.errors import SteeringUnsupportedError
from quarterdeck.fleet.agent_state import NEW_STATUS, AgentStatus, advance_status
from quarterdeck.fleet.api import (
    AgentInfo,
    FleetStatus,
    ImportedSession,
    InboxItem,
    SentMessage,
    SpawnOptions,
    WaitFor,
    WorkbenchHandler,
    WorkbenchRegistration,
)
from quarterdeck.fleet.attached_workbenches import AttachedWorkbenches
from quarterdeck.fleet.budgets.api import BudgetReport, BudgetRow
from quarterdeck.fleet.checkpoints.api import TurnChanges, TurnInfo, UndoResult
from quarterdeck.fleet.errors import (
    AgentNotReadyError,
    NameTakenError,
    NoSuchAgentError,
    NoSuchFleetTerminalError,
    NoSuchRequestError,
)
from quarterdeck.fleet.handover.api import HandoverBrief, HandoverOptions
from quarterdeck.fleet.meter.api import MeterStatus
from quarterdeck.fleet.permissions.api import (
    BackTest,
    GroupAnswer,
    RequestGroup,
    RuleSuggestion,
)
from quarterdeck.fleet.permissions.back_test import RecordedJudge, suggest_from, try_rules
from quarterdeck.fleet.permissions.request_groups import (
    RequestPlace,
    group_requests,
    match_option,
    read_traits,
)
from quarterdeck.fleet.permissions.request_history import RequestHistory
from quarterdeck.fleet.person_commands import PersonCommands
from quarterdeck.fleet.radar.api import ConflictReport
from quarterdeck.fleet.terminals.api import TerminalInfo
from quarterdeck.fleet.terminals.service import HostTerminals, TerminalHandle
from quarterdeck.fleet.usage.api import UsageGrouping, UsageReport
from quarterdeck.fleet.usage.ledger import UsageLedger
from quarterdeck.fleet.usage.summary import UsageSource, group_usage
from quarterdeck.journal.search import SearchHit
from quarterdeck.journal.session_summary import SessionSummary
from quarterdeck.policy.grants import Grant
from quarterdeck.system.api import CommandSpec
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.wire.budgets import BudgetLimit, BudgetScope, BudgetUnit
from quarterdeck.wire.clock import WallClock, read_wall_clock
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    Origin,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    PromptQueued,
    QuestionAnswered,
    QuestionAsked,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import (
    MessageId,
    RequestId,
    SessionId,
    ToolCallId,
    TurnId,
    new_message_id,
    new_request_id,
    new_session_id,
    new_tool_call_id,
    new_turn_id,
)
from quarterdeck.wire.permissions import Decider, PermissionOption, QuestionAction, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import Cost, TokenUsage

from .memory_landings import MemoryLandings
from .memory_reviews import MemoryReviews

if TYPE_CHECKING:
    from quarterdeck.models.model import Prices

OPTIONS = (
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="always", name="Always allow ls", kind="allow_always"),
    PermissionOption(option_id="no", name="Deny", kind="reject_once"),
)


class FakeFleet(MemoryReviews, MemoryLandings):
    """A ``Fleet`` that keeps all in memory. ``stop`` ends the programs in its terminals."""

    def __init__(self) -> None:
        self.log = "memory"
        """Where its log is said to be; two hosts of one process have different ones."""
        super().__init__()
        self.records: list[Record] = []
        self.infos: dict[SessionId, AgentInfo] = {}
        self.standings: dict[SessionId, AgentStatus] = {}
        self.open_turns: dict[SessionId, TurnId] = {}
        self.open: dict[RequestId, InboxItem] = {}
        self.known: set[RequestId] = set()
        self.granted: dict[str, Grant] = {}
        self.cannot_resume: set[str] = set()
        """Names of agents whose program is gone."""
        self.standalone: list[SessionSummary] = []
        """Sessions that ran without a host."""
        self.done_turns: list[TurnInfo] = []
        """What every agent has done, for undo."""
        self.moves: list[tuple[object, ...]] = []
        """Each undo: its kind, turn, files, conversation, force."""
        self.changed = asyncio.Condition()
        self.spawn_gate = asyncio.Event()
        self.spawn_gate.set()
        self.closed = False
        self.screens = AttachedWorkbenches()
        self.shown: dict[SessionId, HeadlessTerminal] = {}
        """Screens of agents."""
        self._terminals = HostTerminals({}, _Shown(self))
        self.open_terminal = self._terminals.open
        self.watch_terminal = self._terminals.watch
        self.write_terminal = self._terminals.write
        self.paste_terminal = self._terminals.paste
        self.resize_terminal = self._terminals.resize
        self.close_terminal = self._terminals.close
        self._commands = PersonCommands({}, self._find_directory, self.append)
        self.run_command = self._commands.run
        self.end_command = self._commands.end
        self.conflict_report = ConflictReport()
        self.budget_rows: dict[tuple[str, str, str], BudgetRow] = {}
        self.asked_conflicts: list[str | None] = []
        self.prices: Callable[[str], Prices | None] = lambda _: None
        """Of models."""
        self.asked_usage: list[str] = []
        self.clock: WallClock = read_wall_clock
        """Microseconds since the epoch; a test that looks at times has one of its own."""

    async def stop(self) -> None:
        await self._commands.stop()
        await self._terminals.stop()
        for terminal in self.shown.values():
            await terminal.close()

    async def _find_directory(self, agent: str) -> tuple[SessionId, str]:
        session = self.find(agent)
        return session, self.infos[session].cwd

    async def terminals(self) -> list[TerminalInfo]:
        return self._terminals.all()

    async def give_screen(self, agent: str, *argv: str, size: tuple[int, int] = (120, 40)) -> None:
        """Let an agent run in a terminal."""
        session = self.find(agent)
        command = CommandSpec(argv=argv, cwd=self.infos[session].cwd)
        self.shown[session] = await HeadlessTerminal.start(command, size=size)

    async def append(self, session: SessionId, event: Event) -> Record:
        record = Record(
            seq=len(self.records) + 1,
            time=self.clock(),
            session=session,
            turn=self.open_turns.get(session),
            event=event,
        )
        self.records.append(record)
        status = self.standings[session] = advance_status(
            self.standings.get(session, NEW_STATUS), event
        )
        if (info := self.infos.get(session)) is not None:
            self.infos[session] = replace(
                info,
                state=status.state,
                waits_for=status.waits_for,
                needs_person=status.needs_person,
                is_live=status.is_live,
                is_archived=status.is_archived,
                can_resume=not status.is_live,
                reason=status.reason,
                updated=record.time,
                last_seq=record.seq,
            )
        async with self.changed:
            self.changed.notify_all()
        return record

    async def spawn(self, request: SpawnOptions) -> AgentInfo:
        name = request.name or request.options.agent
        if any(info.name == name and not info.is_archived for info in self.infos.values()):
            raise NameTakenError(name)
        await self.spawn_gate.wait()
        session = new_session_id()
        self.infos[session] = AgentInfo(
            session=session,
            name=name,
            agent=request.options.agent,
            cwd=request.options.cwd,
            state="starting",
            model=request.options.model,
            mode=request.options.mode,
            parent=request.parent,
            spawned=self.clock(),
            usage=TokenUsage(input=1200, output=345),
            cost=Cost(amount=0.0123, currency="USD"),
            title=request.prompt or _shown(request),
        )
        event = SessionSpawned(options=request.options, name=name)
        await self.append(session, event)
        info = self.infos[session]
        await self.append(
            session, SessionOpened(agent=request.options.agent, cwd=request.options.cwd)
        )
        if request.prompt:
            await self.send(session, (text(request.prompt),))
        return info

    def find(self, agent: str) -> SessionId:
        for session, info in self.infos.items():
            if agent in (session, info.name):
                return session
        raise NoSuchAgentError(agent, [info.name for info in self.infos.values()])

    async def agents(
        self, *, archived: bool = False, parent: SessionId | None = None
    ) -> list[AgentInfo]:
        shown = [
            info
            for info in self.infos.values()
            if (archived or not info.is_archived) and (parent is None or info.parent == parent)
        ]
        return sorted(shown, key=lambda info: (not info.needs_person, -info.updated))

    async def agent(self, agent: str) -> AgentInfo:
        return self.infos[self.find(agent)]

    async def send(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        resume: bool = True,
    ) -> MessageId:
        session = self.find(agent)
        if not self.standings[session].is_live and resume:
            await self.resume(agent)
        if not self.standings[session].is_live:
            raise AgentNotReadyError(
                f"{agent!r} is not live; `quarterdeck resume {agent}` starts it again"
            )
        message = new_message_id()
        queued = PromptQueued(content=content, message=message, origin=origin, sender=sender)
        await self.append(session, queued)
        await self.append(session, Prompted(content=content, message=message, origin=origin))
        self.open_turns[session] = new_turn_id()
        await self.append(session, TurnStarted(prompt=message))
        assert isinstance(content[0], TextContent)
        await self._act(session, content[0].text)
        return message

    async def steer(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        resume: bool = True,
    ) -> SentMessage:
        session = self.find(agent)
        if self.infos[session].agent == "aider":
            raise SteeringUnsupportedError("aider", "pty")
        if self.open_turns.get(session) is None:
            return SentMessage(
                message=await self.send(agent, content, resume=resume), steered=False
            )
        message = new_message_id()
        prompted = Prompted(
            content=content, message=message, origin=origin, sender=sender, steers=True
        )
        await self.append(session, prompted)
        return SentMessage(message=message, steered=True)

    async def _act(self, session: SessionId, prompt: str) -> None:
        word, _, rest = prompt.partition(" ")
        if word == "ask":
            call = new_tool_call_id()
            started = ToolCallStarted(
                call=call, title="ls /\x1b[31m", name="bash", raw_input={"command": "ls /"}
            )
            await self.append(session, started)
            await self._ask(session, call)
        elif word == "question":
            await self._question(session, {})
        elif word == "form":
            sizes = {"type": "array", "items": {"enum": ["small", "large"]}}
            await self._question(session, {"sizes": sizes, "why": {"type": "string"}})
        elif word != "work":
            told = "x" * int(rest) if word == "big" else rest or prompt
            await self.append(session, MessageChunk(content=text(told)))
            await self._end_turn(session)

    async def _ask(self, session: SessionId, call: ToolCallId) -> None:
        request = new_request_id()
        asked = PermissionAsked(
            request=request,
            call=call,
            title="ls /\x1b[31m\u202e",
            name="bash",
            options=OPTIONS,
            raw_input={"command": "ls /"},
        )
        await self._put(session, await self.append(session, asked), asked)

    async def _question(self, session: SessionId, more: dict[str, Any]) -> None:
        form = {
            "type": "object",
            "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}, **more},
            "required": ["colour"],
        }
        asked = QuestionAsked(request=new_request_id(), text="Which colour?", form=form)
        await self._put(session, await self.append(session, asked), asked)

    async def _put(
        self, session: SessionId, record: Record, asked: PermissionAsked | QuestionAsked
    ) -> None:
        is_permission = isinstance(asked, PermissionAsked)
        self.known.add(asked.request)
        self.open[asked.request] = InboxItem(
            request=asked.request,
            session=session,
            name=self.infos[session].name,
            since=record.time,
            seq=record.seq,
            permission=asked if is_permission else None,
            question=None if is_permission else asked,
        )

    async def _end_turn(self, session: SessionId, stop: Any = "end_turn") -> None:
        await self.append(session, TurnEnded(stop=stop))
        self.open_turns.pop(session, None)

    async def edit(
        self, agent: str, message: MessageId, content: tuple[ContentBlock, ...] | None
    ) -> bool:
        self.find(agent)
        return False

    async def interrupt(self, agent: str, *, keep_queue: bool = True) -> None:
        session = self.find(agent)
        await self._drop(session, "cancel")
        if session in self.open_turns:
            await self._end_turn(session, "cancelled")

    async def _drop(self, session: SessionId, kind: Any) -> None:
        for item in [item for item in self.open.values() if item.session == session]:
            del self.open[item.request]
            by = Decider(kind=kind)
            if item.question is not None:
                await self.append(
                    session, QuestionAnswered(request=item.request, action="cancel", by=by)
                )

    async def kill(self, agent: str, *, reason: str | None = None) -> None:
        await self._end(self.find(agent), SessionEnded(how="killed", reason=reason))

    async def close(self, agent: str) -> None:
        await self._end(self.find(agent), SessionEnded(how="closed"))

    async def _end(self, session: SessionId, ended: SessionEnded) -> None:
        if self.standings[session].is_live:
            await self._drop(session, "cancel")
            await self.append(session, ended)

    async def archive(self, agent: str, *, archived: bool = True) -> None:
        session = self.find(agent)
        await self._end(session, SessionEnded(how="closed"))
        await self.append(session, SessionChanged(archived=archived))

    async def resume(self, agent: str) -> AgentInfo:
        session = self.find(agent)
        if self.standings[session].is_live:
            raise AgentNotReadyError(f"{agent!r} is already live")
        if self.infos[session].name in self.cannot_resume:
            raise AgentNotReadyError(f"{agent!r} cannot be resumed: its program is gone")
        await self.append(session, SessionResumed())
        return self.infos[session]

    async def standalone_sessions(
        self, *, cwd: str | None = None, limit: int = 50
    ) -> list[SessionSummary]:
        found = [one for one in self.standalone if cwd is None or one.cwd == cwd]
        return found[:limit]

    async def adopt_session(self, session: str, name: str | None = None) -> AgentInfo:
        with suppress(NoSuchAgentError):
            return await self.agent(session)
        one = next((one for one in self.standalone if one.id == session), None)
        if one is None:
            raise NoSuchAgentError(session)
        self.standalone.remove(one)
        info = await self.spawn(
            SpawnOptions(options=SessionOptions(agent=one.agent, cwd=one.cwd), name=name)
        )
        await self.close(info.session)
        return await self.agent(info.session)

    async def import_session(
        self,
        agent: str,
        id: str,
        homes: dict[str, str],
        name: str | None = None,
        cwd: str | None = None,
    ) -> ImportedSession:
        known = [info for info in self.infos.values() if info.title == id]
        info = known[0] if known else None
        if info is None:
            info = await self.spawn(
                SpawnOptions(
                    options=SessionOptions(agent=agent, cwd=cwd or "/"),
                    name=name or id[:40],
                    prompt=id,
                )
            )
        return ImportedSession(agent=info, added=0 if known else 3, skipped=0)

    async def fork(
        self, agent: str, *, name: str | None = None, prompt: str | None = None
    ) -> AgentInfo:
        info = await self.agent(agent)
        request = SpawnOptions(
            options=SessionOptions(agent=info.agent, cwd=info.cwd),
            name=name or f"{info.name}-fork",
            prompt=prompt,
        )
        return await self.spawn(request)

    async def hand_over(self, agent: str, request: HandoverOptions) -> AgentInfo:
        info = await self.agent(agent)
        options = SessionOptions(agent=request.to, cwd=info.cwd)
        prompt = request.prompt or "go on"
        if not request.keep:
            await self.close(agent)
        return await self.spawn(SpawnOptions(options=options, name=request.name, prompt=prompt))

    async def handover_brief(self, agent: str) -> HandoverBrief:
        info = await self.agent(agent)
        goal = f"the goal of {info.name}"
        return HandoverBrief(
            agent=info.agent, name=info.name, session=info.session, cwd=info.cwd, goal=goal
        )

    async def rename(self, agent: str, name: str) -> AgentInfo:
        session = self.find(agent)
        if any(info.name == name for info in self.infos.values()):
            raise NameTakenError(name)
        await self.append(session, SessionChanged(name=name))
        self.infos[session] = replace(self.infos[session], name=name)
        return self.infos[session]

    async def set_option(self, agent: str, option: str, value: str | bool) -> None:
        session = self.find(agent)
        self.infos[session] = replace(self.infos[session], mode=str(value))

    async def inbox(self) -> list[InboxItem]:
        for item in list(self.open.values()):
            if item.permission is None or item.traits is not None:
                continue
            info = self.infos.get(item.session)  # a test may ask for one that is not listed
            cwd = info.cwd if info is not None else ""
            place = RequestPlace(cwd=cwd)
            traits = await asyncio.to_thread(read_traits, item.permission, place)
            if item.request in self.open:
                self.open[item.request] = replace(self.open[item.request], cwd=cwd, traits=traits)
        return list(self.open.values())

    async def inbox_groups(self) -> list[RequestGroup]:
        return group_requests(await self.inbox())

    async def answer_group(
        self,
        requests: tuple[RequestId, ...],
        choice: str,
        *,
        by: str = "person",
        feedback: str | None = None,
    ) -> GroupAnswer:
        if (unknown := next((one for one in requests if one not in self.known), None)) is not None:
            raise NoSuchRequestError(unknown)
        if requests[0] not in self.asked:
            raise ValueError(f"request {requests[0]!r} is a question")
        asked = self.asked[requests[0]]
        answered: list[RequestId] = []
        for request in requests:
            if request not in self.open:
                continue
            option = match_option(asked, choice, self.asked[request])
            if option is None:
                raise ValueError(f"{request} offers no {choice!r}")
            await self.answer(request, option, by=by, feedback=feedback)
            answered.append(request)
        skipped = tuple(one for one in requests if one not in answered)
        return GroupAnswer(answered=tuple(answered), skipped=skipped)

    @property
    def asked(self) -> dict[RequestId, PermissionAsked]:
        """Every permission request there was."""
        events = (record.event for record in self.records)
        return {one.request: one for one in events if isinstance(one, PermissionAsked)}

    async def answer(
        self, request: RequestId, choice: str, *, by: str = "person", feedback: str | None = None
    ) -> bool:
        if request not in self.known:
            raise NoSuchRequestError(request)
        item = self.open.get(request)
        if item is None or item.permission is None:
            return False
        for option in item.permission.options:
            if choice in (option.option_id, option.kind):
                break
        else:
            raise ValueError(f"{request} offers no {choice!r}")
        del self.open[request]
        answered = PermissionAnswered(
            request=request,
            call=item.permission.call,
            outcome=Selected(option_id=option.option_id),
            kind=option.kind,
            by=Decider(kind="person", name=by),
            feedback=feedback,
        )
        await self.append(item.session, answered)
        ended = ToolCallEnded(call=item.permission.call, status="completed")
        await self.append(item.session, ended)
        await self.append(item.session, MessageChunk(content=text(f"You said {option.name}.")))
        await self._end_turn(item.session)
        return True

    async def ask_approval(
        self,
        agent: str,
        request: RequestId,
        title: str,
        *,
        reason: str | None = None,
        text: str = "",
    ) -> bool:
        if request in self.known:
            return False
        session = self.find(agent)
        approve = PermissionOption(option_id="approve", name="Approve", kind="allow_once")
        asked = PermissionAsked(
            request=request,
            call=new_tool_call_id(),
            title=title,
            options=(approve,),
            reason=reason,
        )
        await self._put(session, await self.append(session, asked), asked)
        return True

    async def reply(
        self,
        request: RequestId,
        action: QuestionAction,
        *,
        by: str = "person",
        content: dict[str, Any] | None = None,
    ) -> bool:
        if request not in self.known:
            raise NoSuchRequestError(request)
        item = self.open.pop(request, None)
        if item is None:
            return False
        answered = QuestionAnswered(
            request=request, action=action, by=Decider(kind="person", name=by), content=content
        )
        await self.append(item.session, answered)
        await self.append(item.session, MessageChunk(content=text(f"{action}: {content}")))
        await self._end_turn(item.session)
        return True

    async def delete(self, agent: str) -> None:
        session = self.find(agent)
        if self.infos[session].is_live:
            raise AgentNotReadyError(f"{agent!r} is live; end it first")
        del self.infos[session]

    async def turns(self, agent: str) -> list[TurnInfo]:
        self.find(agent)
        return list(self.done_turns)

    async def turn_changes(
        self, agent: str, *, turn: str | None = None, lines: int = 400
    ) -> TurnChanges:
        self.find(agent)
        return TurnChanges(summary=("M a.txt",), diff=("-one", "+two")[:lines])

    async def undo(
        self,
        agent: str,
        *,
        turn: str | None = None,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
    ) -> UndoResult:
        return self._move(agent, "undo", turn, files, conversation, force)

    async def redo(self, agent: str, *, force: bool = False) -> UndoResult:
        return self._move(agent, "redo", None, True, True, force)

    async def rewind(
        self,
        agent: str,
        turn: str,
        *,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
    ) -> UndoResult:
        return self._move(agent, "rewind", turn, files, conversation, force)

    def _move(self, agent: str, kind: str, turn: str | None, *how: bool) -> UndoResult:
        session = self.find(agent)
        if not self.done_turns:
            raise NothingToUndoError("no turn has run yet")
        self.moves.append((kind, turn, *how))
        last = self.done_turns[-1]
        return UndoResult(
            session=session,
            name=self.infos[session].name,
            action="redo" if kind == "redo" else "undo",
            turn=last.turn,
            number=last.number,
            prompt=last.prompt,
            restored=last.changed,
        )

    async def grants(self) -> list[Grant]:
        return list(self.granted.values())

    async def revoke(self, grant: str, *, by: str = "person") -> bool:
        return self.granted.pop(grant, None) is not None

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        session = None if agent is None else self.find(agent)
        mine = [record for record in self.records if session in (None, record.session)]
        if before is not None:
            return [record for record in mine if record.seq < before][-limit:]
        return [record for record in mine if record.seq > after][:limit]

    async def follow(
        self, after: int | None = None, *, agent: str | None = None
    ) -> AsyncGenerator[Record]:
        session = None if agent is None else self.find(agent)
        position = len(self.records) if after is None else after
        while True:
            async with self.changed:
                await self.changed.wait_for(lambda at=position: len(self.records) > at)
            for record in self.records[position:]:
                position = record.seq
                if session is None or record.session == session:
                    yield record

    async def wait(
        self, agents: Sequence[str], *, until: WaitFor = "all", timeout: float | None = None
    ) -> list[AgentInfo]:
        sessions = [self.find(agent) for agent in agents]

        def resting() -> list[AgentInfo]:
            found = [self.infos[session] for session in sessions]
            return [info for info in found if info.state not in ("starting", "running")]

        def is_over() -> bool:
            return len(resting()) >= (len(sessions) if until == "all" else 1)

        try:
            async with asyncio.timeout(timeout), self.changed:
                await self.changed.wait_for(is_over)
        except TimeoutError:
            pass
        return resting()

    async def search(self, words: str, *, limit: int = 50) -> list[SearchHit]:
        hits: list[SearchHit] = []
        for record in reversed(self.records):
            match record.event:
                case MessageChunk(content=TextContent(text=told)) if words in told:
                    at = told.index(words)
                    hits.append(
                        SearchHit(
                            session=record.session,
                            seq=record.seq,
                            type="message_chunk",
                            snippet=told,
                            marks=((at, at + len(words)),),
                        )
                    )
        return hits[:limit]

    def attach_screen(
        self, handler: WorkbenchHandler, *, cwd: str, idle: float = 0.0
    ) -> AbstractAsyncContextManager[WorkbenchRegistration]:
        return self.screens.attach(handler, cwd=cwd, idle=idle)

    async def call_screen(self, name: str, arguments: dict[str, Any], *, by: str = "person") -> Any:
        info = self.infos.get(SessionId(by))
        cwd = info.cwd if info is not None else None
        return await self.screens.call(name, arguments, by=by, cwd=cwd)

    async def conflicts(self, cwd: str | None = None) -> ConflictReport:
        self.asked_conflicts.append(cwd)
        return self.conflict_report

    async def usage(
        self,
        by: UsageGrouping = "agent",
        *,
        since: str | None = None,
        agent: str | None = None,
        runs: bool = False,
    ) -> UsageReport:
        ledger = UsageLedger()
        ledger.add(self.records)
        within = (await self.agent(agent)).session if agent is not None else None
        self.asked_usage.append(by)
        source = UsageSource(cells=ledger.cells(), sessions=ledger.sessions, prices=self.prices)
        return group_usage(source, by, since=since, within=within, prices_of="2026-11")

    async def budgets(self, *, agent: str | None = None) -> BudgetReport:
        if agent is not None:
            await self.agent(agent)
        return BudgetReport(rows=tuple(self.budget_rows.values()), allowance=0.05)

    async def set_budget(
        self,
        scope: BudgetScope,
        subject: str,
        limit: BudgetLimit,
        *,
        add: bool = False,
        by: str = "person",
    ) -> BudgetRow:
        key = (scope, subject, limit.unit)
        known = self.budget_rows[key].amount if add else 0.0
        self.budget_rows[key] = BudgetRow(
            scope=scope,
            subject=subject,
            name=subject or scope,
            unit=limit.unit,
            amount=known + limit.amount,
            used=0.0,
        )
        return self.budget_rows[key]

    async def remove_budget(
        self, scope: BudgetScope, subject: str, unit: BudgetUnit, *, by: str = "person"
    ) -> bool:
        return self.budget_rows.pop((scope, subject, unit), None) is not None

    async def meter(self) -> MeterStatus:
        return MeterStatus()

    def _judges(self) -> list[RecordedJudge]:
        history = RequestHistory()
        history.add(self.records)
        return [RecordedJudge(kind) for kind in history.kinds.values()]

    async def back_test(
        self,
        rules: tuple[str, ...],
        *,
        since: int | None = None,
        project: str | None = None,
        limit: int = 100,
    ) -> BackTest:
        return await asyncio.to_thread(
            lambda: try_rules(rules, self._judges(), since=since, limit=limit)
        )

    async def suggest_rules(
        self, *, since: int | None = None, project: str | None = None, limit: int = 20
    ) -> list[RuleSuggestion]:
        return suggest_from(self._judges(), since=since, limit=limit)

    async def status(self) -> FleetStatus:
        counts: dict[str, int] = {}
        for info in await self.agents():
            counts[info.state] = counts.get(info.state, 0) + 1
        return FleetStatus(
            version="test",
            pid=os.getpid(),
            started=1,
            log=self.log,
            last_seq=len(self.records),
            agents=counts,
            needs_person=sum(info.needs_person for info in self.infos.values()),
            terminals=self._terminals.running,
        )


class _Shown:
    """The screens of a fleet's agents."""

    def __init__(self, fleet: FakeFleet) -> None:
        self._fleet = fleet

    def all(self) -> list[TerminalHandle]:
        return [self._kept(session) for session in self._fleet.shown]

    async def find(self, agent: str) -> TerminalHandle:
        try:
            return self._kept(self._fleet.find(agent))
        except (NoSuchAgentError, KeyError):
            raise NoSuchFleetTerminalError(agent) from None

    def _kept(self, session: SessionId) -> TerminalHandle:
        terminal, info = self._fleet.shown[session], self._fleet.infos[session]
        return TerminalHandle(id=session, name=info.name, terminal=terminal, session=session)


def _shown(request: SpawnOptions) -> str | None:
    roots = request.options.roots
    told = {**request.options.variables, **({"roots": roots} if roots else {})}
    return json.dumps(told) if told else None


@asynccontextmanager
async def open_fake(*_: object) -> AsyncGenerator[FakeFleet]:
    """What ``run_host`` takes to open a fleet; agents and terminals are closed at its end."""
    fleet = FakeFleet()
    try:
        yield fleet
    finally:
        await fleet.stop()
        for info in await fleet.agents(archived=True):
            await fleet.close(info.session)
        fleet.closed = True
