"""What every test gets: a loop that may not be blocked, a home of its own, and a machine that is
afterwards as it was."""

import os
import signal
from collections.abc import Generator, Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from tests.support.leftovers import (
    Traces,
    left_processes,
    make_run_directory,
    reap,
    remove_run_directory,
)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background has it ignored, which children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as under nohup

RUN = pytest.StashKey[Path]()
BEFORE = pytest.StashKey[Traces]()

SANDBOXED = (
    "tests/*sandbox*",
    "tests/agent/children/test_children.py",
    "tests/agent/test_permissions.py",
    "tests/agent/test_session.py",
    "tests/agent/test_turn*.py",
    "tests/agent/tools/test_bash*.py",
    "tests/cli/test_headless*.py",
    "tests/policy/test_policy_decision.py",
    "tests/serve/test_serve_delegat*.py",
)
"""Files whose tests depend on which sandbox there is: ``make sandbox`` runs them with each."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(config.rootpath).as_posix()
        if any(fnmatch(path, pattern) for pattern in SANDBOXED):
            item.add_marker(pytest.mark.sandbox)


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
