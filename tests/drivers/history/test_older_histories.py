"""Layouts that the agents have left behind, and databases that are in use."""

import json
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.history.databases import open_database
from quarterdeck.drivers.history.reader import ReadTally
from quarterdeck.drivers.history.session import HistoryLockedError, HistoryUnreadableError
from quarterdeck.wire.events import (
    CompactionChanged,
    MessageChunk,
    NoticePosted,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.history_homes import (
    CODEX,
    LAB,
    OPENCODE,
    claude_lines,
    events_of,
    history_in,
    prompts,
    read_all,
    recorded_home,
    said,
    write_lines,
)

UUID = "11111111-2222-3333-4444-555555555555"


# Claude Code


def claude(home: Path, lines: list[dict[str, Any]]) -> None:
    write_lines(home / ".claude/projects/-home-dev-lab/one.jsonl", lines)


async def test_a_sidechain_of_claude_stands_within_its_call(tmp_path: Path):
    first, answer = claude_lines("look around")
    task = {"type": "tool_use", "id": "task-1", "name": "Task", "input": {"prompt": "count"}}
    side: dict[str, Any] = {"isSidechain": True, "cwd": LAB, "timestamp": "2025-06-01T00:00:00Z"}
    inner = {"id": "m2", "content": [{"type": "text", "text": "there are 3"}]}
    result = {"type": "tool_result", "tool_use_id": "task-1", "content": "3 files"}
    claude(
        tmp_path,
        [
            first,
            {**answer, "message": {"id": "m1", "content": [task]}},
            {
                **side,
                "type": "user",
                "uuid": "a",
                "parentUuid": None,
                "message": {"content": "count"},
            },
            {**side, "type": "assistant", "uuid": "b", "parentUuid": "a", "message": inner},
            {**first, "message": {"content": [result]}},
        ],
    )
    history = history_in(tmp_path)
    places = await read_all(history, await history.find("one"))
    assert [p.parent for p in places if isinstance(p.event, MessageChunk)] == ["task-1"]
    assert prompts([p.event for p in places]) == ["look around"]
    assert [p.event.status for p in places if isinstance(p.event, ToolCallEnded)] == ["completed"]


async def test_titles_of_claude_are_at_the_end(tmp_path: Path):
    last = [
        {"type": "ai-title", "aiTitle": "A made-up title", "sessionId": "one"},
        {"type": "custom-title", "customTitle": "My own title", "sessionId": "one"},
        {"type": "last-prompt", "lastPrompt": "hello"},
    ]
    claude(tmp_path, [{"type": "summary", "summary": "of another"}, *claude_lines("hello"), *last])
    assert (await history_in(tmp_path).find("one")).title == "My own title"


async def test_a_failure_of_claudes_vendor_ends_the_turn_so(tmp_path: Path):
    first, answer = claude_lines("hello")
    broken = {**answer, "isApiErrorMessage": True}
    claude(tmp_path, [first, broken])
    history = history_in(tmp_path)
    events = await events_of(history, await history.find("one"))
    assert [e.severity for e in events if isinstance(e, NoticePosted)] == ["error"]
    assert [e.stop for e in events if isinstance(e, TurnEnded)] == ["failed"]


async def test_what_claude_wrote_in_a_persons_name_is_no_prompt(tmp_path: Path):
    (first, answer) = claude_lines("hello")
    caveat = {**first, "isMeta": True, "message": {"content": "<local-command-caveat>x"}}
    output = {**first, "message": {"content": "<local-command-stdout>y</local-command-stdout>"}}
    stopped = {
        **first,
        "message": {"content": [{"type": "text", "text": "[Request interrupted by user]"}]},
    }
    claude(tmp_path, [caveat, first, answer, output, stopped])
    history = history_in(tmp_path)
    events = await events_of(history, await history.find("one"))
    assert prompts(events) == ["hello"]
    assert [e.stop for e in events if isinstance(e, TurnEnded)] == ["cancelled"]


# Codex

CONTEXT = f"<environment_context>\n  <cwd>{LAB}</cwd>\n</environment_context>"
ITEMS: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": CONTEXT}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list them"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {
        "type": "function_call",
        "name": "shell",
        "arguments": '{"command":["bash","-lc","ls"]}',
        "call_id": "call-1",
    },
    {
        "type": "function_call_output",
        "call_id": "call-1",
        "output": '{"output":"no such file\\n","metadata":{"exit_code":2}}',
    },
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "none"}]},
]


async def check_old_codex(home: Path) -> None:
    history, tally = history_in(home), ReadTally()
    (past,) = (await history.list(Path(LAB))).sessions
    assert (past.id, past.title, past.cwd) == (UUID, "list them", LAB)
    events = await events_of(history, past, tally)
    assert (prompts(events), said(events), tally.skipped) == (["list them"], ["none"], 0)
    (call,) = [e for e in events if isinstance(e, ToolCallStarted)]
    assert call.title == "bash -lc ls"
    (ended,) = [e for e in events if isinstance(e, ToolCallEnded)]
    assert (ended.status, ended.raw_output) == ("failed", {"exit_code": 2})


