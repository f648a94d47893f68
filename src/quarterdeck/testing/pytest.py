"""A pytest plugin: fixtures for agents with a scripted model, replays and a fleet in process.

pytest loads it by itself where this package is installed. Importing it costs nothing: each fixture
imports what it needs when a test uses it. No fixture needs a plugin for asyncio.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from quarterdeck.agent.replay.check import ReplayReport
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.local import LocalFleet
    from quarterdeck.models.scripted_model import ScriptedModel

    from .scripted_agent import ScriptedAgent

__all__ = [
    "assert_replay",
    "pytest_addoption",
    "quarterdeck_agent",
    "quarterdeck_fleet",
    "quarterdeck_model",
    "quarterdeck_places",
    "quarterdeck_replay",
]


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep our modules as they are.

    pytest compiles every module of a package with a plugin anew, to explain failed asserts. Ours
    has hundreds, some are imported in threads, and two threads that parse at once end with a
    SystemError in Python 3.11.
    """
    hook: Any = pluginmanager.rewrite_hook
    marked: set[str] | None = getattr(hook, "_must_rewrite", None)
    if marked is not None and "quarterdeck" in marked:
        marked.discard("quarterdeck")
        hook.mark_rewrite()  # forgets what it has worked out so far


@pytest.fixture
def quarterdeck_places(tmp_path: Path) -> "Places":
    """Places for settings and logs below the test's own directory."""
    from quarterdeck.config.places import Places

    return Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})


@pytest.fixture
def quarterdeck_model() -> "Callable[..., ScriptedModel]":
    """Makes a model that gives the replies one after the other: ``quarterdeck_model("Hello.")``."""
    from .scripted_agent import make_model

    return make_model


@pytest.fixture
def quarterdeck_agent(
    tmp_path: Path,
) -> "Callable[..., AbstractAsyncContextManager[ScriptedAgent]]":
    """Opens our own agent with a model that gives these replies.

    ``async with quarterdeck_agent("Hello.") as agent: …``
    """
    from .scripted_agent import open_agent

    return partial(open_agent, tmp_path)


@pytest.fixture
def quarterdeck_replay(quarterdeck_places: "Places") -> "Callable[..., ReplayReport]":
    """Runs a recorded session again: ``quarterdeck_replay("session.jsonl", deny=("bash",))``.

    The file is one that ``quarterdeck journal export --session ID`` wrote. Not within a running
    event loop.
    """
    return partial(_replay_file, quarterdeck_places)


@pytest.fixture
def quarterdeck_fleet(
    tmp_path: Path, quarterdeck_places: "Places"
) -> "Callable[[], AbstractAsyncContextManager[LocalFleet]]":
    """Opens a fleet in this process.

    ``async with quarterdeck_fleet() as fleet: …``
    """
    from quarterdeck.fleet.local import LocalFleet

    return partial(LocalFleet.open, quarterdeck_places, {"HOME": str(tmp_path)})


def assert_replay(report: "ReplayReport") -> None:
    """Assert that a replay differs in nothing.

    Raises:
        AssertionError: it shows each difference with its step and its diff.
    """
    shown = [f"{one.place}: {one.what}\n{one.diff}" for one in report.divergences]
    if shown:
        raise AssertionError("\n".join([f"{len(shown)} differences", *shown]))


def _replay_file(places: "Places", path: str | Path, **changes: Any) -> "ReplayReport":
    import asyncio

    from quarterdeck.wire.record import decode_record

    from .scripted_agent import replay_records

    lines = Path(path).read_bytes().split(b"\n")
    records = [decode_record(line) for line in lines if line.strip()]
    return asyncio.run(replay_records(records, places, **changes))
