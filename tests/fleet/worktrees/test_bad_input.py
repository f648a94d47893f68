"""What can be wrong with a repository, a worktree or a disk, for everything that a worktree is for.

One agent has work in its worktree; each case breaks something, and then the agent's work is looked
at, reviewed, landed, undone and discarded. Whatever is refused is refused with the reason, and no
byte is lost.
"""
# Looking at a file for a moment is fine in a test.
# ruff: noqa: ASYNC230, ASYNC240, PTH123

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quarterdeck.fleet.landing.api import LandingOptions, LandingResult
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.review.api import ReviewSelection
from quarterdeck.fleet.review.errors import ReviewError
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.scripted_fleet import Casting, fleet_of
from tests.support.work_trees import git, new_repository, state_of, untouched
from tests.support.working_agents import at_work, prompt, workers

FILES = {"a.txt": "one\ntwo\nthree\n", "b/c.txt": "c\n", ".gitignore": "*.log\n"}
WORK = "echo four >> a.txt; echo new > new.txt; rm b/c.txt"


class Site:
    """A project whose branch ``main`` is checked out nowhere, and an agent with a worktree."""

    def __init__(self, fleet: LocalFleet, casting: Casting, folder: Path) -> None:
        self.fleet = fleet
        self.casting = casting
        self.folder = folder
        self.project = folder / "project"
        self.top = Path()

    async def begin(self, name: str = "ann", work: str = WORK) -> Path:
        options = WorktreeOptions(base="main")
        await at_work(self.fleet, self.casting, self.project, name, worktree=options)
        await prompt(self.fleet, name, work)
        worktree = (await self.fleet.agent(name)).worktree
        assert worktree is not None
        self.top = Path(worktree.path)
        return self.top

    async def land(self, **options) -> LandingResult:
        return await self.fleet.land("ann", LandingOptions(**options))

    async def files(self, top: Path | None = None) -> dict[bytes, tuple[str, bytes, bool]]:
        return await asyncio.to_thread(state_of, top or self.top)

    async def accept(self, file: str = "a.txt") -> None:
        await self.fleet.accept_changes("ann", [ReviewSelection(file=file)])

    async def reject(self, file: str = "a.txt") -> None:
        await self.fleet.reject_changes("ann", [ReviewSelection(file=file)])

    @property
    def git_dir(self) -> Path:
        return Path((self.top / ".git").read_text().removeprefix("gitdir: ").strip())


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    folder = tmp_path.resolve()
    await asyncio.to_thread(new_repository, folder / "project", FILES)
    await asyncio.to_thread(git, folder / "project", "checkout", "-q", "-b", "elsewhere")
    casting = workers()
    async with fleet_of(folder / "home", casting) as fleet:
        yield Site(fleet, casting, folder)


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """No file can become larger than this, for this process and what it starts."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


async def test_without_git_everything_says_so_and_undo_works(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    before = await site.files(await site.begin())
    path = os.environ["PATH"]
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(QuarterdeckError, match="install git"):
        await site.fleet.spawn(spawn_options(site))
    for call in (site.fleet.changes("ann"), site.accept(), site.reject()):
        with pytest.raises(ReviewError, match="install git"):
            await call
    for options in ({}, {"method": "merge"}, {"into": "elsewhere", "checkout": True}):
        result = await site.land(**options)
        assert result.state == "refused" and "install git" in result.reason
    report = await site.fleet.conflicts()
    assert any("install git" in problem for problem in report.problems)
    (listed,) = await site.fleet.worktrees()
    assert "install git" in (listed.problem or "")
    assert await site.files() == before
    await site.fleet.close("ann")
    for end in (site.fleet.discard_worktree, site.fleet.remove_worktree):
        with pytest.raises(QuarterdeckError, match="install git"):
            await end("ann")
    assert await site.files() == before
    monkeypatch.setenv("PATH", path)
    assert (await site.land()).state == "landed"


def spawn_options(site: Site, **options):
    from tests.support.scripted_fleet import new_agent

    return new_agent(site.project, name="new", worktree=WorktreeOptions(**options))


async def test_a_locked_index_stops_only_what_would_write_it(site: Site):
    await site.begin()
    before = await site.files()
    locks = [site.project / ".git" / "index.lock", site.git_dir / "index.lock"]
    for lock in locks:
        lock.write_bytes(b"")
    assert (await site.fleet.changes("ann")).count == 3
    with pytest.raises(ReviewError, match=r"index\.lock"):
        await site.accept()
    result = await site.land(method="merge")
    assert result.state == "refused" and str(locks[1]) in result.reason
    result = await site.land(into="elsewhere", checkout=True)
    assert result.state == "refused" and str(locks[0]) in result.reason
    assert await site.files() == before and all(lock.exists() for lock in locks)
    assert (await site.fleet.spawn(spawn_options(site, carry=True))).worktree is not None
    assert (await site.land()).state == "landed"
    done = await site.fleet.undo("ann")
    assert done.restored == 3 and (site.top / "b" / "c.txt").exists()
    assert (await site.fleet.redo("ann")).restored == 3
    await site.fleet.close("ann")
    await site.fleet.discard_worktree("ann")
    await site.fleet.restore_worktree("ann")
    assert await site.files() == before


async def test_a_worktree_deleted_by_hand_is_named_by_everything(site: Site):
    await site.begin()
    saved = site.folder / "saved"
    before = await site.files()
    site.top.rename(saved)
    with pytest.raises(ReviewError, match="ann"):
        await site.fleet.changes("ann")
    with pytest.raises(ReviewError, match="ann"):
        await site.reject()
    result = await site.land()
    assert result.state == "refused" and "is gone" in result.reason
    report = await site.fleet.conflicts()
    assert any(str(site.top) in problem for problem in report.problems)
    with pytest.raises(QuarterdeckError, match="quarterdeck worktrees recreate ann"):
        await site.fleet.undo("ann")
    assert not site.top.exists()
    await site.fleet.close("ann")
    with pytest.raises(QuarterdeckError, match="cannot be moved"):
        await site.fleet.discard_worktree("ann")
    with pytest.raises(QuarterdeckError, match="quarterdeck worktrees recreate"):
        await site.fleet.resume("ann")
    await site.fleet.recreate_worktree("ann")
    assert (site.top / "a.txt").read_text() == FILES["a.txt"]
    assert await site.files(saved) == before


ODD = (
    *(b"new\nline", b'quo"te', b"it's", b"\xf0\x9f\x90\x99 emoji", b"\xff\xfe", b" lead", b"-rf"),
    *(b"--output=x", b":(top)a", b"*", b"tab\t", b"\x1b[2J", b"back\\slash", "\u202ertl".encode()),
)


async def test_names_that_are_no_text_are_reviewed_landed_and_undone(site: Site):
    await site.begin(work="true")
    top = os.fsencode(site.top)
    await prompt(site.fleet, "ann", "nothing")
    link = site.casting.links[-1]
    assert link.start_.spawn.options.cwd == str(site.top)
    for name in ODD:
        for path in (name, b"in " + name + b"/x"):
            os.makedirs(os.path.dirname(top + b"/" + path), exist_ok=True)  # noqa: PTH103, PTH120
            with open(top + b"/" + path, "wb") as file:
                file.write(b"odd\n")
    before = await site.files()
    changes = await site.fleet.changes("ann")
    assert changes.count == 2 * len(ODD)
    for one in changes.files[::5]:
        await site.accept(one.id)
        await site.reject(one.id)
        await site.fleet.undo_review("ann")
        await site.fleet.undo_review("ann")
    assert await site.files() == before
    await asyncio.to_thread(git, site.project, "checkout", "-q", "main")
    result = await site.land(checkout=True)
    assert result.state == "landed" and result.counts.files == 2 * len(ODD)
    assert await site.files(site.project) == before
    assert await asyncio.to_thread(git, site.project, "status", "--porcelain") == ""
    await site.fleet.close("ann")
    await site.fleet.discard_worktree("ann")
    await site.fleet.restore_worktree("ann")
    assert await site.files() == before


async def test_links_out_of_the_tree_are_never_followed(site: Site):
    outside = site.folder / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    await site.begin()
    for name in ("b", "link"):
        path = site.top / name
        if path.is_dir():
            path.rmdir()
        path.symlink_to(outside)
    (site.top / "file").symlink_to(outside / "secret")
    before, far = await site.files(), await site.files(outside)
    patch = await site.fleet.patch_text("ann")
    assert b"+secret" not in patch.data and str(outside / "secret").encode() in patch.data
    for file in ("b/c.txt", "link", "file"):
        await site.accept(file)
        await site.fleet.undo_review("ann")
    with pytest.raises(ReviewError):  # it would be written where the link leads
        await site.reject("b/c.txt")
    await asyncio.to_thread(git, site.project, "checkout", "-q", "main")
    # A directory of the person's checkout became a link meanwhile.
    (site.project / "b" / "c.txt").unlink()
    (site.project / "b").rmdir()
    (site.project / "b").symlink_to(outside)
    (outside / "c.txt").write_text("c\n")
    far = await site.files(outside)
    result = await site.land(checkout=True)
    assert result.state == "refused", result
    await site.fleet.undo("ann")
    await site.fleet.redo("ann")
    await site.fleet.close("ann")
    await site.fleet.discard_worktree("ann")
    await site.fleet.restore_worktree("ann")
    assert await site.files() == before
    assert await site.files(outside) == far


async def test_names_that_differ_in_case_are_kept_apart(site: Site):
    """Also where the repository says that its file system cannot: it was copied from such a one."""
    await asyncio.to_thread(git, site.project, "config", "core.ignorecase", "true")
    await site.begin(
        work="echo 1 > Name; echo 2 > name; mkdir Dir dir; echo 3 > Dir/x; echo 4 > dir/x"
    )
    before = await site.files()
    assert (await site.fleet.changes("ann")).count == 4
    result = await site.land()
    assert result.state == "landed" and result.counts.files == 4
    await site.fleet.undo("ann")
    assert not (site.top / "Name").exists() and not (site.top / "dir").exists()
    await site.fleet.redo("ann")
    await site.fleet.close("ann")
    await site.fleet.discard_worktree("ann")
    await site.fleet.restore_worktree("ann")
    assert await site.files() == before


async def test_a_file_becomes_a_directory_and_a_directory_a_file(site: Site):
    await site.begin(work="rm a.txt; mkdir a.txt; echo x > a.txt/x; rm -r b; echo file > b")
    before = await site.files()
    changes = await site.fleet.changes("ann")
    assert {one.path for one in changes.files} == {"a.txt", "a.txt/x", "b", "b/c.txt"}
    await site.fleet.reject_changes("ann", [ReviewSelection(file=one.id) for one in changes.files])
    assert (await site.files())[b"a.txt"][1] == FILES["a.txt"].encode()
    await site.fleet.undo_review("ann")
    assert await site.files() == before
    await site.fleet.undo("ann")
    assert (await site.files())[b"b/c.txt"][1] == b"c\n"
    await site.fleet.redo("ann")
    assert await site.files() == before
    await asyncio.to_thread(git, site.project, "checkout", "-q", "main")
    assert (await site.land(checkout=True)).state == "landed"
    assert await site.files(site.project) == before


async def test_a_full_disk_changes_nothing(site: Site):
    """Each feature writes a file that has no room; all work again when there is room."""
    await site.begin(work="head -c 9000000 /dev/urandom > big; echo four >> a.txt")
    await asyncio.to_thread(git, site.project, "checkout", "-q", "main")
    before, project = await site.files(), await site.files(site.project)
    refs = await asyncio.to_thread(git, site.project, "for-each-ref")
    await site.accept("big")
    await site.fleet.undo_review("ann")
    await site.reject("big")
    with full_disk(6_000_000):
        with pytest.raises(QuarterdeckError):
            await site.fleet.undo_review("ann")  # the file comes back
        assert not (site.top / "big").exists()
    await site.fleet.undo_review("ann")
    assert await site.files() == before
    with full_disk(6_000_000):
        result = await site.land(checkout=True)
        assert result.state == "refused", result
    assert await site.files() == before and await site.files(site.project) == project
    assert await asyncio.to_thread(git, site.project, "for-each-ref") == refs
    await site.fleet.undo("ann")
    with full_disk(6_000_000), pytest.raises(QuarterdeckError):
        await site.fleet.redo("ann")
    assert not (site.top / "big").exists()
    await site.fleet.redo("ann")
    assert await site.files() == before
    (site.project / "large").write_bytes(os.urandom(9_000_000))
    with full_disk(6_000_000), pytest.raises(QuarterdeckError):
        await site.fleet.spawn(spawn_options(site, carry=True))
    assert [one.name for one in await site.fleet.worktrees()] == ["ann"]
    assert await asyncio.to_thread(git, site.project, "for-each-ref") == refs
    (site.project / "large").unlink()
    assert (await site.land(checkout=True)).state == "landed"


async def test_hooks_that_a_setting_names_do_not_run(site: Site):
    hooks, mark = site.folder / "hooks", site.folder / "ran"
    hooks.mkdir()
    for name in ("post-checkout", "post-commit", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {mark}\n")
        (hooks / name).chmod(0o755)
    await asyncio.to_thread(git, site.project, "config", "core.hooksPath", str(hooks))
    await site.begin()
    await site.accept()
    for method in ("squash", "merge", "rebase"):
        (site.top / "a.txt").write_text(f"{method}\n")
        assert (await site.land(method=method)).state == "landed"
    await site.fleet.close("ann")
    await site.fleet.discard_worktree("ann")
    await site.fleet.restore_worktree("ann")
    assert not mark.exists()
    await asyncio.to_thread(git, site.project, "commit", "-q", "--allow-empty", "-m", "own")
    assert mark.exists()  # else the test proves nothing


async def test_a_tampered_trash_restores_what_was_discarded_or_says_so(site: Site):
    await site.begin()
    before = await site.files()
    await site.fleet.close("ann")
    await site.fleet.discard_worktree("ann")
    (kept,) = await site.fleet.trash()
    head = (await asyncio.to_thread(git, site.project, "rev-parse", "elsewhere")).strip()
    await asyncio.to_thread(git, site.project, "update-ref", kept.reference, head)
    await site.fleet.restore_worktree("ann")
    assert await site.files() == before
    await site.fleet.discard_worktree("ann")
    (kept,) = await site.fleet.trash()
    await asyncio.to_thread(git, site.project, "update-ref", "-d", kept.reference)
    await asyncio.to_thread(git, site.project, "reflog", "expire", "--all", "--expire=now")
    await asyncio.to_thread(git, site.project, "gc", "-q", "--prune=now")
    state = await asyncio.to_thread(untouched, site.project)
    with pytest.raises(QuarterdeckError):
        await site.fleet.restore_worktree("ann")
    assert not site.top.exists() and len(await site.fleet.trash()) == 1
    assert await asyncio.to_thread(untouched, site.project) == state
