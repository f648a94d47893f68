"""The fleet lands the work of agents, alone or in a queue, and says what became of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.errors import (
    LandingRefusedError,
    NoSuchAgentError,
    NoSuchLandingError,
    WorktreeError,
)
from quarterdeck.fleet.landing.api import LandingOptions, LandingQueueInfo, LandingResult
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import (
    ChangesLanded,
    CommandRan,
    LandingFailed,
    Prompted,
    WorktreeAssigned,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import Worktree, WorktreeOptions
from tests.support.deadlines import SOON
from tests.support.hostile_repository import make_hostile_repository
from tests.support.landing_cases import tip_of
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent, places_in
from tests.support.work_trees import git, new_repository, state_of


class Yard:
    """A fleet whose agents have worktrees of one project."""

    def __init__(self, fleet: LocalFleet, casting: Casting, folder: Path) -> None:
        self.fleet = fleet
        self.casting = casting
        self.folder = folder
        self.project = folder / "project"

    async def spawn(self, name: str, files: dict[str, str], prompt: str = "say done") -> Path:
        """An agent with a worktree, in which these files are written and not committed."""
        top = self.folder / name
        await asyncio.to_thread(
            git, self.project, "worktree", "add", "-q", "-b", f"quarterdeck/{name}", str(top)
        )
        base = await asyncio.to_thread(tip_of, self.project, "main")
        info = await self.fleet.spawn(new_agent(top, name=name, prompt=prompt))
        value = Worktree(
            path=str(top),
            repository=str(self.project),
            base=base,
            base_ref="main",
            branch=f"quarterdeck/{name}",
        )
        await self.assign(info.session, value)
        if prompt != "wait":
            await self.fleet.wait([name], timeout=SOON)
        for path, text in files.items():
            (top / path).write_text(text)
        return top

    async def assign(self, session: SessionId, value: Worktree) -> None:
        record = await self.fleet.journal.append(session, WorktreeAssigned(worktree=value))
        async with asyncio.timeout(SOON):
            while (await self.fleet.agent(session)).last_seq < record.seq:
                await asyncio.sleep(0.01)

    async def events(self, name: str, kind: type) -> list:
        return [one for one in await events_of(self.fleet, name) if isinstance(one, kind)]

    def read(self, path: str, branch: str = "main") -> str:
        return git(self.project, "cat-file", "blob", f"{branch}:{path}")

    async def land(self, name: str, **options) -> LandingResult:
        async with asyncio.timeout(SOON):
            return await self.fleet.land(name, LandingOptions(**options))

    async def queue(self, *names: str, **options) -> LandingQueueInfo:
        info = await self.fleet.queue_landings(names, LandingOptions(**options))
        async with asyncio.timeout(SOON * 3):
            while not info.is_done:
                info = await self.fleet.wait_landing(info.id, seen=info.revision)
        return info


def in_thread(work, *words):
    return asyncio.to_thread(work, *words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
async def yard(folder: Path) -> AsyncIterator[Yard]:
    await in_thread(new_repository, folder / "project", {"a.txt": "a\nb\nc\n", "b.txt": "b\n"})
    # The branch is not checked out, so that it can be moved alone.
    await in_thread(git, folder / "project", "checkout", "-q", "-b", "elsewhere")
    casting = Casting()
    async with fleet_of(folder / "home", casting) as fleet:
        yield Yard(fleet, casting, folder)


async def test_work_is_landed_and_noted(yard: Yard):
    top = await yard.spawn("ann", {"new.txt": "new\n", "a.txt": "a\nB\nc\n"})
    before = await in_thread(state_of, top)
    result = await yard.land("ann", trailers=("Quarterdeck-Session", "Co-authored-by=X <x@y>"))
    assert (result.state, result.into, result.method) == ("landed", "main", "squash")
    assert (result.counts.files, result.counts.added, result.counts.removed) == (2, 2, 1)
    assert await in_thread(yard.read, "new.txt") == "new\n"
    message = await in_thread(git, yard.project, "log", "-1", "--format=%B", "main")
    session = (await yard.fleet.agent("ann")).session
    assert message.startswith("say done\n")
    assert message.rstrip().endswith(f"Quarterdeck-Session: {session}\nCo-authored-by: X <x@y>")
    (landed,) = await yard.events("ann", ChangesLanded)
    assert (landed.commit, landed.before, landed.into) == (result.commit, result.before, "main")
    assert await in_thread(state_of, top) == before
    again = await yard.land("ann")
    assert again.state == "unchanged" and again.commit == result.commit


async def test_a_second_landing_takes_what_is_new(yard: Yard):
    top = await yard.spawn("ann", {"a.txt": "a\nB\nc\n"})
    methods = ("squash", "merge", "squash", "rebase", "merge", "rebase", "squash", "squash")
    for number, method in enumerate(methods):
        (top / "a.txt").write_text(f"a\nB{number}\nc\n")
        result = await yard.land("ann", method=method)
        assert (result.state, result.reason) == ("landed", ""), method
        assert await in_thread(yard.read, "a.txt") == f"a\nB{number}\nc\n"
        assert (await yard.land("ann", method="squash")).state == "unchanged"


async def test_uncommitted_work_is_committed_on_the_agents_branch_by_a_merge(yard: Yard):
    top = await yard.spawn("ann", {"new.txt": "new\n", "a.txt": "A\n"})
    result = await yard.land("ann", method="merge", message="Merge ann")
    assert result.state == "landed" and "were committed on quarterdeck/ann" in result.note
    assert await in_thread(git, top, "status", "--porcelain") == ""
    rest = await in_thread(tip_of, top, "HEAD")
    parents = await in_thread(git, yard.project, "log", "-1", "--format=%P", "main")
    assert parents.split() == [result.before, rest]
    assert (await yard.land("ann", method="merge")).state == "unchanged"


@pytest.mark.parametrize("method", ["squash", "merge", "rebase"])
async def test_a_worktree_that_the_person_made_is_landed_and_not_committed_in(
    yard: Yard, method: str
):
    mine = yard.folder / "mine"
    await in_thread(git, yard.project, "worktree", "add", "-q", "-b", "mine", str(mine), "main")
    wanted = WorktreeOptions(path=str(mine))
    await yard.fleet.spawn(new_agent(yard.project, name="ann", prompt="say done", worktree=wanted))
    await yard.fleet.wait(["ann"], timeout=SOON)
    (mine / "a.txt").write_text("a\nB\nc\n")
    (mine / "new.txt").write_text("new\n")
    await yard.fleet.close("ann")
    before = await in_thread(state_of, mine)
    tip = await in_thread(tip_of, yard.project, "mine")
    result = await yard.land("ann", into="main", method=method)
    assert (result.state, result.note) == ("landed", "")
    assert await in_thread(yard.read, "new.txt") == "new\n"
    assert await in_thread(tip_of, yard.project, "mine") == tip
    assert await in_thread(state_of, mine) == before
    assert (await yard.land("ann", into="main", method=method)).state == "unchanged"
    (mine / "a.txt").write_text("a\nC\nc\n")
    assert (await yard.land("ann", into="main", method=method)).state == "landed"
    assert await in_thread(yard.read, "a.txt") == "a\nC\nc\n"
    assert await in_thread(tip_of, yard.project, "mine") == tip


async def test_nothing_is_committed_under_another_agent_that_is_live_in_the_worktree(yard: Yard):
    top = await yard.spawn("ann", {"new.txt": "new\n"})
    value = (await yard.fleet.agent("ann")).worktree
    assert value is not None
    other = await yard.fleet.spawn(new_agent(top, name="bob", prompt="say done"))
    await yard.assign(other.session, value)
    await yard.fleet.wait(["bob"], timeout=SOON)
    await yard.fleet.close("ann")
    tip = await in_thread(tip_of, yard.project, "quarterdeck/ann")
    result = await yard.land("ann")
    assert (result.state, result.note) == ("landed", "")
    assert await in_thread(tip_of, yard.project, "quarterdeck/ann") == tip


async def test_a_running_turn_is_not_landed_unless_asked_for(yard: Yard):
    await yard.spawn("ann", {"new.txt": "new\n"}, prompt="wait")
    refused = await yard.land("ann")
    assert refused.state == "refused" and "still works" in refused.reason
    preview = await yard.fleet.preview_landing("ann", LandingOptions())
    assert preview.problem is not None and preview.counts.files == 1
    assert (await yard.land("ann", now=True)).state == "landed"
    await yard.fleet.interrupt("ann")


async def test_agents_without_a_worktree_and_branches_that_are_wrong_are_refused(yard: Yard):
    await yard.fleet.spawn(new_agent(yard.project, name="bob"))
    refused = await yard.land("bob")
    assert refused.state == "refused" and "has no worktree" in refused.reason
    with pytest.raises(LandingRefusedError):
        await yard.fleet.preview_landing("bob", LandingOptions())
    with pytest.raises(NoSuchAgentError):
        await yard.land("nobody")
    await yard.spawn("ann", {"new.txt": "new\n"})
    for into, words in (("a..b", "not a valid name"), ("quarterdeck/ann", "own branch")):
        refused = await yard.land("ann", into=into)
        assert refused.state == "refused" and words in refused.reason
    (first, *_) = await yard.events("ann", LandingFailed)
    assert (first.stage, first.into) == ("refused", "a..b")


async def test_a_new_branch_begins_at_the_base(yard: Yard):
    await yard.spawn("ann", {"new.txt": "new\n"})
    main = await in_thread(tip_of, yard.project, "main")
    result = await yard.land("ann", into="topic/ann")
    assert (result.state, result.before) == ("landed", main)
    assert await in_thread(tip_of, yard.project, "topic/ann") == result.commit
    assert await in_thread(tip_of, yard.project, "main") == main


async def test_a_checkout_is_updated_only_if_it_is_asked_for_and_clean(yard: Yard):
    await in_thread(git, yard.project, "checkout", "-q", "main")
    await yard.spawn("ann", {"new.txt": "new\n"})
    refused = await yard.land("ann")
    assert refused.state == "refused"
    assert "--checkout" in refused.reason and "--into" in refused.reason
    (yard.project / "a.txt").write_text("edited\n")
    preview = await yard.fleet.preview_landing("ann", LandingOptions())
    assert preview.target.checkout == str(yard.project)
    assert "uncommitted changes: a.txt" in (preview.target.problem or "")
    refused = await yard.land("ann", checkout=True)
    assert "uncommitted changes" in refused.reason
    (yard.project / "a.txt").write_text("a\nb\nc\n")
    result = await yard.land("ann", checkout=True)
    assert (result.state, result.checkout) == ("landed", str(yard.project))
    assert (yard.project / "new.txt").read_text() == "new\n"
    assert await in_thread(git, yard.project, "status", "--porcelain") == ""


async def test_repositories_within_are_named_as_not_landed(yard: Yard):
    top = await yard.spawn("ann", {})
    await in_thread(new_repository, top / "born", {"x.txt": "x\n"})
    await in_thread(new_repository, top / "deep" / "unborn")
    (top / "deep" / "unborn" / "y.txt").write_text("y\n")
    words = "born, deep/unborn are repositories within the worktree"
    changes = await yard.fleet.changes("ann")
    assert changes.files == () and [note[: len(words)] for note in changes.notes] == [words]
    preview = await yard.fleet.preview_landing("ann", LandingOptions())
    assert preview.is_empty and preview.note.startswith(words)
    unchanged = await yard.land("ann")
    assert unchanged.state == "unchanged" and unchanged.note.startswith(words)
    (top / "a.txt").write_text("A\n")
    landed = await yard.land("ann")
    assert landed.state == "landed" and landed.note.startswith(words)
    (listed,) = await yard.fleet.worktrees()
    assert sorted(listed.repositories) == ["born", "deep/unborn"]


async def test_a_preview_changes_nothing(yard: Yard):
    await yard.spawn("ann", {"new.txt": "new\n", "a.txt": "a\nB\nc\n"})
    refs = await in_thread(git, yard.project, "for-each-ref")
    preview = await yard.fleet.preview_landing("ann", LandingOptions(check="make test"))
    assert [(one.path, one.added, one.removed) for one in preview.files] == [
        ("a.txt", 1, 1),
        ("new.txt", 1, 0),
    ]
    assert (preview.uncommitted, preview.check, preview.problem) == (2, "make test", None)
    assert await in_thread(git, yard.project, "for-each-ref") == refs
    (yard.folder / "ann" / "new.txt").write_text("newer\n")
    refused = await yard.land("ann", expected=preview.tree)
    assert refused.state == "refused" and "changed files since" in refused.reason


async def test_conflicts_change_nothing_and_go_back_on_request(yard: Yard):
    await yard.spawn("ann", {"a.txt": "a\nann\nc\n"})
    await yard.spawn("bob", {"a.txt": "a\nbob\nc\n"})
    await yard.spawn("cid", {})
    assert (await yard.land("ann")).state == "landed"
    main = await in_thread(tip_of, yard.project, "main")
    failed = await yard.land("bob")
    assert (failed.state, failed.commit, failed.handed_to) == ("conflict", main, None)
    (conflict,) = failed.conflicts
    assert (conflict.path, conflict.kind) == ("a.txt", "contents")
    assert "ann" in conflict.hunks and "bob" in conflict.hunks
    assert await in_thread(tip_of, yard.project, "main") == main
    (noted,) = await yard.events("bob", LandingFailed)
    assert (noted.stage, noted.conflicts) == ("conflict", ("a.txt",))
    failed = await yard.land("bob", hand_to="bob")
    assert failed.handed_to == "bob"
    await yard.fleet.wait(["bob"], timeout=SOON)
    prompt = str((await yard.events("bob", Prompted))[-1].content)
    assert "git merge main" in prompt and "<<<<<<<" in prompt and "a.txt" in prompt
    failed = await yard.land("bob", hand_to="cid")
    await yard.fleet.wait(["cid"], timeout=SOON)
    prompt = str((await yard.events("cid", Prompted))[-1].content)
    kept = (await in_thread(git, yard.project, "for-each-ref", "refs/quarterdeck/handed")).split()
    assert failed.handed_to == "cid" and f"git merge {kept[0]}" in prompt
    assert (await yard.land("bob", hand_to="nobody")).note.startswith("it could not be handed")


async def test_an_agent_that_has_ended_is_resumed_to_get_its_work_back(yard: Yard):
    await yard.spawn("ann", {"a.txt": "a\nann\nc\n"})
    await yard.spawn("bob", {"a.txt": "a\nbob\nc\n"})
    await yard.land("ann")
    await yard.fleet.close("bob")
    assert (await yard.land("bob", hand_to="bob")).handed_to == "bob"
    await yard.fleet.wait(["bob"], timeout=SOON)
    assert (await yard.fleet.agent("bob")).is_live


async def test_a_person_who_commits_meanwhile_is_not_overwritten(yard: Yard):
    await yard.spawn("ann", {"new.txt": "new\n"})
    made: list[str] = []

    def commit_beside(step: str) -> None:
        if step == "noted" and len(made) < commits:
            tree = tip_of(yard.project, "main^{tree}")
            words = ("commit-tree", tree, "-p", "main", "-m", f"beside {len(made)}")
            made.append(git(yard.project, *words).strip())
            git(yard.project, "update-ref", "refs/heads/main", made[-1])

    yard.fleet._landing._lander._on_step = commit_beside
    commits = 2
    refused = await yard.land("ann")
    assert refused.state == "refused" and "moved twice" in refused.reason
    assert await in_thread(tip_of, yard.project, "main") == made[1]
    commits = 3
    result = await yard.land("ann")
    assert (result.state, result.before) == ("landed", made[2])


async def test_a_check_gates_a_landing(yard: Yard):
    top = await yard.spawn("ann", {"new.txt": "bad\n"})
    check = "echo looking; git rev-parse HEAD; grep -q good new.txt"
    failed = await yard.land("ann", check=check)
    assert (failed.state, failed.output.splitlines()[0]) == ("check", "looking")
    assert "exit code 1" in failed.reason
    (top / "new.txt").write_text("good\n")
    landed = await yard.land("ann", check=check)
    assert landed.state == "landed"
    one, two = await yard.events("ann", CommandRan)
    assert (one.purpose, one.exit_code, two.exit_code) == ("check", 1, 0)
    assert landed.commit in two.output
    assert list((yard.folder / "home" / "state" / "landing" / "checks").iterdir()) == []
    listed = await in_thread(git, yard.project, "worktree", "list", "--porcelain")
    assert "quarterdeck-check" not in listed
    assert (await yard.land("ann", check="false", skip_check=True)).state == "unchanged"


async def test_a_check_that_takes_too_long_is_ended(yard: Yard):
    await yard.spawn("ann", {"new.txt": "x\n"})
    settings = '[landing]\ncheck = "sleep 100"\ncheck_timeout = 0.2\n'
    (yard.folder / "home" / "config.toml").write_text(settings)
    failed = await yard.land("ann")
    assert failed.state == "check" and "was ended" in failed.reason


async def test_a_projects_check_counts_only_if_it_is_trusted(yard: Yard):
    await yard.spawn("ann", {"new.txt": "x\n"})
    place = yard.project / ".quarterdeck"
    place.mkdir()
    (place / "config.toml").write_text('[landing]\ncheck = "false"\nmethod = "merge"\n')
    preview = await yard.fleet.preview_landing("ann", LandingOptions())
    assert (preview.check, preview.method) == (None, "squash")
    store = TrustStore(places_in(yard.folder / "home").trust_file)
    await in_thread(store.trust, yard.project)
    preview = await yard.fleet.preview_landing("ann", LandingOptions())
    assert (preview.check, preview.method) == ("false", "merge")


async def test_a_check_has_the_ignored_files_and_set_up_that_worktrees_have(yard: Yard):
    (yard.project / ".gitignore").write_text("*.env\n")
    (yard.project / ".worktreeinclude").write_text("*.env\n")
    (yard.project / "dev.env").write_text("X=1\n")
    (yard.folder / "home" / "config.toml").write_text(
        '[worktrees]\nsetup = ["cp dev.env made"]\n[landing]\ncheck = "grep -q X=1 made"\n'
    )
    await yard.spawn("ann", {"new.txt": "x\n"})
    result = await yard.land("ann")
    assert (result.state, result.output) == ("landed", "")
    purposes = [one.purpose for one in await yard.events("ann", CommandRan)]
    assert purposes == ["setup", "check"]


@pytest.mark.parametrize(("days", "stays"), [(0, False), (1, True)])
async def test_a_worktree_that_landed_while_its_agent_was_live_goes_when_it_ends(
    yard: Yard, days: int, stays: bool
):
    (yard.folder / "home" / "config.toml").write_text(f"[worktrees]\nkeep_days = {days}\n")
    for name in ("ann", "bob"):
        options = new_agent(yard.project, name=name, prompt="say done", worktree=WorktreeOptions())
        await yard.fleet.spawn(options)
    await yard.fleet.wait(["ann", "bob"], timeout=SOON)
    info = await yard.fleet.agent("ann")
    assert info.worktree is not None
    path = Path(info.worktree.path)
    await in_thread((path / "new.txt").write_text, "new\n")
    landed = await yard.land("ann", into="main", method="merge")
    assert landed.state == "landed" and await in_thread(path.exists)
    await yard.fleet.close("ann")
    await yard.fleet.close("bob")  # whose work has not landed
    async with asyncio.timeout(SOON):
        while not stays and "ann" in {one.name for one in await yard.fleet.worktrees()}:
            await asyncio.sleep(0.02)
    left = {one.name for one in await yard.fleet.worktrees()}
    assert left == ({"ann", "bob"} if stays else {"bob"})
    assert await in_thread(path.exists) is stays
    branches = await in_thread(git, yard.project, "branch")
    assert ("quarterdeck/ann" in branches) is stays


async def test_worktrees_of_ended_agents_go_after_a_landing_if_that_is_set(yard: Yard):
    (yard.folder / "home" / "config.toml").write_text("[worktrees]\nkeep_days = 0\n")
    options = new_agent(yard.project, name="ann", prompt="say done", worktree=WorktreeOptions())
    await yard.fleet.spawn(options)
    await yard.fleet.wait(["ann"], timeout=SOON)
    info = await yard.fleet.agent("ann")
    assert info.worktree is not None and info.worktree.base_ref == "elsewhere"
    path = Path(info.worktree.path)
    (path / "new.txt").write_text("new\n")
    first = await yard.land("ann", into="main")
    assert (first.state, first.note) == ("landed", "") and await in_thread(path.exists)
    await yard.fleet.close("ann")
    (path / "more.txt").write_text("more\n")
    kept = await yard.land("ann", into="main", keep_worktree=True)
    assert kept.state == "landed" and await in_thread(path.exists)
    assert await in_thread(git, path, "status", "--porcelain") == ""
    (path / "most.txt").write_text("most\n")
    gone = await yard.land("ann", into="main")
    assert gone.state == "landed" and "the worktree was removed" in gone.note
    assert not await in_thread(path.exists)
    assert (await yard.fleet.agent("ann")).worktree is None
    listed = await in_thread(git, yard.project, "ls-tree", "--name-only", "main")
    assert listed.split() == ["a.txt", "b.txt", "more.txt", "most.txt", "new.txt"]


async def spawn_with_worktree(yard: Yard, name: str) -> Path:
    await yard.fleet.spawn(new_agent(yard.project, name=name, worktree=WorktreeOptions()))
    await yard.fleet.wait([name], timeout=SOON)
    info = await yard.fleet.agent(name)
    assert info.worktree is not None
    return Path(info.worktree.path)


async def test_what_a_live_agent_had_not_committed_counts_as_kept_once_it_has_landed(yard: Yard):
    (yard.folder / "home" / "config.toml").write_text("[worktrees]\nkeep_days = 0\n")
    tops = {name: await spawn_with_worktree(yard, name) for name in ("same", "more", "half")}
    for name, top in tops.items():
        (top / f"{name}.txt").write_text("new\n")
        (top / "a.txt").write_text("a\nB\nc\n")
        assert (await yard.land(name, into="main")).state in ("landed", "unchanged")
    (tops["more"] / "late.txt").write_text("not landed\n")
    (tops["half"] / "b.txt").write_text("staged, and nowhere else\n")
    await in_thread(git, tops["half"], "add", "b.txt")
    (tops["half"] / "b.txt").write_text("b\n")
    for name in tops:
        await yard.fleet.close(name)
    async with asyncio.timeout(SOON):
        while "quarterdeck/same" in await in_thread(git, yard.project, "branch"):
            await asyncio.sleep(0.02)
    assert not await in_thread(tops["same"].exists)
    for name, words in (("more", "late.txt"), ("half", "b.txt")):
        with pytest.raises(WorktreeError, match=words):
            await yard.fleet.remove_worktree(name)
    assert (tops["more"] / "late.txt").read_text() == "not landed\n"
    await in_thread((tops["more"] / "late.txt").unlink)
    assert [one.name for one in await yard.fleet.prune_worktrees()] == ["more"]


async def test_a_worktree_is_listed_as_landed_while_its_agent_is_live(yard: Yard):
    top = await spawn_with_worktree(yard, "ann")
    (top / "new.txt").write_text("new\n")
    (listed,) = await yard.fleet.worktrees()
    assert (listed.is_dirty, listed.is_landed) == (True, False)
    assert (await yard.land("ann", into="main")).state == "landed"
    (listed,) = await yard.fleet.worktrees()
    assert (listed.is_dirty, listed.is_landed) == (True, True)
    (top / "new.txt").write_text("newer\n")
    (listed,) = await yard.fleet.worktrees()
    assert (listed.is_dirty, listed.is_landed) == (True, False)


async def test_what_has_landed_is_not_kept_any_more_when_its_branch_went_back(yard: Yard):
    (yard.folder / "home" / "config.toml").write_text("[worktrees]\nkeep_days = 0\n")
    top = await spawn_with_worktree(yard, "ann")
    (top / "new.txt").write_text("new\n")
    before = await in_thread(tip_of, yard.project, "main")
    assert (await yard.land("ann", into="main")).state == "landed"
    await in_thread(git, yard.project, "branch", "-f", "main", before)
    await yard.fleet.close("ann")
    assert await yard.fleet.prune_worktrees() == []
    with pytest.raises(WorktreeError, match=r"new.txt"):
        await yard.fleet.remove_worktree("ann")


async def test_a_queue_lands_one_after_the_other(yard: Yard):
    await yard.spawn("ann", {"ann.txt": "ann\n"})
    await yard.spawn("bob", {"bob.txt": "bad\n"})
    await yard.spawn("cid", {"cid.txt": "cid\n"})
    check = "! grep -q bad *.txt"
    done = await yard.queue("ann", "bob", "cid", check=check)
    assert [one.state for one in done.entries] == ["landed", "check", "landed"]
    listed = await in_thread(git, yard.project, "ls-tree", "--name-only", "main")
    assert listed.split() == ["a.txt", "ann.txt", "b.txt", "cid.txt"]
    await yard.fleet.wait(["bob"], timeout=SOON)
    prompt = str((await yard.events("bob", Prompted))[-1].content)
    assert "The end of the output" in prompt and "exit code 1" in prompt
    assert [one.id for one in await yard.fleet.landings()] == [done.id]
    with pytest.raises(NoSuchLandingError):
        await yard.fleet.wait_landing("none")


async def test_a_batch_finds_the_agents_whose_work_fails(yard: Yard):
    for name in ("a1", "a2", "a3", "a4", "a5"):
        text = "bad\n" if name in ("a2", "a4") else "good\n"
        await yard.spawn(name, {f"{name}.txt": text})
    await yard.spawn("clash", {"a1.txt": "other\n"})
    runs = yard.folder / "runs"
    # The check writes outside of its worktree.
    (yard.folder / "home" / "config.toml").write_text("[landing]\nsandbox = false\n")
    check = f"echo >> {runs}; ! grep -q bad *.txt"
    names = ("a1", "a2", "clash", "a3", "a4", "a5")
    done = await yard.queue(*names, check=check, batch=True)
    states = {one.name: one.state for one in done.entries}
    assert states == {
        "a1": "landed",
        "a2": "check",
        "clash": "conflict",
        "a3": "landed",
        "a4": "check",
        "a5": "landed",
    }
    listed = await in_thread(git, yard.project, "ls-tree", "--name-only", "main")
    assert listed.split() == ["a.txt", "a1.txt", "a3.txt", "a5.txt", "b.txt"]
    assert len(runs.read_text()) < 12
    assert len(await yard.events("a3", ChangesLanded)) == 1


async def test_a_batch_blames_nobody_for_a_branch_that_fails_alone(yard: Yard):
    await yard.spawn("ann", {"ann.txt": "ann\n"})
    done = await yard.queue("ann", check="false", batch=True)
    (entry,) = done.entries
    assert entry.state == "refused" and entry.result is not None
    assert "without any agent's work" in entry.result.reason


async def test_a_queue_is_cancelled_and_shown_as_interrupted_after_a_restart(yard: Yard):
    await yard.spawn("ann", {"ann.txt": "ann\n"})
    options = LandingOptions(check="sleep 100")
    info = await yard.fleet.queue_landings(["ann"], options)
    async with asyncio.timeout(SOON):
        while not list((yard.folder / "home" / "state" / "landing" / "checks").glob("*/a.txt")):
            await asyncio.sleep(0.02)
        done = await yard.fleet.cancel_landing(info.id)
    assert done.is_done and done.entries[0].state == "cancelled"
    assert list((yard.folder / "home" / "state" / "landing" / "checks").iterdir()) == []
    assert await yard.events("ann", ChangesLanded) == []


async def test_a_queue_whose_host_ended_is_shown_as_interrupted(folder: Path):
    await in_thread(new_repository, folder / "project", {"a.txt": "a\n"})
    await in_thread(git, folder / "project", "checkout", "-q", "-b", "elsewhere")
    checks = folder / "home" / "state" / "landing" / "checks"
    async with fleet_of(folder / "home") as fleet:
        yard = Yard(fleet, Casting(), folder)
        await yard.spawn("ann", {"ann.txt": "ann\n"})
        await yard.spawn("bob", {"bob.txt": "bob\n"})
        options = LandingOptions(check="test ! -e bob.txt || sleep 100")
        info = await fleet.queue_landings(["ann", "bob"], options)
        async with asyncio.timeout(SOON):
            while [one.state for one in info.entries] != ["landed", "checking"]:
                info = await fleet.wait_landing(info.id, seen=info.revision)
        path = folder / "home" / "state" / "landing" / "queues" / f"{info.id}.json"
        as_killed = path.read_bytes()
    # As if the first had landed and the host was killed before the queue was written.
    path.write_bytes(as_killed.replace(b'"state":"landed"', b'"state":"merging"', 1))
    (checks / "quarterdeck-check-left").mkdir()
    async with fleet_of(folder / "home") as fleet:
        (info,) = await fleet.landings()
        assert [one.state for one in info.entries] == ["landed", "interrupted"]
        assert info.is_done and list(checks.iterdir()) == []
        main = await in_thread(git, folder / "project", "ls-tree", "--name-only", "main")
        assert main.split() == ["a.txt", "ann.txt"]


async def test_queues_of_different_branches_are_refused(yard: Yard):
    await yard.spawn("ann", {"ann.txt": "ann\n"})
    await yard.spawn("bob", {})
    info = await yard.fleet.agent("bob")
    assert info.worktree is not None
    await yard.assign(info.session, replace(info.worktree, base_ref="elsewhere"))
    with pytest.raises(LandingRefusedError, match="one branch"):
        await yard.fleet.queue_landings(["ann", "bob"], LandingOptions())
    with pytest.raises(LandingRefusedError, match="at least one"):
        await yard.fleet.queue_landings([], LandingOptions())


async def test_what_a_killed_host_left_is_completed_and_noted(folder: Path):
    await in_thread(new_repository, folder / "project", {"a.txt": "a\n"})
    await in_thread(git, folder / "project", "checkout", "-q", "-b", "elsewhere")

    class KilledError(BaseException):
        pass

    def stop(step: str) -> None:
        if step == "landed":
            raise KilledError

    async with fleet_of(folder / "home") as fleet:
        yard = Yard(fleet, Casting(), folder)
        await yard.spawn("ann", {"new.txt": "new\n"})
        fleet._landing._lander._on_step = stop
        with pytest.raises(KilledError):
            await fleet._landing._worker.land_now("ann", LandingOptions())
        assert await yard.events("ann", ChangesLanded) == []
    async with fleet_of(folder / "home") as fleet:
        yard = Yard(fleet, Casting(), folder)
        (landed,) = await yard.events("ann", ChangesLanded)
        assert landed.commit == await in_thread(tip_of, yard.project, "main")
    async with fleet_of(folder / "home") as fleet:
        assert len(await Yard(fleet, Casting(), folder).events("ann", ChangesLanded)) == 1


@pytest.mark.parametrize("keeps", [False, True])
async def test_the_worktree_of_a_landing_that_was_completed_later_counts_as_landed(
    folder: Path, keeps: bool
):
    await in_thread(new_repository, folder / "project", {"a.txt": "a\n"})

    class KilledError(BaseException):
        pass

    def stop(step: str) -> None:
        if step == "landed":
            raise KilledError

    async with fleet_of(folder / "home") as fleet:
        yard = Yard(fleet, Casting(), folder)
        top = await spawn_with_worktree(yard, "ann")
        (top / "new.txt").write_text("new\n")
        fleet._landing._lander._on_step = stop
        with pytest.raises(KilledError):
            options = LandingOptions(into="topic", keep_worktree=keeps)
            await fleet._landing._worker.land_now("ann", options)
        (listed,) = await fleet.worktrees()
        assert not listed.is_landed
    async with fleet_of(folder / "home") as fleet:
        (listed,) = await fleet.worktrees()
        assert (listed.is_dirty, listed.is_landed) == (True, not keeps)


async def test_a_hostile_repository_runs_nothing(folder: Path):
    hostile = await in_thread(make_hostile_repository, folder / "hostile")
    top, work = hostile.top, hostile.top / "worktree"
    (top / ".git" / "refs" / "heads" / "landing").write_text(await in_thread(tip_of, top, "main"))
    for path in (work / "src" / "kept.py", work / "src" / "new.py"):
        path.write_text("x = 2\n")
    (work / "a.txt").write_text("one\n")
    async with fleet_of(folder / "home") as fleet:
        info = await fleet.spawn(new_agent(work, name="ann"))
        yard = Yard(fleet, Casting(), folder)
        base = await in_thread(tip_of, top, "main")
        value = Worktree(
            path=str(work), repository=str(top), base=base, base_ref="landing", branch="side"
        )
        await yard.assign(info.session, value)
        await fleet.wait(["ann"], timeout=SOON)
        states: list[str] = []
        for method in ("squash", "merge", "rebase"):
            states.append((await yard.land("ann", method=method, check="true")).state)
            (work / "src" / "new.py").write_text(f"{method} = 1\n")
        assert states == ["landed", "landed", "landed"]
    assert hostile.ran() == []
