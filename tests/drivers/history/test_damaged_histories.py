"""Whatever is done to the files of one agent: nothing but our own errors, and the others go on."""

import asyncio
import json
import os
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.history.databases import open_database
from quarterdeck.drivers.history.history import AgentHistory, HistoryListing
from quarterdeck.drivers.history.reader import ReadTally
from quarterdeck.drivers.history.session import HistoryError, HistoryUnreadableError
from quarterdeck.wire.events import ToolCallEnded, ToolCallStarted, TurnEnded, TurnStarted
from tests.support.history_homes import FIRST, LAB, RECORDED, history_in, recorded_home

FEW = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MANY = settings(FEW, max_examples=2_000)
SCALARS = st.sampled_from([None, True, -1, 0, 1e308, 2**70, "", "x", "user", "\ud800"])
DEEP: Any = json.loads("[" * 400 + "]" * 400)
ANYTHING = st.one_of(
    SCALARS,
    st.just(DEEP),
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.sampled_from(["type", "text", "id"]), SCALARS, max_size=3),
)


THERE: dict[str, set[str]] = {}
"""The sessions of each agent in the home that is damaged."""


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with every layout that is read."""
    home = recorded_home(tmp_path_factory.mktemp("intact") / "home")
    shutil.copytree(RECORDED / "codex-0.166.0-branches", home / ".codex", dirs_exist_ok=True)
    shutil.copytree(RECORDED / "claude-2.1.325-branches", home / ".claude", dirs_exist_ok=True)
    shutil.copytree(RECORDED / "opencode-project/project", home / ".local/share/opencode/project")
    project = home / ".gemini/tmp" / sha256(LAB.encode()).hexdigest()
    project.mkdir()
    shutil.copy(RECORDED / "gemini-logs/logs.json", project)
    for past in asyncio.run(everything(history_in(home))).sessions:
        THERE.setdefault(past.agent, set()).add(past.id)
    return home


async def everything(history: AgentHistory) -> HistoryListing:
    """List and read all; only our own errors may come of it."""
    listed = await history.list(None, limit=None)
    for past in listed.sessions:
        events: list[Any] = []
        try:
            events += [one.event async for one in history.read(past, ReadTally())]
        except HistoryError:
            continue
        for begin, end in ((TurnStarted, TurnEnded), (ToolCallStarted, ToolCallEnded)):
            counts = [sum(isinstance(event, kind) for event in events) for kind in (begin, end)]
            assert counts[0] == counts[1], (past, begin)
    await history.list(Path(LAB), limit=3)
    [hit async for hit in history.search("scene text", listed.sessions)]
    return listed


def check(home: Path, damaged: Path, data: bytes) -> None:
    """Read a home with one file damaged; those of the other agents must all be there."""
    whole = damaged.read_bytes()
    owner = next(agent for agent in FIRST if agent in str(damaged.relative_to(home)))
    try:
        damaged.write_bytes(data)
        after = asyncio.run(everything(history_in(home)))
    finally:
        damaged.write_bytes(whole)
    others = {past.id for past in after.sessions if past.agent != owner}
    assert others == set().union(*(ids for agent, ids in THERE.items() if agent != owner))


def files_of(home: Path) -> list[Path]:
    return sorted(file for file in home.rglob("*") if file.is_file())


def spliced(draw: st.DataObject, whole: bytes) -> bytes:
    start = draw.draw(st.integers(0, len(whole)))
    stop = draw.draw(st.integers(start, min(len(whole), start + 2_000)))
    return whole[:start] + draw.draw(st.binary(max_size=12)) + whole[stop:]


def with_other_types(draw: st.DataObject, whole: bytes) -> bytes:
    """One value somewhere in a file of JSON becomes another."""
    lines = whole.split(b"\n") if b"\n{" in whole and not whole.startswith(b"[") else [whole]
    place = draw.draw(st.integers(0, len(lines) - 1))
    try:
        value = json.loads(lines[place])
    except ValueError:
        return whole
    spots = list(_spots(value))
    if spots:
        holder, key = draw.draw(st.sampled_from(spots))
        holder[key] = draw.draw(ANYTHING)
    lines[place] = json.dumps(value).encode("utf-8", "replace")
    return b"\n".join(lines)


def _spots(value: Any) -> Any:
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield value, key
        yield from _spots(value[key])


@given(draw=st.data())
@FEW
def test_bytes_that_are_changed(intact: Path, draw: st.DataObject):
    file = draw.draw(st.sampled_from(files_of(intact)))
    check(intact, file, spliced(draw, file.read_bytes()))


@given(draw=st.data())
@FEW
def test_values_of_other_types(intact: Path, draw: st.DataObject):
    file = draw.draw(st.sampled_from([one for one in files_of(intact) if "json" in one.suffix]))
    check(intact, file, with_other_types(draw, file.read_bytes()))


@given(draw=st.data())
@FEW
def test_rows_of_other_types(intact: Path, draw: st.DataObject):
    path = intact / ".local/share/opencode/opencode.db"
    whole = path.read_bytes()
    table = draw.draw(st.sampled_from(["session", "message", "part"]))
    connection = sqlite3.connect(path)
    with connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column = draw.draw(st.sampled_from([one for one in columns if one != "id"]))
        (told,) = connection.execute(f"SELECT {column} FROM {table}").fetchone()
        other: Any = draw.draw(st.one_of(st.none(), st.binary(max_size=9), st.integers(0, 9)))
        if column == "data":
            other = with_other_types(draw, told.encode()).decode("utf-8", "replace")
        connection.execute("PRAGMA ignore_check_constraints = on")
        try:
            connection.execute(f"UPDATE {table} SET {column} = ?", (other,))
        except sqlite3.Error:
            connection.rollback()
    connection.close()
    changed = path.read_bytes()
    path.write_bytes(whole)
    check(intact, path, changed)


@pytest.mark.stress
@pytest.mark.timeout(1_800)
@given(draw=st.data())
@MANY
def test_changes_without_end(intact: Path, draw: st.DataObject):
    file = draw.draw(st.sampled_from(files_of(intact)))
    how = draw.draw(st.sampled_from([spliced, with_other_types]))
    check(intact, file, how(draw, file.read_bytes()))


# Things that are no files, or not for long


@pytest.mark.parametrize(
    "what",
    [
        "pipe",
        "device",
        "loop",
        "folder",
        "gone",
        pytest.param(
            "socket",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only root may make one"),
        ),
    ],
)
async def test_something_else_in_place_of_each_file(intact: Path, tmp_path: Path, what: str):
    home = tmp_path / "home"
    shutil.copytree(intact, home)
    history = history_in(home)
    before = await history.list(None, limit=None)
    for file in files_of(home):
        file.unlink()
        match what:
            case "pipe":
                os.mkfifo(file)
            case "device":
                file.symlink_to("/dev/zero")
            case "loop":
                file.symlink_to(file)
            case "folder":
                file.mkdir()
            case "socket":
                os.mknod(file, 0o600 | 0o140000)
            case _:
                pass
    began = time.monotonic()
    for past in before.sessions:
        with pytest.raises(HistoryError):
            assert [one async for one in history.read(past, ReadTally())] == []
            raise HistoryError("files that are gone tell nothing")
        [hit async for hit in history.search("scene", [past])]
    assert (await history.list(None, limit=None)).sessions == ()
    assert time.monotonic() - began < 10


async def test_folders_that_lead_back_to_themselves(tmp_path: Path, intact: Path):
    home = tmp_path / "home"
    shutil.copytree(intact, home)
    for folder in (".claude/projects", ".codex/sessions", ".gemini/tmp"):
        (home / folder / "again").symlink_to(home / folder)
        (home / folder / "itself").symlink_to(home / folder / "itself")
    listed = await everything(history_in(home))
    before = await history_in(intact).list(None, limit=None)
    assert {past.id for past in listed.sessions} == {past.id for past in before.sessions}


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
async def test_folders_that_may_not_be_read(tmp_path: Path, intact: Path):
    home = tmp_path / "home"
    shutil.copytree(intact, home)
    for mode in (0o000, 0o400, 0o100):
        folder = home / ".codex/sessions"
        folder.chmod(mode)
        try:
            agents = {past.agent for past in (await everything(history_in(home))).sessions}
        finally:
            folder.chmod(0o700)
        assert agents >= {"claude", "gemini", "opencode"}


async def test_files_that_vanish_while_they_are_listed(tmp_path: Path, intact: Path):
    home = tmp_path / "home"
    shutil.copytree(intact, home)
    history = history_in(home)

    async def take_away() -> None:
        for file in files_of(home):
            await asyncio.to_thread(file.unlink)

    async with asyncio.TaskGroup() as group:
        group.create_task(take_away())
        for _ in range(5):
            await everything(history)
    assert (await history.list(None)).sessions == ()


# Databases that are in use


async def test_a_locked_database_says_so_soon_and_the_others_are_listed(
    tmp_path: Path, intact: Path
):
    home = tmp_path / "home"
    shutil.copytree(intact, home)
    path = home / ".local/share/opencode/opencode.db"
    os.truncate(path, 300_000_000)  # too large to be copied; most of it is a hole
    owner = sqlite3.connect(path, isolation_level=None)
    try:
        owner.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        listed = await history_in(home).list(Path(LAB))
        assert time.monotonic() - began < 2
        assert "locked by its agent" in listed.failures["opencode"]
        assert {past.agent for past in listed.sessions} == set(FIRST)  # older ones are in files
        with pytest.raises(HistoryError, match="locked by its agent"):
            await history_in(home).find("ses_e1ca")
    finally:
        owner.close()


async def test_nothing_is_left_beside_a_database(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    folder = home / ".local/share/opencode"
    connection = sqlite3.connect(folder / "opencode.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    stamp = (folder / "opencode.db").stat()
    listed = await everything(history_in(home))
    assert {past.agent for past in listed.sessions} == set(FIRST)
    assert [one.name for one in await asyncio.to_thread(lambda: list(folder.iterdir()))] == [
        "opencode.db"
    ]
    assert (folder / "opencode.db").stat().st_mtime_ns == stamp.st_mtime_ns


# Sizes


async def test_one_line_of_100_megabytes(tmp_path: Path, intact: Path):
    import resource

    home = tmp_path / "home"
    shutil.copytree(intact, home)
    for agent in ("claude", "codex", "gemini"):
        (file, *_) = (home / f".{agent}").rglob("*-*.jsonl")
        with file.open("r+b") as out:
            out.readline()
            out.truncate(out.tell() - 3)
            out.truncate(100_000_000)  # a hole, and no end of the line
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await everything(history_in(home))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (200_000 if sys.platform == "linux" else 200_000_000)


def test_a_database_whose_schema_is_no_text_is_unreadable(tmp_path: Path):
    path = tmp_path / "broken.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE session (id TEXT)")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET name = CAST(x'80FF' AS TEXT), sql = 'x'")
        database.commit()
    with pytest.raises(HistoryUnreadableError), open_database(path):
        pass
