"""Layouts from before the present ones, as the programs' published sources tell them."""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.drivers.history.reader import ReadTally
from quarterdeck.wire.events import (
    NoticePosted,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from tests.support.history_homes import LAB, RECORDED, events_of, history_in, prompts, said

LOGGED = "c1f5a1c2-6a55-4d0c-9a8f-0d5b6b8f2b10"


# OpenCode


def opencode(home: Path) -> Path:
    data = home / ".local/share/opencode"
    shutil.copytree(RECORDED / "opencode-project", data)
    return data


def move_over(data: Path) -> None:
    """What OpenCode does with the oldest layout: it copies all, and leaves it."""
    old = data / "project/home-dev-lab/storage/session"
    shutil.copytree(old / "info", data / "storage/session/1234abcd")
    shutil.copytree(old / "message", data / "storage/message")
    shutil.copytree(old / "part/ses_v2", data / "storage/part")


async def told(history: AgentHistory) -> dict[str, list[Any]]:
    listed = await history.list(Path(LAB))
    return {past.id: await events_of(history, past) for past in listed.sessions}


async def test_opencode_with_a_storage_for_each_project(tmp_path: Path):
    opencode(tmp_path)
    history = history_in(tmp_path)
    newest, oldest = (await history.list(Path(LAB))).sessions
    assert (newest.id, oldest.id) == ("ses_v2", "ses_v1")
    assert (oldest.title, oldest.version, oldest.cwd) == ("Count the files", "0.1.150", LAB)
    assert newest.title == "say hello"
    tally = ReadTally()
    events = await events_of(history, oldest, tally)
    assert prompts(events) == ["how many files are here?"] and not tally.skipped
    assert said(events) == ["Let me look.", "There are 3."]
    counted, left = [e for e in events if isinstance(e, ToolCallStarted)]
    assert (counted.title, counted.name, left.name) == ("Counts files", "bash", "read")
    ends = {e.call: e.status for e in events if isinstance(e, ToolCallEnded)}
    assert ends == {counted.call: "completed", left.call: "cancelled"}
    (ended,) = [e for e in events if isinstance(e, TurnEnded)]
    assert ended.usage is not None and (ended.usage.input, ended.usage.output) == (1_000, 30)
    assert ended.cost is not None and ended.cost.amount == 0.01
    (model,) = [e.model for e in events if isinstance(e, SessionChanged)]
    assert model == "anthropic/claude-sonnet-4"
    events = await events_of(history, newest)
    assert (prompts(events), said(events)) == (["say hello"], ["Hello!"])
    hits = [hit async for hit in history.search("files here", [newest, oldest])]
    assert [hit.past.id for hit in hits] == ["ses_v1"]


async def test_opencode_that_copied_its_sessions_over_tells_each_once(tmp_path: Path):
    data = opencode(tmp_path)
    history = history_in(tmp_path)
    before = await told(history)
    move_over(data)
    assert await told(history) == before
    shutil.rmtree(data / "project")
    assert await told(history) == before


async def test_ids_that_lead_elsewhere_are_not_followed(tmp_path: Path):
    data = opencode(tmp_path)
    info = data / "project/home-dev-lab/storage/session/info/ses_v1.json"
    info.write_text(json.dumps({"id": "../../../secret", "directory": LAB, "title": "x"}))
    assert [p.id for p in (await history_in(tmp_path).list(Path(LAB))).sessions] == ["ses_v2"]


# Gemini


def gemini(home: Path, root: str = LAB) -> Path:
    project = home / ".gemini/tmp" / sha256(root.encode()).hexdigest()
    project.mkdir(parents=True)
    shutil.copy(RECORDED / "gemini-logs/logs.json", project)
    return project


async def test_prompts_that_gemini_logged_are_a_session_that_cannot_be_resumed(tmp_path: Path):
    gemini(tmp_path)
    history, tally = history_in(tmp_path), ReadTally()
    (past,) = (await history.list(Path(LAB))).sessions
    assert (past.id, past.title, past.cwd) == (LOGGED, "what does this project do?", LAB)
    assert not past.can_resume and past.updated > past.started
    events = await events_of(history, past, tally)
    assert prompts(events) == ["what does this project do?", "add a test for it"]
    assert isinstance(events[0], NoticePosted) and tally.skipped == 0
    assert [hit.past.id async for hit in history.search("add test", [past])] == [LOGGED]
    assert (await history.list(Path("/home/dev"))).sessions == ()


async def test_a_whole_session_is_better_than_its_prompts(tmp_path: Path):
    project = gemini(tmp_path)
    (project / "chats").mkdir()
    whole = {"sessionId": LOGGED, "startTime": "2025-07-01T09:00:00Z", "messages": []}
    (project / "chats/session-2025-07-01T09-00-c1f5a1c2.json").write_text(json.dumps(whole))
    (past,) = (await history_in(tmp_path).list(Path(LAB))).sessions
    assert past.can_resume and "chats" in past.path


@pytest.mark.parametrize("damage", ["", "{}", '[1, null, {"sessionId": 3}]', "[" * 5_000])
async def test_a_damaged_log_tells_nothing(tmp_path: Path, damage: str):
    (gemini(tmp_path) / "logs.json").write_text(damage)
    assert (await history_in(tmp_path).list(Path(LAB))).sessions == ()
