"""An agent can write to ``.git`` and HEAD of its worktree; nothing that they name is changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.fleet.errors import LandingRefusedError
from quarterdeck.fleet.landing.api import LandingOptions
from quarterdeck.fleet.review.api import ReviewSelection
from quarterdeck.fleet.review.errors import ReviewError
from quarterdeck.fleet.worktrees.builder import MadeWorktree, WorktreeBuilder
from quarterdeck.fleet.worktrees.disposal import WorktreeDisposal
from quarterdeck.fleet.worktrees.record import WorktreeRecords
from quarterdeck.system.errors import GitError
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.review_project import reviewed_agent
from tests.support.work_trees import git, new_repository, state_of, untouched

SETTINGS = WorktreeSettings()


def folder_of(tmp_path: Path) -> Path:
    """As git names it."""
    return tmp_path.resolve()


def name_other(top: Path, _: Path, other: Path) -> None:
    (top / ".git").write_text(f"gitdir: {other}/.git\n")


def name_main(top: Path, project: Path, _: Path) -> None:
    (top / ".git").write_text(f"gitdir: {project}/.git\n")


def name_sibling(top: Path, project: Path, _: Path) -> None:
    git(project, "worktree", "add", "-q", "--detach", str(project.parent / "sibling"))
    (top / ".git").write_text(f"gitdir: {project}/.git/worktrees/sibling\n")


def name_own(top: Path, project: Path, _: Path) -> None:
    """A whole repository of the agent's, with a worktree that fits on both sides."""
    evil = new_repository(project.parent / "evil", {"a.txt": "a\n"})
    own = evil / ".git" / "worktrees" / "w"
    own.mkdir(parents=True)
    for name, text in (("commondir", "../.."), ("gitdir", f"{top}/.git"), ("HEAD", "ref: refs/x")):
        (own / name).write_text(f"{text}\n")
    shutil.copy(evil / ".git" / "index", own / "index")
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (top / ".git").write_text(f"gitdir: {own}\n")


def link_other(top: Path, _: Path, other: Path) -> None:
    (top / ".git").unlink()
    (top / ".git").symlink_to(other / ".git")


def make_new(top: Path, _: Path, other: Path) -> None:
    (top / ".git").unlink()
    shutil.copytree(other / ".git", top / ".git")


def remove_it(top: Path, _: Path, other: Path) -> None:
    del other
    (top / ".git").unlink()


FORGERIES = (name_other, name_main, name_sibling, name_own, link_other, make_new, remove_it)
Forge = Callable[[Path, Path, Path], None]


@pytest.mark.parametrize("forge", FORGERIES)
async def test_a_worktree_that_names_another_repository_is_not_used(tmp_path: Path, forge: Forge):
    folder = folder_of(tmp_path)
    other = new_repository(folder / "other", {"a.txt": "other\n"})
    async with reviewed_agent(folder, {b"a.txt": b"a\n"}) as ann:
        project = folder / "project"
        git(project, "checkout", "-q", "-b", "elsewhere")
        ann.write("a.txt", "evil\n")
        forge(ann.tree, project, other)
        before = [untouched(one) for one in (project, other)]
        files = [state_of(one) for one in (project, other, ann.tree)]
        for into in ("main", "elsewhere", "new"):
            for method in ("squash", "merge", "rebase"):
                options = LandingOptions(into=into, method=method, checkout=True)
                result = await ann.fleet.land("ann", options)
                assert result.state == "refused", (into, method)
        with pytest.raises((LandingRefusedError, GitError)):
            await ann.fleet.draft_pull_request("ann", LandingOptions(into="main"))
        for change in (ann.fleet.accept_changes, ann.fleet.reject_changes):
            with pytest.raises(ReviewError):
                await change("ann", [ReviewSelection(file="a.txt")])
        assert [untouched(one) for one in (project, other)] == before
        assert [state_of(one) for one in (project, other, ann.tree)] == files


async def test_a_review_that_was_begun_is_not_carried_out_in_another_repository(tmp_path: Path):
    folder = folder_of(tmp_path)
    other = new_repository(folder / "other", {"a.txt": "other\n"})
    async with reviewed_agent(folder, {b"a.txt": b"a\n"}) as ann:
        ann.write("a.txt", "evil\n")
        await ann.fleet.accept_changes("ann", [ReviewSelection(file="a.txt")])
        name_other(ann.tree, folder, other)
        before = untouched(other)
        undone = await ann.fleet.undo_review("ann")
        assert "the index was not changed" in " ".join(undone.notes)
        assert untouched(other) == before


def make_yard(folder: Path, place: str | None) -> tuple[WorktreeRecords, MadeWorktree]:
    records = WorktreeRecords(folder / "state" / "worktrees")
    builder = WorktreeBuilder(records, folder / "state" / "worktrees")
    options = SessionOptions(cwd=str(folder / "project"), worktree=WorktreeOptions())
    return records, builder.make(options, "docs", WorktreeSettings(place=place))


