"""Undo, redo and rewind in whole sessions: with git or without, by commands or tools."""

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.checkpoints.errors import FilesChangedError, NothingToUndoError
from quarterdeck.models.script import SceneConditions, Script, ScriptReply, ScriptScene
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.system.sandbox import detect_sandbox
from quarterdeck.wire.events import Checkpointed, MessageChunk, NoticePosted, Redone, Rewound
from tests.support.native_agents import assert_valid, call, deck, says
from tests.support.work_trees import git, new_repository, state_of, untouched

FILES = {"a.txt": "one\n", "b.txt": "two\n", "sub/c.txt": "three\n", ".gitignore": "*.log\n"}
COMMAND = (
    "echo new > new.txt; mkdir -p deep/er; echo x > deep/er/x; rm b.txt; mv sub/c.txt sub/d.txt;"
    " echo more >> a.txt; chmod +x a.txt; ln -s a.txt link; echo n > 'odd \"name'"
)


def shell(command: str) -> tuple[Any, str]:
    """The replies of a turn that runs a command."""
    return (says(call("bash", command=command)), "done")


@asynccontextmanager
async def working(tmp_path: Path, *replies: Any, files: dict[str, str] | None = FILES):
    """A session that may run everything, in a repository with files; None: in none."""
    if files is not None:
        await asyncio.to_thread(new_repository, tmp_path / "work", files)
    rules = (parse_rule("allow bash"),)
    async with deck(tmp_path, *replies, rules=rules, mode="accept-edits") as ship:
        yield ship


async def look(directory: Path):
    return await asyncio.to_thread(state_of, directory)


async def theirs(directory: Path):
    return await asyncio.to_thread(untouched, directory)


async def run(directory: Path, command: str) -> None:
    """What the person does."""
    process = await asyncio.create_subprocess_shell(command, cwd=directory)
    assert await process.wait() == 0


async def test_what_a_command_did_is_undone_and_redone(tmp_path: Path):
    async with working(tmp_path, *shell(COMMAND)) as ship:
        before, git_before = await look(ship.cwd), await theirs(ship.cwd)
        await ship.prompt()
        after = await look(ship.cwd)
        checkpoint = await ship.only(Checkpointed)
        rewound = await ship.session.checkpoints.undo()
        undone, has_deep = await look(ship.cwd), (ship.cwd / "deep").exists()
        redone = await ship.session.checkpoints.redo()
        again = await look(ship.cwd)
        git_after = await theirs(ship.cwd)
    assert before != after
    assert (checkpoint.changed, checkpoint.created, checkpoint.deleted) == (8, 5, 2)
    assert undone == before
    assert not has_deep
    assert again == after
    assert rewound.changed == redone.changed == 8
    assert git_after == git_before


async def test_a_turn_that_only_reads_or_talks_leaves_nothing(tmp_path: Path):
    replies = ("hello", *shell("cat a.txt"), says(call("read", path="a.txt")), "done")
    async with working(tmp_path, *replies) as ship:
        for _ in range(3):
            await ship.prompt()
        found = await ship.events(Checkpointed)
        kept = (ship.places.state / "checkpoints").exists()
    assert found == []
    assert not kept


async def test_a_command_that_changes_nothing_is_no_checkpoint(tmp_path: Path):
    async with working(tmp_path, *shell("touch a.txt; true > /dev/null")) as ship:
        await ship.prompt()
        assert await ship.events(Checkpointed) == []
        # The conversation can be undone all the same.
        assert (await ship.session.checkpoints.undo()).conversation


async def test_what_is_staged_and_untracked_stays_as_it_is(tmp_path: Path):
    async with working(tmp_path, *shell("echo by agent > b.txt; rm mine.txt; rm -r sub")) as ship:
        await run(ship.cwd, "echo staged >> a.txt; git add a.txt; echo mine > mine.txt")
        await run(ship.cwd, "echo stash > b.txt; git stash -q -- b.txt; git add -N mine.txt")
        before, git_before = await look(ship.cwd), await theirs(ship.cwd)
        await ship.prompt()
        assert (await look(ship.cwd)) != before
        await ship.session.checkpoints.undo()
        assert await look(ship.cwd) == before
        assert await theirs(ship.cwd) == git_before


