"""Restoring never leaves the work tree, also while somebody swaps directories for links."""

import contextlib
import os
from pathlib import Path

import pytest

from quarterdeck.agent.checkpoints.file_state import FileState, read_file_state
from quarterdeck.agent.checkpoints.restore import put, remove_file, remove_temporary
from tests.support.path_swaps import swapping

FILE = FileState(kind="file", digest="")
LINK = FileState(kind="link", digest="")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A work tree whose ``out`` leads to ``outside``."""
    work = Path(os.path.realpath(tmp_path)) / "work"
    outside = work.parent / "outside"
    outside.mkdir()
    work.mkdir()
    (outside / "file").write_text("theirs\n")
    (outside / "empty").mkdir()
    (work / "out").symlink_to(outside)
    return work


def outside(work: Path) -> list[tuple[str, bytes]]:
    found = sorted((work.parent / "outside").rglob("*"))
    return [(str(path), path.read_bytes() if path.is_file() else b"") for path in found]


@pytest.mark.parametrize("name", ["out/file", "out/new", "out/empty", "out/empty/deep/new"])
@pytest.mark.parametrize("entry", [FILE, LINK], ids=["file", "link"])
def test_nothing_is_put_or_deleted_through_a_link(work: Path, name: str, entry: FileState):
    before = outside(work)
    path = os.fsencode(work / name)
    with pytest.raises(OSError):
        put(path, entry, b"agent")
    with contextlib.suppress(OSError):
        remove_file(path, os.fsencode(work))
    remove_temporary(path)
    assert outside(work) == before
    assert read_file_state(path) is None


def test_a_way_with_dots_is_no_real_path(work: Path):
    with pytest.raises(OSError, match=r"'\.\.'"):
        put(os.fsencode(work) + b"/x/../../outside/file", FILE, b"agent")
    assert (work.parent / "outside" / "file").read_text() == "theirs\n"


def test_a_pipe_is_looked_at_and_not_waited_for(work: Path):
    os.mkfifo(work / "pipe")
    found = read_file_state(os.fsencode(work / "pipe"))
    assert found is not None and found.kind == "other"


def test_a_race_is_not_won(work: Path):
    before = outside(work)
    sub, link = work / "sub", work / "link"
    sub.mkdir()
    link.symlink_to(work.parent / "outside")
    done = {True: 0, False: 0}
    with swapping(sub, link):
        for _ in range(2_000):
            for act in (put_file, drop_file):
                try:
                    act(sub)
                    done[True] += 1
                except OSError:
                    done[False] += 1
    assert all(done.values()), f"nobody raced: {done}"
    assert outside(work) == before


def put_file(sub: Path) -> None:
    put(os.fsencode(sub / "file"), FILE, b"agent")


def drop_file(sub: Path) -> None:
    remove_file(os.fsencode(sub / "file"), os.fsencode(sub))
