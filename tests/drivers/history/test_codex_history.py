"""Sessions of Codex that are more than one file: forks, going back, names; and compressed ones."""

import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.history.codex import CodexHistory
from quarterdeck.drivers.history.codex_files import can_unpack, read_first_prompts
from quarterdeck.drivers.history.files import ReadBudget
from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.drivers.history.reader import HistorySession, ReadTally
from quarterdeck.drivers.history.session import HistoryUnreadableError
from quarterdeck.wire.events import CompactionChanged, NoticePosted, Prompted, TurnEnded
from tests.support.history_homes import (
    CODEX,
    LAB,
    RECORDED,
    events_of,
    history_in,
    many_sessions,
    read_all,
    recorded_home,
)

ORIGINAL = "01a1e3da-9fd6-7442-a014-548af4c8993c"
FORK = "01a1e3da-a3c7-7411-934d-e0cfd0a704fd"
FORK_OF_FORK = "01a1e3da-a4ac-7670-8fb1-d204c7c12c96"
ARCHIVED = "01a1e3da-a6ed-7c52-b8ec-8727cd0bc44d"
WENT_BACK = "01a1e3da-a77f-7151-8352-6a25a54b8c2d"
FORK_OF_THAT = "01a1e3da-aa90-7f92-8b28-5f3e0b99accd"
BEGINNING = ["scene:text the first thing", "scene:shell the second thing"]


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    shutil.copytree(RECORDED / "codex-0.166.0-branches", tmp_path / ".codex")
    return tmp_path


def prompts(events: list[Any]) -> list[str]:
    return [e.content[0].text for e in events if isinstance(e, Prompted)]


def rollout_of(home: Path, id_: str) -> Path:
    (found,) = home.glob(f".codex/sessions/*/*/*/*{id_}.jsonl*")
    return found


async def by_id(history: AgentHistory) -> dict[str, HistorySession]:
    return {past.id: past for past in (await history.list(Path(LAB))).sessions}


async def test_each_session_is_listed_once_with_its_name(branches: Path):
    found = await by_id(history_in(branches))
    titles = {id_: past.title for id_, past in found.items()}
    assert titles == {
        ORIGINAL: "My codex name",
        FORK: "My codex name",
        FORK_OF_FORK: "My codex name",
        ARCHIVED: "scene:text put me away",
        WENT_BACK: "scene:text go back",
        FORK_OF_THAT: "scene:text after the fork",
    }
    assert [id_ for id_, past in found.items() if past.archived] == [ARCHIVED]


@pytest.mark.parametrize(
    ("id_", "said"),
    [
        (ORIGINAL, [*BEGINNING, "scene:text the original goes on"]),
        (FORK, [*BEGINNING, "scene:text in the fork"]),
        (FORK_OF_FORK, [*BEGINNING, "scene:text in the fork", "scene:text in the second fork"]),
        (
            WENT_BACK,
            ["scene:text go back", "scene:text something else", "scene:text a third way"],
        ),
        (
            FORK_OF_THAT,
            [
                "scene:text go back",
                "scene:text something else",
                "scene:text a third way",
                "scene:text after the fork",
            ],
        ),
    ],
)
async def test_a_branch_is_read_from_the_beginning(branches: Path, id_: str, said: list[str]):
    history, tally = history_in(branches), ReadTally()
    events = await events_of(history, await history.find(id_), tally)
    assert prompts(events) == said and tally.skipped == 0
    usages = [e.usage.input for e in events if isinstance(e, TurnEnded) and e.usage is not None]
    assert len(usages) >= len(said) and all(0 < usage < 30_000 for usage in usages)


async def test_a_fork_keeps_its_own_compaction(branches: Path):
    history = history_in(branches)
    events = await events_of(history, await history.find(FORK_OF_FORK))
    assert [e.status for e in events if isinstance(e, CompactionChanged)] == [
        "in_progress",
        "completed",
    ]


async def test_words_are_found_in_what_a_fork_goes_on_from(branches: Path):
    history = history_in(branches)
    found = await by_id(history)
    hits = [h async for h in history.search('"first thing" "second fork"', found.values())]
    assert [hit.past.id for hit in hits] == [FORK_OF_FORK]
    assert not [h async for h in history.search('"taken back"', found.values())]


async def test_a_fork_whose_origin_is_gone_says_so(branches: Path):
    rollout_of(branches, ORIGINAL).unlink()
    history = history_in(branches)
    events = await events_of(history, await history.find(FORK))
    assert prompts(events) == ["scene:text in the fork"]
    (notice,) = [e for e in events if isinstance(e, NoticePosted)]
    assert ORIGINAL in notice.title


async def test_files_that_go_on_from_each_other_end(branches: Path):
    one = rollout_of(branches, ORIGINAL)
    whole = one.read_text()
    base = f'"history_base":{{"thread_id":"{FORK}","end_ordinal_exclusive":99}},"cwd"'
    one.write_text(whole.replace('"cwd"', base, 1))
    history = history_in(branches)
    events = await events_of(history, await history.find(FORK))
    assert prompts(events)[-1] == "scene:text in the fork"


# Compressed


def packed_home(home: Path, *, index: bool) -> Path:
    shutil.copytree(RECORDED / "codex-0.166.0-packed", home / ".codex")
    if index:
        connection = sqlite3.connect(home / ".codex/state_5.sqlite")
        with connection:
            connection.executescript((home / ".codex/state_5.sql").read_text())
        connection.close()
    return home