async def test_files_that_somebody_changed_since_are_refused_by_name(tmp_path: Path):
    async with working(tmp_path, *shell("echo agent >> a.txt; echo agent >> b.txt")) as ship:
        await ship.prompt()
        await run(ship.cwd, "echo person >> b.txt; echo person > c.txt")
        there = await look(ship.cwd)
        with pytest.raises(FilesChangedError, match=r"b\.txt") as refused:
            await ship.session.checkpoints.undo()
        assert refused.value.paths == ("b.txt",)
        assert await look(ship.cwd) == there
        assert await ship.events(Rewound) == []
        forced = await ship.session.checkpoints.undo(force=True)
        now = await look(ship.cwd)
        assert (now[b"a.txt"][1], now[b"b.txt"][1]) == (b"one\n", b"two\n")
        assert now[b"c.txt"][1] == b"person\n"
        assert forced.forced
        await ship.session.checkpoints.redo()
        assert await look(ship.cwd) == there  # what was overwritten by force is back


async def test_what_a_person_changed_between_turns_is_kept(tmp_path: Path):
    replies = (*shell("echo 1 > one.txt"), *shell("echo 2 >> a.txt"))
    async with working(tmp_path, *replies) as ship:
        await ship.prompt("first")
        await run(ship.cwd, "echo person >> a.txt; echo person > b.txt")
        between = await look(ship.cwd)
        await ship.prompt("second")
        await ship.session.checkpoints.undo()
        assert await look(ship.cwd) == between
        await ship.session.checkpoints.undo()
        now = await look(ship.cwd)
        assert b"one.txt" not in now
        assert now[b"a.txt"][1] == b"one\nperson\n"


async def test_a_change_between_two_turns_to_the_same_file_is_refused(tmp_path: Path):
    replies = (*shell("echo 1 >> a.txt"), *shell("echo 2 >> a.txt"))
    async with working(tmp_path, *replies) as ship:
        await ship.prompt("first")
        await run(ship.cwd, "echo person >> a.txt")
        await ship.prompt("second")
        with pytest.raises(FilesChangedError, match=r"a\.txt"):
            await ship.session.checkpoints.rewind("1")
        await ship.session.checkpoints.rewind("1", force=True)
        assert (await look(ship.cwd))[b"a.txt"][1] == b"one\n"


async def test_rewinding_several_turns_and_redoing(tmp_path: Path):
    replies = [reply for n in range(4) for reply in shell(f"echo {n} >> a.txt; echo {n} > n{n}")]
    async with working(tmp_path, *replies, "after") as ship:
        states = [await look(ship.cwd)]
        for n in range(4):
            await ship.prompt(f"turn {n}")
            states.append(await look(ship.cwd))
        await ship.session.checkpoints.rewind("3")
        assert await look(ship.cwd) == states[2]
        await ship.session.checkpoints.undo()
        assert await look(ship.cwd) == states[1]
        await ship.session.checkpoints.redo()
        await ship.session.checkpoints.redo()
        assert await look(ship.cwd) == states[4]
        with pytest.raises(NothingToUndoError):
            await ship.session.checkpoints.redo()
        await ship.session.checkpoints.rewind("2")
        await ship.prompt("goes on")
        with pytest.raises(NothingToUndoError):
            await ship.session.checkpoints.redo()
        told = [str(m.parts) for m in ship.requests[-1].messages]
    assert "turn 0" in told[0]
    assert not any("turn 1" in one or "turn 2" in one for one in told)
    assert "goes on" in told[-1]


