"""Files that are cut, damaged, huge, linked or somebody else's cost only themselves."""

import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.history.files import (
    ReadBudget,
    head_lines,
    json_lines,
    parse_time,
    tail_lines,
)
from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.drivers.history.reader import HistorySession, ReadTally
from quarterdeck.drivers.history.session import (
    AmbiguousHistorySessionError,
    HistoryError,
    HistoryUnreadableError,
    NoHistorySessionError,
)
from quarterdeck.wire.events import Prompted, TurnEnded
from tests.support.history_homes import (
    CODEX,
    FIRST,
    LAB,
    claude_lines,
    events_of,
    history_in,
    recorded_home,
    write_lines,
)


def claude_file(home: Path, id_: str = "one", slug: str = "-home-dev-lab") -> Path:
    return home / ".claude" / "projects" / slug / f"{id_}.jsonl"


# Lines


@given(st.binary(max_size=400), st.integers(1, 64))
@settings(deadline=None, max_examples=200)
def test_any_bytes_are_lines_or_counted(data: bytes, limit: int):
    tally = ReadTally()
    values = list(json_lines(io.BytesIO(data), tally, limit=limit))
    assert all(isinstance(value, dict) for value in values)
    filled = sum(1 for line in data.split(b"\n") if line.strip() or len(line) > limit)
    assert len(values) + tally.corrupt + tally.too_long + tally.is_cut == filled


def test_a_line_beyond_the_bound_is_left_out_and_the_rest_is_read():
    data = b'{"a":1}\n{"b":"' + b"x" * 5_000_000 + b'"}\n{"c":2}\n'
    tally = ReadTally()
    assert list(json_lines(io.BytesIO(data), tally, limit=1_000)) == [{"a": 1}, {"c": 2}]
    assert tally.too_long == 1


def test_half_a_character_of_javascript_is_read():
    tally = ReadTally()
    (value,) = json_lines(io.BytesIO(b'{"a":"\\ud83d"}\n'), tally)
    assert value["a"] and not tally.corrupt


def test_a_budget_bounds_what_is_read(tmp_path: Path):
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100 + b"\n" + b"y" * 100_000)
    budget = ReadBudget(3_000)
    assert sum(map(len, head_lines(file, budget))) < 3_000 and budget.is_spent
    assert tail_lines(file, 100_101, budget) == []
    budget = ReadBudget()
    assert next(head_lines(file, budget)) == b"x" * 100
    assert budget.spent == 2_048


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        ("2026-01-01T00:00:00.5Z", 1_767_225_600_500_000),
        (1_767_225_600_500, 1_767_225_600_500_000),
        ("yesterday", 0),
        (True, 0),
        (-1, 0),
        (None, 0),
        ("9999-12-31T23:59:59-14:00", 0),
    ],
)
def test_times(told: object, moment: int):
    assert parse_time(told) == moment or not moment


# Any objects


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "type",
        "message",
        "content",
        "payload",
        "role",
        "id",
        "$set",
        "messages",
        "usage",
        "toolCalls",
        "timestamp",
        "tokens",
        "info",
        "output",
        "arguments",
        "call_id",
        "uuid",
        "isSidechain",
    ]
)
WORDS = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "response_item",
        "event_msg",
        "message",
        "function_call",
        "function_call_output",
        "gemini",
        "token_count",
        "tool_result",
        "tool_use",
        "compacted",
    ]
)
INNER = st.recursive(
    JSON | WORDS,
    lambda one: st.dictionaries(KEYS, one | WORDS, max_size=4) | st.lists(one, max_size=2),
    max_leaves=6,
)
ENTRY = st.dictionaries(KEYS, INNER, max_size=6)


@given(st.lists(ENTRY, max_size=5), st.sampled_from(["claude", "codex", "gemini"]))
@settings(deadline=None, max_examples=80)
def test_any_objects_are_read(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict], agent: str
):
    folder = tmp_path_factory.getbasetemp() / "any"
    path = write_lines(folder / "session-x.jsonl", entries)
    reader = history_in(folder)._readers[agent]
    past = HistorySession(agent=agent, id="x", path=str(path))
    list(reader.read(past, ReadTally()))


# Whose they are


async def test_two_directories_with_one_slug_are_told_apart(tmp_path: Path):
    write_lines(claude_file(tmp_path, "mine"), claude_lines("hello", cwd="/home/dev/lab"))
    write_lines(claude_file(tmp_path, "other"), claude_lines("hello", cwd="/home/dev-lab"))
    listed = await history_in(tmp_path).list(Path("/home/dev/lab"))
    assert [past.id for past in listed.sessions] == ["mine"]
    assert len((await history_in(tmp_path).list(None)).sessions) == 2


