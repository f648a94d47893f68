"""What every test gets: a loop that may not be blocked, a home of its own, and a machine that is
afterwards as it was."""

import os
import signal
from collections.abc import Generator, Iterator
from fnmatch import fnmatch
from itertools import count
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from tests.support.leftovers import (
    Traces,
    left_processes,
    make_run_directory,
    reap,
    remove_run_directory,
)
from tools.sandbox_turns import is_sandboxed

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background has it ignored, which children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as under nohup

pytest_plugins = ["tests.support.replayed_sessions"]

RUN = pytest.StashKey[Path]()
BEFORE = pytest.StashKey[Traces]()

HEAVY_AGENT = "opencode"
"""An agent of which each start takes seconds of two cores and a gigabyte."""
WITH_HEAVY_AGENT = (
    "test_a_call_is_allowed_or_refused*",
    "test_our_own_agent_leads_two*",
    "test_text_and_interruption*",
    "test_the_contract_in_one_session*",
    "test_the_mode_refuses*-shell]",
)
"""What every run tries with it; ``make interop`` tries all."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_sandboxed(item.path.relative_to(config.rootpath)):
            item.add_marker(pytest.mark.sandbox)
        is_heavy = f"[{HEAVY_AGENT}" in item.name and item.get_closest_marker("interop")
        if is_heavy and not any(fnmatch(item.name, one) for one in WITH_HEAVY_AGENT):
            item.add_marker(pytest.mark.long)


def pytest_configure(config: pytest.Config) -> None:
    """Workers take the directory of the run from the process that started them."""
    if not hasattr(config, "workerinput"):
        config.stash[RUN] = make_run_directory()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that leaves processes behind, and end them."""
    run = session.config.stash.get(RUN, None)
    if run is None:
        return
    temporary = _temporary(session.config).getbasetemp()
    for pid, command in left_processes([run, temporary], within=10).items():
        print(f"\nLeft behind by a test: {pid} {command}")
        for name in temporary.rglob("*.test"):
            if str(name.with_suffix("")) in command:
                print(f"The test: {name.read_text()}")
        os.kill(pid, signal.SIGKILL)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    reap(within=10)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        remove_run_directory(config.stash[RUN])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    # The first test of all makes the directories that the permissions are looked up of.
    item.stash[BEFORE] = _traces(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail a test that changes what others find."""
    result = yield
    before = item.stash[BEFORE]
    if changes := before.changes(_traces(item)):
        before.restore()
        pytest.fail("the test leaves behind:\n" + "\n".join(changes), pytrace=False)
    return result


def _traces(item: pytest.Item) -> Traces:
    return Traces.now([_temporary(item.config).getbasetemp(), Path.cwd()])


def _temporary(config: pytest.Config) -> pytest.TempPathFactory:
    return config._tmp_path_factory  # pyright: ignore[reportAttributeAccessIssue]


@pytest.fixture(scope="session")
def one_blockbuster() -> BlockBuster:
    """Made once: that takes longer than many a test."""
    return BlockBuster("quarterdeck")


@pytest.fixture(autouse=True)
def blockbuster(one_blockbuster: BlockBuster) -> Iterator[BlockBuster]:
    """Fail a test whose coroutine blocks the event loop inside our own code."""
    one_blockbuster.activate()
    yield one_blockbuster
    one_blockbuster.deactivate()


@pytest.fixture(scope="session")
def home_numbers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "count[int]"]:
    """Where homes are, and their numbers: to look for a free name takes long in the end."""
    return tmp_path_factory.mktemp("h", numbered=False), count()


@pytest.fixture(autouse=True)
def home(
    request: pytest.FixtureRequest,
    home_numbers: tuple[Path, "count[int]"],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Give each test a home directory of its own and none of this machine's keys."""
    folder, numbers = home_numbers
    home = folder / str(next(numbers))  # short: sockets must fit below it
    home.mkdir(mode=0o700)
    home.with_suffix(".test").write_text(request.node.nodeid)  # for who is left behind in it
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("QUARTERDECK_HOME", str(home / "quarterdeck"))
    return home