async def test_a_turn_that_is_taken_back_is_no_place_to_go(tmp_path: Path):
    replies = [reply for n in range(3) for reply in shell(f"echo {n} > n{n}")]
    async with working(tmp_path, *replies) as ship:
        await ship.prompt("first")
        await ship.prompt("second")
        await ship.session.checkpoints.rewind("1")
        await ship.prompt("third")
        with pytest.raises(NothingToUndoError, match="turn 2 is already undone"):
            await ship.session.checkpoints.rewind("2")
        await ship.session.checkpoints.rewind("3")
        assert b"n2" not in await look(ship.cwd)


async def test_going_back_beyond_a_compaction_tells_everything_again(tmp_path: Path):
    replies = ["one " * 3000, "two " * 3000, "three " * 3000, "The summary.", "four"]
    async with working(tmp_path, *replies) as ship:
        await ship.prompt("first")
        early = ship.session._conversation.messages()
        await ship.prompt("second")
        await ship.prompt("third")
        whole = ship.session._conversation.messages()
        assert "Compacted" in await ship.session.context.compact()
        short = ship.session._conversation.messages()
        assert short != whole
        await ship.session.checkpoints.rewind("2")
        assert ship.session._conversation.messages() == early
        await ship.reload()
        assert ship.session._conversation.messages() == early
        await ship.session.checkpoints.redo()
        assert ship.session._conversation.messages() == short
        await ship.reload()
        assert ship.session._conversation.messages() == short


async def test_the_conversation_alone_and_the_files_alone(tmp_path: Path):
    replies = (*shell("echo 1 >> a.txt"), *shell("echo 2 >> a.txt"), "x", "y")
    async with working(tmp_path, *replies) as ship:
        await ship.prompt("first")
        one = await look(ship.cwd)
        await ship.prompt("second")
        two = await look(ship.cwd)
        done = await ship.session.checkpoints.undo(files=False)
        assert (done.conversation, done.files) == (True, ())
        assert await look(ship.cwd) == two
        await ship.prompt("third")
        told = str(ship.requests[-1].messages)
        assert "first" in told
        assert "second" not in told
        done = await ship.session.checkpoints.undo(conversation=False)
        assert not done.conversation
        assert await look(ship.cwd) == one
        await ship.prompt("fourth")
        assert "third" in str(ship.requests[-1].messages)


async def test_a_loaded_session_sends_what_the_running_one_would_have_sent(tmp_path: Path):
    replies = [r for n in range(3) for r in shell(f"echo {n} >> a.txt")]
    async with working(tmp_path, *replies, "x") as ship:
        for n in range(3):
            await ship.prompt(f"turn {n}")
        await ship.session.checkpoints.rewind("2")
        running = ship.session._conversation.messages()
        await ship.reload()
        assert ship.session._conversation.messages() == running
        await ship.session.checkpoints.redo()
        whole = ship.session._conversation.messages()
        await ship.reload()
        assert ship.session._conversation.messages() == whole
        assert len(whole) > len(running)
        await ship.prompt("more")
        assert_valid(ship.requests[-1].messages)


async def test_a_fork_shares_what_is_told_and_not_the_files(tmp_path: Path):
    replies = (*shell("echo 1 >> a.txt"), *shell("echo 2 >> a.txt"), "x")
    async with working(tmp_path, *replies) as ship:
        await ship.prompt("first")
        await ship.prompt("second")
        await ship.session.checkpoints.undo()
        forked = await ship.agent.fork(ship.session.id, options=ship.options)
        assert forked._conversation.messages() == ship.session._conversation.messages()
        assert all(t.checkpoint is None for t in (await forked.checkpoints.ledger()).turns)


async def test_without_git_what_our_tools_changed_is_undone(tmp_path: Path):
    replies = (
        says(call("write", path="made/new.txt", content="new\n")),
        says(call("read", path="old.txt")),
        says(call("edit", path="old.txt", old="old", new="newer")),
        says(call("bash", command="echo shell > shell.txt")),
        "done",
    )
    async with working(tmp_path, *replies, files=None) as ship:
        await asyncio.to_thread((ship.cwd / "old.txt").write_text, "old\n")
        await ship.prompt()
        after = await look(ship.cwd)
        assert after[b"old.txt"][1] == b"newer\n"
        await ship.session.checkpoints.undo()
        now = await look(ship.cwd)
        assert now.keys() == {b"old.txt", b"shell.txt"}
        assert now[b"old.txt"][1] == b"old\n"
        await ship.session.checkpoints.redo()
        assert await look(ship.cwd) == after


