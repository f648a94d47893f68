"""Agents in worktrees that change the same are reported while they work, once, and cleared."""
# ruff: noqa: ASYNC240

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.radar.api import ConflictReport
from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.events import (
    ChangesCounted,
    ConflictChanged,
    NoticePosted,
    ToolCallEnded,
    ToolCallStarted,
    WorktreeAssigned,
    WorktreeReleased,
)
from quarterdeck.wire.ids import new_tool_call_id
from quarterdeck.wire.tool_calls import ToolCallLocation
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile, Worktree
from tests.support.agent_worktrees import add_worktree
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, PlayedLink, events_of, fleet_of, new_agent
from tests.support.work_trees import git, new_repository

TIDES = "def rise(moon):\n    return moon\n\n\ndef fall(moon):\n    return -moon\n"


class WritingLink(PlayedLink):
    """Also ``write PATH TEXT`` by a call that edits, and ``shell PATH TEXT``, which then waits."""

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        assert isinstance(content[0], TextContent)
        command, _, rest = content[0].text.partition(" ")
        if command not in ("write", "shell"):
            return await super().prompt(content)
        path, _, words = rest.partition(" ")
        self.interrupted.clear()
        call = new_tool_call_id()
        kind = "edit" if command == "write" else "execute"
        places = (ToolCallLocation(path=path),) if command == "write" else ()
        await self.host.emit(
            ToolCallStarted(call=call, title=content[0].text, kind=kind, locations=places)
        )
        if command == "shell":
            await asyncio.sleep(1.0)  # well after the call was seen to begin
        await asyncio.to_thread(self._write, path, words)
        if command == "shell":
            await self.interrupted.wait()
        await self.host.emit(ToolCallEnded(call=call, status="completed"))
        return TurnOutcome(stop="cancelled" if command == "shell" else "end_turn")

    def _write(self, path: str, words: str) -> None:
        target = Path(self.host.opening.options.cwd, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(words.replace("\\n", "\n"))


@pytest.fixture
def casting() -> Casting:
    casting = Casting()
    casting.make = WritingLink
    return casting


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"tides.py": TIDES, "notes.txt": "".join(f"line {n}\n" for n in range(30))}
    return new_repository(tmp_path / "project", files)


async def start(fleet: LocalFleet, project: Path, name: str, **fields: object) -> Worktree:
    """An agent in a worktree of its own."""
    worktree = await asyncio.to_thread(add_worktree, project, name)
    # Its tool calls are allowed: what is tested here is what they write.
    options = {"mode": "full-auto", **fields}
    info = await fleet.spawn(new_agent(Path(worktree.path), name=name, **options))
    await fleet.journal.append(info.session, WorktreeAssigned(worktree=worktree))
    return worktree


async def until(
    fleet: LocalFleet, name: str, holds: Callable[[AgentInfo], bool], seconds: float = SOON
) -> AgentInfo:
    async with asyncio.timeout(seconds):
        while not holds(info := await fleet.agent(name)):
            await asyncio.sleep(0.02)
    return info


async def tell(fleet: LocalFleet, name: str, words: str) -> None:
    await fleet.send(name, (text(words),))


async def write(fleet: LocalFleet, name: str, path: str, words: str) -> None:
    await tell(fleet, name, f"write {path} {words}")
    await fleet.wait([name], timeout=SOON)


def files_with(info: AgentInfo) -> dict[str, tuple[ConflictFile, ...]]:
    return {one.other: one.files for one in info.conflicts}


async def conflict_events(fleet: LocalFleet, name: str) -> list[ConflictChanged]:
    return [one for one in await events_of(fleet, name) if isinstance(one, ConflictChanged)]


async def settled(fleet: LocalFleet) -> ConflictReport:
    """Everything is looked at and noted."""
    return await fleet.conflicts()


