"""Projections: in step with the log, rebuilt when they change, never in its way."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from quarterdeck.journal import Journal, JournalReadOnlyError
from quarterdeck.wire.events import NoticePosted
from quarterdeck.wire.record import Record
from tests.support.journal_events import append_all


class Titles:
    """Keeps the titles of notices."""

    name = "titles"
    types = frozenset({"notice"})
    schema = (
        "CREATE TABLE titles (seq INTEGER PRIMARY KEY, session TEXT, title TEXT)",
        "CREATE TABLE titles_seen (batches INTEGER)",
    )

    def __init__(self, version: int = 1, prefix: str = "") -> None:
        self.version = version
        self.prefix = prefix
        self.seen: list[int] = []

    def apply(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        for record in records:
            self.seen.append(record.seq)
            assert isinstance(record.event, NoticePosted)
            if record.event.title == "poison":
                raise RuntimeError("cannot take this")
            if record.event.title == "bad sql":
                connection.execute("INSERT INTO nowhere VALUES (1)")
            connection.execute(
                "INSERT INTO titles VALUES (?, ?, ?)",
                (record.seq, record.session, self.prefix + record.event.title),
            )

    def forget(self, connection: sqlite3.Connection, session: str) -> None:
        connection.execute("DELETE FROM titles WHERE session = ?", (session,))


def titles(connection: sqlite3.Connection) -> list[str]:
    return [title for (title,) in connection.execute("SELECT title FROM titles ORDER BY seq")]


async def test_a_projection_sees_only_the_types_it_names(path: Path, say):
    projection = Titles()
    async with Journal.open(path, projections=[projection]) as journal:
        await append_all(journal, "a", [say("x"), NoticePosted(title="one"), say("y")])
        await journal.commit("a", NoticePosted(title="two"))
        assert await journal.query(titles) == ["one", "two"]
    assert projection.seen == [2, 4]


async def test_a_new_projection_is_built_from_the_past(path: Path):
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [NoticePosted(title=str(n)) for n in range(5_000)])
    async with Journal.open(path, projections=[Titles()]) as journal:
        assert await journal.query(titles) == [str(n) for n in range(5_000)]


async def test_a_projection_that_was_left_out_catches_up_once(path: Path):
    async with Journal.open(path, projections=[Titles()]) as journal:
        await journal.commit("a", NoticePosted(title="one"))
    async with Journal.open(path) as journal:
        await journal.commit("a", NoticePosted(title="two"))
    async with Journal.open(path) as journal:
        await journal.commit("a", NoticePosted(title="three"))
    projection = Titles()
    async with Journal.open(path, projections=[projection]) as journal:
        await journal.commit("a", NoticePosted(title="four"))
        assert await journal.query(titles) == ["one", "two", "three", "four"]
    assert projection.seen == [2, 3, 4]


async def test_another_version_is_built_anew(path: Path):
    async with Journal.open(path, projections=[Titles()]) as journal:
        await journal.commit("a", NoticePosted(title="one"))
    async with Journal.open(path, projections=[Titles(2, prefix="new ")]) as journal:
        assert await journal.query(titles) == ["new one"]


async def test_rebuilding_gives_the_same_tables(path: Path):
    async with Journal.open(path, projections=[Titles()]) as journal:
        await append_all(journal, "a", [NoticePosted(title=str(n)) for n in range(10)])
        await journal.durable(10)
        await journal.rebuild("titles")
        await journal.commit("a", NoticePosted(title="after"))
        assert await journal.query(titles) == [*map(str, range(10)), "after"]
        with pytest.raises(KeyError):
            await journal.rebuild("nobody")


@pytest.mark.parametrize("poison", ["poison", "bad sql"])
async def test_a_projection_that_fails_costs_only_itself(path: Path, poison: str):
    async with Journal.open(path, projections=[Titles()]) as journal:
        await journal.commit("a", NoticePosted(title="one"))
        await journal.commit("a", NoticePosted(title=poison))
        await journal.commit("a", NoticePosted(title="three"))
        assert len(await journal.read()) == 3
        assert await journal.query(titles) == ["one"]
        assert "titles" in journal.failed_projections
        await journal.rebuild("titles")
        assert "titles" in journal.failed_projections
    async with Journal.open(path) as journal:
        await journal.delete("a")
        await journal.commit("a", NoticePosted(title="five"))
    async with Journal.open(path, projections=[Titles()]) as journal:
        assert journal.failed_projections == {}
        assert (await journal.query(titles))[-1] == "five"


async def test_a_faulty_query_is_the_caller_s_own_error(path: Path):
    async with Journal.open(path) as journal:
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            await journal.query(lambda c: c.execute("SELECT * FROM nowhere"))
        with pytest.raises(JournalReadOnlyError):
            await journal.query(lambda c: c.execute("DELETE FROM events"))


async def test_two_projections_of_one_name_are_refused(path: Path):
    with pytest.raises(ValueError, match="titles"):
        async with Journal.open(path, projections=[Titles(), Titles()]):
            pass
