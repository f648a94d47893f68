"""What the journal's tests share."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: what is tested here is not the disk's speed."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="pytest-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def say() -> Callable[..., MessageChunk]:
    def make(words: str, message: str | None = "m1") -> MessageChunk:
        return MessageChunk(content=text(words), message=message)

    return make
