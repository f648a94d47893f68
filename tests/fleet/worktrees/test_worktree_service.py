"""Agents get worktrees, return to them, share, copy, lose and recover them."""
# Looking at a file for a moment is fine in a test.
# ruff: noqa: ASYNC240

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.errors import (
    AgentNotReadyError,
    InvalidOptionsError,
    NameTakenError,
    NoSuchWorktreeError,
    WorktreeError,
)
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import CommandRan, NoticePosted, WorktreeAssigned, WorktreeReleased
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent, places_in
from tests.support.work_trees import git, new_repository, state_of, untouched


@pytest.fixture
def casting() -> Casting:
    return Casting()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "project", {"a.txt": "a\n", "src/b.py": "b = 1\n"})


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


async def settings(project: Path, home: Path, text: str) -> None:
    """Settings of the project, which is trusted."""
    (project / ".quarterdeck").mkdir(exist_ok=True)
    (project / ".quarterdeck" / "config.toml").write_text(f"[worktrees]\n{text}\n")
    await asyncio.to_thread(TrustStore(places_in(home).trust_file).trust, project)


async def spawn(fleet: LocalFleet, cwd: Path, agent: str | None = None, **options):
    wants = options.pop("wants", True)
    more = {"worktree": WorktreeOptions(**options)} if wants else {}
    info = await fleet.spawn(new_agent(cwd, name=agent, **more))
    await fleet.wait([info.session], timeout=SOON)
    return await fleet.agent(info.session)


async def of_kind(fleet: LocalFleet, name: str, kind):
    return [one for one in await events_of(fleet, name) if isinstance(one, kind)]


async def test_an_agent_works_in_a_worktree_of_its_own(fleet, casting, project, tmp_path):
    info = await spawn(fleet, project / "src", "docs")
    assert info.worktree is not None
    top = Path(info.worktree.path)
    assert top.is_relative_to(tmp_path / "home") and top.name == "docs"
    assert info.cwd == str(top / "src")
    assert (info.worktree.branch, info.worktree.base_ref) == ("quarterdeck/docs", "main")
    assert info.worktree.base == git(project, "rev-parse", "HEAD").strip()
    assert info.worktree.repository == str(project)
    assert state_of(top) == state_of(project)
    assert git(top, "status", "--porcelain") == ""
    opening = casting.links[0].host.opening.options
    assert (opening.cwd, opening.worktree) == (info.cwd, None)
    (assigned,) = await of_kind(fleet, "docs", WorktreeAssigned)
    assert assigned.worktree == info.worktree


async def test_names_are_free_ones_and_two_agents_never_clash(fleet, project):
    git(project, "branch", "quarterdeck/docs")
    one = await spawn(fleet, project, "docs")
    two = await spawn(fleet, project)
    assert one.worktree and one.worktree.branch == "quarterdeck/docs-2"
    assert two.worktree and two.worktree.path != one.worktree.path
    with pytest.raises(InvalidOptionsError, match="exists already"):
        await spawn(fleet, project, "x", name="docs")
    with pytest.raises(NameTakenError):
        await spawn(fleet, project, "docs")


@pytest.mark.parametrize("text", ["nowhere", "bare", "unborn", "base"])
async def test_what_cannot_have_a_worktree_is_refused_with_the_reason(
    fleet, project, tmp_path, text
):
    places = {"nowhere": tmp_path / "plain", "unborn": tmp_path / "new"}
    places["nowhere"].mkdir()
    new_repository(places["unborn"])
    git(tmp_path, "clone", "-q", "--bare", str(project), "bare.git")
    places |= {"bare": tmp_path / "bare.git", "base": project}
    reasons = {
        "nowhere": "not in a git repository",
        "bare": "bare repository",
        "unborn": "commit something first",
        "base": "no commit 'nothing'",
    }
    options = {"base": "nothing"} if text == "base" else {}
    with pytest.raises(InvalidOptionsError, match=reasons[text]):
        await spawn(fleet, places[text], "docs", **options)
    assert await fleet.agents() == []
    await spawn(fleet, project, "docs", wants=False)