async def test_an_ignored_file_that_a_tool_wrote_is_undone(tmp_path: Path):
    replies = (says(call("write", path="x.log", content="new\n")), "done")
    async with working(tmp_path, *replies) as ship:
        await ship.prompt()
        assert (await look(ship.cwd))[b"x.log"][1] == b"new\n"
        await ship.session.checkpoints.undo()
        assert b"x.log" not in await look(ship.cwd)


async def test_commands_as_people_type_them(tmp_path: Path):
    async with working(tmp_path, *shell("echo 1 >> a.txt"), "x") as ship:
        before = await look(ship.cwd)
        await ship.prompt("change it")
        for typed in ("/changes", "/rewind", "/undo", "/redo", "/undo nonsense", "/rewind 1 files"):
            await ship.prompt(typed)
        said = [c.content.text for c in await ship.events(MessageChunk) if c.message]
        assert await look(ship.cwd) == before
        assert len(ship.requests) == 2
        await ship.prompt("go on")
        told = str(ship.requests[-1].messages)
        redone = await ship.events(Redone)
    assert "change it" in told
    assert "/undo" not in told
    assert len(redone) == 1
    assert "+1" in said[-6]
    assert "1. " in said[-5]
    assert "1 file restored" in said[-4]
    assert "Redone" in said[-3]
    assert "not a valid argument" in said[-2]
    assert "the conversation is unchanged" in said[-1]


async def test_nothing_to_undo_is_said(tmp_path: Path):
    async with working(tmp_path) as ship:
        with pytest.raises(NothingToUndoError):
            await ship.session.checkpoints.undo()
        with pytest.raises(NothingToUndoError, match="'7'"):
            await ship.session.checkpoints.rewind("7")


async def test_what_a_sub_agent_did_belongs_to_the_turn(tmp_path: Path):
    task = ScriptScene(
        replies=(says(call("bash", command="echo child >> a.txt")), ScriptReply.of("did it")),
        when=SceneConditions(contains="task"),
    )
    lead = ScriptScene(
        replies=(says(call("spawn_agent", task="task", profile="general")), ScriptReply.of("done")),
        when=SceneConditions(contains="lead"),
    )
    script = Script(scenes={"lead": lead, "task": task})
    async with working(tmp_path, script) as ship:
        before = await look(ship.cwd)
        await ship.prompt("lead")
        assert await look(ship.cwd) != before
        await ship.session.checkpoints.undo()
        assert await look(ship.cwd) == before


async def test_what_ran_in_the_sandbox_is_undone(tmp_path: Path):
    sandbox = await detect_sandbox()
    if not sandbox.is_there:
        pytest.skip(f"no sandbox here: {sandbox.reason}")
    await asyncio.to_thread(new_repository, tmp_path / "work", FILES)
    async with deck(tmp_path, *shell(COMMAND), mode="full-auto") as ship:
        before = await look(ship.cwd)
        await ship.prompt()
        assert (await ship.only(Checkpointed)).changed == 8
        await ship.session.checkpoints.undo()
        assert await look(ship.cwd) == before


async def test_where_nothing_can_be_kept_the_turn_goes_on(tmp_path: Path):
    replies = (
        says(call("write", path="new.txt", content="new\n")),
        says(call("bash", command="echo 1 >> a.txt")),
        "done",
    )
    async with working(tmp_path, *replies) as ship:
        await asyncio.to_thread((ship.places.state / "checkpoints").write_text, "in the way")
        ended = await ship.prompt()
        told = [n for n in await ship.events(NoticePosted) if "undone" in n.title]
        now = await look(ship.cwd)
    assert ended.stop == "end_turn"
    assert len(told) == 1
    assert now[b"a.txt"][1] == b"one\n1\n"
    assert b"new.txt" in now


