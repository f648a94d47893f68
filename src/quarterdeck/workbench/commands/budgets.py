"""The command ``/budgets``: what agents may use, shown, set, raised and removed."""

from typing import TYPE_CHECKING, cast

from quarterdeck.fleet.errors import InvalidOptionsError
from quarterdeck.wire.budgets import BUDGET_UNITS, describe_limit, parse_limit

if TYPE_CHECKING:
    from quarterdeck.wire.budgets import BudgetScope, BudgetUnit

    from ..app import Workbench

__all__ = ["control_budgets"]

_FORM = "write it as day 10usd, project 30usd, all 50usd, AGENT 5usd; before it: raise or remove"
_VERBS = ("set", "raise", "remove")


async def control_budgets(app: "Workbench", words: str) -> None:
    """Show the budgets, or change one in words. Raises InvalidOptionsError."""
    if words.strip():
        app.show_message(await _change(app, words))
        app.feed.refresh()
        return
    from ..screens.budgets import BudgetsScreen

    async def change(words: str) -> str:
        return await _change(app, words)

    app.push_screen(BudgetsScreen(app.context.fleet, change, app.feed.refresh))


async def _change(app: "Workbench", words: str) -> str:
    verb, rest = "set", words.split()
    if rest and rest[0] in _VERBS:
        verb, *rest = rest
    if len(rest) < 2:
        raise InvalidOptionsError(f"{words!r} is no budget; {_FORM}")
    who, *amounts = rest
    scope, subject = _find_subject(app, who)
    fleet, done = app.context.fleet, list[str]()
    for amount in amounts:
        if verb == "remove":
            unit = _read_unit(amount)
            if not await fleet.remove_budget(scope, subject, unit):
                raise InvalidOptionsError(f"there is no budget of {unit} for {who}")
            done.append(f"removed the budget of {unit} for {who}")
            continue
        try:
            limit = parse_limit(amount)
        except ValueError as error:
            raise InvalidOptionsError(str(error)) from None
        row = await fleet.set_budget(scope, subject, limit, add=verb == "raise")
        used = describe_limit(row.unit, row.used)
        done.append(f"{describe_limit(row.unit, row.amount)} for {row.name}; {used} used")
    return "\n".join(done)


def _find_subject(app: "Workbench", who: str) -> "tuple[BudgetScope, str]":
    match who:
        case "day" | "all":
            return cast("BudgetScope", who), ""
        case "project":
            return "project", app.context.cwd
        case _:
            return "tree", who


def _read_unit(word: str) -> "BudgetUnit":
    if word in BUDGET_UNITS:
        return word
    raise InvalidOptionsError(f"{word!r} is no unit; there are {', '.join(BUDGET_UNITS)}")
