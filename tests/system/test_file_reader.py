"""A file that somebody else named is read only if it is one."""

import os
from pathlib import Path

import pytest

from quarterdeck.system.file_reader import open_regular_file, read_regular_file


def test_what_is_no_regular_file_is_refused_and_nothing_waits(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "link", "zero", "."):
        with pytest.raises(OSError, match=r"not a regular file|directory"):
            read_regular_file(tmp_path / name, 10)


def test_a_file_and_a_link_to_one_are_read_within_bounds(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("file")
    assert read_regular_file(tmp_path / "link", 4) == b"0123"
    assert read_regular_file(os.fsencode(tmp_path / "file"), 100) == b"0123456789"
    with pytest.raises(OSError):
        open_regular_file(tmp_path / "link", follow=False)
    with pytest.raises(FileNotFoundError):
        read_regular_file(tmp_path / "none", 1)