async def test_codex_with_bare_items(tmp_path: Path):
    head = {"id": UUID, "timestamp": "2025-06-01T10:00:00Z", "instructions": "x" * 3_000}
    name = f"rollout-2025-06-01T10-00-00-{UUID}.jsonl"
    lines = [head, {"record_type": "state"}, *ITEMS]
    write_lines(tmp_path / ".codex/sessions/2025/06/01" / name, lines)
    await check_old_codex(tmp_path)


async def test_codex_in_one_object(tmp_path: Path):
    file = tmp_path / ".codex/sessions" / f"rollout-2025-05-01-{UUID}.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"session": {"id": UUID, "cwd": LAB}, "items": ITEMS}))
    await check_old_codex(tmp_path)


async def test_codex_that_was_archived_and_compacted(tmp_path: Path):
    head = {"id": UUID, "cwd": LAB, "cli_version": "0.40.0", "originator": "codex_cli_rs"}
    wrapped = [{"type": "response_item", "payload": item} for item in ITEMS]
    compacted = {"type": "compacted", "payload": {"message": "what was said"}}
    aborted = {"type": "event_msg", "payload": {"type": "turn_aborted", "reason": "interrupted"}}
    lines = [{"type": "session_meta", "payload": head}, *wrapped, compacted, aborted]
    name = f"rollout-2025-10-01T10-00-00-{UUID}.jsonl"
    write_lines(tmp_path / ".codex/archived_sessions" / name, lines)
    history = history_in(tmp_path)
    (past,) = (await history.list(Path(LAB))).sessions
    assert (past.archived, past.version) == (True, "0.40.0")
    events = await events_of(history, past)
    summaries = [e.summary for e in events if isinstance(e, CompactionChanged)]
    assert summaries == [None, "what was said"]
    assert [e.stop for e in events if isinstance(e, TurnEnded)] == ["cancelled"]


async def test_sub_agents_of_codex_are_not_listed(tmp_path: Path):
    head = {"id": UUID, "cwd": LAB, "source": {"subagent": "review"}}
    name = f"rollout-2025-10-01T10-00-00-{UUID}.jsonl"
    lines = [{"type": "session_meta", "payload": head}]
    write_lines(tmp_path / ".codex/sessions/2025/10/01" / name, lines)
    assert (await history_in(tmp_path).list(None)).sessions == ()


async def test_a_compressed_rollout_is_read_or_says_what_it_takes(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    (file,) = home.glob(".codex/sessions/*/*/*/*.jsonl")
    file.rename(packed := file.with_name(f"{file.name}.zst"))
    packed.write_bytes(b"\x28\xb5\x2f\xfd")
    history = history_in(home)
    past = await history.find(CODEX)
    with pytest.raises(HistoryUnreadableError, match="zst"):
        await events_of(history, past)


# Gemini


async def test_gemini_in_one_object_under_a_hash(tmp_path: Path):
    folder = tmp_path / ".gemini/tmp" / sha256(LAB.encode()).hexdigest() / "chats"
    folder.mkdir(parents=True)
    messages = [
        {"id": "1", "timestamp": "2025-09-01T00:00:00Z", "type": "user", "content": "hello"},
        {
            "id": "2",
            "timestamp": "2025-09-01T00:00:01Z",
            "type": "gemini",
            "content": "hi",
            "model": "gemini-2.5-pro",
            "thoughts": [{"subject": "Greeting", "description": "be kind"}],
            "tokens": {"input": 7, "output": 2, "cached": 1, "thoughts": 3, "tool": 0, "total": 12},
            "toolCalls": [
                {"id": "c", "name": "read_file", "args": {"file_path": "a"}, "status": "error"}
            ],
        },
        {"id": "3", "type": "info", "content": "cancelled"},
    ]
    whole = {"sessionId": UUID, "projectHash": "x", "startTime": "2025-09-01T00:00:00Z"}
    text = json.dumps({**whole, "lastUpdated": "x", "messages": messages}, indent=2)
    (folder / "session-2025-09-01T00-00-11111111.json").write_text(text)
    history, tally = history_in(tmp_path), ReadTally()
    (past,) = (await history.list(Path(LAB))).sessions
    assert (past.id, past.title, past.cwd) == (UUID, "hello", LAB)
    events = await events_of(history, past, tally)
    assert (prompts(events), said(events), tally.skipped) == (["hello"], ["hi"], 0)
    (end,) = [e for e in events if isinstance(e, TurnEnded)]
    assert end.usage == TokenUsage(input=7, output=5, cached=1, thought=3)
    assert [e.status for e in events if isinstance(e, ToolCallEnded)] == ["failed"]
    (anywhere,) = (await history.list(None)).sessions
    assert anywhere.cwd is None


# OpenCode


def opencode_files(home: Path) -> Path:
    """The recorded session in the layout before the database."""
    recorded_home(home)
    data = home / ".local/share/opencode"
    connection = sqlite3.connect(data / "opencode.db")
    storage = data / "storage"

    def put(path: str, value: dict[str, Any]) -> None:
        file = storage / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))

    for id_, directory, title, created, updated in connection.execute(
        "SELECT id, directory, title, time_created, time_updated FROM session"
    ):
        time = {"created": created, "updated": updated}
        put(
            f"session/project-1/{id_}.json",
            {"id": id_, "directory": directory, "title": title, "version": "1.0.0", "time": time},
        )
    for id_, session, told in connection.execute("SELECT id, session_id, data FROM message"):
        put(f"message/{session}/{id_}.json", json.loads(told))
    for id_, message, told in connection.execute("SELECT id, message_id, data FROM part"):
        put(f"part/{message}/{id_}.json", json.loads(told))
    connection.close()
    (data / "opencode.db").unlink()
    return storage