async def test_a_directory_behind_a_link_is_the_same(tmp_path: Path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    slug = "".join(c if c.isalnum() else "-" for c in str(real))
    write_lines(claude_file(tmp_path, slug=slug), claude_lines("hello", cwd=str(real)))
    assert len((await history_in(tmp_path).list(link)).sessions) == 1


async def test_variables_say_where_they_are(tmp_path: Path):
    home = recorded_home(tmp_path / "moved")
    history = history_in(
        tmp_path / "empty",
        CLAUDE_CONFIG_DIR=str(home / ".claude"),
        CODEX_HOME=str(home / ".codex"),
        GEMINI_CLI_HOME=str(home),
        XDG_DATA_HOME=str(home / ".local/share"),
    )
    listed = await history.list(None)
    assert {past.agent for past in listed.sessions} == set(FIRST)


async def test_nothing_but_sessions_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = recorded_home(tmp_path / "home")
    secrets = [
        home / ".claude/.credentials.json",
        home / ".codex/auth.json",
        home / ".gemini/oauth_creds.json",
        home / ".local/share/opencode/auth.json",
    ]
    for secret in secrets:
        secret.write_text("secret")
        os.utime(secret, (1, 1))
    history = history_in(home)
    for past in (await history.list(None)).sessions:
        await events_of(history, past)
        [hit async for hit in history.search("secret", [past])]
    assert [int(secret.stat().st_atime) for secret in secrets] == [1] * 4


# Odd files


async def test_links_pipes_and_folders(tmp_path: Path):
    real = write_lines(tmp_path / "elsewhere.jsonl", claude_lines("hello"))
    folder = claude_file(tmp_path).parent
    folder.mkdir(parents=True)
    (folder / "linked.jsonl").symlink_to(real)
    (folder / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    (folder / "empty.jsonl").touch()
    listed = await history_in(tmp_path).list(Path(LAB))
    assert [past.id for past in listed.sessions] == ["linked"]


async def test_one_that_is_gone_or_locked_away_says_so(tmp_path: Path):
    file = write_lines(claude_file(tmp_path), claude_lines("hello"))
    history = history_in(tmp_path)
    past = await history.find("one")
    file.unlink()
    with pytest.raises(HistoryUnreadableError, match=r"one\.jsonl"):
        await events_of(history, past)
    os.mkfifo(file)
    with pytest.raises(HistoryUnreadableError, match="not a regular file"):
        await events_of(history, past)


async def test_the_last_line_may_be_cut(tmp_path: Path):
    file = write_lines(claude_file(tmp_path), claude_lines("hello", "again"))
    file.write_bytes(file.read_bytes()[:-20])
    history, tally = history_in(tmp_path), ReadTally()
    events = await events_of(history, await history.find("one"), tally)
    assert tally.is_cut and not tally.skipped
    assert isinstance(events[-1], TurnEnded)
    assert sum(isinstance(event, Prompted) for event in events) == 2


async def test_a_corrupt_rollout_costs_its_lines(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    (file,) = home.glob(".codex/sessions/*/*/*/*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    lines[9:9] = [b"\0\0\0\n", b"[1]\n", b'{"type":"new_thing","payload":{}}\n']
    file.write_bytes(b"".join(lines))
    history, tally = history_in(home), ReadTally()
    events = await events_of(history, await history.find(CODEX), tally)
    assert (tally.corrupt, tally.unknown) == (2, {"new_thing": 1})
    assert sum(isinstance(event, Prompted) for event in events) == 3


async def test_a_huge_line_takes_little_memory(tmp_path: Path):
    import tracemalloc

    lines = claude_lines("hello", "again")
    file = write_lines(claude_file(tmp_path), lines[:2])
    with file.open("ab") as out:
        out.write(b'{"type":"user","message":"')
        for _ in range(50):
            out.write(b"x" * 1_000_000)
        out.write(b'"}\n')
        for line in lines[2:]:
            out.write(json.dumps(line).encode() + b"\n")
    history, tally = history_in(tmp_path), ReadTally()
    past = await history.find("one")
    tracemalloc.start()
    try:
        events = await events_of(history, past, tally)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tally.too_long == 1 and peak < 20_000_000
    assert sum(isinstance(event, Prompted) for event in events) == 2


# Finding one


async def test_an_id_must_say_which(tmp_path: Path):
    for id_ in ("aaa-1", "aaa-2"):
        write_lines(claude_file(tmp_path, id_), claude_lines("hello"))
    history = history_in(tmp_path)
    assert (await history.find("aaa-2")).id == "aaa-2"
    with pytest.raises(AmbiguousHistorySessionError, match="aaa-1"):
        await history.find("aaa")
    with pytest.raises(NoHistorySessionError, match="bbb"):
        await history.find("bbb")
    with pytest.raises(NoHistorySessionError):
        await history.find("")
    with pytest.raises(HistoryError, match="claude, codex"):
        await history.list(None, agent="nobody")


def test_a_home_must_be_known():
    with pytest.raises(Exception, match="HOME"):
        AgentHistory.of({})
