"""What a pool says about all of its agents: usage, what was spoken, and what each has changed.

Usage and search read what the workers shipped. Changes are those of the files that a worker pushed
after the agent's last whole turn, fetched from the git remote with the logins of who asks.
"""

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places
from quarterdeck.fleet.api import AgentInfo, SearchHit
from quarterdeck.fleet.review.api import AgentChanges, FilePatch, PatchText
from quarterdeck.fleet.review.comparison import Comparison, FileDifference
from quarterdeck.fleet.review.file_list import find_file, list_changed, within
from quarterdeck.fleet.review.patch import cut_page
from quarterdeck.fleet.review.source import run_blocking
from quarterdeck.fleet.review.state import ReviewState
from quarterdeck.fleet.usage.api import UsageGrouping, UsageReport
from quarterdeck.fleet.usage.ledger import USAGE_EVENTS, UsageLedger
from quarterdeck.fleet.usage.service import PRICES_OF, UsageNames
from quarterdeck.fleet.usage.summary import group_usage
from quarterdeck.system.git.object_store import ObjectStore
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import decode_record

from .database import Connection, PoolDatabase
from .errors import PoolUnsupportedError
from .submission import RunDefinition, read_definition
from .transport import PoolTransport, name_reference

if TYPE_CHECKING:
    from quarterdeck.fleet.agent_entry import AgentEntry

__all__ = ["PoolReports"]

_MOST_LINES = 5_000
_PIECE = 500_000
_AROUND = 60
"""Characters of a snippet before and after the first word."""
_SEARCH = """
    SELECT session, seq, kind, time, words FROM (
        SELECT session, min(seq) AS seq, min(kind) AS kind, min(time) AS time,
            string_agg(spoken, '' ORDER BY seq) AS words
        FROM quarterdeck.events WHERE spoken IS NOT NULL
        GROUP BY worker, session, coalesce(message, seq::text)
    ) found
    WHERE NOT EXISTS (
        SELECT 1 FROM unnest(%s::text[]) word WHERE position(word IN lower(found.words)) = 0
    )
    ORDER BY time DESC LIMIT %s
"""


class _PushedFiles(Struct, frozen=True, kw_only=True):
    """Files of an agent at the remote."""

    run: str
    reference: str
    commit: str
    definition: RunDefinition
    is_adopted: bool
    """The worktree started from files of an agent elsewhere, not from the base of the task."""


