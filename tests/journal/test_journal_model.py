"""The journal against a list: any order of calls gives what the list gives."""

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.journal import Journal, JournalLimits
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, NoticePosted
from quarterdeck.wire.record import Record
from tests.support.journal_events import append_all

SESSIONS = st.sampled_from(["a", "b", "c"])
MAYBE = st.none() | SESSIONS
PLACES = st.integers(0, 60)
WORDS = st.sampled_from(["one", "two", "three"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), SESSIONS, st.integers(1, 8), WORDS),
        st.tuples(st.just("notice"), SESSIONS, WORDS),
        st.tuples(st.just("read"), PLACES, MAYBE, st.integers(1, 9)),
        st.tuples(st.just("tail"), PLACES, MAYBE, st.integers(1, 9)),
        st.tuples(st.just("follow"), PLACES, MAYBE),
        st.tuples(st.just("search"), WORDS, MAYBE),
        st.tuples(st.just("delete"), SESSIONS),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)
SMALL = JournalLimits(recent_events=8, batch_events=3, pending_events=5, linger=0)


def said(record: Record) -> str:
    event = record.event
    return event.title if isinstance(event, NoticePosted) else event.content.text


class Model:
    """The records of a log, as a list."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.given = 0

    def add(self, record: Record) -> None:
        self.given += 1
        assert record.seq == self.given
        self.records.append(record)

    def of(self, session: str | None) -> list[Record]:
        return [r for r in self.records if session is None or r.session == session]


async def step(journal: Journal, model: Model, name: str, *values) -> None:
    match name, values:
        case "append", (session, count, word):
            events = [MessageChunk(content=text(word + " "), message="m")] * count
            for record in await append_all(journal, session, events):
                model.add(record)
        case "notice", (session, word):
            model.add(await journal.append(session, NoticePosted(title=word)))
        case "delete", (session,):
            assert await journal.delete(session) == len(model.of(session))
            model.records = [r for r in model.records if r.session != session]
        case _:
            if model.given > journal.last:
                await journal.durable(model.given)
            await look(journal, model, name, *values)


async def look(journal: Journal, model: Model, name: str, *values) -> None:
    match name, values:
        case "read", (after, session, limit):
            expected = [r for r in model.of(session) if r.seq > after][:limit]
            assert await journal.read(after, session, limit) == expected
        case "tail", (before, session, limit):
            expected = [r for r in model.of(session) if r.seq < before][-limit:]
            assert await journal.tail(session, before, limit) == expected
        case "follow", (after, session):
            expected = [r for r in model.of(session) if r.seq > after]
            assert await first(journal, after, session, len(expected)) == expected
        case "search", (word, session):
            hits = {hit.session for hit in await journal.search(word, session)}
            assert hits == {r.session for r in model.of(session) if word in said(r)}


async def first(journal: Journal, after: int, session: str | None, count: int) -> list[Record]:
    found: list[Record] = []
    async with aclosing(journal.follow(after, session)) as records:
        while len(found) < count:
            found.append(await anext(records))
    return found


async def play(path: Path, steps: list[tuple]) -> None:
    model, left = Model(), list(steps)
    while True:
        async with Journal.open(path, limits=SMALL) as journal:
            assert journal.last == model.given
            while left and left[0] != ("reopen",):
                await step(journal, model, *left.pop(0))
        if not left:
            break
        left.pop(0)
    async with Journal.open(path, write=False) as journal:
        assert [record async for record in journal.history()] == model.records
        assert (await journal.check()).healthy


@given(STEPS)
@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_order_of_calls_matches_a_list(tmp_path: Path, steps: list[tuple]):
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        asyncio.run(play(Path(folder) / "log.db", steps))
