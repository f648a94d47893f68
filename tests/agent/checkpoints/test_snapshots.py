"""Work trees of every shape: what changed is found, taken back to the byte, and nothing else."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.agent.checkpoints import file_state
from quarterdeck.agent.checkpoints.file_state import Manifest, path_text
from quarterdeck.agent.checkpoints.restore import FileRestorer
from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.wire.events import Checkpointed, NoticePosted, Rewound
from quarterdeck.wire.ids import TurnId
from tests.support.work_trees import git, new_repository, state_of, untouched

SESSION = "ses_" + "0" * 26
TURN = TurnId("trn_1")
FILES = {"a.txt": "one\n", "sub/b.txt": "two\n"}


class Desk:
    """What keeps the files of one session, without the session."""

    def __init__(self, work: Path, state: Path) -> None:
        self.work = work
        self.snapshots = TurnSnapshots(state, SESSION, (str(work),))
        self.restoring = FileRestorer(
            self.snapshots.directory, self.snapshots.blobs, self.snapshots.root
        )

    def turn(self, *actions: Callable[[], object]) -> Manifest:
        """Do something within a turn; what it changed."""
        pending = self.snapshots.begin(TURN)
        assert pending.problems == []
        for action in actions:
            action()
        events = self.snapshots.finish(pending)
        assert not any(isinstance(event, NoticePosted) for event in events)
        checkpoints = [event for event in events if isinstance(event, Checkpointed)]
        if not checkpoints:
            return Manifest()
        return self.snapshots.blobs.get_manifest(checkpoints[0].manifest)

    def undo(self, manifest: Manifest, *, force: bool = False) -> tuple[str, ...]:
        """Take it back; what could not be."""
        plan = self.restoring.plan((c.reversed for c in manifest.changes), force=force)
        self.restoring.carry_out(plan, Rewound(to=TURN))
        self.restoring.done()
        return plan.kept

    def redo(self, manifest: Manifest) -> None:
        plan = self.restoring.plan(manifest.changes)
        self.restoring.carry_out(plan, Rewound(to=TURN))
        self.restoring.done()

    def there_and_back(self, *actions: Callable[[], object]) -> list[str]:
        """Do something, undo, redo and undo it; the paths that changed."""
        before, git_before = state_of(self.work), untouched(self.work)
        manifest = self.turn(*actions)
        after = state_of(self.work)
        assert before != after
        assert self.undo(manifest) == ()
        assert state_of(self.work) == before
        self.redo(manifest)
        assert state_of(self.work) == after
        self.undo(manifest)
        assert state_of(self.work) == before
        assert untouched(self.work) == git_before
        return [path_text(change.path, manifest.root) for change in manifest.changes]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(new_repository(tmp_path / "work", FILES), tmp_path / "state")


def writes(path: Path, data: bytes | str) -> Callable[[], object]:
    return lambda: path.write_bytes(data if isinstance(data, bytes) else data.encode())


def test_a_repository_without_commits(tmp_path: Path):
    desk = Desk(new_repository(tmp_path / "work"), tmp_path / "state")
    (desk.work / "mine.txt").write_text("mine\n")
    changed = desk.there_and_back(writes(desk.work / "new", "x"), (desk.work / "mine.txt").unlink)
    assert changed == ["mine.txt", "new"]


def test_a_linked_work_tree_and_a_directory_below_its_top(tmp_path: Path):
    main = new_repository(tmp_path / "main", FILES)
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "side")
    desk = Desk(tmp_path / "linked", tmp_path / "state")
    below = Desk(tmp_path / "linked" / "sub", tmp_path / "state2")
    desk.there_and_back(writes(desk.work / "a.txt", "x"), writes(desk.work / "sub/new", "y"))
    manifest = below.turn(writes(desk.work / "a.txt", "x"))
    assert [change.path for change in manifest.changes] == [os.fsencode(desk.work / "a.txt")]
    below.undo(manifest)
    assert (desk.work / "a.txt").read_text() == "one\n"
    assert state_of(main) == {
        b"a.txt": ("file", b"one\n", False),
        b"sub/b.txt": ("file", b"two\n", False),
    }


def test_a_file_becomes_a_directory_and_back(desk: Desk):
    def swap() -> None:
        (desk.work / "a.txt").unlink()
        (desk.work / "a.txt").mkdir()
        (desk.work / "a.txt" / "inside").write_text("in\n")
        shutil.rmtree(desk.work / "sub")
        (desk.work / "sub").write_text("a file now\n")

    assert desk.there_and_back(swap) == ["a.txt", "a.txt/inside", "sub", "sub/b.txt"]


def test_a_file_becomes_an_empty_directory(desk: Desk):
    def swap() -> None:
        (desk.work / "a.txt").unlink()
        (desk.work / "a.txt").mkdir()

    assert desk.there_and_back(swap) == ["a.txt"]


def test_a_directory_becomes_a_symlink_and_nothing_is_written_through_it(
    desk: Desk, tmp_path: Path
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.txt").write_text("theirs\n")

    def swap() -> None:
        shutil.rmtree(desk.work / "sub")
        (desk.work / "sub").symlink_to(elsewhere)

    desk.there_and_back(swap)
    assert (elsewhere / "b.txt").read_text() == "theirs\n"


def test_a_directory_that_becomes_an_ignored_link_to_itself_comes_back(tmp_path: Path):
    desk = Desk(
        new_repository(tmp_path / "work", {**FILES, ".gitignore": "/sub\n"}), tmp_path / "s"
    )
    git(desk.work, "add", "-f", "sub")
    desk.turn()

    def swap() -> None:
        (desk.work / "sub").rename(tmp_path / "moved")
        (desk.work / "sub").symlink_to(tmp_path / "moved")

    manifest = desk.turn(swap)
    assert [path_text(change.path, manifest.root) for change in manifest.changes] == ["sub/b.txt"]


def test_a_symlink_that_somebody_put_in_the_way_is_refused(desk: Desk, tmp_path: Path):
    from quarterdeck.agent.checkpoints.errors import FilesChangedError

    manifest = desk.turn(writes(desk.work / "sub/b.txt", "agent\n"))
    elsewhere = tmp_path / "elsewhere"
    shutil.move(desk.work / "sub", elsewhere)
    (desk.work / "sub").symlink_to(elsewhere)
    with pytest.raises(FilesChangedError):
        desk.undo(manifest)
    assert desk.undo(manifest, force=True) == ("sub/b.txt",)
    assert (elsewhere / "b.txt").read_text() == "agent\n"


def test_symlinks_modes_and_odd_names(desk: Desk):
    odd = os.fsdecode(b'odd \xff\n"name')

    def change() -> None:
        (desk.work / odd).write_text("x")
        (desk.work / "link").symlink_to("nowhere")
        (desk.work / "a.txt").chmod(0o755)
        (desk.work / "*").write_text("star")
        (desk.work / ":(top)x").write_text("magic")

    before = (desk.work / "a.txt").stat().st_mode
    desk.there_and_back(change)
    assert (desk.work / "a.txt").stat().st_mode == before


def test_other_bits_of_a_file_stay(desk: Desk):
    (desk.work / "a.txt").chmod(0o600)
    manifest = desk.turn(writes(desk.work / "a.txt", "agent\n"))
    desk.undo(manifest)
    assert (desk.work / "a.txt").stat().st_mode & 0o777 == 0o600


def test_no_hook_and_no_filter_of_the_repository_runs(tmp_path: Path):
    work = new_repository(tmp_path / "work", FILES)
    ran = tmp_path / "ran"
    for hook in ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"):
        script = work / ".git" / "hooks" / hook
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\necho hook >> {ran}\n")
        script.chmod(0o755)
    git(work, "config", "core.fsmonitor", str(script))
    git(work, "config", "filter.evil.clean", f"sh -c 'echo clean >> {ran}; cat'")
    git(work, "config", "filter.evil.smudge", f"sh -c 'echo smudge >> {ran}; cat'")
    git(work, "config", "filter.evil.process", f"sh -c 'echo process >> {ran}; cat'")
    git(work, "config", "filter.evil.required", "true")
    (work / ".gitattributes").write_text("* filter=evil diff=evil\n")
    git(work, "config", "diff.evil.textconv", f"sh -c 'echo conv >> {ran}; cat'")
    ran.unlink(missing_ok=True)
    desk = Desk(work, tmp_path / "state")
    manifest = desk.turn(writes(work / "a.txt", "agent\n"), writes(work / "new.txt", "agent\n"))
    desk.undo(manifest)
    assert (work / "a.txt").read_text() == "one\n"
    assert not ran.exists(), ran.read_text()


def test_a_filtered_file_comes_back_as_it_was_in_the_work_tree(tmp_path: Path):
    """As with large file storage: the repository has other bytes of the same length."""
    work = new_repository(tmp_path / "work", {"x": "x"})
    git(work, "config", "filter.upper.clean", "tr a-z A-Z")
    git(work, "config", "filter.upper.smudge", "tr A-Z a-z")
    (work / ".gitattributes").write_text("*.up filter=upper\n")
    (work / "data.up").write_text("small letters\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "filtered")
    assert git(work, "cat-file", "blob", ":data.up") == "SMALL LETTERS\n"
    desk = Desk(work, tmp_path / "state")
    desk.there_and_back(writes(work / "data.up", "agent\n"))


@pytest.mark.parametrize("autocrlf", ["true", "input", "false"])
@pytest.mark.parametrize("attributes", ["", "* text=auto\n", "*.txt text eol=crlf\n"])
def test_line_ends_come_back_as_they_were(tmp_path: Path, autocrlf: str, attributes: str):
    work = new_repository(tmp_path / "work", {"x": "x"})
    git(work, "config", "core.autocrlf", autocrlf)
    (work / ".gitattributes").write_text(attributes)
    (work / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (work / "lf.txt").write_bytes(b"one\ntwo\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "ends")
    desk = Desk(work, tmp_path / "state")
    desk.there_and_back(
        writes(work / "crlf.txt", "agent\n"),
        writes(work / "lf.txt", b"agent\r\n"),
        writes(work / "new.txt", b"mixed\r\n\n"),
    )


def test_a_large_file_is_named_and_left_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    from quarterdeck.agent.checkpoints import git_snapshot

    monkeypatch.setattr(file_state, "LARGEST", 1000)
    monkeypatch.setattr(git_snapshot, "LARGEST", 1000)
    large = desk.work / "large.bin"
    manifest = desk.turn(writes(large, b"x" * 2000), writes(desk.work / "a.txt", "agent\n"))
    assert manifest.uncovered == ("large.bin: too large",)
    assert desk.undo(manifest) == ("large.bin",)
    assert large.stat().st_size == 2000
    assert (desk.work / "a.txt").read_text() == "one\n"
    # It grows, and a small one becomes large; what was small cannot come back over it.
    manifest = desk.turn(writes(large, b"y" * 3000), writes(desk.work / "a.txt", "z" * 5000))
    assert len(manifest.uncovered) == 2
    assert set(desk.undo(manifest)) == {"a.txt", "large.bin"}
    assert desk.turn() == Manifest()


def test_a_submodule_is_noted_and_its_files_are_left_alone(tmp_path: Path):
    other = new_repository(tmp_path / "other", {"x": "x\n"})
    work = new_repository(tmp_path / "work", FILES)
    git(work, "submodule", "add", "-q", str(other), "module")
    git(work, "commit", "-q", "-m", "module")
    desk = Desk(work, tmp_path / "state")
    manifest = desk.turn(
        writes(work / "module/x", "agent\n"),
        writes(work / "a.txt", "agent\n"),
        lambda: git(work / "module", "commit", "-q", "-a", "-m", "inner"),
    )
    assert [path_text(c.path, manifest.root) for c in manifest.changes] in (
        ["a.txt"],
        ["a.txt", "module"],
    )
    desk.undo(manifest)
    assert (work / "a.txt").read_text() == "one\n"
    assert (work / "module/x").read_text() == "agent\n"


def test_a_repository_that_appears_within(desk: Desk):
    manifest = desk.turn(
        lambda: new_repository(desk.work / "inner"),
        lambda: new_repository(desk.work / "full", {"x": "x\n"}),
        writes(desk.work / "a.txt", "agent\n"),
    )
    assert set(manifest.uncovered) == {
        "inner: a nested repository",
        "full: a nested repository",
    }
    assert set(desk.undo(manifest)) == {"inner", "full"}
    assert (desk.work / "a.txt").read_text() == "one\n"
    assert (desk.work / "full/x").exists()


def test_what_is_ignored_is_not_watched(desk: Desk, tmp_path: Path):
    (desk.work / ".git/info").mkdir(exist_ok=True)
    (desk.work / ".git/info/exclude").write_text("private\n")
    (tmp_path / "mine").write_text("*.own\n")
    git(desk.work, "config", "core.excludesFile", str(tmp_path / "mine"))
    (desk.work / ".gitignore").write_text("build/\n")
    (desk.work / "build").mkdir()
    manifest = desk.turn(
        writes(desk.work / "build/x", "x"),
        writes(desk.work / "private", "x"),
        writes(desk.work / "x.own", "x"),
    )
    assert manifest == Manifest()


def test_our_own_directory_inside_of_the_work_tree_is_not_watched(tmp_path: Path):
    work = new_repository(tmp_path / "work", FILES)
    desk = Desk(work, work / "state")
    manifest = desk.turn(writes(work / "a.txt", "agent\n"))
    assert [path_text(c.path, manifest.root) for c in manifest.changes] == ["a.txt"]


def test_an_index_of_any_form(tmp_path: Path):
    work = new_repository(tmp_path / "work", FILES)
    git(work, "update-index", "--split-index")
    git(work, "update-index", "--untracked-cache")
    git(work, "update-index", "--assume-unchanged", "a.txt")
    desk = Desk(work, tmp_path / "state")
    assert desk.there_and_back(writes(work / "a.txt", "agent\n")) == ["a.txt"]


def test_a_repository_with_long_digests(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "--object-format=sha256")
    (work / "a.txt").write_text("one\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    desk = Desk(work, tmp_path / "state")
    assert desk.there_and_back(writes(work / "a.txt", "agent\n")) == ["a.txt"]


def test_in_the_middle_of_a_conflict(tmp_path: Path):
    work = new_repository(tmp_path / "work", FILES)
    git(work, "checkout", "-q", "-b", "side")
    (work / "a.txt").write_text("side\n")
    git(work, "commit", "-q", "-a", "-m", "side")
    git(work, "checkout", "-q", "main")
    (work / "a.txt").write_text("main\n")
    git(work, "commit", "-q", "-a", "-m", "main")
    with pytest.raises(Exception, match="merge"):
        git(work, "merge", "side")
    desk = Desk(work, tmp_path / "state")
    assert desk.there_and_back(writes(work / "a.txt", "settled\n")) == ["a.txt"]


def test_what_the_repository_forgets_is_still_kept(desk: Desk):
    before = state_of(desk.work)
    manifest = desk.turn((desk.work / "a.txt").unlink, writes(desk.work / "sub/b.txt", "x"))
    shutil.rmtree(desk.work / ".git")
    desk.undo(manifest)
    assert state_of(desk.work) == before


def test_a_lock_and_an_index_that_a_killed_process_left(desk: Desk):
    manifest = desk.turn(writes(desk.work / "a.txt", "1"))
    (index,) = desk.snapshots.directory.glob("index-*")
    index.with_name(index.name + ".lock").write_bytes(b"")
    desk.undo(manifest)
    index.write_bytes(index.read_bytes()[:40])
    assert desk.there_and_back(writes(desk.work / "a.txt", "2")) == ["a.txt"]


def test_a_turn_that_a_killed_process_left_can_be_finished(desk: Desk):
    before = state_of(desk.work)
    pending = desk.snapshots.begin(TURN)
    desk.snapshots.keep(pending, os.fsencode(desk.work / "a.txt"))
    (desk.work / "a.txt").write_text("agent\n")
    (desk.work / "new").write_text("agent\n")
    later = TurnSnapshots(desk.snapshots.directory.parent.parent, SESSION, (str(desk.work),))
    left = later.left_over()
    assert left is not None
    (checkpoint,) = later.finish(left)
    assert isinstance(checkpoint, Checkpointed)
    desk.undo(later.blobs.get_manifest(checkpoint.manifest))
    assert state_of(desk.work) == before


def test_what_an_editor_showed_comes_back_and_not_what_was_on_the_disk(desk: Desk):
    path = desk.work / "a.txt"
    pending = desk.snapshots.begin(TURN)
    desk.snapshots.keep(pending, os.fsencode(path), b"unsaved\n")
    path.write_text("agent\n")
    (checkpoint,) = desk.snapshots.finish(pending)
    assert isinstance(checkpoint, Checkpointed)
    desk.undo(desk.snapshots.blobs.get_manifest(checkpoint.manifest))
    assert path.read_text() == "unsaved\n"


def test_a_failure_half_way_takes_back_what_was_done(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    from quarterdeck.agent.checkpoints import restore
    from quarterdeck.agent.checkpoints.errors import RestoreError

    manifest = desk.turn(
        *[writes(desk.work / f"n{n}", "x") for n in range(3)], writes(desk.work / "a.txt", "x")
    )
    after = state_of(desk.work)
    real, calls = restore.put, iter(range(100))

    def full(*arguments: object) -> None:
        if next(calls) == 0:
            raise OSError(28, "No space left on device")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(restore, "put", full)
    with pytest.raises(RestoreError, match="No space left"):
        desk.undo(manifest)
    assert state_of(desk.work) == after
    assert desk.restoring.left_over() is None