class PoolReports:
    """Reports of one pool.

    Args:
        database: of the pool.
        find: an agent of the pool by name or id.
        places: of who asks: where what is fetched is kept.
    """

    def __init__(
        self, database: PoolDatabase, find: Callable[[str], Awaitable[AgentInfo]], places: Places
    ) -> None:
        self._database = database
        self._find = find
        self._places = places

    async def usage(
        self, by: UsageGrouping, *, since: str | None, agent: str | None
    ) -> UsageReport:
        """See ``FleetUsage``."""
        chosen = (await self._find(agent)).session if agent is not None else None
        ledger = UsageLedger()

        async def read(connection: Connection) -> None:
            rows = await connection.execute(
                "SELECT record FROM quarterdeck.events WHERE kind = ANY (%s) "
                "ORDER BY worker, session, seq",
                (sorted(USAGE_EVENTS),),
            )
            while page := await rows.fetchmany(1_000):
                ledger.add([decode_record(record.encode()) for (record,) in page])

        await self._database.run(read)

        def group() -> UsageReport:
            names = UsageNames(self._places, lambda _: load_config(self._places).settings)
            source = names.make_source([ledger], by, since)
            return group_usage(source, by, since=since, prices_of=PRICES_OF, within=chosen)

        return await asyncio.to_thread(group)

    async def search(self, words: str, limit: int) -> list[SearchHit]:
        """Where all of these words were said; reads all that agents have said."""
        wanted = _split(words)
        if not wanted:
            return []

        async def read(connection: Connection) -> list[SearchHit]:
            return [
                _make_hit(SessionId(session), seq, kind, time, spoken, wanted)
                async for session, seq, kind, time, spoken in await connection.execute(
                    _SEARCH, (wanted, limit)
                )
            ]

        return await self._database.run(read)

    # Changes

    async def changes(self, agent: str) -> AgentChanges:
        """See ``FleetReviews``."""
        info, compared = await self._compare(agent)
        files = await run_blocking(compared.list_files)
        return list_changed(cast("AgentEntry", info), compared, files, ReviewState())

    async def patch(
        self, agent: str, file: str, context: int, ignore_space: bool, after: int, limit: int
    ) -> FilePatch:
        """See ``FleetReviews``."""
        info, compared = await self._compare(agent)
        listed = await run_blocking(compared.list_files)
        found = find_file(info.name, compared, listed, file)
        whole, is_cut = await run_blocking(
            lambda: compared.read_patch(found, context=context, ignore_space=ignore_space)
        )
        limit = max(1, min(limit, _MOST_LINES))
        page, _, next_ = await asyncio.to_thread(cut_page, whole, after, limit)
        entry = cast("AgentEntry", info)
        (changed,) = list_changed(entry, compared, (found,), ReviewState()).files
        return FilePatch(
            changed=changed,
            patch=page,
            after=after,
            next=next_,
            lines=sum(len(hunk.lines) for hunk in whole.hunks),
            is_cut=is_cut,
            tree=compared.new,
        )

    async def patch_text(
        self, agent: str, files: Sequence[str], context: int, ignore_space: bool, binary: bool,
        after: int,
    ) -> PatchText:  # fmt: skip
        """See ``FleetReviews``."""
        info, compared = await self._compare(agent)
        listed = await run_blocking(compared.list_files)
        named: Sequence[FileDifference] = ()
        if files:
            named = within(info.name, compared, listed, files)
        if not listed:
            return PatchText(data=b"")
        data, is_cut = await run_blocking(
            lambda: compared.read_patch_text(
                named, context=context, ignore_space=ignore_space, binary=binary
            )
        )
        end = after + _PIECE
        is_last = end >= len(data)
        return PatchText(
            data=data[after:end], next=None if is_last else end, is_cut=is_cut and is_last,
            tree=compared.new,
        )  # fmt: skip

    async def _compare(self, agent: str) -> tuple[AgentInfo, Comparison]:
        info = await self._find(agent)
        pushed = await self._read_pushed(info)
        worktree = info.worktree
        assert worktree is not None
        base = pushed.definition.base if pushed.is_adopted else worktree.base
        kept = pushed.definition
        transport = PoolTransport(self._places, pushed.run, kept.remote, kept.base)
        references = (pushed.reference, name_reference(pushed.run, "base"))
        old, new = await transport.fetch_trees(references, (base, pushed.commit))
        object_format = "sha256" if len(new) == 64 else "sha1"
        return info, Comparison(
            store=ObjectStore(transport.mirror.with_suffix(".review"), object_format),
            alternates=(str(transport.mirror / "objects"),),
            old=old,
            new=new,
            root=os.fsencode(worktree.path),
            against=base[:7],
            notes=("files as they were after its last whole turn",),
            is_normalized=True,
        )

    async def _read_pushed(self, info: AgentInfo) -> _PushedFiles:
        async def read(connection: Connection) -> _PushedFiles | None:
            rows = await connection.execute(
                "SELECT t.run, t.reference, t.commit_id, r.definition, EXISTS (SELECT 1 FROM "
                "quarterdeck.trees o WHERE o.run = t.run AND o.task = t.task AND o.commit_id = %s) "
                "FROM quarterdeck.trees t JOIN quarterdeck.runs r ON r.id = t.run "
                "WHERE t.session = %s ORDER BY t.token DESC LIMIT 1",
                (info.worktree.base if info.worktree is not None else "", info.session),
            )
            row = await rows.fetchone()
            if row is None:
                return None
            run, reference, commit, definition, is_adopted = row
            return _PushedFiles(
                run=run, reference=reference, commit=commit, is_adopted=is_adopted,
                definition=read_definition(definition),
            )  # fmt: skip

        found = await self._database.run(read)
        if found is None:
            raise PoolUnsupportedError(f"changes of {info.name}, which has pushed no files yet")
        return found


def _split(words: str) -> list[str]:
    try:
        found = shlex.split(words)
    except ValueError:
        found = words.split()
    return [word.lower() for word in found if word]


def _make_hit(
    session: SessionId, seq: int, kind: str, time: int, spoken: str, words: list[str]
) -> SearchHit:
    lower = spoken.lower()
    at = max(0, lower.find(words[0]))
    start = max(0, at - _AROUND)
    snippet = spoken[start : at + len(words[0]) + _AROUND].replace("\n", " ")
    inside = snippet.lower()
    marks = [(found, found + len(one)) for one in words if (found := inside.find(one)) >= 0]
    return SearchHit(
        session=session, seq=seq, type=kind, snippet=snippet, marks=tuple(sorted(marks)), time=time
    )
