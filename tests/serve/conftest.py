"""A client for the server: our own, in memory, that keeps what it was sent."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from quarterdeck.wire.rpc import RpcLimits
from tests.serve.editor import Editor, connect

Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "QUARTERDECK_HOME": str(home / "quarterdeck"),
        "QUARTERDECK_MODEL": "scripted/default",
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("A project.\n")
    return folder


@pytest.fixture
def connected(environment: dict[str, str]) -> Connect:
    """Connect an editor to a server: ``async with connected(terminal=True) as editor``."""

    @asynccontextmanager
    async def open_(limits: RpcLimits | None = None, **capabilities: Any) -> AsyncIterator[Editor]:
        async with connect(environment, capabilities, limits or RpcLimits()) as editor:
            yield editor

    return open_
