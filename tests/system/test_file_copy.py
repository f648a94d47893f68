"""Copies of files from one tree into another: whole, and only what was asked for."""

import errno
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


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    """Twenty files, and a directory for their copies."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    for number in range(20):
        (source / f"{number}").write_text(f"file {number}\n")
    return source, target


def read_all(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="files are cloned on Linux alone")
def test_files_are_cloned_where_the_file_system_can(trees: tuple[Path, Path]):
    source, target = trees

    def clone(new: int, old: int) -> None:
        os.write(new, b"cloned " + os.read(old, 100))

    copier = TreeCopier(str(source), str(target), clone=clone)
    assert len(copier.copy(os.fsencode(name) for name in read_all(source))) == 20
    assert read_all(target) == {name: f"cloned {text}" for name, text in read_all(source).items()}


@pytest.mark.skipif(sys.platform != "linux", reason="files are cloned on Linux alone")
@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY])
def test_files_are_copied_where_they_cannot_be_cloned(trees: tuple[Path, Path], code: int):
    source, target = trees
    tried: list[int] = []

    def clone(new: int, old: int) -> None:
        tried.append(new)
        raise OSError(code, os.strerror(code))

    copier = TreeCopier(str(source), str(target), clone=clone)
    assert len(copier.copy(os.fsencode(name) for name in read_all(source))) == 20
    assert read_all(target) == read_all(source) and copier.skipped == {}
    assert len(tried) == 1  # files of one directory are copied one after the other


@pytest.mark.skipif(sys.platform != "linux", reason="files are cloned on Linux alone")
def test_a_disk_that_is_full_ends_the_copy_and_leaves_no_half_file(trees: tuple[Path, Path]):
    source, target = trees

    def clone(new: int, old: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        TreeCopier(str(source), str(target), clone=clone).copy([b"1", b"2"])
    assert read_all(target) == {}


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
