"""Copies of files from one tree into another: whole, and only what was asked for."""

import os
import sys
from pathlib import Path

import pytest

from quarterdeck.system.file_copy import TreeCopier


def test_files_of_every_size_are_copied_whole(tmp_path: Path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    sizes = (0, 1, 4_096, (1 << 24) - 1, 1 << 24, (1 << 25) + 3)
    for size in sizes:
        (source / str(size)).write_bytes(os.urandom(min(size, 1_000)).ljust(size, b"x"))
    copied = TreeCopier(str(source), str(target)).copy(str(size).encode() for size in sizes)
    assert sorted(one.size for one in copied) == sorted(sizes)
    for size in sizes:
        assert (target / str(size)).read_bytes() == (source / str(size)).read_bytes()


def test_all_files_of_a_large_directory_are_copied(tmp_path: Path):
    names = [f"deep/er/{number}" for number in range(350)]
    for name in names:
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "target").mkdir()
    copier = TreeCopier(str(tmp_path / "source"), str(tmp_path / "target"))
    copied = copier.copy(name.encode() for name in names)
    assert sorted(one.path.decode() for one in copied) == sorted(names)
    assert not copier.skipped
    for name in names:
        assert (tmp_path / "target" / name).read_text() == name


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_file_that_does_not_say_its_size_is_read(tmp_path: Path):
    (copied,) = TreeCopier(f"/proc/{os.getpid()}", str(tmp_path)).copy([b"cmdline"])
    assert copied.size > 0
    assert (tmp_path / "cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
