"""Leads land their own agents on their own branch, and elsewhere only with permission."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.wire.events import WorktreeAssigned
from quarterdeck.wire.worktrees import Worktree
from tests.support.deadlines import SOON
from tests.support.landing_cases import tip_of
from tests.support.puppet_fleet import Led, leading
from tests.support.work_trees import git, new_repository


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = new_repository(tmp_path.resolve() / "project", {"a.txt": "a\n"})
    for name in ("boss", "kid"):
        git(top, "worktree", "add", "-q", "-b", f"quarterdeck/{name}", str(top.parent / name))
    return top


@pytest.fixture
async def led(tmp_path: Path, project: Path) -> AsyncIterator[Led]:
    async with leading(project.parent) as led:
        yield led


async def assign(led: Led, project: Path, name: str) -> None:
    info = await led.fleet.agent(name)
    value = Worktree(
        path=str(project.parent / name),
        repository=str(project),
        base=await asyncio.to_thread(tip_of, project, "main"),
        base_ref="main",
        branch=f"quarterdeck/{name}",
    )
    record = await led.fleet.journal.append(info.session, WorktreeAssigned(worktree=value))
    async with asyncio.timeout(SOON):
        while (await led.fleet.agent(name)).last_seq < record.seq:
            await asyncio.sleep(0.01)


async def start(led: Led, project: Path, *, lead_has_tree: bool = True) -> None:
    await led.lead(cwd=str(project.parent))
    if lead_has_tree:
        await assign(led, project, "boss")
    await led.call("boss", "spawn_agent", name="kid", task="say done", cwd=str(project.parent))
    await led.call("boss", "wait_for")
    await assign(led, project, "kid")
    (project.parent / "kid" / "new.txt").write_text("new\n")


async def test_a_lead_merges_into_its_own_worktree_without_asking(led: Led, project: Path):
    await start(led, project)
    said = await led.call("boss", "merge", agent="kid")
    assert not said.is_error and "landed on quarterdeck/boss" in said.text
    assert (project.parent / "boss" / "new.txt").read_text() == "new\n"
    assert await led.fleet.inbox() == []
    again = await led.call("boss", "merge", agent="kid")
    assert not again.is_error and "already" in again.text


@pytest.mark.parametrize("choice", ["allow", "deny"])
async def test_another_branch_needs_a_person(led: Led, project: Path, choice: str):
    await start(led, project)
    main = await asyncio.to_thread(tip_of, project, "main")
    call = asyncio.create_task(led.call("boss", "merge", agent="kid", into="main"))
    async with asyncio.timeout(SOON):
        while not (inbox := await led.fleet.inbox()):
            await asyncio.sleep(0.01)
    (item,) = inbox
    assert item.name == "boss" and item.permission is not None
    assert item.permission.title == "Land kid on main by squash"
    assert str(project) in (item.permission.reason or "")
    assert await asyncio.to_thread(tip_of, project, "main") == main
    await led.fleet.answer(item.request, choice)
    async with asyncio.timeout(SOON):
        said = await call
    has_landed = (await asyncio.to_thread(tip_of, project, "main")) != main
    assert (has_landed, said.is_error) == (choice == "allow", choice == "deny")


async def test_what_changed_after_the_question_is_not_landed(led: Led, project: Path):
    await start(led, project, lead_has_tree=False)
    call = asyncio.create_task(led.call("boss", "merge", agent="kid"))
    async with asyncio.timeout(SOON):
        while not (inbox := await led.fleet.inbox()):
            await asyncio.sleep(0.01)
    (project.parent / "kid" / "new.txt").write_text("something else\n")
    await led.fleet.answer(inbox[0].request, "allow")
    async with asyncio.timeout(SOON):
        said = await call
    assert said.is_error and "changed files since" in said.text


async def test_conflicts_and_foreign_agents_are_refused(led: Led, project: Path):
    await start(led, project)
    (project.parent / "kid" / "a.txt").write_text("kid\n")
    (project.parent / "boss" / "a.txt").write_text("boss\n")
    dirty = await led.call("boss", "merge", agent="kid")
    assert dirty.is_error and "not landed" in dirty.text
    await asyncio.to_thread(git, project.parent / "boss", "commit", "-qam", "boss")
    said = await led.call("boss", "merge", agent="kid", hand_back=True)
    assert said.is_error and "a.txt (contents)" in said.text and "kid was asked" in said.text
    await led.lead("other", cwd=str(project.parent))
    foreign = await led.call("other", "merge", agent="kid")
    assert foreign.is_error and "not an agent that you started" in foreign.text


async def ask_of(led: Led, call: "asyncio.Task[object]") -> str:
    """What a person is asked while a call waits."""
    async with asyncio.timeout(SOON):
        while not (inbox := await led.fleet.inbox()):
            assert not call.done(), call.result()
            await asyncio.sleep(0.01)
    await led.fleet.answer(inbox[0].request, "deny")
    async with asyncio.timeout(SOON):
        await call
    permission = inbox[0].permission
    assert permission is not None
    return f"{permission.title}: {permission.reason}"


async def test_the_branch_of_a_lead_is_one_of_its_own_repository(led: Led, project: Path):
    """A branch of the same name in another repository is somebody else's."""
    await start(led, project)
    other = await asyncio.to_thread(new_repository, project.parent / "other", {"a.txt": "a\n"})
    git_in = asyncio.to_thread
    await git_in(git, other, "branch", "quarterdeck/boss")
    before = await git_in(git, other, "for-each-ref")
    place = project.parent / "kid2"
    await git_in(git, other, "worktree", "add", "-q", "-b", "quarterdeck/kid2", str(place))
    await led.call("boss", "spawn_agent", name="kid2", task="say done", cwd=str(project.parent))
    await led.call("boss", "wait_for")
    await assign(led, other, "kid2")
    (place / "new.txt").write_text("new\n")
    call = asyncio.create_task(led.call("boss", "merge", agent="kid2"))
    assert "Land kid2 on quarterdeck/boss" in await ask_of(led, call)
    assert (await git_in(git, other, "for-each-ref", "refs/heads/quarterdeck/boss")) in before


async def test_files_that_a_person_has_checked_out_need_a_person(led: Led, project: Path):
    """The branch is the lead's, but its files are in the person's own checkout."""
    await start(led, project)
    await asyncio.to_thread(git, project.parent / "boss", "checkout", "-q", "--detach")
    await asyncio.to_thread(git, project, "checkout", "-q", "quarterdeck/boss")
    call = asyncio.create_task(led.call("boss", "merge", agent="kid"))
    assert f"updating the files in {project}" in await ask_of(led, call)
    assert not (project / "new.txt").exists()
