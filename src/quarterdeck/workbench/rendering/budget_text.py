"""Budgets in few characters, wherever they are shown."""

from typing import TYPE_CHECKING

from quarterdeck.wire.budgets import describe_limit
from quarterdeck.wire.terminal_text import count

from .glyphs import STOPPED, UNKNOWN, WARNING

if TYPE_CHECKING:
    from quarterdeck.fleet.budgets.api import BudgetRow
    from quarterdeck.wire.budgets import BudgetLevel

__all__ = ["LEVEL_LOOKS", "format_budget_part", "format_budget_use"]

LEVEL_LOOKS: "dict[BudgetLevel | None, tuple[str, str, str]]" = {
    None: (" ", "", "running"),
    "warned": (WARNING, "nearly used up", "warning"),
    "reached": (WARNING, "used up", "warning"),
    "stopped": (STOPPED, "stopped", "bad"),
}
"""For each level its sign, its words and its role."""


def format_budget_use(row: "BudgetRow") -> str:
    """What is used of a budget: ``4.10/5 $``, ``120k/200k tok``, ``12/30 min``."""
    match row.unit:
        case "usd":
            used, amount = (describe_limit("usd", one).split()[0] for one in (row.used, row.amount))
            return f"{used}{' + ?' if row.unpriced else ''}/{amount} $"
        case "tokens":
            return f"{count(int(row.used))}/{count(int(row.amount))} tok"
        case "seconds":
            unit, size = ("s", 1) if row.amount < 60 else ("min", 60)
            unit, size = ("h", 3600) if row.amount >= 3600 else (unit, size)
            return f"{_write(row.used / size)}/{_write(row.amount / size)} {unit}"
        case _:
            return f"{int(row.used)}/{int(row.amount)} {row.unit}"


def format_budget_part(row: "BudgetRow") -> str:
    """The part of a budget that is used, ``82 %``; a dash where that is not known."""
    if row.unit == "usd" and row.unpriced:
        return UNKNOWN
    return f"{min(100 * row.used / row.amount, 999):.0f} %"


def _write(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
