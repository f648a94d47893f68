"""What the tests of this room share: a directory to work in, and nobody left behind."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.system.process_tree import MARK_VARIABLE, ProcessTree, find_processes


@pytest.fixture(autouse=True)
def leaves_no_process_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Mark everything that a test starts, and fail the test that leaves some of it running."""
    mark = f"test{secrets.token_hex(8)}"
    monkeypatch.setenv(MARK_VARIABLE, mark)
    yield
    left = find_processes([ProcessTree(mark)])
    for one in left:
        os.kill(one.pid, 9)
    assert [one.pid for one in left] == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory to work in; its neighbour ``outside`` holds a secret."""
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return tmp_path / "root"
