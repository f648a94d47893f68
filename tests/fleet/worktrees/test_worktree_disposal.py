"""What is discarded can be restored byte for byte; what was cut off is finished or taken back."""
# ruff: noqa: PTH123

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.fleet.errors import WorktreeError
from quarterdeck.fleet.worktrees.builder import MadeWorktree, WorktreeBuilder
from quarterdeck.fleet.worktrees.disposal import TRASH, WorktreeDisposal
from quarterdeck.fleet.worktrees.record import WorktreeRecord, WorktreeRecords
from quarterdeck.system.errors import GitError
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.hostile_repository import make_hostile_repository
from tests.support.work_trees import git, new_repository, state_of

SETTINGS = WorktreeSettings()


class Yard:
    """Worktrees of a project, and what makes and ends them."""

    def __init__(self, directory: Path, project: Path) -> None:
        self.project = project
        self.records = WorktreeRecords(directory / "worktrees")
        self.builder = WorktreeBuilder(self.records, directory / "worktrees")
        self.disposal = WorktreeDisposal(self.records, directory / "scratch")

    def make(self, name: str = "docs", **options: object) -> MadeWorktree:
        wanted = WorktreeOptions(**options)  # pyright: ignore[reportArgumentType]
        given = SessionOptions(cwd=str(self.project), worktree=wanted)
        return self.builder.make(given, name, SETTINGS)

    def record(self, made: MadeWorktree) -> WorktreeRecord:
        found = self.records.find(made.worktree.path)
        assert found is not None
        return found


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    files = {"a.txt": "a\n", "b.txt": "b\n", "gone.txt": "g\n", ".gitignore": "*.env\nout/\n"}
    return Yard(tmp_path / "state", new_repository(tmp_path / "project", files))


