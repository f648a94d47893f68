"""The usage of a fleet: ledgers of its log and of logs of single sessions, kept up to date."""

import asyncio
import datetime
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from quarterdeck.config.errors import ConfigError
from quarterdeck.config.places import Places
from quarterdeck.config.schema import Settings
from quarterdeck.config.workspace import find_workspace
from quarterdeck.drivers.catalogue import load_catalogue
from quarterdeck.drivers.errors import BadAgentFileError
from quarterdeck.journal import Journal, JournalError
from quarterdeck.models.catalogue import PRICES_OF, find_prices
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import Prices
from quarterdeck.wire.clock import format_local_time

from ..errors import InvalidOptionsError
from ..live_index import LiveIndex
from ..log_pages import find_run_logs, read_log_file, read_pages
from .api import UsageGrouping, UsageReport
from .ledger import USAGE_EVENTS, UsageCell, UsageLedger, UsedSession
from .summary import UsageSource, group_usage

if TYPE_CHECKING:
    from quarterdeck.drivers.agent_description import Agent
    from quarterdeck.wire.ids import SessionId

__all__ = ["RunLogs", "UsageNames", "UsageService"]

_log = logging.getLogger(__name__)
_FRESH = 5.0
"""Seconds for which settings are not read again."""


class UsageService:
    """Answers what was used; the log is read once, then only what is new in it."""

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        places: Places,
        load_settings: Callable[[str], Settings],
    ) -> None:
        self._journal = journal
        self._current = current
        self._names = UsageNames(places, load_settings)
        self._ledger = UsageLedger()
        self._position = 0
        self._reading = asyncio.Lock()
        self._runs = RunLogs(places.state)

    def forget(self) -> None:
        """Begin anew: sessions were deleted from the log."""
        self._ledger, self._position = UsageLedger(), 0

    async def usage(
        self,
        by: UsageGrouping = "agent",
        *,
        since: str | None = None,
        agent: str | None = None,
        runs: bool = False,
    ) -> UsageReport:
        """Usage by agent, tree, project, vendor, model, day or turn; see ``FleetUsage``."""
        first = _check_day(since)
        within = (await self._current.find(agent)).session if agent is not None else None
        async with self._reading:
            ledger = self._ledger
            position = await read_pages(self._journal, USAGE_EVENTS, ledger.add, self._position)
            if ledger is self._ledger:
                self._position = position

            def group() -> UsageReport:
                others = self._runs.read(first) if runs else []
                source = self._names.make_source([ledger, *others], by, first)
                return group_usage(source, by, since=first, prices_of=PRICES_OF, within=within)

            return await asyncio.to_thread(group)


class _RunLog(Struct, eq=False):
    file: tuple[int, int]
    """Its device and number: another file begins anew."""
    stamp: tuple[int, int]
    """When it was written last, and how large it was."""
    ledger: UsageLedger
    position: int = 0


