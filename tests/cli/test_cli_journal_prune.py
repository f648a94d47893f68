"""``journal export`` as a document, and ``journal prune``: the host's log and logs of their own."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from quarterdeck.agent.session_store import SessionStore
from quarterdeck.config.places import Places
from quarterdeck.fleet.sessions.retention import open_host_journal
from quarterdeck.journal import Journal
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, Prompted, SessionOpened
from quarterdeck.wire.ids import MessageId, SessionId, new_session_id
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import fleet_of, new_agent

DAY = 86_400_000_000
KEY = "sk-ant-abcdefghijklmnopqrst"


@pytest.fixture
def places(environ: dict[str, str]) -> Places:
    return Places.find(environ)


async def fill(journal: Journal, session: SessionId) -> None:
    await journal.append(session, SessionOpened(agent="native", cwd="/w", title="A <title>"))
    prompt = Prompted(content=(text(f"use {KEY}"),), message=MessageId("m"))
    await journal.append(session, prompt)
    await journal.append(session, MessageChunk(content=text("# done\n```\n<b>")))


@pytest.fixture
def own(places: Places) -> SessionId:
    """A session that was run without a host."""
    session = new_session_id()

    async def make() -> None:
        async with SessionStore(places.state / "sessions").create(session) as journal:
            await fill(journal, session)

    asyncio.run(make())
    return session


@pytest.fixture
def hosted(places: Places) -> tuple[SessionId, SessionId]:
    """An old and a young session in the host's log."""
    old, young = new_session_id(), new_session_id()
    times = iter(range(1_000_000, 2_000_000))

    async def make() -> None:
        async with Journal.open(places.journal_file, clock=lambda: next(times)) as journal:
            await fill(journal, old)
        async with Journal.open(places.journal_file) as journal:
            await fill(journal, young)

    asyncio.run(make())
    return old, young


@pytest.mark.parametrize("kind", ["own", "hosted"])
def test_a_session_of_either_log_becomes_a_document(run, own: SessionId, hosted, kind: str):
    session = own if kind == "own" else hosted[1]
    markdown = run("journal", "export", "--session", session, "--format", "markdown")
    assert (markdown.returncode, markdown.stderr) == (0, "")
    assert "\n````text\n# done\n```\n<b>\n````\n" in markdown.stdout
    assert KEY not in markdown.stdout and "use …" in markdown.stdout
    page = run("journal", "export", "--session", session, "--format", "html").stdout
    assert page.startswith("<!doctype html>") and "&lt;b&gt;" in page and KEY not in page
    read = json.loads(run("journal", "export", "--session", session, "--format", "json").stdout)
    assert [one["kind"] for one in read["passages"]] == ["session", "prompt", "message"]
    lines = run("journal", "export", "--session", session).stdout.splitlines()
    assert len(lines) == 3 and not any(KEY in line for line in lines)
    whole = run("journal", "export", "--session", session, "--unmasked").stdout
    assert KEY in whole


def test_values_of_secret_variables_are_masked_in_every_form(run, own: SessionId):
    for form in ("jsonl", "json", "markdown", "html"):
        arguments = ("journal", "export", "--session", own, "--format", form)
        assert "native" in run(*arguments).stdout
        assert "native" not in run(*arguments, MY_SECRET="native").stdout


