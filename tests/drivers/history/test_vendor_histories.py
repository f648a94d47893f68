"""What goose, Kimi Code, pi, Qwen Code and Mistral Vibe wrote to disk, read as events.

The sessions are the programs' own, recorded against the scripted model: a first turn that writes a
file, a second one that went on with the session, and a session of another directory.
"""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.history.files import ReadBudget
from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.drivers.history.reader import ReadTally
from quarterdeck.drivers.history.session import NoHistorySessionError
from quarterdeck.wire.events import (
    NoticePosted,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.tool_calls import Diff
from tests.support.history_homes import LAB, RECORDED, events_of, history_in, prompts, said

IDS = {
    "goose": "20261116_1",
    "kimi": "session_fda675da-6f07-4769-b2a9-de46db5a4376",
    "pi": "01a1e583-6a64-758c-ba35-cb50ca9410af",
    "qwen": "e85a7253-9d9e-4260-9011-71cf4daa3e56",
    "vibe": "4f66b63d-f327-5b5c-94b5-d4b42749b6d5",
}
USAGE = {"goose": [0, 108], "kimi": [36, 18], "pi": [36, 18], "qwen": [36, 18], "vibe": [0, 108]}
"""Tokens of each turn; goose and Vibe count a session as a whole."""


def home_of(home: Path) -> Path:
    shutil.copytree(RECORDED / "kimi-2.1.0", home / ".kimi-code")
    shutil.copytree(RECORDED / "pi-0.87.1", home / ".pi/agent")
    shutil.copytree(RECORDED / "qwen-0.24.4", home / ".qwen")
    shutil.copytree(RECORDED / "vibe-3.0.2", home / ".vibe")
    database = home / ".local/share/goose/sessions/sessions.db"
    database.parent.mkdir(parents=True)
    connection = sqlite3.connect(database)
    with connection:
        connection.executescript((RECORDED / "goose-1.34.0/sessions.sql").read_text())
    connection.close()
    return home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return home_of(tmp_path / "home")


@pytest.fixture
def history(home: Path) -> AgentHistory:
    return history_in(home)


async def test_each_lists_what_worked_here_and_nothing_else(history: AgentHistory):
    listed = await history.list(Path(LAB))
    assert {past.agent: past.id for past in listed.sessions} == IDS
    assert not listed.failures
    assert {past.cwd for past in listed.sessions} == {LAB}
    times = [past.updated for past in listed.sessions]
    assert times == sorted(times, reverse=True)
    assert all(past.started and past.can_resume for past in listed.sessions)
    assert (await history.list(Path("/home/dev"))).sessions == ()
    assert (await history.list(Path("/home/dev/lab/below"))).sessions == ()
    assert len((await history.list(Path("/home/dev/other"))).sessions) == 5
    everything = await history.list(None)
    assert len(everything.sessions) == 10
    assert listed.read < 300_000


@pytest.mark.parametrize("agent", IDS)
async def test_a_session_is_told_with_its_calls_and_usage(history: AgentHistory, agent: str):
    past = await history.find(IDS[agent], agent=agent)
    assert past.title == ("A scripted title" if agent == "goose" else "scene:write hello")
    tally = ReadTally()
    events = await events_of(history, past, tally)
    assert (tally.skipped, tally.unknown) == (0, {})
    assert prompts(events) == ["scene:write hello", "scene:text second"]
    assert said(events) == [
        "I will write a file.",
        "Wrote it. Done.",
        "Hello from the scripted model.",
    ]
    (begun,) = [one for one in events if isinstance(one, ToolCallStarted)]
    assert (begun.kind, begun.raw_input["content"]) == ("edit", "hello from script\n")
    assert begun.locations[0].path.endswith("hello.txt")
    (ended,) = [one for one in events if isinstance(one, ToolCallEnded)]
    assert (ended.call, ended.status) == (begun.call, "completed")
    turns = [one for one in events if isinstance(one, TurnEnded)]
    assert [one.stop for one in turns] == ["end_turn", "end_turn"]
    assert [one.usage.total if one.usage else 0 for one in turns] == USAGE[agent]
    assert SessionChanged(model="scripted-1") in events
    assert not [one for one in events if isinstance(one, NoticePosted)]
    again = await events_of(history, past)
    assert again == events


@pytest.mark.parametrize("agent", ["qwen", "vibe"])
async def test_what_a_call_changed_is_told_where_it_is_kept(history: AgentHistory, agent: str):
    events = await events_of(history, await history.find(IDS[agent], agent=agent))
    (ended,) = [one for one in events if isinstance(one, ToolCallEnded)]
    (diff,) = ended.content
    assert isinstance(diff, Diff)
    assert (diff.path, diff.new_text) == (f"{LAB}/hello.txt", "hello from script\n")


@pytest.mark.parametrize("agent", IDS)
async def test_words_are_found(history: AgentHistory, agent: str):
    listed = await history.list(Path(LAB), agent=agent)
    hits = [hit async for hit in history.search('second "scripted model"', listed.sessions)]
    assert [hit.past.id for hit in hits] == [IDS[agent]]
    assert [hit async for hit in history.search("nowhere", listed.sessions)] == []


@pytest.mark.parametrize("agent", IDS)
async def test_another_projects_session_is_not_this_ones(home: Path, agent: str):
    listed = await history_in(home).list(Path("/home/dev/other"), agent=agent)
    assert [past.cwd for past in listed.sessions] == ["/home/dev/other"]
    assert listed.sessions[0].id != IDS[agent]


async def test_homes_are_where_the_variables_say(home: Path, tmp_path: Path):
    moved = {
        "KIMI_CODE_HOME": ".kimi-code",
        "PI_CODING_AGENT_DIR": ".pi/agent",
        "QWEN_HOME": ".qwen",
        "VIBE_HOME": ".vibe",
        "XDG_DATA_HOME": ".local/share",
    }
    variables = {name: str(home / place) for name, place in moved.items()}
    history = history_in(tmp_path / "empty", **variables)
    assert len((await history.list(Path(LAB))).sessions) == 5


async def test_a_directory_that_shares_a_name_is_told_apart(home: Path):
    """Both /home/dev/lab and /home/dev-lab are "-home-dev-lab" to Qwen Code."""
    chats = home / ".qwen/projects/-home-dev-lab/chats"
    other = chats / "00000000-0000-4000-8000-000000000000.jsonl"
    line = {"sessionId": other.stem, "cwd": "/home/dev-lab", "type": "user", "uuid": "u"}
    other.write_text(json.dumps(line | {"message": {"parts": [{"text": "elsewhere"}]}}) + "\n")
    history = history_in(home)
    assert [one.id for one in (await history.list(Path(LAB), agent="qwen")).sessions] == [
        IDS["qwen"]
    ]
    assert len((await history.list(Path("/home/dev-lab"), agent="qwen")).sessions) == 1


async def test_vibes_journal_goes_on_after_its_snapshot(home: Path):
    """As it is while a session is open: the last turn stands in the journal alone."""
    folder = home / ".vibe/logs/session/unified" / IDS["vibe"]
    current = json.loads((folder / "CURRENT").read_text())
    (folder / "CURRENT").write_text(json.dumps(current | {"generation": "0000000000000021"}))
    history = history_in(home)
    events = await events_of(history, await history.find(IDS["vibe"], agent="vibe"))
    assert prompts(events) == ["scene:write hello", "scene:text second"]
    assert said(events)[-1] == "Hello from the scripted model."


async def test_a_manifest_that_points_elsewhere_is_not_followed(home: Path):
    folder = home / ".vibe/logs/session/unified" / IDS["vibe"]
    (home / "secret.json").write_text(json.dumps([{"type": "message", "id": "x"}]))
    (folder / "CURRENT").write_text(json.dumps({"generation": "../../../../../../.."}))
    history = history_in(home)
    past = await history.find(IDS["vibe"], agent="vibe")
    assert prompts(await events_of(history, past)) == []


async def test_a_branch_of_pi_is_told_with_a_notice(home: Path):
    (file,) = (home / ".pi/agent/sessions/--home-dev-lab--").iterdir()
    lines = file.read_text().splitlines()
    first = next(json.loads(line) for line in lines if '"role":"user"' in line)
    entry = {
        "type": "message",
        "id": "ffff0000",
        "parentId": first["parentId"],
        "timestamp": "2026-11-16T18:10:00.000Z",
        "message": {"role": "user", "content": [{"type": "text", "text": "other way"}]},
    }
    with file.open("a") as open_:
        open_.write(json.dumps(entry) + "\n")
    history = history_in(home)
    events = await events_of(history, await history.find(IDS["pi"], agent="pi"))
    assert prompts(events)[-1] == "other way"
    assert [one.title for one in events if isinstance(one, NoticePosted)] == [
        "The person went back to an earlier message"
    ]


def damage(path: Path) -> None:
    data = path.read_bytes()
    lines = data.split(b"\n")
    lines[len(lines) // 2 : len(lines) // 2] = [
        b"{ no json",
        b"[1]",
        b'{"type":"new_kind"}',
        b"\xff",
    ]
    path.write_bytes(b"\n".join(lines) + b'{"type":')


@pytest.mark.parametrize(
    ("agent", "pattern"),
    [("kimi", "wire.jsonl"), ("pi", "*.jsonl"), ("qwen", "*.jsonl")],
)
async def test_damaged_lines_cost_only_themselves(home: Path, agent: str, pattern: str):
    root = home / {"kimi": ".kimi-code", "pi": ".pi", "qwen": ".qwen"}[agent]
    for file in root.rglob(pattern):
        damage(file)
    history = history_in(home)
    tally = ReadTally()
    events = await events_of(history, await history.find(IDS[agent], agent=agent), tally)
    assert prompts(events) == ["scene:write hello", "scene:text second"]
    assert (tally.corrupt, tally.unknown, tally.is_cut) == (3, {"new_kind": 1}, True)


@pytest.mark.parametrize("agent", IDS)
async def test_rubbish_is_no_session_and_no_error(home: Path, agent: str):
    roots = {"goose": ".local/share/goose", "kimi": ".kimi-code", "pi": ".pi", "qwen": ".qwen"}
    for file in (home / roots.get(agent, ".vibe")).rglob("*"):
        if file.is_file() and file.suffix != ".db":
            file.write_bytes(b'{"type": 1, "id": [], "sessionId": {}, "message": 7}\n' * 3)
    if agent == "goose":
        (home / ".local/share/goose/sessions/sessions.db").write_bytes(b"no database" * 100)
    listed = await history_in(home).list(None, agent=agent)
    assert listed.sessions == ()
    assert bool(listed.failures) == (agent == "goose")
    with pytest.raises(NoHistorySessionError):
        await history_in(home).find(IDS[agent], agent=agent)


async def test_many_sessions_are_listed_without_reading_them_whole(home: Path):
    chats = home / ".qwen/projects/-home-dev-lab/chats"
    line = {"cwd": LAB, "type": "user", "uuid": "u", "message": {"parts": [{"text": "hi"}]}}
    for number in range(300):
        id_ = f"{number:08d}-0000-4000-8000-000000000000"
        head = json.dumps(line | {"sessionId": id_}) + "\n"
        (chats / f"{id_}.jsonl").write_text(
            head + ('{"type":"system","x":"' + "y" * 5_000 + '"}\n') * 40
        )
    budget = ReadBudget(20_000_000)
    listed = await history_in(home).list(Path(LAB), agent="qwen", limit=50, budget=budget)
    assert len(listed.sessions) == 50
    assert listed.read < 50 * 10_000


async def test_turns_begin_and_end_once(history: AgentHistory):
    for agent, id_ in IDS.items():
        events: list[Any] = await events_of(history, await history.find(id_, agent=agent))
        begun = sum(isinstance(one, TurnStarted) for one in events)
        ended = sum(isinstance(one, TurnEnded) for one in events)
        assert begun == ended == 2