async def test_two_agents_that_change_one_function_are_told_apart_before_any_commit(fleet, project):
    await start(fleet, project, "ann")
    await start(fleet, project, "bob")
    await write(fleet, "ann", "tides.py", TIDES.replace("return moon", "return 2 * moon"))
    await until(fleet, "ann", lambda info: info.changes is not None and info.changes.files == 1)
    assert (await fleet.agent("ann")).conflicts == ()
    await write(fleet, "bob", "tides.py", TIDES.replace("return moon", "return 3 * moon"))
    bob = await until(fleet, "bob", lambda info: bool(info.conflicts))
    ann = await until(fleet, "ann", lambda info: bool(info.conflicts))
    expected = (ConflictFile(path="tides.py", kind="text", symbols=("rise",)),)
    assert files_with(ann) == {bob.session: expected}
    assert files_with(bob) == {ann.session: expected}
    assert await asyncio.to_thread(git, project, "log", "--all", "--format=%s") == "first\n"
    events = [await conflict_events(fleet, name) for name in ("ann", "bob")]
    assert [len(some) for some in events] == [1, 1]
    # Told once, in the session whose change brought it about.
    assert [some[0].new_paths for some in events] == [(), ("tides.py",)]


async def test_a_conflict_that_is_gone_is_cleared_and_not_told_again(fleet, project):
    await start(fleet, project, "ann")
    await start(fleet, project, "bob")
    await write(fleet, "ann", "notes.txt", "ann\n")
    await write(fleet, "bob", "notes.txt", "bob\n")
    await until(fleet, "ann", lambda info: bool(info.conflicts))
    await write(fleet, "bob", "notes.txt", "ann\n")  # now they agree
    await until(fleet, "ann", lambda info: not info.conflicts)
    await until(fleet, "bob", lambda info: not info.conflicts)
    await write(fleet, "bob", "notes.txt", "bob again\n")
    await until(fleet, "ann", lambda info: bool(info.conflicts))
    await settled(fleet)
    ann, bob = [await conflict_events(fleet, name) for name in ("ann", "bob")]
    assert [len(one.files) for one in ann] == [1, 0, 1] == [len(one.files) for one in bob]
    assert [one.new_paths for one in (*ann, *bob) if one.new_paths] == [("notes.txt",)]


async def test_what_a_shell_command_writes_is_seen_while_it_runs(fleet, project):
    await start(fleet, project, "ann")
    await start(fleet, project, "bob")
    await write(fleet, "ann", "notes.txt", "ann\n")
    await until(fleet, "ann", lambda info: info.changes is not None)
    await tell(fleet, "bob", "shell notes.txt bob\n")
    await until(fleet, "bob", lambda info: bool(info.conflicts))
    assert (await fleet.agent("bob")).state == "running"
    await fleet.interrupt("bob")


async def test_counts_follow_the_files(fleet, project):
    tree = await start(fleet, project, "ann")
    await write(fleet, "ann", "new.txt", "a\\nb\\n")
    info = await until(fleet, "ann", lambda info: info.changes is not None)
    assert info.changes == ChangeCounts(files=1, added=2, is_dirty=True)
    await asyncio.to_thread(git, Path(tree.path), "add", "-A")
    await asyncio.to_thread(git, Path(tree.path), "commit", "-qm", "by the person")
    await asyncio.to_thread(git, project, "commit", "-q", "--allow-empty", "-m", "base moves")
    await settled(fleet)
    info = await fleet.agent("ann")
    assert info.changes == ChangeCounts(files=1, added=2, ahead=1, behind=1)
    await settled(fleet)
    counted = [one for one in await events_of(fleet, "ann") if isinstance(one, ChangesCounted)]
    assert all(one != next_ for one, next_ in pairwise(counted))  # nothing is noted twice


