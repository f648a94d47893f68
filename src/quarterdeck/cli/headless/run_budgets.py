"""The budgets of the settings, for a run: what is left of them becomes its limits."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.wire.budgets import BudgetLimit, describe_limit
from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.config.schema import Settings
    from quarterdeck.fleet.budgets.bounds import Bound

__all__ = ["BudgetUsedUpError", "RunLimit", "find_run_limits"]


class BudgetUsedUpError(QuarterdeckError):
    """Nothing is left of a budget, so that the run is not begun; the message names it."""


class RunLimit(Struct, frozen=True, kw_only=True):
    """What a run may use of one unit, and by which budget; the tightest of several."""

    limit: BudgetLimit
    words: str


def find_run_limits(cwd: str, session: str | None = None) -> list[RunLimit]:
    """What is left for a run in a directory, one for each unit. Blocks.

    Nothing but the settings is read where they have no budget. ``session``: it is resumed.

    Raises:
        BudgetUsedUpError: nothing is left, or that cannot be known.
        ConfigError: the settings are wrong.
    """
    own, common = _load(cwd).budget, _load("/").budget
    if not any((own.agent, own.tree, own.project, common.day, common.all)):
        return []
    from quarterdeck.fleet.budgets.run_bounds import read_run_bounds

    found: dict[str, RunLimit] = {}
    for bound, name in read_run_bounds(Places.find(), _load, cwd, session=session):
        if bound.unit == "agents":
            continue
        left = _find_left(bound, name)
        known = found.get(bound.unit)
        if known is None or left < known.limit.amount:
            limit = BudgetLimit(unit=bound.unit, amount=left)
            found[bound.unit] = RunLimit(limit=limit, words=_describe(bound, name, left))
    return list(found.values())


def _find_left(bound: "Bound", name: str) -> float:
    budget = bound.describe(name)
    if bound.is_unpriced:
        raise BudgetUsedUpError(
            f"{budget} cannot be kept: the price of a model is not known. Set models.NAME.prices, "
            "or use a budget of tokens"
        )
    left = bound.amount - bound.spent - bound.reserved.of(bound.unit)
    if left <= 0 or (bound.unit in ("tokens", "calls") and left < 1):
        used = describe_limit(bound.unit, bound.spent)
        raise BudgetUsedUpError(
            f"{budget} is used up: {used}. Raise it with `quarterdeck budget raise`, or in the "
            "settings"
        )
    return left


def _describe(bound: "Bound", name: str, left: float) -> str:
    return f"{describe_limit(bound.unit, left)} left of {bound.describe(name)}"


def _load(directory: str) -> "Settings":
    places, path = Places.find(), Path(directory)
    trusted = TrustStore(places.trust_file).is_trusted(find_workspace(path).project)
    return load_config(places, directory=path, environ=os.environ, trusted=trusted).settings
