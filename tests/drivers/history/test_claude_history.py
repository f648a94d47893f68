"""Sessions of Claude Code: whose they are, what they are called, and where they branch."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.history.claude import slug_of
from quarterdeck.drivers.history.reader import ReadTally
from quarterdeck.wire.events import CompactionChanged, NoticePosted, Prompted
from tests.support.history_homes import (
    LAB,
    RECORDED,
    claude_lines,
    events_of,
    history_in,
    write_lines,
)

FORK = "361239b5-a625-48a7-8083-4adf8db1321a"
WENT_BACK = "335a2183-e281-4090-a301-b8d3625511a1"
ORIGINAL = "eecd94be-0182-4e24-91e4-7d110804b6fb"


def kept(home: Path, cwd: str, lines: list[dict[str, Any]], id_: str = "one") -> Path:
    return write_lines(home / ".claude/projects" / slug_of(cwd) / f"{id_}.jsonl", lines)


def prompts(events: list[Any]) -> list[str]:
    return [e.content[0].text for e in events if isinstance(e, Prompted)]


@pytest.mark.parametrize(
    ("directory", "slug"),
    [
        ("/home/dev/a b—ü", "-home-dev-a-b--"),
        ("/home/dev/🦊 fox", "-home-dev----fox"),  # as Claude Code 2.1.325 names it
        ("/home/dev/٣", "-home-dev--"),
    ],
)
async def test_directories_with_any_name(tmp_path: Path, directory: str, slug: str):
    assert slug_of(directory) == slug
    kept(tmp_path, directory, claude_lines("hello", cwd=directory))
    assert len((await history_in(tmp_path).list(Path(directory))).sessions) == 1


async def test_a_long_name_is_cut(tmp_path: Path):
    long = "/home/dev/" + "x" * 250
    slug = f"{slug_of(long)[:200]}-1abc2"
    for id_, cwd in (("mine", long), ("other", f"{long}y")):
        file = tmp_path / ".claude/projects" / slug / f"{id_}.jsonl"
        write_lines(file, claude_lines("hello", cwd=cwd))
    listed = await history_in(tmp_path).list(Path(long))
    assert [past.id for past in listed.sessions] == ["mine"]


async def test_what_real_branches_tell(tmp_path: Path):
    shutil.copytree(RECORDED / "claude-2.1.325-branches", tmp_path / ".claude")
    history = history_in(tmp_path)
    found = {past.id: past for past in (await history.list(Path(LAB))).sessions}
    assert {past.title for past in found.values()} == {
        "A name of my own",
        "scene:text first",
        "scene:text the first thing",
    }
    fork = prompts(await events_of(history, found[FORK]))
    first = prompts(await events_of(history, found[ORIGINAL]))
    assert fork == [*first, "scene:text in the fork", "/rename A name of my own"]
    tally = ReadTally()
    events = await events_of(history, found[WENT_BACK], tally)
    said = ["scene:text first", "scene:text second", "scene:text another second"]
    assert prompts(events) == said and tally.skipped == 0
    (notice,) = [place for place, e in enumerate(events) if isinstance(e, NoticePosted)]
    assert isinstance(events[notice + 1], Prompted) and len(prompts(events[:notice])) == 2


async def test_a_name_that_a_person_gave_stays(tmp_path: Path):
    lines = claude_lines("hello", *(f"more {number}" for number in range(60)))
    named = {"type": "custom-title", "customTitle": "Far up", "sessionId": "one"}
    late = {"type": "ai-title", "aiTitle": "Made up later", "sessionId": "one"}
    file = kept(tmp_path, LAB, [*lines[:2], named, *lines[2:], late])
    history = history_in(tmp_path)
    assert (await history.find("one")).title == "Made up later"
    beside = file.with_suffix("")
    beside.mkdir()
    (beside / "custom-title.json").write_text('{"customTitle":"My name"}')
    (beside / "archived.json").write_text('{"archived":true,"at":"2026-01-01T00:00:00Z"}')
    past = await history.find("one")
    assert (past.title, past.archived) == ("My name", True)
    (beside / "custom-title.json").write_text("[")
    assert (await history.find("one")).title == "Made up later"


@pytest.mark.parametrize("picture_first", [True, False])
async def test_a_session_that_begins_with_a_picture(tmp_path: Path, picture_first: bool):
    (first, answer) = claude_lines("hello")
    picture = {"type": "image", "source": {"media_type": "image/png", "data": "A" * 300_000}}
    content = [{"type": "text", "text": "what is this?"}, picture]
    message = {"role": "user", "content": content[::-1] if picture_first else content}
    rest = {key: value for key, value in first.items() if key not in ("type", "message")}
    last = {"type": "last-prompt", "lastPrompt": "what is this?"}
    kept(tmp_path, LAB, [{"type": "user", "message": message, **rest}, answer, last])
    (past,) = (await history_in(tmp_path).list(Path(LAB))).sessions
    assert (past.cwd, past.title) == (LAB, "what is this?")


async def test_a_moved_project_is_where_it_went_on(tmp_path: Path):
    old = claude_lines("before the move", cwd="/home/dev/old")
    kept(tmp_path, "/home/dev/new", [*old, *claude_lines("after it", cwd="/home/dev/new")])
    kept(tmp_path, "/home/dev/new", old, "never-resumed")
    history = history_in(tmp_path)
    (past,) = (await history.list(Path("/home/dev/new"))).sessions
    assert (past.id, past.cwd) == ("one", "/home/dev/new")
    assert (await history.list(Path("/home/dev/old"))).sessions == ()
    assert (await history.find("one")).cwd == "/home/dev/new"


async def test_going_into_another_directory_does_not_move_a_session(tmp_path: Path):
    lines = [*claude_lines("hello"), *claude_lines("there", cwd=f"{LAB}/below")]
    kept(tmp_path, LAB, lines)
    history = history_in(tmp_path)
    (past,) = (await history.list(Path(LAB))).sessions
    assert past.cwd == LAB
    assert (await history.list(Path(f"{LAB}/below"))).sessions == ()


async def test_a_session_that_goes_on_from_a_summary(tmp_path: Path):
    (first, answer) = claude_lines("and now this")
    summary = {**first, "isCompactSummary": True, "isVisibleInTranscriptOnly": True}
    summary["message"] = {"role": "user", "content": "This session is being continued from …"}
    boundary = {"type": "system", "subtype": "compact_boundary", "cwd": LAB}
    kept(tmp_path, LAB, [boundary, summary, first, answer])
    history = history_in(tmp_path)
    past = await history.find("one")
    assert past.title == "and now this"
    events = await events_of(history, past)
    assert prompts(events) == ["and now this"]
    assert [e.summary for e in events if isinstance(e, CompactionChanged)][-1] == (
        "This session is being continued from …"
    )


async def test_files_beside_sessions_are_none(tmp_path: Path):
    file = kept(tmp_path, LAB, claude_lines("hello"))
    write_lines(file.with_name("agent-abc.jsonl"), claude_lines("a sub-agent"))
    write_lines(file.with_name("summaries.jsonl"), [{"type": "summary", "summary": "of another"}])
    file.with_name("notes.json").write_text(json.dumps({"cwd": LAB}))
    (file.parent / "memory").mkdir()
    assert [p.id for p in (await history_in(tmp_path).list(Path(LAB))).sessions] == ["one"]
