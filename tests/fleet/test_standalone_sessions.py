"""Sessions of ``run`` and of editors in the fleet: listed, searched, read, adopted, resumed."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from quarterdeck.agent.session_store import SessionStore
from quarterdeck.fleet.errors import AgentNotReadyError, NoSuchAgentError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.sessions.history_index import HistoryIndex
from quarterdeck.journal import Journal, JournalError
from quarterdeck.journal.store import VERSION
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    ChildStarted,
    MessageChunk,
    Prompted,
    SessionEnded,
    SessionOpened,
    SessionSpawned,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, new_session_id
from tests.support.deadlines import SOON
from tests.support.run_logs import add_turn, own_log, write_run
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent, places_in


@pytest.fixture
def casting() -> Casting:
    return Casting()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "quarterdeck"


@pytest.fixture
def state(home: Path) -> Path:
    return places_in(home).state


@pytest.fixture
async def fleet(home: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(home, casting) as fleet:
        yield fleet


async def prompts_of(fleet: LocalFleet, agent: str) -> list[str]:
    events = await events_of(fleet, agent)
    return [e.content[0].text for e in events if isinstance(e, Prompted)]  # type: ignore[union-attr]


# Listing and searching


async def test_sessions_of_many_logs_are_listed_newest_first(fleet: LocalFleet, state: Path):
    old = await write_run(state, "a", cwd="/there", age=500)
    new = await write_run(state, "b", cwd="/here", title="Ebb und Flöße")
    os.utime(own_log(state, old), (1, 1))
    assert [one.id for one in await fleet.standalone_sessions()] == [new, old]
    assert [one.id for one in await fleet.standalone_sessions(limit=1)] == [new]
    (found,) = await fleet.standalone_sessions(cwd="/here")
    assert (found.title, found.agent, found.ended) == ("Ebb und Flöße", "claude", "closed")
    assert await fleet.standalone_sessions(cwd="/nowhere") == []


async def test_no_directory_of_logs_is_no_sessions(fleet: LocalFleet):
    assert await fleet.standalone_sessions() == []
    assert await fleet.search("anything") == []


async def test_a_search_finds_words_of_all_logs_newest_first(
    fleet: LocalFleet, state: Path, tmp_path: Path
):
    run = await write_run(state, "the spring tide of march", age=3_600)
    newer = await write_run(state, "a tide table")
    hosted = await fleet.spawn(new_agent(tmp_path, prompt="say high tide"))
    await fleet.wait([hosted.session], timeout=SOON)
    hits = await fleet.search("tide")
    sessions = list(dict.fromkeys(hit.session for hit in hits))
    assert sessions == [hosted.session, newer, run]
    assert [hit.time for hit in hits] == sorted((hit.time for hit in hits), reverse=True)
    (hit, _) = await fleet.search('"spring tide of"')
    begin, end = hit.marks[0]
    assert hit.snippet[begin:end] == "spring tide of"
    (record,) = await fleet.read(run, after=hit.seq - 1, limit=1)
    assert isinstance(record.event, MessageChunk)
    assert len(await fleet.search("tide", limit=2)) == 2


async def test_what_a_log_gains_and_loses_is_noticed(fleet: LocalFleet, state: Path):
    run = await write_run(state, "first words")
    assert len(await fleet.search("words")) == 2
    await add_turn(state, run, "second words")
    hits = await fleet.search("words")
    assert len(hits) == len({hit.seq for hit in hits}) == 4
    (one,) = await fleet.standalone_sessions()
    before = one.updated
    await add_turn(state, run, "third")
    assert (await fleet.standalone_sessions())[0].updated > before
    await SessionStore(state / "sessions").delete(run)
    assert await fleet.standalone_sessions() == []
    assert await fleet.search("words") == []


async def test_a_word_in_two_chunks_of_a_turn_that_runs_is_found_once(state: Path):
    index, id_ = HistoryIndex(state), new_session_id()
    async with SessionStore(state / "sessions").create(id_) as journal:
        await journal.append(id_, SessionOpened(agent="claude", cwd="/"))
        await journal.commit(id_, MessageChunk(content=text("a light")))
        assert len(await index.search("light")) == 1
        await journal.commit(id_, MessageChunk(content=text("house")))
        assert len(await index.search("lighthouse")) == 1
        assert await index.search("light") == []
        await journal.commit(id_, TurnEnded(stop="end_turn"))
        await journal.commit(id_, MessageChunk(content=text("harbour")))
        assert len(await index.search("lighthouse")) == len(await index.search("harbour")) == 1
    await index.close()


@pytest.mark.parametrize("damage", ["gone", "garbage", "newer", "summary"])
async def test_the_index_is_safe_to_delete_and_to_damage(state: Path, damage: str):
    await write_run(state, "a tide table")
    for _ in range(2):
        index = HistoryIndex(state)
        assert len(await index.search("tide")) == len(await index.sessions()) + 1 == 2
        await index.close()
        file = state / "history.index"
        assert file.stat().st_mode & 0o777 == 0o600
        if damage == "gone":
            file.unlink()
        elif damage == "garbage":
            file.write_bytes(b"no database" * 1_000)
        elif damage == "summary":
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("UPDATE logs SET summary = x'00'")
                connection.commit()
        else:
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("DROP TABLE words")
                connection.execute("PRAGMA user_version = 99")


async def test_an_index_that_cannot_be_written_is_made_for_the_moment(state: Path):
    run = await write_run(state, "a tide table")
    (state / "history.index").mkdir()
    index = HistoryIndex(state)
    assert [one.id for one in await index.sessions()] == [run]
    assert len(await index.search("table")) == 2
    await index.close()


async def test_two_processes_may_share_the_index(state: Path):
    for number in range(6):
        await write_run(state, f"word{number} tide")
    indices = [HistoryIndex(state) for _ in range(3)]
    found = await asyncio.gather(*(index.search("tide") for index in indices))
    assert [len(hits) for hits in found] == [12, 12, 12]
    for index in indices:
        await index.close()


# Bad input


async def test_a_log_from_a_newer_version_is_listed_and_not_opened(fleet: LocalFleet, state: Path):
    run = await write_run(state, "tide")
    with closing(sqlite3.connect(own_log(state, run))) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    (found,) = await fleet.standalone_sessions()
    assert found.id == run and found.damage is not None and "newer version" in found.damage
    assert await fleet.search("tide") == []
    for call in (fleet.agent(run), fleet.resume(run), fleet.send(run, (text("x"),))):
        with pytest.raises(JournalError, match="Upgrade quarterdeck"):
            await call
    assert own_log(state, run).exists()


async def test_a_log_that_is_no_database_is_listed_and_named(fleet: LocalFleet, state: Path):
    good, run = await write_run(state, "tide"), new_session_id()
    own_log(state, run).write_bytes(b"\0" * 5_000)
    listed = {one.id: one for one in await fleet.standalone_sessions()}
    assert listed.keys() == {good, run} and listed[run].damage
    assert {hit.session for hit in await fleet.search("tide")} == {good}
    with pytest.raises(JournalError):
        await fleet.resume(run)
    assert own_log(state, run).exists()


async def test_a_log_that_another_process_writes_is_read_and_not_adopted(
    fleet: LocalFleet, state: Path, tmp_path: Path
):
    run = await write_run(state, "tide", cwd=str(tmp_path))
    async with Journal.open(own_log(state, run)) as journal:
        assert [one.id for one in await fleet.standalone_sessions()] == [run]
        assert len(await fleet.search("tide")) == 2
        info = await fleet.agent(run)
        assert (info.session, info.is_live) == (run, False)
        with pytest.raises(AgentNotReadyError, match=f"open in process {os.getpid()}"):
            await fleet.send(run, (text("say more"),))
        assert await fleet.agents(archived=True) == []
        async with aclosing(fleet.follow(info.last_seq, agent=run)) as records:
            await journal.commit(run, SessionEnded(how="closed", reason="over there"))
            async with asyncio.timeout(SOON):
                record = await anext(records)
        assert record.event == SessionEnded(how="closed", reason="over there")
    assert (await fleet.resume(run)).session == run


async def test_of_two_sessions_with_one_id_both_stay(
    fleet: LocalFleet, state: Path, tmp_path: Path
):
    hosted = await fleet.spawn(new_agent(tmp_path, prompt="say ours"))
    await fleet.wait([hosted.session], timeout=SOON)
    await write_run(state, "theirs", id_=hosted.session)
    (other,) = await fleet.standalone_sessions()
    assert other.id == hosted.session and other.damage and "same id" in other.damage
    assert {hit.snippet for hit in await fleet.search("theirs")} == set()
    await fleet.send(hosted.session, (text("say more"),))
    await fleet.wait([hosted.session], timeout=SOON)
    assert await prompts_of(fleet, hosted.session) == ["say ours", "say more"]
    assert own_log(state, hosted.session).exists()


# Adopting


async def test_a_run_is_read_like_an_agent_without_being_adopted(fleet: LocalFleet, state: Path):
    run = await write_run(state, "one", "two", cwd="/work")
    info = await fleet.agent(run)
    assert (info.name, info.agent, info.cwd) == (run, "claude", "/work")
    assert (info.state, info.is_live, info.can_resume) == ("done", False, True)
    records = await fleet.read(run)
    assert records[-1].seq == info.last_seq
    assert [r.seq for r in await fleet.read(run, before=5, limit=2)] == [3, 4]
    assert await fleet.agents(archived=True) == []
    with pytest.raises(NoSuchAgentError):
        await fleet.agent(new_session_id())
    with pytest.raises(NoSuchAgentError):
        await fleet.read("../../etc/passwd")


async def test_a_message_to_a_run_adopts_resumes_and_delivers(
    fleet: LocalFleet, casting: Casting, state: Path, tmp_path: Path
):
    run = await write_run(state, "one", cwd=str(tmp_path), agent_session="their-7", age=900)
    before = [(r.event, r.time, r.turn) for r in await fleet.read(run)]
    await fleet.send(run, (text("say two"),))
    (info,) = await fleet.wait([run], timeout=SOON)
    assert (info.session, info.name, info.is_live) == (run, "claude-1", True)
    assert casting.links[-1].start_.opening.options.resume == "their-7"
    records = await fleet.read(run)
    assert isinstance(records[0].event, SessionSpawned)
    assert [(r.event, r.time, r.turn) for r in records[1 : len(before) + 1]] == before
    assert await prompts_of(fleet, run) == ["about one", "say two"]
    assert not own_log(state, run).exists()
    assert list((state / "sessions").iterdir()) == []
    assert await fleet.standalone_sessions() == []
    assert {hit.session for hit in await fleet.search("one")} == {run}
    with pytest.raises(AgentNotReadyError, match="already live"):
        await fleet.resume(run)


async def test_a_run_is_opened_named_and_forked(fleet: LocalFleet, state: Path, tmp_path: Path):
    run = await write_run(state, "one", cwd=str(tmp_path))
    info = await fleet.adopt_session(run, "tides")
    assert (info.name, info.state, info.is_live, info.can_resume) == ("tides", "done", False, True)
    assert await fleet.adopt_session("tides") == info
    copy = await fleet.fork("tides", name="copy")
    (copy,) = await fleet.wait([copy.session], timeout=SOON)
    assert (copy.name, copy.is_live) == ("copy", True)
    other = await write_run(state, "two", cwd=str(tmp_path))
    assert (await fleet.rename(other, "moon")).name == "moon"


async def test_two_callers_adopt_a_run_once(fleet: LocalFleet, state: Path, tmp_path: Path):
    run = await write_run(state, "one", cwd=str(tmp_path))
    await asyncio.gather(*(fleet.send(run, (text(f"say {n}"),)) for n in range(4)))
    await fleet.wait([run], timeout=SOON)
    assert sorted(await prompts_of(fleet, run)) == ["about one", *(f"say {n}" for n in range(4))]
    assert len(await fleet.agents(archived=True)) == 1


async def test_what_a_killed_run_left_open_is_closed(
    fleet: LocalFleet, state: Path, tmp_path: Path
):
    run = await write_run(state, cwd=str(tmp_path), is_ended=False)
    child = new_session_id()
    async with await SessionStore(state / "sessions").open(run) as journal:
        started = ChildStarted(child=child, call=ToolCallId("c1"), name="scout", task="look")
        await journal.append(run, started)
        await journal.append(child, SessionOpened(agent="native", cwd="/", parent_session=run))
    info = await fleet.adopt_session(run)
    assert (info.state, info.is_live) == ("failed", False)
    assert isinstance((await events_of(fleet, run))[-1], SessionEnded)
    assert [one.session for one in await fleet.agents()] == [run]
    ends = [r for r in await fleet.read(None) if r.session == child]
    assert isinstance(ends[-1].event, SessionEnded)


async def test_an_adoption_that_was_cut_off_is_taken_back(
    home: Path, casting: Casting, state: Path, tmp_path: Path
):
    run = await write_run(state, "one", cwd=str(tmp_path))
    own = own_log(state, run)
    kept = own.read_bytes()
    async with fleet_of(home, casting) as fleet:
        await fleet.adopt_session(run)
    own.write_bytes(kept)  # as if the host had died before it removed the log
    own.with_name(own.name + ".adopting").touch()
    async with fleet_of(home, casting) as fleet:
        assert await fleet.agents(archived=True) == []
        assert [one.damage for one in await fleet.standalone_sessions()] == [None]
        assert (await fleet.adopt_session(run)).session == run
        assert await prompts_of(fleet, run) == ["about one"]
    assert not own.exists()


async def test_a_log_that_is_not_understood_in_full_is_kept(
    fleet: LocalFleet, state: Path, tmp_path: Path
):
    run = await write_run(state, "one", cwd=str(tmp_path))
    with closing(sqlite3.connect(own_log(state, run))) as connection:
        body = b'{"type":"of_tomorrow"}'
        connection.execute("UPDATE events SET body = ?, checksum = NULL WHERE seq = 4", (body,))
        connection.commit()
    info = await fleet.adopt_session(run)
    assert info.can_resume
    kept = own_log(state, run).with_name(f"{run}.db.kept")
    async with Journal.open(kept, write=False) as journal:
        assert len(await journal.read(0, run)) == 6
    assert await fleet.standalone_sessions() == []


async def test_a_log_that_cannot_be_removed_stays_and_is_not_adopted(
    fleet: LocalFleet, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = await write_run(state, "one", cwd=str(tmp_path))

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".db":
            raise PermissionError(13, "it may not be removed")
        unlink(path, missing_ok)

    unlink = Path.unlink
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(AgentNotReadyError, match="it may not be removed"):
            await fleet.adopt_session(run)
    assert await fleet.agents(archived=True) == []
    assert [one.damage for one in await fleet.standalone_sessions()] == [None]
    assert (await fleet.adopt_session(run)).session == run


async def test_a_name_that_is_taken_leaves_the_run_as_it_was(
    fleet: LocalFleet, state: Path, tmp_path: Path
):
    run = await write_run(state, "one", cwd=str(tmp_path))
    await fleet.spawn(new_agent(tmp_path, name="ann"))
    from quarterdeck.fleet.errors import NameTakenError

    with pytest.raises(NameTakenError):
        await fleet.adopt_session(run, "ann")
    assert [one.id for one in await fleet.standalone_sessions()] == [run]
    assert not own_log(state, run).with_name(f"{run}.db.adopting").exists()
    assert [one.name for one in await fleet.agents(archived=True)] == ["ann"]


# Messages to agents that have ended


async def test_a_message_to_an_agent_that_has_ended_resumes_it(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say one"))
    await fleet.wait(["ann"], timeout=SOON)
    for end in (fleet.close, fleet.kill):
        await end("ann")
        with pytest.raises(AgentNotReadyError, match="not live"):
            await fleet.send("ann", (text("say no"),), resume=False)
        await fleet.send("ann", (text("say more"),))
        (info,) = await fleet.wait(["ann"], timeout=SOON)
        assert info.is_live
    assert await prompts_of(fleet, "ann") == ["say one", "say more", "say more"]
    await fleet.close("ann")
    assert not (await fleet.steer("ann", (text("say last"),))).steered
    await fleet.wait(["ann"], timeout=SOON)
    assert (await prompts_of(fleet, "ann"))[-1] == "say last"


async def test_an_agent_cannot_wake_what_was_killed_or_archived(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say one"))
    await fleet.wait(["ann"], timeout=SOON)
    await fleet.kill("ann")
    with pytest.raises(AgentNotReadyError, match="only a person"):
        await fleet.send("ann", (text("x"),), origin="agent", sender=SessionId("ses_lead"))
    await fleet.archive("ann")
    with pytest.raises(AgentNotReadyError, match="unarchive it first"):
        await fleet.send("ann", (text("x"),))