@pytest.mark.skipif(not can_unpack(), reason="neither Python nor a program reads Zstandard")
@pytest.mark.parametrize("index", [True, False])
async def test_a_compressed_session_tells_the_same(tmp_path: Path, index: bool):
    plain = history_in(recorded_home(tmp_path / "plain"))
    packed = history_in(packed_home(tmp_path / "packed", index=index))
    (past,) = (await packed.list(Path(LAB))).sessions
    assert (past.id, past.title, past.cwd) == (CODEX, "scene:shell run it", LAB)
    assert await read_all(packed, past) == await read_all(plain, await plain.find(CODEX))
    assert [hit async for hit in packed.search('"command finished"', [past])]


async def test_a_session_that_nothing_unpacks_is_listed_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    history = history_in(packed_home(tmp_path, index=True))
    (past,) = (await history.list(Path(LAB))).sessions
    assert past.title == "scene:shell run it"
    with pytest.raises(HistoryUnreadableError, match=r"zst.*install the program zstd"):
        await events_of(history, past)
    assert not [hit async for hit in history.search("command", [past])]


@pytest.mark.skipif(not can_unpack(), reason="neither Python nor a program reads Zstandard")
@pytest.mark.parametrize("cut", [0, 4, 2_000])
async def test_a_damaged_one_says_so(tmp_path: Path, cut: int):
    home = packed_home(tmp_path, index=True)
    file = rollout_of(home, CODEX)
    file.write_bytes(file.read_bytes()[:cut])
    history = history_in(home)
    with pytest.raises(HistoryUnreadableError, match="zst"):
        await events_of(history, await history.find(CODEX))


async def test_one_that_is_being_unpacked_counts_once(tmp_path: Path):
    home = packed_home(tmp_path, index=False)
    file = rollout_of(home, CODEX)
    (plain,) = (RECORDED / "codex-0.166.0").glob("sessions/*/*/*/*.jsonl")
    shutil.copyfile(plain, file.with_name(plain.name))
    (past,) = (await history_in(home).list(Path(LAB))).sessions
    assert past.path.endswith(".jsonl")


async def test_a_pipe_with_a_compressed_name_does_not_wait(tmp_path: Path):
    home = packed_home(tmp_path, index=True)
    file = rollout_of(home, CODEX)
    history = history_in(home)
    past = await history.find(CODEX)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(HistoryUnreadableError, match="zst"):
        await events_of(history, past)
    assert (await history.list(Path(LAB))).sessions == ()


def write_prompts(home: Path, *lines: dict[str, Any]) -> Path:
    """The list of prompts that Codex keeps for its key ``up``."""
    file = home / ".codex" / "history.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def test_first_prompts_are_titles_where_files_are_too_many_to_look_into(tmp_path: Path):
    many_sessions(tmp_path, 400, size=60_000)
    reader = CodexHistory(tmp_path / ".codex")

    def list_titles() -> tuple[list[str | None], int]:
        budget = ReadBudget(2_000_000)
        return [past.title for past in reader.list(None, None, budget)], budget.spent

    before, _ = list_titles()
    assert before.count(None) > 100
    ids = (f"00000000-0000-0000-0000-{number:012}" for number in range(1, 400, 2))
    write_prompts(tmp_path, *({"session_id": id_, "ts": 1, "text": f"fix {id_}"} for id_ in ids))
    after, spent = list_titles()
    assert after.count(None) == 0
    assert after[0] is not None and after[0].startswith("fix 00000000-")
    assert spent < 1_000_000


def test_the_oldest_prompt_of_a_session_is_its_title_and_a_late_one_is_none(tmp_path: Path):
    begun = int("01a1e3da9fd6", 16) // 1000
    late = "01a1e3da-a4ac-7670-8fb1-d204c7c12c96"
    file = write_prompts(
        tmp_path,
        {"session_id": ORIGINAL, "ts": begun + 5, "text": "the\nfirst  ünder all"},
        {"session_id": ORIGINAL, "ts": begun + 9, "text": "the second"},
        {"session_id": late, "ts": begun + 90_000, "text": "said by a person a day later"},
        {"session_id": "other", "ts": "soon", "text": "no time, but the list is whole"},
        {"session_id": "empty", "ts": 1, "text": ""},
        {"text": None},
    )
    file.write_bytes(file.read_bytes() + b'{"session_id": "cut')
    found = read_first_prompts(tmp_path / ".codex", ReadBudget())
    assert found == {ORIGINAL: "the first ünder all", "other": "no time, but the list is whole"}
    assert read_first_prompts(tmp_path / "nothing", ReadBudget()) == {}


def test_of_a_long_list_only_what_must_be_first_counts(tmp_path: Path):
    begun = int("01a1e3da9fd6", 16) // 1000
    filler = [{"session_id": "old", "ts": 1, "text": "x" * 1000} for _ in range(2_200)]
    last = {"session_id": ORIGINAL, "ts": begun + 5, "text": "the first"}
    write_prompts(tmp_path, *filler, last)
    assert read_first_prompts(tmp_path / ".codex", ReadBudget()) == {ORIGINAL: "the first"}
    assert read_first_prompts(tmp_path / ".codex", ReadBudget(1_000)) == {}
