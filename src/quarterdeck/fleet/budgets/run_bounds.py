"""The budgets that count for a run without a host: read once, from the settings and all logs."""

import logging
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.config.schema import BudgetSettings, Settings
from quarterdeck.journal import JournalError
from quarterdeck.wire.clock import format_local_time, read_wall_clock
from quarterdeck.wire.ids import SessionId

from ..log_pages import find_run_logs, read_log_file
from ..usage.ledger import UNKNOWN_DAY
from .accounts import BUDGET_EVENTS, BudgetAccounts
from .bounds import Bound, find_bounds
from .lookup import BudgetLookup
from .stops import name_bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.config.places import Places
    from quarterdeck.wire.record import Record

__all__ = ["read_run_bounds"]

_log = logging.getLogger(__name__)


def read_run_bounds(
    places: "Places",
    load_settings: "Callable[[str], Settings]",
    cwd: str,
    *,
    session: str | None = None,
) -> list[tuple[Bound, str]]:
    """The budgets of a run in a directory, each with what it is for. Blocks.

    What the host's log and the logs of all runs show now counts; a budget that is set in the
    host's log takes the place of the same one in the settings. ``session``: the run is resumed.

    Raises:
        ConfigError: the settings are wrong.
        ValueError: a budget in the settings is none.
    """
    own, common = _read_settings(load_settings, cwd)
    lookup = BudgetLookup(load_settings)
    accounts = BudgetAccounts(lookup.prices, lookup.project)

    def take(records: "list[Record]") -> None:
        for record in records:
            lookup.learn(record)
            accounts.take(record)

    for path in (places.journal_file, *find_run_logs(places.state)):
        _read(path, take)
    project = lookup.learn_directory(cwd)
    today = format_local_time(read_wall_clock(), "%Y-%m-%d") or UNKNOWN_DAY
    known = SessionId(session or "")
    bounds = find_bounds(accounts, known, today, own, common, project)
    return [(bound, name_bound(bound, "this run")) for bound in bounds]


def _read_settings(
    load: "Callable[[str], Settings]", cwd: str
) -> tuple[BudgetSettings, BudgetSettings]:
    return load(cwd).budget, load("/").budget


def _read(path: Path, take: "Callable[[list[Record]], None]") -> None:
    try:
        if path.exists():
            read_log_file(path, BUDGET_EVENTS, take)
    except (JournalError, sqlite3.Error, OSError) as error:
        _log.warning("its usage is not counted: %s", error)
