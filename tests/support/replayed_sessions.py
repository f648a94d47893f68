"""Replays sessions of our own agent that tests record, right after the test: a plugin.

``pytest --replay-sessions tests/agent/test_turn.py`` prints the count at the end; a session that
differs fails its test. What a replay refuses (forks, damaged logs) is counted by its reason. A test
that changes the agent behind its log, so that no recording can have it, is marked ``altered``.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.replay.check import ReplayChanges, ReplayReport, check_session, read_family
from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import SessionOpened
from quarterdeck.wire.ids import SessionId
from tests.support import native_agents
from tests.support.native_agents import ClosedSession

__all__ = ["replay_log"]

COUNTS = pytest.StashKey[Counter[str]]()
PASSED = pytest.StashKey[bool]()
_NAMES = re.compile(r"'[^']*'|ses_\w+|/\S+")
ALTERED = "altered"


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "replay the sessions of our own agent that the tests record"
    parser.addoption("--replay-sessions", action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Have sessions noted from now on, if they are wanted."""
    config.stash[COUNTS] = Counter()
    if config.getoption("--replay-sessions"):
        native_agents.CLOSED = []


def pytest_unconfigure(config: pytest.Config) -> None:
    native_agents.CLOSED = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Replay what the test recorded, before its directories are gone."""
    failures = _replay_all(item) if item.stash.get(PASSED, False) else []
    if native_agents.CLOSED is not None:
        native_agents.CLOSED = []
    result = yield
    if failures:
        pytest.fail("a replay differs:\n" + "\n".join(failures), pytrace=False)
    return result


def _replay_all(item: pytest.Item) -> list[str]:
    if native_agents.CLOSED is None or item.get_closest_marker(ALTERED):
        return []
    found = list(native_agents.CLOSED)
    home = getattr(item, "funcargs", {}).get("home")
    for log in sorted(home.rglob("ses_*.db")) if isinstance(home, Path) else ():
        places = Places.find({"HOME": str(home)})
        found.append(ClosedSession(log, SessionId(log.stem), places, str(home), ReplayChanges()))
    counts, failures = item.config.stash[COUNTS], list[str]()
    with ThreadPoolExecutor(1) as pool:  # the test's own loop is still there
        for one in found:
            pool.submit(_count, counts, failures, one).result()
    return failures


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its counts over."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["replays"] = dict(session.config.stash[COUNTS])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the counts of a worker."""
    node.config.stash[COUNTS].update(getattr(node, "workeroutput", {}).get("replays", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    counts = config.stash[COUNTS]
    if not counts:
        return
    terminalreporter.write_sep("=", "replays of recorded sessions")
    for reason, number in sorted(counts.items()):
        terminalreporter.write_line(f"{number:5} {reason}")


def _count(counts: Counter[str], failures: list[str], one: ClosedSession) -> None:
    if not one.log.is_file():
        counts["not kept by the test"] += 1
        return
    try:
        report = asyncio.run(replay_log(one.log, one.session, one.places, one.home, one.changes))
    except QuarterdeckError as error:
        counts[f"refused: {_NAMES.sub('…', str(error))}"] += 1
        return
    counts["replayed"] += 1
    counts["steps"] += report.steps
    counts["comparisons"] += report.compared
    if report.is_same:
        counts["the same"] += 1
        return
    shown = [f"{d.kind} at {d.place}: {d.what}\n{d.diff}" for d in report.divergences]
    failures.append(f"{one.session}: " + "\n".join(shown))


async def replay_log(
    log: Path,
    session: SessionId,
    places: Places,
    home: str,
    changes: ReplayChanges | None = None,
) -> ReplayReport:
    """Replay a session from its log. Raises QuarterdeckError: it cannot be."""
    async with Journal.open(log, write=False) as journal:
        records = await read_family(journal, session)
    opened: Any = next((r.event for r in records if isinstance(r.event, SessionOpened)), None)
    if opened is not None and opened.agent != "native":
        raise QuarterdeckError("another agent")
    return await check_session(
        session, records, places=places, environment={"HOME": home}, changes=changes
    )