async def test_a_base_can_be_named_and_a_detached_head_has_no_branch(fleet, project):
    first = git(project, "rev-parse", "HEAD").strip()
    (project / "a.txt").write_text("second\n")
    git(project, "commit", "-qam", "second")
    git(project, "branch", "old", first)
    info = await spawn(fleet, project, "one", base="old")
    assert info.worktree and (info.worktree.base, info.worktree.base_ref) == (first, "old")
    info = await spawn(fleet, project, "two", base="HEAD~1")
    assert info.worktree and (info.worktree.base, info.worktree.base_ref) == (first, None)
    for name in ("old~0", "old^{commit}", "old@{0}"):  # a commit, and not a branch of that name
        info = await spawn(fleet, project, base=name)
        assert info.worktree and (info.worktree.base, info.worktree.base_ref) == (first, None)
    info = await spawn(fleet, project, "whole", base="refs/heads/old")
    assert info.worktree and (info.worktree.base, info.worktree.base_ref) == (first, "old")
    git(project, "checkout", "-q", "--detach")
    info = await spawn(fleet, project, "three")
    assert info.worktree and info.worktree.base_ref is None


@pytest.mark.parametrize(
    "name", ["-x", "--output=x", "--help", "old\nold", "old\0", "..", "old..old", "", " ", "\udcff"]
)
async def test_a_base_that_is_no_commit_is_refused_by_name(fleet, project, name):
    before = untouched(project)
    with pytest.raises(InvalidOptionsError, match="base"):
        await spawn(fleet, project, "docs", base=name)
    assert await fleet.agents() == [] and await fleet.worktrees() == []
    assert untouched(project) == before


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("../../out", "out"),
        ("-x", None),
        ("--force", None),
        ("a..b", "a.b"),
        ("refs/heads/main", "refs-heads-main"),
        ("x.lock", "x"),
        ("a\nb", "a-b"),
        ("☃ 雪", "雪"),
        ("...", "worktree"),
        ("@{-1}", "1-"),
        ("HEAD", "HEAD"),
        ("n" * 300, None),
    ],
)
async def test_a_name_is_one_part_of_a_path_and_of_a_branch(fleet, project, tmp_path, name, made):
    options = new_agent(project, name="docs", worktree=WorktreeOptions(name=name))
    if made is None:
        with pytest.raises((InvalidOptionsError, WorktreeError)):
            await fleet.spawn(options)
        assert await fleet.agents() == [] and "quarterdeck/" not in git(project, "for-each-ref")
        return
    worktree = (await fleet.spawn(options)).worktree
    place = Path(worktree.path)
    assert place.name == made and worktree.branch == f"quarterdeck/{made}"
    assert place.parent.parent == tmp_path / "home" / "state" / "worktrees"
    assert git(place, "branch", "--show-current").strip() == worktree.branch


async def test_uncommitted_work_is_carried_along_and_the_original_untouched(fleet, project):
    (project / ".gitignore").write_text("*.log\n")
    (project / "a.txt").write_text("mine\n")
    (project / "new ☃\n.txt").write_text("new\n")
    (project / "x.log").write_text("log\n")
    (project / "src" / "b.py").unlink()
    git(project, "add", "a.txt")
    index = (project / ".git" / "index").read_bytes()
    before = state_of(project)
    info = await spawn(fleet, project, "docs", carry=True)
    assert info.worktree and info.worktree.start
    top = Path(info.worktree.path)
    expected = {name: one for name, one in before.items() if name != b"x.log"}
    assert state_of(top) == expected
    assert state_of(project) == before
    assert (project / ".git" / "index").read_bytes() == index
    git(project, "gc", "-q", "--prune=now")
    assert git(project, "cat-file", "-t", info.worktree.start).strip() == "tree"
    with pytest.raises(InvalidOptionsError, match="omit the base"):
        git(project, "commit", "-qm", "second")
        await spawn(fleet, project, "x", carry=True, base="HEAD~1")


