"""A web server for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.web_rig import WebRig, serving_web

pytest.importorskip("starlette")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[WebRig]:
    async with serving_web(tmp_path) as rig:
        yield rig