async def test_conflicts_end_with_the_worktree_or_the_archive(fleet, project):
    tree = await start(fleet, project, "ann")
    for name in ("bob", "cy"):
        await start(fleet, project, name)
    for name in ("ann", "bob", "cy"):
        await write(fleet, name, "notes.txt", f"{name}\n")
    await until(fleet, "bob", lambda info: len(info.conflicts) == 2)
    await until(fleet, "cy", lambda info: len(info.conflicts) == 2)
    ann = await fleet.agent("ann")
    await fleet.journal.append(ann.session, WorktreeReleased(path=tree.path, how="removed"))
    await until(fleet, "bob", lambda info: len(info.conflicts) == 1)
    assert (await fleet.agent("ann")).conflicts == ()
    await fleet.archive("bob")
    await until(fleet, "cy", lambda info: info.conflicts == ())
    assert (await fleet.agent("bob")).conflicts == ()
    assert (await settled(fleet)).repositories[0].pairs == ()


async def test_an_agent_that_is_deleted_conflicts_with_nobody(fleet, project):
    for name in ("ann", "bob"):
        await start(fleet, project, name)
    for name in ("ann", "bob"):
        await write(fleet, name, "notes.txt", f"{name}\n")
    await until(fleet, "ann", lambda info: bool(info.conflicts))
    await fleet.close("bob")
    await settled(fleet)
    assert (await fleet.agent("ann")).conflicts  # its work is still there
    await fleet.delete("bob")
    await until(fleet, "ann", lambda info: info.conflicts == ())


async def test_nothing_is_told_twice_across_hosts(tmp_path, project, casting):
    home = tmp_path / "home"
    async with fleet_of(home, casting) as fleet:
        for name in ("ann", "bob"):
            await start(fleet, project, name)
        for name in ("ann", "bob"):
            await write(fleet, name, "notes.txt", f"{name}\n")
        await until(fleet, "ann", lambda info: bool(info.conflicts))
        await settled(fleet)
        before = await conflict_events(fleet, "ann")
    async with fleet_of(home, casting) as fleet:
        await fleet.resume("bob")
        await settled(fleet)
        assert await conflict_events(fleet, "ann") == before
        await write(fleet, "bob", "notes.txt", "ann\n")
        await until(fleet, "ann", lambda info: not info.conflicts)
        await write(fleet, "bob", "notes.txt", "bob\n")
        await until(fleet, "ann", lambda info: bool(info.conflicts))
        await settled(fleet)
        events = [*await conflict_events(fleet, "ann"), *await conflict_events(fleet, "bob")]
        assert sum(bool(one.new_paths) for one in events) == 1


async def test_the_report_names_pairs_bases_and_an_order(fleet, project):
    for name in ("ann", "bob", "cy", "dan"):
        await start(fleet, project, name)
    await write(fleet, "ann", "notes.txt", "ann\n")
    await write(fleet, "bob", "notes.txt", "bob\n")
    await write(fleet, "cy", "other.txt", "cy\n")
    (project / "notes.txt").write_text("base\n")
    await asyncio.to_thread(git, project, "commit", "-qam", "base")
    report = await fleet.conflicts(str(project))
    (found,) = report.repositories
    assert report.problems == () and found.repository == os.path.realpath(project)
    assert [agent.name for agent in found.agents] == ["ann", "bob", "cy", "dan"]
    (pair,) = found.pairs
    assert (pair.one_name, pair.other_name, pair.is_shared) == ("ann", "bob", False)
    assert pair.files == (ConflictFile(path="notes.txt", kind="text"),)
    assert [(one.name, one.base, len(one.files)) for one in found.against_base] == [
        ("ann", "main", 1),
        ("bob", "main", 1),
    ]
    order = [(one.name, one.conflicts) for one in found.landing_order]
    assert order == [("cy", 0), ("ann", 2), ("bob", 2)]  # dan has changed nothing
    assert (await fleet.conflicts("/")).repositories == ()


async def test_work_that_has_landed_conflicts_with_nobody(fleet, project):
    for name in ("ann", "bob"):
        await start(fleet, project, name)
        await write(fleet, name, "notes.txt", f"{name}\n")
    await until(fleet, "ann", lambda info: bool(info.conflicts))
    (project / "notes.txt").write_text("ann\n")
    await asyncio.to_thread(git, project, "commit", "-qam", "ann landed")
    (found,) = (await fleet.conflicts()).repositories
    assert found.pairs == () and (await fleet.agent("bob")).conflicts == ()
    assert [one.name for one in found.against_base] == ["bob"]
    assert [agent.is_landed for agent in found.agents] == [True, False]