async def test_opencode_in_files_tells_the_same_as_its_database(tmp_path: Path):
    recorded = history_in(recorded_home(tmp_path / "new"))
    expected = await read_all(recorded, await recorded.find(OPENCODE))
    storage = opencode_files(tmp_path / "old")
    history = history_in(tmp_path / "old")
    past = await history.find(OPENCODE)
    assert (past.cwd, past.title) == (LAB, "A scripted title")
    assert await read_all(history, past) == expected
    (storage / f"message/{OPENCODE}/zzz.json").write_text("{")
    tally = ReadTally()
    await read_all(history, past, tally)
    assert tally.corrupt == 1


async def test_opencode_in_both_is_told_once(tmp_path: Path):
    storage = opencode_files(tmp_path / "home")
    other = recorded_home(tmp_path / "other")
    (other / ".local/share/opencode/opencode.db").rename(storage.parent / "opencode.db")
    listed = await history_in(tmp_path / "home").list(Path(LAB), agent="opencode")
    (past,) = listed.sessions
    assert past.path.endswith(".db")


async def test_a_sub_agent_of_opencode_stands_within_its_call(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    connection = sqlite3.connect(home / ".local/share/opencode/opencode.db")
    task = {
        "type": "tool",
        "tool": "task",
        "callID": "task-1",
        "state": {
            "status": "completed",
            "input": {},
            "output": "3",
            "metadata": {"sessionId": "kid"},
        },
    }
    with connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(session)")]
        row = connection.execute("SELECT * FROM session").fetchone()
        kid = {**dict(zip(columns, row, strict=True)), "id": "kid", "parent_id": OPENCODE}
        marks = ", ".join("?" * len(kid))
        connection.execute(f"INSERT INTO session VALUES ({marks})", tuple(kid.values()))
        (last,) = connection.execute("SELECT max(id) FROM message").fetchone()
        insert = "INSERT INTO part VALUES (?, ?, ?, 0, 0, ?)"
        connection.execute(insert, ("prt_0", last, OPENCODE, json.dumps(task)))
        connection.execute(
            "INSERT INTO message VALUES ('m', 'kid', 0, 0, ?)", (json.dumps({"role": "assistant"}),)
        )
        part = json.dumps({"type": "text", "text": "three files"})
        connection.execute(insert, ("p", "m", "kid", part))
    connection.close()
    history = history_in(home)
    (past,) = (await history.list(Path(LAB), agent="opencode")).sessions
    inner = [p.event for p in await read_all(history, past) if p.parent == "task-1"]
    assert said(inner) == ["three files"]


async def test_a_locked_database_is_read_from_a_copy(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    path = home / ".local/share/opencode/opencode.db"
    owner = sqlite3.connect(path, isolation_level=None)
    try:
        owner.execute("BEGIN EXCLUSIVE")
        history = history_in(home)
        past = await history.find(OPENCODE, agent="opencode")
        assert len(await events_of(history, past)) > 20
    finally:
        owner.close()


def test_a_locked_database_that_is_too_large_to_copy_says_so(tmp_path: Path):
    path = recorded_home(tmp_path / "home") / ".local/share/opencode/opencode.db"
    owner = sqlite3.connect(path, isolation_level=None)
    try:
        owner.execute("BEGIN EXCLUSIVE")
        with (
            pytest.raises(HistoryLockedError, match="try again"),
            open_database(path, most_copied=10),
        ):
            pass
    finally:
        owner.close()


async def test_what_is_not_yet_in_the_database_file_is_read(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    path = home / ".local/share/opencode/opencode.db"
    owner = sqlite3.connect(path, isolation_level=None)
    try:
        owner.execute("PRAGMA journal_mode=WAL")
        owner.execute("UPDATE session SET title = 'Just now'")
        assert (await history_in(home).find(OPENCODE)).title == "Just now"
    finally:
        owner.close()


@pytest.mark.parametrize("damage", [b"not a database at all, but long enough to be one", b""])
async def test_a_damaged_database_costs_only_its_agent(tmp_path: Path, damage: bytes):
    home = recorded_home(tmp_path / "home")
    (home / ".local/share/opencode/opencode.db").write_bytes(damage)
    listed = await history_in(home).list(Path(LAB))
    assert {past.agent for past in listed.sessions} == {"claude", "codex", "gemini"}
    assert "opencode.db" in listed.failures["opencode"]
