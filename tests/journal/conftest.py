"""What the journal's tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def say() -> Callable[..., MessageChunk]:
    def make(words: str, message: str | None = "m1") -> MessageChunk:
        return MessageChunk(content=text(words), message=message)

    return make