@pytest.mark.parametrize("place", [None, "trees"])
@pytest.mark.parametrize("forge", FORGERIES)
def test_what_is_in_a_forged_worktree_is_not_deleted(
    tmp_path: Path, forge: Forge, place: str | None
):
    """With the worktree inside the project, git would find the project above it."""
    folder = folder_of(tmp_path)
    other = new_repository(folder / "other", {"a.txt": "a\n"})
    project = new_repository(folder / "project", {"a.txt": "a\n", ".gitignore": "trees/\n"})
    records, made = make_yard(folder, place)
    record = records.find(made.worktree.path)
    assert record is not None
    top = Path(made.worktree.path)
    (top / "work.txt").write_text("the only copy\n")
    forge(top, project, other)
    before, files = [untouched(one) for one in (project, other)], state_of(top)
    disposal = WorktreeDisposal(records, folder / "state" / "scratch")
    for end in (disposal.remove, disposal.discard):
        with pytest.raises(GitError, match="repair"):
            end(record, SETTINGS)
        assert state_of(top) == files and records.trash() == []
        assert records.find(str(top)) == record
    assert [untouched(one) for one in (project, other)] == before
    if (top / ".git").is_dir() and not (top / ".git").is_symlink():
        shutil.rmtree(top / ".git")
    (top / ".git").unlink(missing_ok=True)
    (top / ".git").write_text(f"gitdir: {record.git_dir}\n")
    done = disposal.discard(record, SETTINGS)
    assert done.trash is not None
    disposal.restore(done.trash)
    assert state_of(top) == files


def test_a_discarded_worktree_whose_head_was_moved_to_a_branch_of_the_person_is_restored(
    tmp_path: Path,
):
    folder = folder_of(tmp_path)
    project = new_repository(folder / "project", {"a.txt": "a\n"})
    records, made = make_yard(folder, None)
    record = records.find(made.worktree.path)
    assert record is not None and record.git_dir is not None
    top = Path(made.worktree.path)
    (top / "work.txt").write_text("the only copy\n")
    Path(record.git_dir, "HEAD").write_text("ref: refs/heads/main\n")
    disposal = WorktreeDisposal(records, folder / "state" / "scratch")
    files, main = state_of(top), git(project, "rev-parse", "main")
    done = disposal.discard(record, SETTINGS)
    assert done.trash is not None
    restored = disposal.restore(done.trash)
    assert state_of(top) == files and git(project, "rev-parse", "main") == main
    assert restored.worktree.branch == "main-2"
    assert git(project, "branch", "--show-current").strip() == "main"


@pytest.mark.parametrize("method", ["merge", "rebase", "squash"])
async def test_a_head_that_names_a_branch_of_the_person_moves_nothing(tmp_path: Path, method: str):
    folder = folder_of(tmp_path)
    async with reviewed_agent(folder, {b"a.txt": b"a\n"}) as ann:
        project = folder / "project"
        ann.write("a.txt", "evil\n")
        own = Path((ann.tree / ".git").read_text().removeprefix("gitdir: ").strip())
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        before, files = git(project, "rev-parse", "main"), state_of(project)
        result = await ann.fleet.land("ann", LandingOptions(into="review", method=method))
        assert result.state == "refused" and "is checked out in" in result.reason
        assert git(project, "rev-parse", "main") == before and state_of(project) == files
        assert git(project, "status", "--porcelain") == ""


async def test_a_pull_request_is_never_pushed_to_a_branch_that_head_names(tmp_path: Path):
    folder = folder_of(tmp_path)
    async with reviewed_agent(folder, {b"a.txt": b"a\n"}) as ann:
        project = folder / "project"
        ann.write("a.txt", "evil\n")
        git(project, "branch", "release")
        git(ann.tree, "symbolic-ref", "HEAD", "refs/heads/release")
        draft = await ann.fleet.draft_pull_request("ann", LandingOptions(into="main"))
        assert (draft.branch, draft.base) == ("quarterdeck/ann", "main")
        options = LandingOptions(into="quarterdeck/ann")
        with pytest.raises(LandingRefusedError, match="own branch"):
            await ann.fleet.draft_pull_request("ann", options)


def test_the_links_of_a_forgery_are_what_git_itself_would_follow(tmp_path: Path):
    """Else the tests above would pass for the wrong reason."""
    folder = folder_of(tmp_path)
    other = new_repository(folder / "other", {"a.txt": "a\n"})
    project = new_repository(folder / "project", {"a.txt": "a\n"})
    top = folder / "top"
    for forge in FORGERIES[:-1]:
        git(project, "worktree", "add", "-q", "--detach", "-f", str(top))
        forge(top, project, other)
        found = git(top, "rev-parse", "--path-format=absolute", "--git-dir").strip()
        assert not Path(found).samefile(project / ".git" / "worktrees" / "top"), forge
        shutil.rmtree(top)
        git(project, "worktree", "prune")


async def test_an_index_that_is_a_link_is_not_written_through(tmp_path: Path):
    """Git itself writes where the link leads: to the index of the person's checkout."""
    folder = folder_of(tmp_path)
    async with reviewed_agent(folder, {b"a.txt": b"a\n"}) as ann:
        project = folder / "project"
        ann.write("a.txt", "evil\n")
        own = Path((ann.tree / ".git").read_text().removeprefix("gitdir: ").strip())
        (own / "index").unlink()
        (own / "index").symlink_to(project / ".git" / "index")
        before = untouched(project)[:-1]
        with pytest.raises(ReviewError):
            await ann.fleet.accept_changes("ann", [ReviewSelection(file="a.txt")])
        for method in ("merge", "rebase"):
            options = LandingOptions(into="new", method=method)
            assert (await ann.fleet.land("ann", options)).state == "refused"
        assert untouched(project)[:-1] == before
