"""What an agent of any vendor did to files is undone and redone, whatever else changed."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.fleet.checkpoints.selective_restore import FilesKeptError
from quarterdeck.fleet.checkpoints.session_moves import RewindUnsupportedError
from quarterdeck.fleet.errors import AgentNotReadyError, NoSuchAgentError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import (
    Checkpointed,
    NoticePosted,
    Prompted,
    Rewound,
    TurnEnded,
)
from tests.support.deadlines import SOON
from tests.support.hostile_repository import make_hostile_repository
from tests.support.scripted_fleet import Casting, events_of, fleet_of, places_in
from tests.support.work_trees import new_repository, state_of, untouched
from tests.support.working_agents import WorkingLink, at_work, prompt, workers

FILES = {"a.txt": "one\ntwo\nthree\nfour\nfive\n", "b/c.txt": "c\n", ".gitignore": "*.log\n"}


@pytest.fixture
def casting() -> Casting:
    return workers()


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "work", FILES)


async def state(work: Path):
    return await asyncio.to_thread(state_of, work)


async def test_what_a_shell_command_changed_is_undone_and_redone(
    fleet: LocalFleet, casting: Casting, work: Path
):
    before, repository = await state(work), await asyncio.to_thread(untouched, work)
    await at_work(fleet, casting, work, "ann")
    await prompt(
        fleet,
        "ann",
        "echo new > n.txt; rm b/c.txt; chmod +x a.txt; mv a.txt moved.txt; ln -s n.txt link;"
        " printf '\\0\\1' > bin; mkdir -p deep/er; echo x > deep/er/x; echo l > x.log",
    )
    after = await state(work)
    (turn,) = await fleet.turns("ann")
    assert (turn.number, turn.files, turn.changed) == (1, "in place", 7)
    done = await fleet.undo("ann")
    assert (done.restored, done.kept, done.conversation) == (7, (), "noted")
    left = await state(work)
    assert left.pop(b"x.log") == ("file", b"l\n", False)  # ignored files are not covered
    assert left == before
    assert (await fleet.turns("ann"))[0].files == "undone"
    assert (await fleet.redo("ann")).restored == 7
    assert await state(work) == after
    assert await asyncio.to_thread(untouched, work) == repository
    kinds = [type(one) for one in await events_of(fleet, "ann")]
    assert kinds.index(Checkpointed) < kinds.index(TurnEnded) < kinds.index(Rewound)


async def test_a_turn_that_changed_nothing_has_no_checkpoint(
    fleet: LocalFleet, casting: Casting, work: Path
):
    await at_work(fleet, casting, work, "ann")
    await prompt(fleet, "ann", "cat a.txt > /dev/null")
    (turn,) = await fleet.turns("ann")
    assert (turn.files, turn.changed) == ("none", 0)
    with pytest.raises(NothingToUndoError):
        await fleet.undo("ann")
    with pytest.raises(NothingToUndoError, match="changed no files"):
        await prompt(fleet, "ann", "nothing")
        await fleet.undo("ann", turn="1")


async def test_the_next_prompt_says_once_what_was_undone(
    fleet: LocalFleet, casting: Casting, work: Path
):
    link = await at_work(fleet, casting, work, "ann")
    await prompt(fleet, "ann", "echo 1 >> a.txt")
    await fleet.undo("ann")
    await prompt(fleet, "ann", "/compact; true")
    assert len(link.heard[-1]) == 1  # a command must be at the beginning of its prompt
    await prompt(fleet, "ann", "echo 2 >> a.txt")
    await prompt(fleet, "ann", "nothing")
    told = [content[0] for content in link.heard if len(content) > 1]
    (note,) = told
    assert isinstance(note, TextContent) and "echo 1 >> a.txt" in note.text
    prompts = [one for one in await events_of(fleet, "ann") if isinstance(one, Prompted)]
    assert note in prompts[2].content
    assert isinstance(prompts[2].content[-1], TextContent)


async def test_an_undo_that_is_redone_is_not_told(fleet: LocalFleet, casting: Casting, work: Path):
    link = await at_work(fleet, casting, work, "ann")
    await prompt(fleet, "ann", "echo 1 >> a.txt")
    await fleet.undo("ann")
    await fleet.redo("ann")
    await prompt(fleet, "ann", "nothing")
    assert [len(content) for content in link.heard] == [1, 1]


async def test_a_note_survives_the_host(tmp_path: Path, work: Path):
    casting = workers()
    async with fleet_of(tmp_path / "home", casting) as fleet:
        await at_work(fleet, casting, work, "ann")
        await prompt(fleet, "ann", "echo 1 >> a.txt")
        await fleet.close("ann")
        before = await fleet.undo("ann")
        assert before.conversation == "noted"
    async with fleet_of(tmp_path / "home", casting) as fleet:
        await fleet.resume("ann")
        await prompt(fleet, "ann", "nothing")
        link = casting.links[-1]
        assert isinstance(link, WorkingLink) and len(link.heard[0]) == 2


async def test_what_a_person_changed_later_stays(fleet: LocalFleet, casting: Casting, work: Path):
    await at_work(fleet, casting, work, "ann")
    await prompt(fleet, "ann", "sed -i s/one/ONE/ a.txt; echo n > n.txt")
    text_of = (work / "a.txt").read_text()
    (work / "a.txt").write_text(text_of + "mine\n")
    done = await fleet.undo("ann")
    assert (done.restored, done.merged, done.kept) == (2, ("a.txt",), ())
    assert (work / "a.txt").read_text() == FILES["a.txt"] + "mine\n"
    assert not (work / "n.txt").exists()
    await fleet.redo("ann")
    assert (work / "a.txt").read_text() == text_of + "mine\n"


async def test_what_cannot_be_separated_is_named_and_not_touched(
    fleet: LocalFleet, casting: Casting, work: Path
):
    await at_work(fleet, casting, work, "ann")
    await prompt(fleet, "ann", "sed -i s/one/ONE/ a.txt; echo n > n.txt; printf 'a\\0' > bin")
    (work / "a.txt").write_text("mine\n")
    (work / "bin").write_bytes(b"b\0")
    there = await state(work)
    done = await fleet.undo("ann")
    assert done.restored == 1
    assert {one.path: one.reason for one in done.kept} == {
        "a.txt": "changed since in the same lines",
        "bin": "changed since it was created",
    }
    assert await state(work) == {name: one for name, one in there.items() if name != b"n.txt"}
    assert (await fleet.turns("ann"))[0].files == "partly undone"
    with pytest.raises(FilesKeptError, match=r"(?s)'a.txt': changed since.*'bin'"):
        await fleet.undo("ann", turn="1")
    forced = await fleet.undo("ann", turn="1", force=True)
    assert forced.forced and forced.kept == ()
    assert (work / "a.txt").read_text() == FILES["a.txt"]
    assert not (work / "bin").exists()
    await fleet.redo("ann")
    await fleet.redo("ann")
    assert await state(work) == there


async def test_one_turn_in_the_middle_is_undone(fleet: LocalFleet, casting: Casting, work: Path):
    await at_work(fleet, casting, work, "ann")
    await prompt(fleet, "ann", "sed -i s/one/ONE/ a.txt")
    await prompt(fleet, "ann", "sed -i s/five/FIVE/ a.txt; echo 2 > two")
    done = await fleet.undo("ann", turn="1")
    assert (done.number, done.merged) == (1, ("a.txt",))
    assert (work / "a.txt").read_text() == FILES["a.txt"].replace("five", "FIVE")
    assert [one.files for one in await fleet.turns("ann")] == ["undone", "in place"]


async def test_a_rewind_takes_all_later_turns_back(fleet: LocalFleet, casting: Casting, work: Path):
    before = await state(work)
    await at_work(fleet, casting, work, "ann")
    for number in range(3):
        await prompt(fleet, "ann", f"echo {number} >> a.txt; echo {number} > n{number}")
    after = await state(work)
    assert (await fleet.rewind("ann", "1")).restored == 4
    assert await state(work) == before
    await fleet.redo("ann")
    assert await state(work) == after
    with pytest.raises(NothingToUndoError, match="no turn '9'"):
        await fleet.rewind("ann", "9")
    with pytest.raises(RewindUnsupportedError, match="'ann'"):
        await fleet.undo("ann", files=False)
    with pytest.raises(NoSuchAgentError):
        await fleet.undo("nobody")


async def test_a_running_turn_is_not_undone(fleet: LocalFleet, casting: Casting, work: Path):
    link = await at_work(fleet, casting, work, "ann")
    await fleet.send("ann", (text("hold echo x > x"),))
    await asyncio.wait_for(link.holds.wait(), SOON)
    with pytest.raises(AgentNotReadyError, match="interrupt it first"):
        await fleet.undo("ann")
    assert (work / "x").exists()
    link.go_on.set()
    await fleet.wait(["ann"], timeout=SOON)
    await fleet.undo("ann")
    assert not (work / "x").exists()


async def test_an_interrupted_turn_and_one_that_broke_are_undone(
    fleet: LocalFleet, casting: Casting, work: Path
):
    before = await state(work)
    await at_work(fleet, casting, work, "ann")
    link = casting.links[-1]
    assert isinstance(link, WorkingLink)
    await fleet.send("ann", (text("hold echo x > x"),))
    await asyncio.wait_for(link.holds.wait(), SOON)
    await fleet.kill("ann")
    async with asyncio.timeout(SOON):
        while (await fleet.turns("ann"))[0].files == "none":
            await asyncio.sleep(0.01)
    await fleet.undo("ann")
    assert await state(work) == before


async def test_a_file_becomes_a_directory_and_back(fleet: LocalFleet, casting: Casting, work: Path):
    before = await state(work)
    await at_work(fleet, casting, work, "ann")
    await prompt(fleet, "ann", "rm a.txt; mkdir a.txt; echo x > a.txt/x; rm -r b; echo b > b")
    after = await state(work)
    await fleet.undo("ann")
    assert await state(work) == before
    await fleet.redo("ann")
    assert await state(work) == after
    # A file of a person's in the new directory stays, and so does the directory.
    (work / "a.txt" / "mine").write_text("mine\n")
    done = await fleet.undo("ann")
    assert [one.path for one in done.kept] == ["a.txt"]
    assert (work / "a.txt" / "mine").read_text() == "mine\n"
    assert (work / "b" / "c.txt").read_text() == "c\n"


async def test_names_that_are_no_text(fleet: LocalFleet, casting: Casting, work: Path):
    before = await state(work)
    await at_work(fleet, casting, work, "ann")
    script = work.parent / "script.sh"
    names = [b"new\nline", b"\xff\xfe", "emoji ✓".encode(), b"'\"$(x)", b"-rf", b" "]
    script.write_bytes(b"".join(b"echo x > './%s'\n" % n.replace(b"'", b"'\\''") for n in names))
    await prompt(fleet, "ann", f"sh {script}")
    assert set(names) <= set(await state(work))
    done = await fleet.undo("ann")
    assert (done.restored, done.kept) == (len(names), ())
    assert await state(work) == before


async def test_outside_of_git(fleet: LocalFleet, casting: Casting, tmp_path: Path):
    plain = tmp_path / "plain"
    (plain / "sub").mkdir(parents=True)
    (plain / "sub" / "a.txt").write_text("one\n")
    before = await state(plain)
    await at_work(fleet, casting, plain, "ann")
    await prompt(fleet, "ann", "echo two >> sub/a.txt; echo n > n; ln -s n l")
    after = await state(plain)
    await fleet.undo("ann")
    assert await state(plain) == before
    await fleet.redo("ann")
    assert await state(plain) == after
    assert not (plain / ".git").exists()


async def test_a_directory_that_is_too_large_is_told_once(
    tmp_path: Path, work: Path, casting: Casting
):
    plain, home = tmp_path / "plain", tmp_path / "home"
    plain.mkdir()
    for number in range(6):
        (plain / f"f{number}").write_text("x")
    config = places_in(home).config / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[checkpoints]\nplain_files = 5\n")
    async with fleet_of(home, casting) as fleet:
        await at_work(fleet, casting, plain, "ann")
        for _ in range(2):
            await prompt(fleet, "ann", "echo x >> f1")
        notices = [one for one in await events_of(fleet, "ann") if isinstance(one, NoticePosted)]
        (notice,) = [one for one in notices if "cannot be undone" in one.title]
        assert "git init" in str(notice.description)
        with pytest.raises(NothingToUndoError):
            await fleet.undo("ann")


async def test_ignored_files_by_setting(tmp_path: Path, work: Path, casting: Casting):
    home = tmp_path / "home"
    config = places_in(home).config / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[checkpoints]\nignored = ["*.log"]\nignored_bytes = 100\n')
    (work / "x.log").write_text("old\n")
    async with fleet_of(home, casting) as fleet:
        await at_work(fleet, casting, work, "ann")
        await prompt(fleet, "ann", "echo new > x.log; echo y > y.log")
        assert (await fleet.undo("ann")).restored == 2
        assert (work / "x.log").read_text() == "old\n"
        assert not (work / "y.log").exists()
        await prompt(fleet, "ann", "head -c 1000 /dev/zero > z.log")
        notices = [one for one in await events_of(fleet, "ann") if isinstance(one, NoticePosted)]
        assert "checkpoints.ignored matches" in str(notices[-1].description)


async def test_checkpoints_can_be_switched_off(tmp_path: Path, work: Path, casting: Casting):
    home = tmp_path / "home"
    config = places_in(home).config / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[checkpoints]\nenabled = false\n")
    async with fleet_of(home, casting) as fleet:
        await at_work(fleet, casting, work, "ann")
        await prompt(fleet, "ann", "echo x > x")
        with pytest.raises(NothingToUndoError):
            await fleet.undo("ann")
        assert not (places_in(home).state / "checkpoints").exists()


async def test_a_hostile_repository_runs_nothing(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    hostile = await asyncio.to_thread(make_hostile_repository, tmp_path / "hostile")
    await at_work(fleet, casting, hostile.top, "ann")
    await prompt(fleet, "ann", "echo changed > a.txt; echo new > src/new.py")
    shutil.copy(hostile.top / "src" / "new.py", tmp_path / "copy")
    (hostile.top / "a.txt").write_text("changed\nand more\n")
    await fleet.undo("ann")
    assert hostile.ran() == []


async def test_a_session_that_is_deleted_takes_its_files_along(
    fleet: LocalFleet, casting: Casting, work: Path, tmp_path: Path
):
    await at_work(fleet, casting, work, "ann")
    await prompt(fleet, "ann", "echo x > x")
    session = (await fleet.agent("ann")).session
    kept = places_in(tmp_path / "home").state / "checkpoints" / session
    assert kept.is_dir()
    await fleet.close("ann")
    await fleet.delete("ann")
    assert not kept.exists()
