"""What the tests of checkpoints share: a place whose disk flushes cost nothing."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in memory where there is one."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path_factory.mktemp("checkpoints")
        return
    with tempfile.TemporaryDirectory(prefix="quarterdeck-", dir=MEMORY) as folder:
        yield Path(folder)