async def test_agents_in_one_directory_are_told_by_their_edits(fleet, project):
    for name in ("ann", "bob", "cy"):
        await fleet.spawn(new_agent(project, name=name, mode="full-auto"))
    await write(fleet, "ann", "notes.txt", "ann\n")
    await write(fleet, "cy", "other.txt", "cy\n")
    await write(fleet, "bob", str(project / "notes.txt"), "bob\n")
    ann = await until(fleet, "ann", lambda info: bool(info.conflicts))
    bob = await until(fleet, "bob", lambda info: bool(info.conflicts))
    assert files_with(ann) == {bob.session: (ConflictFile(path="notes.txt", kind="file"),)}
    assert (await fleet.agent("cy")).conflicts == () and ann.changes is None
    (found,) = (await fleet.conflicts(str(project))).repositories
    assert [pair.is_shared for pair in found.pairs] == [True] and found.landing_order == ()
    await fleet.close("ann")
    await until(fleet, "bob", lambda info: info.conflicts == ())


async def test_agents_in_one_worktree_are_told_by_their_edits(fleet, project):
    tree = await start(fleet, project, "ann")
    info = await fleet.spawn(new_agent(Path(tree.path), name="bob", mode="full-auto"))
    await fleet.journal.append(info.session, WorktreeAssigned(worktree=tree))
    for name in ("ann", "bob"):
        await write(fleet, name, "notes.txt", f"{name}\n")
    ann = await until(fleet, "ann", lambda info: bool(info.conflicts))
    assert [file.kind for file in ann.conflicts[0].files] == ["file"]


async def test_a_worktree_deleted_by_hand_is_named_and_the_others_go_on(fleet, project):
    trees = [await start(fleet, project, name) for name in ("ann", "bob", "cy")]
    for name in ("ann", "bob", "cy"):
        await write(fleet, name, "notes.txt", f"{name}\n")
    await until(fleet, "cy", lambda info: len(info.conflicts) == 2)
    await asyncio.to_thread(git, project, "worktree", "remove", "--force", trees[0].path)
    report = await fleet.conflicts()
    assert any(trees[0].path in problem for problem in report.problems)
    (found,) = [one for one in report.repositories if one.pairs]
    assert ("bob", "cy") in [(pair.one_name, pair.other_name) for pair in found.pairs]


async def test_twenty_worktrees(fleet, project):
    names = [f"agent{n}" for n in range(20)]
    for name in names:
        await start(fleet, project, name)
    for name in names:
        await tell(fleet, name, f"write notes.txt {name}\n")
    await fleet.wait(names, timeout=SOON)
    report = await fleet.conflicts()
    (found,) = report.repositories
    assert len(found.pairs) == 190 and report.problems == ()
    assert [len((await fleet.agent(name)).conflicts) for name in names] == [19] * 20


async def test_an_old_git_is_named_once(fleet, project, tmp_path, monkeypatch):
    from quarterdeck.fleet.radar import comparisons

    monkeypatch.setattr(comparisons, "can_merge_trees", lambda: False)
    for name in ("ann", "bob"):
        await start(fleet, project, name)
        await write(fleet, name, "notes.txt", f"{name}\n")
    await until(fleet, "bob", lambda info: bool(info.conflicts))
    await write(fleet, "ann", "notes.txt", "more\n")
    report = await settled(fleet)
    assert len(report.problems) == 1 and "2.38" in report.problems[0]
    notices = [
        one
        for name in ("ann", "bob")
        for one in await events_of(fleet, name)
        if isinstance(one, NoticePosted)
    ]
    assert [notice.title for notice in notices] == list(report.problems)