async def test_the_ignored_files_that_are_listed_are_copied(fleet, project, tmp_path):
    (project / ".gitignore").write_text("*.env\nnode_modules/\nbuild/\n")
    (project / ".worktreeinclude").write_text("*.env\nnode_modules/\n/a.txt\nnew.txt\n!no.env\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "lists")
    (project / "x.env").write_text("KEY=1\n")
    (project / "x.env").chmod(0o600)
    (project / "no.env").write_text("KEY=2\n")
    (project / "new.txt").write_text("untracked, not ignored\n")
    (project / "node_modules" / "deep").mkdir(parents=True)
    (project / "node_modules" / "deep" / "run").write_text("#!\n")
    (project / "node_modules" / "deep" / "run").chmod(0o755)
    (project / "node_modules" / "link").symlink_to("deep/run")
    (project / "node_modules" / "out").symlink_to(tmp_path)
    (project / "build").mkdir()
    (project / "build" / "big").write_text("big")
    odd = os.fsencode(project) + b"/node_modules/\xff\n"
    Path(os.fsdecode(odd)).write_text("odd")
    info = await spawn(fleet, project, "docs")
    top = Path(info.worktree.path)
    assert (top / "x.env").read_text() == "KEY=1\n"
    assert (top / "x.env").stat().st_mode & 0o777 == 0o600
    assert os.access(top / "node_modules" / "deep" / "run", os.X_OK)
    assert (top / "node_modules" / "link").readlink() == Path("deep/run")
    assert (top / "node_modules" / "out").is_symlink()
    assert Path(os.fsdecode(os.fsencode(top) + b"/node_modules/\xff\n")).exists()
    assert not any((top / name).exists() for name in ("build", "no.env", "new.txt"))
    (assigned,) = await of_kind(fleet, "docs", WorktreeAssigned)
    assert "x.env" in assigned.includes
    (listed,) = await fleet.worktrees()
    assert not listed.is_dirty


async def test_what_is_committed_outranks_ignored_files_of_the_same_name(fleet, project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "modules").symlink_to(outside)
    (project / "x.env").write_text("committed\n")
    (project / "Data").mkdir()
    (project / "Data" / "one.txt").write_text("committed\n")
    (project / "deps").write_text("a file\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "old")
    git(project, "branch", "old")
    git(project, "rm", "-q", "modules", "x.env", "deps")
    (project / ".gitignore").write_text("*.env\nmodules/\ndeps/\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "new")
    (project / ".worktreeinclude").write_text("*.env\nmodules/\ndeps/\n")
    for name in ("x.env", "y.env", "modules/a", "deps/b", "Data/z.env", "data/z.env"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("ignored\n")
    info = await spawn(fleet, project, "docs", base="old")
    top = Path(info.worktree.path)
    assert (top / "x.env").read_text() == "committed\n"
    assert (top / "deps").read_text() == "a file\n"
    assert (top / "modules").is_symlink() and not list(outside.iterdir())
    for name in ("y.env", "Data/z.env", "data/z.env"):
        assert (top / name).read_text() == "ignored\n"
    assert (top / "Data" / "one.txt").read_text() == "committed\n"
    assert "fatal" not in git(top, "status", "--porcelain")
    assert not git(top, "diff", "HEAD", "--name-only")


async def test_commands_of_trusted_settings_prepare_a_worktree(fleet, project, tmp_path):
    await settings(
        project, tmp_path / "home", 'setup = ["echo $QUARTERDECK_AGENT > made; echo done"]'
    )
    info = await spawn(fleet, project, "docs")
    assert (Path(info.worktree.path) / "made").read_text() == "docs\n"
    (ran,) = await of_kind(fleet, "docs", CommandRan)
    assert (ran.purpose, ran.exit_code, ran.output) == ("setup", 0, "done")
    await fleet.close("docs")
    await fleet.resume("docs")
    await fleet.wait(["docs"], timeout=SOON)
    assert len(await of_kind(fleet, "docs", CommandRan)) == 1


async def test_commands_of_a_project_that_is_not_trusted_do_not_run(fleet, project):
    (project / ".quarterdeck").mkdir()
    (project / ".quarterdeck" / "config.toml").write_text('[worktrees]\nsetup = ["touch made"]\n')
    info = await spawn(fleet, project, "docs")
    assert info.state == "idle"
    assert not (Path(info.worktree.path) / "made").exists()


async def test_a_set_up_that_fails_fails_the_start_and_removes_the_worktree(
    fleet, project, tmp_path
):
    await settings(project, tmp_path / "home", 'setup = ["echo no network; exit 3", "touch x"]')
    info = await spawn(fleet, project, "docs")
    assert info.state == "failed" and "no network" in info.reason and "code 3" in info.reason
    (assigned,) = await of_kind(fleet, "docs", WorktreeAssigned)
    assert not Path(assigned.worktree.path).exists()
    assert "quarterdeck/docs" not in git(project, "branch")
    assert info.worktree is None and await fleet.worktrees() == []
    assert [one.exit_code for one in await of_kind(fleet, "docs", CommandRan)] == [3]
    with pytest.raises(AgentNotReadyError, match="quarterdeck worktrees recreate docs"):
        await fleet.resume("docs")


async def test_a_set_up_that_takes_too_long_is_ended(fleet, project, tmp_path):
    await settings(project, tmp_path / "home", 'setup = ["sleep 60"]\ntimeout = 0.2')
    info = await spawn(fleet, project, "docs")
    assert info.state == "failed" and "0.2 s" in info.reason


async def test_an_agent_that_was_killed_while_its_worktree_was_prepared_can_be_resumed(
    fleet, project, tmp_path
):
    wait = "test -e go || { touch began; sleep 60; }"
    await settings(project, tmp_path / "home", f'setup = ["{wait}"]')
    info = await fleet.spawn(new_agent(project, name="docs", worktree=WorktreeOptions()))
    top = Path(info.worktree.path)
    async with asyncio.timeout(SOON):
        while not (top / "began").exists():
            await asyncio.sleep(0.01)
    await fleet.kill("docs")
    assert (await fleet.agent("docs")).state == "killed"
    (top / "go").touch()
    await fleet.resume("docs")
    await fleet.wait(["docs"], timeout=SOON)
    assert (await fleet.agent("docs")).state == "idle"
    assert [one.exit_code for one in await of_kind(fleet, "docs", CommandRan)] == [0]


async def test_a_project_can_give_every_agent_a_worktree(fleet, project, tmp_path):
    await settings(project, tmp_path / "home", 'default = true\nbranch = "agents/{agent}"')
    info = await spawn(fleet, project, "docs", wants=False)
    assert info.worktree and info.worktree.branch == "agents/docs"
    info = await spawn(fleet, project, "plain", is_off=True)
    assert info.worktree is None and info.cwd == str(project)


async def test_worktrees_can_be_in_another_place(fleet, project, tmp_path):
    await settings(project, tmp_path / "home", 'place = "../trees"')
    info = await spawn(fleet, project, "docs")
    assert info.worktree.path == str(tmp_path / "trees" / "docs")


async def test_resuming_returns_to_the_same_worktree(fleet, casting, project):
    info = await spawn(fleet, project, "docs")
    await fleet.close("docs")
    again = await fleet.resume("docs")
    assert (again.cwd, again.worktree) == (info.cwd, info.worktree)
    await fleet.wait(["docs"], timeout=SOON)
    assert casting.links[-1].host.opening.options.cwd == info.cwd


async def test_after_a_crash_too(tmp_path, casting, project):
    async with fleet_of(tmp_path / "home", casting) as fleet:
        info = await spawn(fleet, project, "docs")
    async with fleet_of(tmp_path / "home", casting) as fleet:
        assert (await fleet.resume("docs")).cwd == info.cwd


async def test_a_missing_worktree_is_named_and_recreated_from_the_branch(fleet, project, tmp_path):
    info = await spawn(fleet, project, "docs")
    top = Path(info.worktree.path)
    (top / "a.txt").write_text("committed\n")
    git(top, "commit", "-qam", "work")
    (top / "src" / "b.py").write_text("staged\n")
    git(top, "add", "-A")
    await fleet.close("docs")
    top.rename(tmp_path / "gone")
    with pytest.raises(AgentNotReadyError, match="quarterdeck worktrees recreate docs"):
        await fleet.resume("docs")
    (listed,) = await fleet.worktrees()
    assert listed.problem == "it is gone"
    await fleet.recreate_worktree("docs")
    assert (top / "a.txt").read_text() == "committed\n"
    assert (top / "src" / "b.py").read_text() == "staged\n"
    assert (await fleet.resume("docs")).worktree == info.worktree
    with pytest.raises(AgentNotReadyError, match="is there already"):
        await fleet.recreate_worktree("docs")


async def test_git_may_have_forgotten_a_missing_worktree(fleet, project, tmp_path):
    info = await spawn(fleet, project, "docs")
    top = Path(info.worktree.path)
    (top / "a.txt").write_text("committed\n")
    git(top, "commit", "-qam", "work")
    await fleet.close("docs")
    top.rename(tmp_path / "gone")
    git(project, "worktree", "prune")
    await fleet.recreate_worktree("docs")
    assert (top / "a.txt").read_text() == "committed\n"
    assert git(top, "branch", "--show-current").strip() == "quarterdeck/docs"


async def test_a_worktree_of_the_person_is_adopted_and_never_removed(fleet, project, tmp_path):
    git(project, "worktree", "add", "-q", str(tmp_path / "mine"), "-b", "feature")
    (tmp_path / "mine" / "wip.txt").write_text("wip\n")
    info = await spawn(fleet, project, "docs", path=str(tmp_path / "mine"))
    assert info.worktree and info.worktree.is_adopted
    assert (info.worktree.branch, info.worktree.base_ref) == ("feature", "main")
    assert info.worktree.start is not None and info.cwd == str(tmp_path / "mine")
    await fleet.archive("docs")
    for name in ("docs", "mine", str(tmp_path / "mine")):
        with pytest.raises(WorktreeError, match=r"you made .*git worktree remove"):
            await fleet.remove_worktree(name)
        with pytest.raises(WorktreeError, match=r"you made .*git worktree remove"):
            await fleet.discard_worktree(name)
    assert await fleet.prune_worktrees() == []
    assert (tmp_path / "mine" / "wip.txt").exists()
    with pytest.raises(InvalidOptionsError, match="main checkout"):
        await spawn(fleet, project, "x", path=str(project))


async def test_what_was_discarded_is_kept_for_the_days_of_the_trash(fleet, project, tmp_path):
    for name, days in (("kept", 1), ("gone", 0)):
        await settings(project, tmp_path / "home", f"trash_days = {days}")
        await spawn(fleet, project, name)
        await fleet.close(name)
        await fleet.discard_worktree(name)
    found = {one.name: one for one in await fleet.trash()}
    assert found["kept"].expires - found["kept"].discarded == 24 * 3600 * 1_000_000
    assert found["gone"].expires == found["gone"].discarded
    await fleet.prune_worktrees(dry_run=True)
    assert len(await fleet.trash()) == 2
    await fleet.prune_worktrees()
    assert [one.name for one in await fleet.trash()] == ["kept"]
    references = git(project, "for-each-ref", "refs/quarterdeck/trash")
    assert found["kept"].reference in references and found["gone"].reference not in references
    with pytest.raises(NoSuchWorktreeError):
        await fleet.restore_worktree("gone")
    assert (await fleet.restore_worktree("kept")).branch == "quarterdeck/kept"


async def test_several_agents_share_one_on_request(fleet, project):
    one = await spawn(fleet, project, "one")
    two = await spawn(fleet, project / "src", "two", path="one")
    three = await spawn(fleet, project, "three", name="one")
    assert one.worktree == two.worktree == three.worktree
    assert two.cwd == f"{one.cwd}/src"
    (listed,) = await fleet.worktrees()
    assert sorted(listed.agents) == ["one", "three", "two"]
    await fleet.close("one")
    with pytest.raises(AgentNotReadyError, match="live"):
        await fleet.remove_worktree("one")


async def test_who_joins_a_worktree_by_its_name_is_told_and_cannot_say_how_it_is_made(
    fleet, project
):
    one = await spawn(fleet, project, "one")
    for more in ({"base": "main"}, {"carry": True}):
        with pytest.raises(InvalidOptionsError, match="'one' exists already"):
            await spawn(fleet, project, "two", name="one", **more)
    two = await spawn(fleet, project, "two", name="one")
    assert two.worktree == one.worktree
    (notice,) = await of_kind(fleet, "two", NoticePosted)
    assert notice.title == "Joined the worktree 'one', which exists already."
    assert await of_kind(fleet, "one", NoticePosted) == []


async def test_a_copy_of_an_agent_gets_a_copy_of_its_worktree(fleet, project):
    info = await spawn(fleet, project, "docs")
    top = Path(info.worktree.path)
    (top / "a.txt").write_text("committed\n")
    git(top, "commit", "-qam", "work")
    (top / "new.txt").write_text("not committed\n")
    copied = await fleet.fork("docs", name="copy")
    assert copied.worktree and copied.worktree.branch == "quarterdeck/copy"
    other = Path(copied.worktree.path)
    assert other != top and state_of(other) == state_of(top)
    assert copied.worktree.base == info.worktree.base
    assert git(other, "status", "--porcelain") == "?? new.txt\n"
    (other / "a.txt").write_text("other\n")
    assert (top / "a.txt").read_text() == "committed\n"


async def test_worktrees_are_listed(fleet, project, tmp_path):
    info = await spawn(fleet, project, "docs")
    top = Path(info.worktree.path)
    (top / "a.txt").write_text("committed\n")
    git(top, "commit", "-qam", "work")
    (project / "c.txt").write_text("c\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "meanwhile")
    (top / "new.txt").write_text("x" * 100_000)
    (listed,) = await fleet.worktrees(measure=True, repository=str(project))
    assert (listed.name, listed.agents, listed.branch) == ("docs", ("docs",), "quarterdeck/docs")
    assert (listed.ahead, listed.behind, listed.is_dirty) == (1, 1, True)
    assert listed.size > 100_000 and listed.is_live and listed.last_active > 0
    other = new_repository(tmp_path / "other", {"x": "x"})
    assert await fleet.worktrees(repository=str(other)) == []


async def test_submodules_and_a_repository_within_another(fleet, project, tmp_path):
    inner = new_repository(tmp_path / "inner", {"i.txt": "i\n"})
    git(project, "submodule", "--quiet", "add", str(inner), "sub")
    git(project, "commit", "-qm", "submodule")
    info = await spawn(fleet, project, "docs")
    (notice,) = await of_kind(fleet, "docs", NoticePosted)
    assert "sub" in notice.title and "Submodules" in notice.title
    within = new_repository(project / "within", {"w.txt": "w\n"})
    info = await spawn(fleet, within, "inside")
    assert info.worktree.repository == str(within)


async def test_removal_keeps_what_is_not_elsewhere(fleet, project):
    info = await spawn(fleet, project, "docs")
    top = Path(info.worktree.path)
    with pytest.raises(AgentNotReadyError, match="close it first"):
        await fleet.remove_worktree("docs")
    await fleet.close("docs")
    (top / "new.txt").write_text("x")
    with pytest.raises(WorktreeError, match=r"new.txt.*worktrees discard docs"):
        await fleet.remove_worktree("docs")
    assert (top / "new.txt").exists()
    git(top, "add", "-A")
    git(top, "commit", "-qm", "work")
    done = await fleet.remove_worktree(str(top))
    assert done.branch == "quarterdeck/docs" and not top.exists()
    assert "work" in git(project, "log", "-1", "quarterdeck/docs")
    assert git(project, "worktree", "list").count("\n") == 1
    (released,) = await of_kind(fleet, "docs", WorktreeReleased)
    assert (released.how, released.branch) == ("removed", "quarterdeck/docs")
    assert (await fleet.agent("docs")).worktree is None
    with pytest.raises(NoSuchWorktreeError):
        await fleet.remove_worktree("docs")
    await fleet.recreate_worktree("docs")
    assert (top / "new.txt").exists()


async def test_a_branch_without_commits_goes_with_its_worktree(fleet, project):
    await spawn(fleet, project, "docs")
    await fleet.close("docs")
    assert (await fleet.remove_worktree("docs")).branch is None
    assert "quarterdeck" not in git(project, "branch")
    await spawn(fleet, project, "kept")
    await fleet.close("kept")
    assert (await fleet.remove_worktree("kept", keep_branch=True)).branch == "quarterdeck/kept"


async def test_archived_agents_lose_their_worktrees_by_the_settings(fleet, project, tmp_path):
    await settings(project, tmp_path / "home", "keep_days = 0")
    for name in ("clean", "dirty", "live", "idle"):
        info = await spawn(fleet, project, name)
        if name == "dirty":
            (Path(info.worktree.path) / "x").write_text("x")
    for name in ("clean", "dirty"):
        await fleet.archive(name)
    await fleet.close("idle")
    assert [one.name for one in await fleet.prune_worktrees(dry_run=True)] == ["clean"]
    assert [one.name for one in await fleet.prune_worktrees()] == ["clean"]
    assert sorted(one.name for one in await fleet.worktrees()) == ["dirty", "idle", "live"]


async def test_merged_ones_too_and_what_is_too_large_goes_first(fleet, project, tmp_path):
    await settings(project, tmp_path / "home", "keep_days = 0")
    info = await spawn(fleet, project, "merged")
    top = Path(info.worktree.path)
    (top / "n").write_text("n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "work")
    await fleet.close("merged")
    assert await fleet.prune_worktrees() == []
    git(project, "merge", "-q", "quarterdeck/merged")
    (done,) = await fleet.prune_worktrees()
    assert done.branch is None and not top.exists()
    await settings(project, tmp_path / "home", "keep_days = 100")
    await spawn(fleet, project, "large")
    await fleet.archive("large")
    assert await fleet.prune_worktrees() == []
    await settings(project, tmp_path / "home", "keep_days = 100\nkeep_size = 0.000001")
    assert [one.name for one in await fleet.prune_worktrees()] == ["large"]


async def held(is_there) -> None:
    """Wait until something is so, by what other tasks do."""
    async with asyncio.timeout(SOON):
        while not is_there():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("how", ["remove_worktree", "discard_worktree"])
async def test_an_agent_does_not_start_in_a_worktree_that_is_going(fleet, project, how):
    info = await spawn(fleet, project, "docs")
    path = info.worktree.path
    await fleet.close("docs")
    service = fleet.worktree_service
    async with service.making:  # all checks are done, and the files still there
        going = asyncio.create_task(getattr(fleet, how)("docs"))
        await held(lambda: service.claims._removing)
        with pytest.raises(AgentNotReadyError, match="being removed"):
            await fleet.resume("docs")
        with pytest.raises(AgentNotReadyError, match="being removed"):
            await fleet.spawn(new_agent(Path(path), name="beside"))
        with pytest.raises(AgentNotReadyError, match="being removed"):
            await spawn(fleet, project, "shared", path="docs")
        with pytest.raises(AgentNotReadyError, match="being removed"):
            await fleet.fork("docs", name="copy")
        with pytest.raises(AgentNotReadyError, match="being removed"):
            await getattr(fleet, how)("docs")
    await going
    assert not Path(path).exists() and [one.name for one in await fleet.agents()] == ["docs"]


@pytest.mark.parametrize("how", ["remove_worktree", "discard_worktree"])
async def test_a_worktree_in_which_an_agent_is_starting_stays(fleet, project, how):
    info = await spawn(fleet, project, "docs")
    await fleet.close("docs")
    claims, supervisor = fleet.worktree_service.claims, fleet._supervisor
    async with supervisor._naming:  # it is checked, and does not count as started yet
        starting = asyncio.create_task(fleet.resume("docs"))
        await held(lambda: claims._starting)
        with pytest.raises(AgentNotReadyError, match="starting in the worktree"):
            await getattr(fleet, how)("docs")
    await starting
    with pytest.raises(AgentNotReadyError, match="live"):
        await getattr(fleet, how)("docs")
    assert Path(info.worktree.path).is_dir() and not claims._starting and not claims._removing
