"""The agents of all workers of a pool, by what the workers have written there.

A ``PoolFleet`` has the methods of the fleet's API that make sense without the machine of an agent:
who there is, what was said, used and changed, what waits for a person, and answers to that. Every
other method says that a pool does not offer it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Self

import msgspec

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import AgentInfo, FleetStatus, InboxItem, SearchHit, WaitFor
from quarterdeck.fleet.errors import NoSuchAgentError, NoSuchRequestError
from quarterdeck.fleet.method import FLEET_METHODS
from quarterdeck.fleet.permissions.api import GroupAnswer, GroupMember, RequestGroup
from quarterdeck.fleet.review.api import (
    AgentChanges,
    FilePatch,
    PatchText,
    PlacedComment,
    ReviewSince,
)
from quarterdeck.fleet.usage.api import UsageGrouping, UsageReport
from quarterdeck.version import __version__
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.events import PermissionAsked, QuestionAsked
from quarterdeck.wire.ids import RequestId, SessionId
from quarterdeck.wire.permissions import QuestionAction, option_of_kind
from quarterdeck.wire.record import Record, decode_record

from .database import Connection, PoolDatabase
from .errors import PoolUnsupportedError
from .reports import PoolReports

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient as DeclaredMethods
else:
    DeclaredMethods = object

__all__ = ["PoolFleet", "describe_past"]

_FOLLOW_SECONDS = 0.3
_PAGE = 500
_AGENTS = """
    SELECT s.info, s.session, t.token = s.token AND t.worker = s.worker AND t.state = 'leased'
        AND t.lease_until >= now()
    FROM quarterdeck.sessions s JOIN quarterdeck.tasks t ON t.run = s.run AND t.key = s.task
"""
_INBOX = """
    SELECT e.record, s.info FROM quarterdeck.events e
    JOIN quarterdeck.sessions s ON s.session = e.session
    JOIN quarterdeck.tasks t ON t.run = s.run AND t.key = s.task AND t.token = s.token
    WHERE e.kind IN ('permission_asked', 'question_asked') AND e.request IS NOT NULL
    AND t.state = 'leased'
    AND NOT EXISTS (
        SELECT 1 FROM quarterdeck.events d WHERE d.request = e.request AND d.session = e.session
        AND d.kind IN ('permission_answered', 'question_answered')
    )
    AND NOT EXISTS (
        SELECT 1 FROM quarterdeck.answers a WHERE a.request = e.request AND a.refused = ''
    )