def test_a_document_is_written_to_a_file_for_its_owner_alone(run, own: SessionId, work: Path):
    done = run("journal", "export", "--session", own, "--format", "html", "-o", "x.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert (work / "x.html").read_text().endswith("</html>\n")
    assert stat.S_IMODE((work / "x.html").stat().st_mode) == 0o600


def test_what_cannot_be_exported_is_told(run, own: SessionId, hosted):
    done = run("journal", "export", "--format", "html")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--session" in done.stderr
    for session in ("ses_none", "../../x", new_session_id()):
        done = run("journal", "export", "--session", session, "--format", "json")
        assert (done.returncode, done.stdout) == (1, "")
        assert repr(str(session)) in done.stderr


def sessions(run, *arguments: str) -> list[str]:
    done = run("journal", "prune", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return [one["session"] for one in json.loads(done.stdout)["sessions"]]


def test_old_sessions_go_and_young_ones_stay(run, own: SessionId, hosted, places: Places):
    old, young = hosted
    assert sessions(run, "--older-than", "90d", "--dry-run") == [old]
    assert sessions(run, "--older-than", "90d", "--dry-run") == [old]
    assert sessions(run, "--older-than", "90d") == [old]
    assert sessions(run, "--older-than", "90d") == []
    assert "Nothing" in run("journal", "prune", "--older-than", "90d").stdout
    kept = run("journal", "export").stdout
    assert old not in kept and young in kept
    assert set(sessions(run, "--older-than", "0s")) == {young, own}
    assert list((places.state / "sessions").glob("ses_*")) == []
    assert run("journal", "export").stdout == ""


def test_sessions_go_by_name(run, own: SessionId, hosted):
    old, young = hosted
    assert sessions(run, "--session", own, "--session", young, "--older-than", "90d") == []
    assert set(sessions(run, "--session", own, "--session", young)) == {own, young}
    done = run("journal", "prune", "--session", old, "--session", "ses_none")
    assert (done.returncode, done.stdout) == (1, "")
    assert sessions(run, "--older-than", "1d", "--dry-run") == [old]


@pytest.mark.parametrize("arguments", [[], ["--older-than", "soon"], ["--older-than", "-1d"]])
def test_without_saying_which_nothing_goes(run, own: SessionId, arguments: list[str]):
    assert run("journal", "prune", *arguments).returncode == 2
    assert sessions(run, "--older-than", "0s", "--dry-run") == [own]


async def test_a_session_that_is_open_stays_and_is_told(run, places: Places):
    session = new_session_id()
    async with SessionStore(places.state / "sessions").create(session) as journal:
        await fill(journal, session)
        await journal.durable(3)
        done = await asyncio.to_thread(lambda: run("journal", "prune", "--older-than", "0s"))
    assert done.returncode == 1
    assert "not deleted" in done.stdout
    assert len(list((places.state / "sessions").glob("ses_*.db"))) == 1


async def test_a_fleet_has_forgotten_what_was_pruned(run, tmp_path: Path):
    home = tmp_path / "fleet"
    async with fleet_of(home) as fleet:
        info = await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say hello"))
        await fleet.wait(["ann"], timeout=SOON)
        locked = await asyncio.to_thread(
            lambda: run("journal", "prune", "--older-than", "0s", QUARTERDECK_HOME=str(home))
        )
        assert (locked.returncode, locked.stdout) == (1, "")
        assert "Traceback" not in locked.stderr
        named = await asyncio.to_thread(
            lambda: run(
                *("journal", "export", "--session", "ann", "--format", "markdown"),
                QUARTERDECK_HOME=str(home),
            )
        )
        assert info.session.replace("_", "\\_") in named.stdout and "hello" in named.stdout
    pruned = await asyncio.to_thread(
        lambda: run("journal", "prune", "--session", info.session, QUARTERDECK_HOME=str(home))
    )
    assert (pruned.returncode, pruned.stderr) == (0, "")
    async with fleet_of(home) as fleet:
        assert await fleet.agents(archived=True) == []
        assert await fleet.search("hello") == []
        again = await fleet.spawn(new_agent(tmp_path, name="ann"))
        assert again.session != info.session


async def test_a_host_that_runs_deletes_what_is_in_its_log(run, tmp_path: Path):
    home = tmp_path / "fleet"
    async with fleet_of(home) as fleet:
        info = await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say hello"))
        await fleet.wait(["ann"], timeout=SOON)

    async def command(*arguments: str):
        done = await asyncio.to_thread(lambda: run(*arguments, QUARTERDECK_HOME=str(home)))
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    try:
        assert "ann" in await command("ps", "--all")
        assert info.session in await command("journal", "prune", "--older-than", "0s")
        assert "ann" not in await command("ps", "--all")
        assert await command("journal", "export") == ""
    finally:
        await command("host", "stop")


@pytest.fixture
def family(places: Places) -> tuple[SessionId, SessionId, SessionId, SessionId]:
    """A session in the host's log with a sub-agent that has one of its own, and an orphan."""
    parent, child, grandchild, orphan = (new_session_id() for _ in range(4))

    async def make() -> None:
        async with open_host_journal(places) as journal:
            await fill(journal, parent)
            for one, above in ((child, parent), (grandchild, child), (orphan, new_session_id())):
                opened = SessionOpened(
                    agent="native", cwd="/w", title="below", parent_session=above
                )
                await journal.append(one, opened)
                await journal.append(one, MessageChunk(content=text("said below")))

    asyncio.run(make())
    return parent, child, grandchild, orphan


def test_sub_agents_go_with_their_parents(run, family, places: Places):
    parent, _, _, orphan = family
    told = json.loads(run("journal", "prune", "--older-than", "0s", "--dry-run", "--json").stdout)
    assert {one["session"] for one in told["sessions"]} == {parent, orphan}
    assert run("journal", "prune", "--session", parent).returncode == 0

    async def left() -> set[SessionId]:
        async with Journal.open(places.journal_file, write=False) as journal:
            return {record.session async for record in journal.history()}

    assert asyncio.run(left()) == {orphan}


async def test_a_host_deletes_sub_agents_and_keeps_agents_that_were_led(tmp_path: Path):
    async with fleet_of(tmp_path / "q") as fleet:
        parent = await fleet.spawn(new_agent(tmp_path, lead=True))
        led = await fleet.spawn(new_agent(tmp_path, parent=parent.session))
        child = new_session_id()
        opened = SessionOpened(agent="native", cwd="/w", parent_session=parent.session)
        await fleet.journal.commit(child, opened)
        await fleet.close(parent.session)
        await fleet.delete(parent.session)
        assert [one.session for one in await fleet.agents(archived=True)] == [led.session]
        assert await fleet.journal.read(0, child, limit=1) == []


def test_sub_agents_stand_below_the_session_that_began_them(run, places: Places):
    parent, child, grandchild = (new_session_id() for _ in range(3))

    async def make() -> None:
        async with SessionStore(places.state / "sessions").create(parent) as journal:
            await fill(journal, parent)
            for one, above in ((child, parent), (grandchild, child)):
                opened = SessionOpened(agent="native", cwd="/w", parent_session=above)
                await journal.append(one, opened)

    asyncio.run(make())
    try:
        lines = run("sessions").stdout.splitlines()
        told = json.loads(run("sessions", "--json").stdout)
    finally:
        run("host", "stop")
    assert [line.split("  ")[0] for line in lines] == [
        "SESSION",
        parent,
        f"└ {child}",
        f"└└ {grandchild}",
    ]
    assert [one["id"] for one in told["sub_agents"]] == [child, grandchild]