class RunLogs:
    """The usage in logs of single sessions, as ``quarterdeck run`` and editors keep them.

    A log is read once, then only what is new in it. Everything here blocks, one thread at a time.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._logs: dict[Path, _RunLog] = {}

    def read(self, since: str | None = None) -> list[UsageLedger]:
        """The ledgers of all logs; of those that were not written since that day, only if known.

        A log that cannot be read counts nothing, and a warning says so.
        """
        found: dict[Path, _RunLog] = {}
        for path in find_run_logs(self._state):
            log = self._logs.get(path)
            with suppress(OSError):
                log = self._look(path, log, since)
            if log is not None:
                found[path] = log
        self._logs = found
        return [log.ledger for log in found.values()]

    def _look(self, path: Path, known: _RunLog | None, since: str | None) -> _RunLog | None:
        stat = path.stat()
        file, stamp = (stat.st_dev, stat.st_ino), _stamp(path)
        if known is not None and known.file == file and known.stamp == stamp:
            return known
        if known is None and since is not None:
            written = format_local_time(stamp[0] // 1_000, "%Y-%m-%d")
            if written and written < since:
                return None
        if known is None or known.file != file:
            known = _RunLog(file, stamp, UsageLedger())
        try:
            take = known.ledger.add
            known.position = read_log_file(path, USAGE_EVENTS, take, known.position)
        except (JournalError, sqlite3.Error) as error:
            _log.warning("its usage is not counted: %s", error)
        known.stamp = stamp
        return known


class UsageNames:
    """What usage needs besides logs: prices, projects and vendors. Everything here blocks.

    It remembers what it has read; settings are read again when they are older than a moment.
    """

    def __init__(self, places: Places, load_settings: Callable[[str], Settings]) -> None:
        self._places = places
        self._load_settings = load_settings
        self._overrides: Mapping[str, Mapping[str, Any]] = {}
        self._read_at = -_FRESH
        self._prices: dict[str, Prices | None] = {}
        self._projects: dict[str, str] = {}

    def make_source(
        self, ledgers: list[UsageLedger], by: UsageGrouping, since: str | None
    ) -> UsageSource:
        """Everything that is needed to add up several ledgers, the fleet's own first."""
        sessions = {
            id_: one for ledger in reversed(ledgers) for id_, one in ledger.sessions.items()
        }
        self._refresh()
        return UsageSource(
            cells=_list_cells(ledgers, by, since),
            sessions=sessions,
            prices=self._find_prices,
            project=self._find_project,
            vendor=_find_vendors(self._places) if by == "vendor" else lambda name: name,
            ignored=sum(ledger.ignored for ledger in ledgers),
        )

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < _FRESH:
            return
        self._read_at = time.monotonic()
        try:
            overrides = msgspec.to_builtins(self._load_settings("/").models)
        except ConfigError as error:
            _log.warning("prices are those of the catalogue alone: %s", error)
            overrides = {}
        if overrides != self._overrides:
            self._overrides = overrides
            self._prices.clear()

    def _find_prices(self, model: str) -> Prices | None:
        if model not in self._prices:
            try:
                self._prices[model] = find_prices(model, self._overrides)
            except ModelSetupError as error:
                _log.warning("no price of %r: %s", model, error)
                self._prices[model] = None
        return self._prices[model]

    def _find_project(self, session: UsedSession) -> str:
        if session.repository is not None:
            return session.repository
        if session.cwd is None:
            return "unknown project"
        if session.cwd not in self._projects:
            self._projects[session.cwd] = _find_project(session.cwd)
        return self._projects[session.cwd]


def _list_cells(
    ledgers: list[UsageLedger], by: UsageGrouping, since: str | None
) -> Iterator[UsageCell]:
    """The cells of all ledgers; of a session that is in two logs those of the first."""
    seen: set[SessionId] = set()
    for ledger in ledgers:
        cells = ledger.cells() if by == "turn" else ledger.day_cells(since)
        yield from (cell for cell in cells if cell.session not in seen)
        seen.update(ledger.sessions)


def _check_day(since: str | None) -> str | None:
    if since is None:
        return None
    try:
        return datetime.date.fromisoformat(since).isoformat()
    except ValueError:
        raise InvalidOptionsError(f"{since!r} is not a day; write it as 2026-11-09") from None


def _stamp(path: Path) -> tuple[int, int]:
    """What changes with a log; its newest records are in a file beside it."""
    newest = size = 0
    for one in (path, path.with_name(path.name + "-wal")):
        try:
            found = one.stat()
        except OSError:
            continue
        newest, size = max(newest, found.st_mtime_ns), size + found.st_size
    return newest, size


def _find_project(cwd: str) -> str:
    try:
        return str(find_workspace(Path(cwd)).project)
    except OSError:
        return cwd


def _find_vendors(places: Places) -> Callable[[str], str]:
    agents: Mapping[str, Agent] = {}
    with suppress(BadAgentFileError):
        agents = load_catalogue(places).agents
    vendors = {name: agent.vendor or name for name, agent in agents.items()}
    titles = {vendor.casefold(): vendor for vendor in vendors.values()}
    return lambda name: vendors.get(name) or titles.get(name.casefold(), name)