"""


class PoolFleet(DeclaredMethods):
    """What a pool knows of its workers' agents; a ``Fleet`` as far as that goes.

    Sequence numbers are those of each worker's log: they order the records of one agent, not those
    of several.
    """

    def __init__(self, database: PoolDatabase, places: Places) -> None:
        self._database = database
        self._reports = PoolReports(database, self.agent, places)

    @classmethod
    def create(  # type: ignore[override]
        cls, database: PoolDatabase, places: Places | None = None
    ) -> Self:
        """Made by this: a type checker takes the class itself for an abstract one."""
        return cls(database, places or Places.find())

    async def agents(
        self, *, archived: bool = False, parent: SessionId | None = None
    ) -> list[AgentInfo]:
        """See ``Fleet``. An agent whose worker has lost its task is not live."""
        found = await self._read_agents("", ())
        return sorted(found, key=lambda one: (not one.needs_person, -one.updated))

    async def agent(self, agent: str) -> AgentInfo:
        """See ``Fleet``."""
        found = await self._read_agents(
            "WHERE s.session = %s OR s.name = %s ORDER BY s.updated DESC", (agent, agent)
        )
        if not found:
            names = [one.name for one in await self.agents()]
            raise NoSuchAgentError(agent, names)
        return found[0]

    async def _read_agents(self, clause: str, values: tuple[str, ...]) -> list[AgentInfo]:
        async def read(connection: Connection) -> list[AgentInfo]:
            found: list[AgentInfo] = []
            rows = await connection.execute(f"{_AGENTS} {clause}".encode(), values)
            async for info, _, is_held in rows:
                agent = decode_json(info.encode(), AgentInfo)
                if agent.is_live and not is_held:
                    agent = msgspec.structs.replace(
                        agent, is_live=False, state="failed", needs_person=False,
                        waits_for=None, reason="its worker does not have the task any more",
                    )  # fmt: skip
                found.append(agent)
            return found

        return await self._database.run(read)

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """See ``Fleet``; of one agent."""
        if agent is None:
            raise PoolUnsupportedError("read of all agents together")
        session = (await self.agent(agent)).session
        words, values = "seq > %s ORDER BY seq", (session, after, limit)
        if before is not None:
            words, values = "seq < %s ORDER BY seq DESC", (session, before, limit)

        async def read(connection: Connection) -> list[Record]:
            query = f"SELECT record FROM quarterdeck.events WHERE session = %s AND {words} LIMIT %s"
            rows = await connection.execute(query.encode(), values)
            return [decode_record(record.encode()) async for (record,) in rows]

        found = await self._database.run(read)
        return found if before is None else found[::-1]

    async def follow(
        self, after: int | None = None, *, agent: str | None = None, patience: float = 0.0
    ) -> AsyncGenerator[Record]:
        """See ``Fleet``; of one agent."""
        if agent is None:
            raise PoolUnsupportedError("following all agents together")
        info = await self.agent(agent)
        last = info.last_seq if after is None else after
        while True:
            page = await self.read(info.session, after=last, limit=_PAGE)
            for record in page:
                last = record.seq
                yield record
            if not page:
                await asyncio.sleep(_FOLLOW_SECONDS)

    async def inbox(self) -> list[InboxItem]:
        """See ``Fleet``; requests that were answered here are left out at once."""

        async def read(connection: Connection) -> list[InboxItem]:
            return [
                _make_item(decode_record(record.encode()), decode_json(info.encode(), AgentInfo))
                async for record, info in await connection.execute(_INBOX)
            ]

        return sorted(await self._database.run(read), key=lambda item: item.since)

    async def answer(
        self, request: RequestId, choice: str, *, by: str = "person", feedback: str | None = None
    ) -> bool:
        """See ``Fleet``; the agent has it when its worker has taken it, within a second."""
        item = await self._find_item(request)
        if item is None:
            return False
        if item.permission is None:
            raise ValueError(f"{request!r} is a question; reply to it")
        options = item.permission.options
        ids = {option.option_id for option in options}
        chosen = choice if choice in ids else option_of_kind(options, choice)
        if chosen is None:
            raise ValueError(f"{request!r} offers no option {choice!r}")
        answer = {"choice": chosen, "feedback": feedback}
        return await self._add_answer(item, answer, by)

    async def reply(
        self,
        request: RequestId,
        action: QuestionAction,
        *,
        by: str = "person",
        content: dict[str, Any] | None = None,
    ) -> bool:
        """See ``Fleet``; as ``answer``."""
        item = await self._find_item(request)
        if item is None:
            return False
        return await self._add_answer(item, {"action": action, "content": content}, by)

    async def _find_item(self, request: RequestId) -> InboxItem | None:
        """An open request; None: it is answered. Raises NoSuchRequestError."""
        for item in await self.inbox():
            if item.request == request:
                return item

        async def read(connection: Connection) -> bool:
            words = "SELECT 1 FROM quarterdeck.events WHERE request = %s LIMIT 1"
            return await (await connection.execute(words, (request,))).fetchone() is not None

        if not await self._database.run(read):
            raise NoSuchRequestError(request)
        return None

    async def _add_answer(self, item: InboxItem, answer: dict[str, Any], by: str) -> bool:
        data = msgspec.json.encode(answer).decode()

        async def write(connection: Connection) -> bool:
            done = await connection.execute(
                "INSERT INTO quarterdeck.answers (request, session, answer, given_by) "
                "VALUES (%s, %s, %s, %s) ON CONFLICT (request) DO UPDATE SET answer = "
                "EXCLUDED.answer, given_by = EXCLUDED.given_by, taken = NULL, refused = '' "
                "WHERE quarterdeck.answers.refused <> ''",
                (item.request, item.session, data, by),
            )
            return done.rowcount == 1

        return await self._database.run(write)

    async def wait(
        self, agents: Sequence[str], *, until: WaitFor = "all", timeout: float | None = None
    ) -> list[AgentInfo]:
        """See ``Fleet``."""
        choose = all if until == "all" else any
        at_rest: list[AgentInfo] = []
        try:
            async with asyncio.timeout(timeout):
                while True:
                    infos = [await self.agent(name) for name in agents]
                    at_rest = [info for info in infos if _is_at_rest(info)]
                    if choose(info in at_rest for info in infos):
                        return at_rest
                    await asyncio.sleep(_FOLLOW_SECONDS)
        except TimeoutError:
            return at_rest

    async def adopt_session(self, session: str, name: str | None = None) -> AgentInfo:
        """See ``Fleet``: an agent of the pool is one already."""
        return await self.agent(session)

    async def inbox_groups(self) -> list[RequestGroup]:
        """See ``Fleet``; each request by itself: the rules are those of the workers."""
        return [_make_group(item) for item in await self.inbox()]

    async def answer_group(
        self,
        requests: tuple[RequestId, ...],
        choice: str,
        *,
        by: str = "person",
        feedback: str | None = None,
    ) -> GroupAnswer:
        """See ``Fleet``."""
        answered: list[RequestId] = []
        skipped: list[RequestId] = []
        for request in dict.fromkeys(requests):
            is_first = await self.answer(request, choice, by=by, feedback=feedback)
            (answered if is_first else skipped).append(request)
        return GroupAnswer(answered=tuple(answered), skipped=tuple(skipped))

    async def search(self, words: str, *, limit: int = 50) -> list[SearchHit]:
        """See ``Fleet``."""
        return await self._reports.search(words, limit)

    async def usage(
        self,
        by: UsageGrouping = "agent",
        *,
        since: str | None = None,
        agent: str | None = None,
        runs: bool = False,
    ) -> UsageReport:
        """See ``Fleet``; all of it is of the pool."""
        return await self._reports.usage(by, since=since, agent=agent)

    async def changes(
        self, agent: str, *, turn: str | None = None, since: ReviewSince | None = None
    ) -> AgentChanges:
        """See ``Fleet``; from the start to the last whole turn."""
        _refuse_part(turn, since)
        return await self._reports.changes(agent)

    async def patch(
        self,
        agent: str,
        file: str,
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
        context: int = 3,
        ignore_space: bool = False,
        after: int = 0,
        limit: int = 2_000,
        tree: str | None = None,
    ) -> FilePatch:
        """See ``Fleet``; as ``changes``."""
        _refuse_part(turn, since)
        return await self._reports.patch(agent, file, context, ignore_space, after, limit)

    async def patch_text(
        self,
        agent: str,
        files: Sequence[str] = (),
        *,
        turn: str | None = None,
        since: ReviewSince | None = None,
        context: int = 3,
        ignore_space: bool = False,
        binary: bool = False,
        after: int = 0,
        tree: str | None = None,
    ) -> PatchText:
        """See ``Fleet``; as ``changes``."""
        _refuse_part(turn, since)
        return await self._reports.patch_text(agent, files, context, ignore_space, binary, after)

    async def comments(self, agent: str, *, all: bool = False) -> list[PlacedComment]:
        """See ``Fleet``: a pool has none."""
        await self.agent(agent)
        return []

    async def status(self) -> FleetStatus:
        """See ``Fleet``: of the pool."""
        agents = await self.agents()
        states: dict[str, int] = {}
        for agent in agents:
            states[agent.state] = states.get(agent.state, 0) + 1
        return FleetStatus(
            version=__version__, pid=0, started=0, log=str(self._database.address), last_seq=0,
            agents=states, needs_person=sum(agent.needs_person for agent in agents),
        )  # fmt: skip


def _refuse(method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(FLEET_METHODS[method].declaration)
    async def refuse(fleet: PoolFleet, *arguments: Any, **named: Any) -> Any:
        raise PoolUnsupportedError(method)

    return refuse


for _method in FLEET_METHODS:
    if _method not in vars(PoolFleet):
        setattr(PoolFleet, _method, _refuse(_method))


def _refuse_part(turn: str | None, since: ReviewSince | None) -> None:
    if turn is not None or since is not None:
        raise PoolUnsupportedError("changes of a turn, or since a mark")


def _make_group(item: InboxItem) -> RequestGroup:
    asked = item.permission or item.question
    what = item.permission.title if item.permission is not None else ""
    member = GroupMember(
        request=item.request, session=item.session, name=item.name, cwd=item.cwd, since=item.since
    )
    return RequestGroup(
        what=what or getattr(asked, "text", ""), members=(member,), agents=1,
        is_question=item.question is not None,
    )  # fmt: skip


def _make_item(record: Record, info: AgentInfo) -> InboxItem:
    event = record.event
    assert isinstance(event, PermissionAsked | QuestionAsked)
    return InboxItem(
        request=event.request,
        session=record.session,
        name=info.name,
        since=record.time,
        seq=record.seq,
        permission=event if isinstance(event, PermissionAsked) else None,
        question=event if isinstance(event, QuestionAsked) else None,
        cwd=info.cwd,
    )


def _is_at_rest(info: AgentInfo) -> bool:
    return info.needs_person or (info.state not in ("starting", "running") and not info.queue)


async def describe_past(fleet: PoolFleet, session: str) -> str:
    """What an agent that is elsewhere was at, for the one that goes on; empty: nothing is known."""
    try:
        info = await fleet.agent(session)
    except NoSuchAgentError:
        return ""

    from quarterdeck.fleet.handover.brief import BriefBuilder, compose_brief, mask_brief

    builder, after = BriefBuilder(), 0
    while page := await fleet.read(session, after=after, limit=_PAGE):
        for record in page:
            if record.parent is None:
                builder.take(record.event)
        after = page[-1].seq
    if not after:
        return ""
    brief = builder.build(info.agent, info.name, info.session, info.cwd)
    past = compose_brief(
        mask_brief(brief),
        transcript="Its machine is gone. The files are as they were after its last whole turn.",
    )
    return f"{past}\n\nYour task now:"
