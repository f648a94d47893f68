"""What budgets need from outside the log: prices, projects and settings, read in threads."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from quarterdeck.config.errors import ConfigError
from quarterdeck.config.schema import BudgetSettings, Settings
from quarterdeck.config.workspace import find_workspace
from quarterdeck.models.catalogue import find_prices
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import Prices
from quarterdeck.wire.budgets import CallEstimate
from quarterdeck.wire.events import (
    ModelCallFinished,
    ModelCallMetered,
    SessionChanged,
    SessionOpened,
    SessionSpawned,
)
from quarterdeck.wire.record import Record

from ..usage.ledger import UsedSession

__all__ = ["BudgetLookup"]

_log = logging.getLogger(__name__)
_FRESH = 2.0
"""Seconds for which settings are not read again."""
_NONE = BudgetSettings()


class BudgetLookup:
    """Remembers what it has read; ``learn`` and ``read_settings`` touch the disk."""

    def __init__(self, load_settings: Callable[[str], Settings]) -> None:
        self._load = load_settings
        self._prices: dict[str, Prices | None] = {}
        self._projects: dict[str, str] = {}
        self._settings: dict[str, tuple[float, BudgetSettings]] = {}
        self._overrides: Mapping[str, Mapping[str, Any]] | None = None

    def prices(self, model: str) -> Prices | None:
        """The prices of a model that was learned; None: unknown."""
        return self._prices.get(model)

    def project(self, session: UsedSession) -> str | None:
        """The project of a session whose directory was learned."""
        if session.repository is not None:
            return session.repository
        return self._projects.get(session.cwd) if session.cwd is not None else None

    def is_new(self, record: Record) -> bool:
        """Whether a record names a model or a directory that is not known yet."""
        model, cwd = _names(record)
        return (model is not None and model not in self._prices) or (
            cwd is not None and cwd not in self._projects
        )

    def learn(self, record: Record) -> None:
        """Look up what a record names. Touches the disk, never raises."""
        model, cwd = _names(record)
        if model is not None:
            self.learn_model(model)
        if cwd is not None:
            self.learn_directory(cwd)

    def learn_model(self, model: str) -> None:
        """Look up the prices of a model. Touches the disk."""
        if model in self._prices:
            return
        if self._overrides is None:
            self._overrides = self._load_overrides()
        try:
            self._prices[model] = find_prices(model, self._overrides)
        except ModelSetupError as error:
            _log.warning("no price of %r: %s", model, error)
            self._prices[model] = None

    def learn_directory(self, cwd: str) -> str:
        """Look up the project of a directory. Touches the disk."""
        if cwd not in self._projects:
            try:
                self._projects[cwd] = str(find_workspace(Path(cwd)).project)
            except OSError:
                self._projects[cwd] = cwd
        return self._projects[cwd]

    async def find_project(self, cwd: str) -> str:
        """The project of a directory."""
        known = self._projects.get(cwd)
        return known if known is not None else await asyncio.to_thread(self.learn_directory, cwd)

    async def find_call_prices(self, estimate: CallEstimate) -> tuple[float, float] | None:
        """The most that a million tokens of a call cost, in and out; None: not known."""
        if estimate.input_price is not None and estimate.output_price is not None:
            return estimate.input_price, estimate.output_price
        if estimate.model is None:
            return None
        if estimate.model not in self._prices:
            await asyncio.to_thread(self.learn_model, estimate.model)
        prices = self._prices[estimate.model]
        if prices is None:
            return None
        return max(prices.input, prices.cache_written, prices.cached), prices.output

    async def settings(self, cwd: str | None) -> tuple[BudgetSettings, BudgetSettings]:
        """The settings of a directory, and those of the user alone; never older than a moment."""
        common = await self._read("/")
        return (await self._read(cwd) if cwd else common), common

    async def has_settings(self, cwd: str) -> bool:
        """Whether the settings have a budget for what works in a directory."""
        own, common = await self.settings(cwd)
        return any((own.agent, own.tree, own.project, common.day, common.all))

    async def _read(self, cwd: str) -> BudgetSettings:
        known = self._settings.get(cwd)
        if known is not None and time.monotonic() - known[0] < _FRESH:
            return known[1]
        try:
            found = (await asyncio.to_thread(self._load, cwd)).budget
        except ConfigError as error:
            _log.warning("budgets are those of before: %s", error)
            found = known[1] if known is not None else _NONE
        self._settings[cwd] = (time.monotonic(), found)
        return found

    def _load_overrides(self) -> Mapping[str, Mapping[str, Any]]:
        try:
            return msgspec.to_builtins(self._load("/").models)
        except ConfigError as error:
            _log.warning("prices are those of the catalogue alone: %s", error)
            return {}


def _names(record: Record) -> tuple[str | None, str | None]:
    """The model and the directory that a record names."""
    match record.event:
        case ModelCallFinished(model=model) | ModelCallMetered(model=model):
            return model, None
        case SessionSpawned(options=options):
            return options.model, options.cwd or None
        case SessionOpened(model=model, cwd=cwd):
            return model, cwd
        case SessionChanged(model=str(model)):
            return model, None
        case _:
            return None, None