def dirty(top: Path) -> None:
    """Every kind of change that is not committed."""
    (top / "committed.txt").write_text("c\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "work")
    (top / "a.txt").write_bytes(b"changed\r\nmixed\n\xff")
    (top / "b.txt").unlink()
    (top / "b.txt").mkdir()
    (top / "b.txt" / "inside").write_text("a file became a directory\n")
    (top / "gone.txt").unlink()
    (top / "staged.txt").write_text("staged\n")
    git(top, "add", "staged.txt")
    (top / "run").write_text("#!/bin/sh\n")
    (top / "run").chmod(0o755)
    (top / "link").symlink_to("/etc/hostname")
    (top / "Case").write_text("1")
    (top / "case").write_text("2")
    odd = os.fsencode(top) + b'/odd\n"\xff\xf0\x9f\x90\x99'
    with open(odd, "wb") as file:
        file.write(os.urandom(1000))


def test_everything_that_is_discarded_can_be_restored(yard):
    made = yard.make()
    top = Path(made.worktree.path)
    dirty(top)
    before, status = state_of(top), git(top, "status", "--porcelain")
    tip = git(top, "rev-parse", "HEAD")
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    assert not top.exists() and "quarterdeck" not in git(yard.project, "branch")
    assert done.trash is not None and done.trash.reference.startswith(TRASH)
    assert yard.records.all() == []
    git(yard.project, "gc", "-q", "--prune=now")
    git(yard.project, "fsck", "--strict")
    (kept,) = yard.records.trash()
    assert kept == done.trash
    yard.disposal.restore(kept)
    assert state_of(top) == before
    assert git(top, "rev-parse", "HEAD") == tip
    assert git(top, "branch", "--show-current").strip() == "quarterdeck/docs"
    # What was staged is there, and not staged any more.
    restored = git(top, "status", "--porcelain").splitlines()
    assert len(restored) == len(status.splitlines())
    assert yard.records.trash() == []
    assert git(yard.project, "for-each-ref", TRASH) == ""


def test_line_ends_and_encodings_are_restored_as_they_were(yard):
    (yard.project / ".gitattributes").write_text(
        "*.txt text eol=crlf\n*.u16 text working-tree-encoding=UTF-16LE\n*.id ident\n"
    )
    (yard.project / "w.u16").write_bytes("wide\n".encode("utf-16-le"))
    (yard.project / "v.id").write_text("$Id$\n")
    git(yard.project, "add", "-A")
    git(yard.project, "commit", "-qm", "attributes")
    made = yard.make()
    top = Path(made.worktree.path)
    assert (top / "a.txt").read_bytes() == b"a\r\n"
    (top / "a.txt").write_bytes(b"lf\nand crlf\r\n")
    before = state_of(top)
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    assert done.trash is not None
    yard.disposal.restore(done.trash)
    assert state_of(top) == before


def test_ignored_files_are_kept_if_they_were_copied_and_changed_or_by_the_settings(yard):
    (yard.project / ".worktreeinclude").write_text("*.env\n")
    (yard.project / "x.env").write_text("1\n")
    (yard.project / "same.env").write_text("1\n")
    made = yard.make()
    top = Path(made.worktree.path)
    (top / "x.env").write_text("2\n")
    (top / "own.env").write_text("3\n")
    (top / "out").mkdir()
    (top / "out" / "big").write_text("built\n")
    with pytest.raises(WorktreeError, match=r"own.env, x.env"):
        yard.disposal.remove(yard.record(made), SETTINGS)
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    names = git(yard.project, "ls-tree", "-r", "--name-only", done.trash.commit).split()
    assert "x.env" in names and "own.env" in names
    assert "same.env" not in names and "out/big" not in names
    yard.disposal.restore(done.trash)
    assert (top / "x.env").read_text() == "2\n"
    (top / "out").mkdir()
    (top / "out" / "big").write_text("built\n")
    done = yard.disposal.discard(yard.record(made), replace(SETTINGS, trash_ignored=True))
    yard.disposal.restore(done.trash)
    assert (top / "out" / "big").read_text() == "built\n"


def test_an_operation_that_git_has_not_finished_is_kept_too(yard):
    made = yard.make()
    top = Path(made.worktree.path)
    (top / "a.txt").write_text("ours\n")
    git(top, "commit", "-qam", "ours")
    git(top, "checkout", "-q", "-b", "other", "HEAD~1")
    (top / "a.txt").write_text("theirs\n")
    git(top, "commit", "-qam", "theirs")
    theirs = git(top, "rev-parse", "HEAD").strip()
    git(top, "checkout", "-q", "quarterdeck/docs")
    git(top, "branch", "-qD", "other")
    with pytest.raises(Exception, match="merge"):
        git(top, "merge", theirs)
    with pytest.raises(WorktreeError, match="a merge is not finished"):
        yard.disposal.remove(yard.record(made), SETTINGS)
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    assert theirs in git(yard.project, "rev-list", done.trash.commit)


def test_a_repository_within_is_never_deleted(yard):
    made = yard.make()
    top = Path(made.worktree.path)
    new_repository(top / "cloned", {"x": "x"})
    for end in (yard.disposal.remove, yard.disposal.discard):
        with pytest.raises(WorktreeError, match="cloned"):
            end(yard.record(made), SETTINGS)
    assert (top / "cloned" / "x").exists()
    assert yard.record(made).stage == "ready"


def test_commits_on_no_branch_are_not_lost(yard):
    made = yard.make()
    top = Path(made.worktree.path)
    git(top, "checkout", "-q", "--detach")
    (top / "a.txt").write_text("x\n")
    git(top, "commit", "-qam", "loose")
    with pytest.raises(WorktreeError, match="on no branch"):
        yard.disposal.remove(yard.record(made), SETTINGS)
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    yard.disposal.restore(done.trash)
    assert "loose" in git(top, "log", "-1")


def test_a_branch_that_moved_on_is_restored_under_another_name(yard):
    made = yard.make()
    top = Path(made.worktree.path)
    (top / "n").write_text("n")
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    git(yard.project, "commit", "-q", "--allow-empty", "-m", "more")
    git(yard.project, "branch", "quarterdeck/docs")
    record = yard.disposal.restore(done.trash)
    assert record.worktree.branch == "quarterdeck/docs-2"
    assert (top / "n").exists()


def test_a_place_that_is_taken_and_a_repository_that_is_gone_are_named(yard, tmp_path):
    made = yard.make()
    top = Path(made.worktree.path)
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    top.mkdir()
    with pytest.raises(WorktreeError, match="exists; remove it first"):
        yard.disposal.restore(done.trash)
    top.rmdir()
    yard.project.rename(tmp_path / "moved")
    with pytest.raises(WorktreeError, match="cannot be used"):
        yard.disposal.restore(done.trash)
    assert yard.records.trash() == [done.trash]
    yard.disposal.drop(done.trash)
    assert yard.records.trash() == []


def test_a_full_disk_loses_nothing(yard):
    made = yard.make()
    top = Path(made.worktree.path)
    dirty(top)
    before = state_of(top)
    objects = yard.project / ".git" / "objects"
    hidden = objects.with_name("aside")
    # What cannot be written, for whatever reason: the directory of new objects is a file.
    objects.rename(hidden)
    objects.write_text("")
    with pytest.raises((GitError, OSError)):
        yard.disposal.discard(yard.record(made), SETTINGS)
    objects.unlink()
    hidden.rename(objects)
    assert state_of(top) == before
    assert yard.record(made).stage == "ready"
    assert git(top, "rev-parse", "--is-inside-work-tree").strip() == "true"


@pytest.mark.parametrize("how", ["remove", "discard"])
@pytest.mark.parametrize("stage", ["parked", "deleting"])
def test_a_process_that_is_killed_while_it_removes(yard, how, stage):
    made = yard.make()
    top = Path(made.worktree.path)
    if how == "discard":
        dirty(top)
    before = state_of(top)
    record = yard.record(made)
    git_dir = record.git_dir
    parked = top.with_name(".docs.removing-1")
    again = Yard(yard.records.directory.parent, yard.project)
    if stage == "parked":  # nothing is safe yet
        yard.records.write(replace(record, stage="parked", parked=str(parked)))
        top.rename(parked)
        assert again.disposal.recover() == []
        assert state_of(top) == before
        assert again.record(made).stage == "ready"
        assert git(top, "status", "--porcelain") or how == "remove"
    else:  # everything is safe, and a part of it deleted
        top.rename(parked)
        (parked / "a.txt").unlink()
        yard.records.write(replace(record, stage="deleting", parked=str(parked)))
        assert again.disposal.recover() == [made.worktree]
        assert not parked.exists() and not top.exists() and not Path(git_dir).exists()
        assert again.records.all() == []
    assert again.disposal.recover() == []


def test_a_process_that_is_killed_between_moving_and_noting(yard):
    made = yard.make()
    record = yard.record(made)
    yard.records.write(replace(record, stage="parked", parked=f"{made.worktree.path}.x"))
    assert yard.disposal.recover() == []
    assert Path(made.worktree.path, "a.txt").exists() and yard.record(made).stage == "ready"


@pytest.mark.parametrize("cut", ["nothing", "empty", "half", "whole", "foreign", "edited"])
def test_a_process_that_is_killed_while_it_makes(yard, cut):
    made = yard.make()
    top = Path(made.worktree.path)
    yard.records.write(replace(yard.record(made), stage="making", git_dir=None))
    if cut == "nothing":
        yard.disposal.remove(replace(yard.record(made), stage="ready"), SETTINGS)
        yard.records.write(WorktreeRecord(name="docs", worktree=made.worktree))
    elif cut == "empty":
        yard.disposal.remove(replace(yard.record(made), stage="ready"), SETTINGS)
        yard.records.write(WorktreeRecord(name="docs", worktree=made.worktree))
        top.mkdir(parents=True)
    elif cut == "half":
        (top / "b.txt").unlink()
        (top / "a.txt").write_bytes(b"")
        Path(git(top, "rev-parse", "--absolute-git-dir").strip(), "index").unlink()
    elif cut == "foreign":
        (top / "mine.txt").write_text("a person's\n")
    elif cut == "edited":
        (top / "a.txt").write_text("a person's\n")
    gone = yard.disposal.recover()
    if cut in ("foreign", "edited"):
        assert gone == [] and top.exists()
        assert yard.record(made).stage == "ready"
    else:
        assert gone == [made.worktree] and not top.exists()
        assert git(yard.project, "worktree", "list").count("\n") == 1
        assert yard.records.all() == []


@pytest.mark.parametrize("cut", ["half", "whole", "edited"])
def test_a_process_that_is_killed_while_it_restores(yard, cut):
    (yard.project / ".gitattributes").write_text("*.txt text eol=crlf\n")
    git(yard.project, "add", "-A")
    git(yard.project, "commit", "-qm", "attributes")
    made = yard.make()
    top = Path(made.worktree.path)
    dirty(top)
    before = state_of(top)
    trash = yard.disposal.discard(yard.record(made), SETTINGS).trash
    commit = git(yard.project, "rev-parse", trash.reference).strip()
    restored = yard.disposal.restore(trash)
    # As it was before the end of that: nothing is noted, and the trash is there.
    git(yard.project, "update-ref", trash.reference, commit)
    yard.records.write_trash(trash)
    yard.records.write(replace(restored, stage="making", git_dir=None))
    if cut == "half":
        (top / "staged.txt").unlink()
        (top / "a.txt").write_bytes(b"chan")
    elif cut == "edited":
        (top / "mine.txt").write_text("a person's\n")
    gone = yard.disposal.recover()
    if cut == "edited":
        assert gone == [] and yard.record(made).stage == "ready"
        yard.disposal.discard(yard.record(made), SETTINGS)
    else:
        assert gone == [restored.worktree] and not top.exists()
    yard.disposal.restore(trash)
    assert state_of(top) == before


def test_nothing_of_a_hostile_repository_runs(tmp_path):
    hostile = make_hostile_repository(tmp_path / "hostile")
    yard = Yard(tmp_path / "state", hostile.top)
    before = hostile.ran()
    made = yard.make(carry=True)
    Path(made.worktree.path, "new.txt").write_text("new\n")
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    assert done.trash is not None
    restored = yard.disposal.restore(done.trash)
    Path(made.worktree.path, "new.txt").unlink()
    yard.builder.copy(restored.worktree, restored.worktree.path, "other", SETTINGS)
    yard.disposal.discard(restored, SETTINGS)
    yard.disposal.recover()
    assert hostile.ran() == before


def test_files_behind_a_filter_come_from_the_checkout(yard):
    project = yard.project
    (project / ".gitattributes").write_text("*.bin filter=lfs\n")
    (project / "one.bin").write_text("pointer one\n")
    (project / "two.bin").write_text("pointer two\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "pointers")
    # As LFS does: the file has content, and git knows that it stands for the pointer.
    git(project, "config", "filter.lfs.clean", "echo pointer one; cat >/dev/null")
    (project / "one.bin").write_text("content " * 100)
    os.utime(project / "one.bin", (1_000_000_000, 1_000_000_000))
    git(project, "add", "one.bin")
    git(project, "config", "--unset", "filter.lfs.clean")
    (project / "two.bin").write_text("edited\n")
    made = yard.make()
    top = Path(made.worktree.path)
    assert (top / "one.bin").read_text() == "content " * 100
    assert (top / "two.bin").read_text() == "pointer two\n"
    (notice,) = made.notices
    assert "two.bin" in notice.title and "one.bin" not in notice.title
    assert git(top, "status", "--porcelain") == ""
    yard.disposal.remove(yard.record(made), SETTINGS)


@pytest.mark.stress
def test_a_file_of_two_gigabytes(yard):
    made = yard.make()
    top = Path(made.worktree.path)
    with open(top / "big", "wb") as file:
        file.truncate(2_200_000_000)
        file.seek(1_000_000_000)
        file.write(b"in the middle")
    done = yard.disposal.discard(yard.record(made), SETTINGS)
    yard.disposal.restore(done.trash)
    assert (top / "big").stat().st_size == 2_200_000_000
