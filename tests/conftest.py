"""What every test gets: a loop that may not be blocked, and a home of its own."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background has it ignored, which children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """Fail a test whose coroutine blocks the event loop inside our own code."""
    with blockbuster_ctx("quarterdeck") as blocker:
        yield blocker


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a home directory of its own and none of this machine's keys."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("QUARTERDECK_HOME", str(home / "quarterdeck"))
    return home
