"""The usage of a fleet: ledgers of its log and of logs of single sessions, kept up to date."""

import asyncio
import datetime
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

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

from ..errors import InvalidOptionsError
from ..live_index import LiveIndex
from ..log_pages import read_pages
from .api import UsageGrouping, UsageReport
from .ledger import USAGE_EVENTS, UsageLedger, UsedSession
from .summary import UsageSource, group_usage

if TYPE_CHECKING:
    from quarterdeck.drivers.agent_description import Agent

__all__ = ["UsageService"]

_log = logging.getLogger(__name__)
_Stamp = tuple[int, int]


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
        self._places = places
        self._load_settings = load_settings
        self._ledger = UsageLedger()
        self._position = 0
        self._reading = asyncio.Lock()
        self._runs: dict[Path, tuple[_Stamp, UsageLedger]] = {}

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
            ledgers = [ledger, *(await self._read_runs() if runs else ())]
            return await asyncio.to_thread(
                lambda: group_usage(
                    self._make_source(ledgers),
                    by,
                    since=first,
                    prices_of=PRICES_OF,
                    within=within,
                )
            )

    async def _read_runs(self) -> list[UsageLedger]:
        found: dict[Path, tuple[_Stamp, UsageLedger]] = {}
        for path in await asyncio.to_thread(_find_logs, self._places.state / "sessions"):
            stamp = await asyncio.to_thread(_stamp, path)
            known = self._runs.get(path)
            if known is not None and known[0] == stamp:
                found[path] = known
                continue
            ledger = UsageLedger()
            try:
                async with Journal.open(path, write=False) as journal:
                    await read_pages(journal, USAGE_EVENTS, ledger.add)
            except JournalError as error:
                _log.warning("its usage is not counted: %s", error)
                continue
            found[path] = (stamp, ledger)
        self._runs = found
        return [ledger for _, ledger in found.values()]

    def _make_source(self, ledgers: list[UsageLedger]) -> UsageSource:
        sessions = {
            id_: one for ledger in reversed(ledgers) for id_, one in ledger.sessions.items()
        }
        overrides = self._load_overrides()
        prices: dict[str, Prices | None] = {}
        projects: dict[str, str] = {}

        def find_price(model: str) -> Prices | None:
            if model not in prices:
                try:
                    prices[model] = find_prices(model, overrides)
                except ModelSetupError as error:
                    _log.warning("no price of %r: %s", model, error)
                    prices[model] = None
            return prices[model]

        def find_project(session: UsedSession) -> str:
            if session.repository is not None:
                return session.repository
            if session.cwd is None:
                return "unknown project"
            if session.cwd not in projects:
                projects[session.cwd] = _find_project(session.cwd)
            return projects[session.cwd]

        return UsageSource(
            cells=[cell for ledger in ledgers for cell in ledger.cells()],
            sessions=sessions,
            prices=find_price,
            project=find_project,
            vendor=_find_vendors(self._places),
            ignored=sum(ledger.ignored for ledger in ledgers),
        )

    def _load_overrides(self) -> Mapping[str, Mapping[str, Any]]:
        try:
            return msgspec.to_builtins(self._load_settings("/").models)
        except ConfigError as error:
            _log.warning("prices are those of the catalogue alone: %s", error)
            return {}


def _check_day(since: str | None) -> str | None:
    if since is None:
        return None
    try:
        return datetime.date.fromisoformat(since).isoformat()
    except ValueError:
        raise InvalidOptionsError(f"{since!r} is not a day; write it as 2026-11-09") from None


def _find_logs(directory: Path) -> list[Path]:
    try:
        return sorted(directory.glob("*.db"))
    except OSError:
        return []


def _stamp(path: Path) -> _Stamp:
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