async def test_checkpoints_can_be_turned_off(tmp_path: Path):
    await asyncio.to_thread(new_repository, tmp_path / "work", FILES)
    rules = (parse_rule("allow bash"),)
    flags = {"checkpoints": {"enabled": False}}
    async with deck(tmp_path, *shell("echo 1 >> a.txt"), rules=rules, flags=flags) as ship:
        await ship.prompt()
        assert await ship.events(Checkpointed) == []
        with pytest.raises(NothingToUndoError, match="has no checkpoints"):
            await ship.session.checkpoints.undo()


async def test_a_cancelled_turn_can_be_undone(tmp_path: Path):
    async with working(tmp_path, *shell("echo 1 >> a.txt; sleep 30")) as ship:
        before = await look(ship.cwd)
        running = ship.start()
        while (ship.cwd / "a.txt").stat().st_size == 4:
            await asyncio.sleep(0.01)
        await ship.session.cancel()
        assert (await running).stop == "cancelled"
        await ship.session.checkpoints.undo()
        assert await look(ship.cwd) == before


async def test_cancelled_turns_one_after_the_other_can_be_undone(tmp_path: Path):
    replies = [says(call("bash", command=f"echo {n} >> a.txt; sleep 30")) for n in range(3)]
    async with working(tmp_path, *replies) as ship:
        before = await look(ship.cwd)
        for number in range(1, 4):
            running = ship.start()
            while (ship.cwd / "a.txt").stat().st_size < 4 + 2 * number:
                await asyncio.sleep(0.01)
            await ship.session.cancel()
            await running
        assert len((await ship.session.checkpoints.changes()).changes) == 1
        assert [c.changed for c in await ship.events(Checkpointed)] == [1, 1, 1]
        await ship.session.checkpoints.rewind("1")
        assert await look(ship.cwd) == before


async def test_a_snapshot_that_takes_too_long_falls_back_to_the_tools_files(tmp_path: Path):
    replies = (
        says(call("write", path="new.txt", content="new\n")),
        says(call("bash", command="echo shell > shell.txt")),
        "done",
    )
    async with working(tmp_path, *replies) as ship:
        ship.session.setup.checkpoint_patience = 0.000001
        await ship.prompt()
        (notice,) = [n for n in await ship.events(NoticePosted) if "undone" in n.title]
        await ship.session.checkpoints.undo()
        now = await look(ship.cwd)
    assert "longer than" in (notice.description or "")
    assert b"new.txt" not in now
    assert b"shell.txt" in now


async def test_deleting_a_session_deletes_what_its_files_were(tmp_path: Path):
    async with working(tmp_path, *shell("echo 1 >> a.txt")) as ship:
        await ship.prompt()
        top = ship.places.state / "checkpoints"
        kept = [path for path in top.rglob("*") if path.is_file()]
        assert all(path.stat().st_mode & 0o077 == 0 for path in kept if "blobs" in path.parts)
        assert top.stat().st_mode & 0o077 == 0
        await ship.agent.delete(ship.session.id)
        left = await asyncio.to_thread(lambda: list(top.rglob("*")))
    assert [path.name for path in left] == ["trees"]


async def test_names_that_are_no_text_and_turns_by_git_itself(tmp_path: Path):
    command = "printf x > $'\\xff\\xfe'; git checkout -q -b other; git commit -q --allow-empty -m x"
    async with working(tmp_path, *shell(f"bash -c {os.fspath(repr(command))}")) as ship:
        git(ship.cwd, "config", "user.email", "a@b.c")
        git(ship.cwd, "config", "user.name", "a")
        before = await look(ship.cwd)
        await ship.prompt()
        assert await look(ship.cwd) != before
        await ship.session.checkpoints.undo()
        assert await look(ship.cwd) == before
