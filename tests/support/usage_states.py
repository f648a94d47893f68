"""The states of a screen that are about usage and budgets."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.fleet.budgets.accounts import BudgetAmounts
from quarterdeck.fleet.budgets.api import BudgetRow
from quarterdeck.fleet.budgets.bounds import Bound
from quarterdeck.fleet.budgets.stops import make_budget_question
from quarterdeck.models.model import Prices
from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.events import Event, ModelCallFinished, TurnEnded, TurnStarted
from quarterdeck.wire.ids import RequestId, SessionId, TurnId
from quarterdeck.wire.record import Record
from quarterdeck.wire.usage import Cost, TokenUsage
from quarterdeck.workbench.panels.usage import UsagePanel

from .agent_states import at_work, calm, many
from .choice_states import open_spawn_form
from .staged_workbench import START, Stage, StagedFleet, state

if TYPE_CHECKING:
    from quarterdeck.wire.budgets import BudgetLevel
    from quarterdeck.workbench.stores.budgets import BudgetStore

__all__ = ["spend"]

_DAY = 86_400_000_000


def spend(fleet: StagedFleet, session: SessionId, day: int, tokens: int, cost: float = 0) -> None:
    """A turn so many days ago; our own agent reports its calls, others their turns."""
    turn = TurnId(f"trn_{len(fleet.records)}")
    usage = TokenUsage(input=tokens, output=tokens // 9, cached=tokens // 2)
    paid = Cost(amount=cost, currency="USD") if cost else None
    info = fleet.infos[session]
    events: list[Event] = [TurnStarted()]
    if info.agent == "native":
        events.append(ModelCallFinished(model=f"acme/{info.model}", usage=usage, cost=paid))
    events.append(TurnEnded(stop="end_turn", usage=usage, cost=paid))
    for event in events:
        seq, time = len(fleet.records) + 1, START - day * _DAY
        fleet.records.append(Record(seq=seq, time=time, session=session, turn=turn, event=event))


async def spent(fleet: StagedFleet, home: Path) -> None:
    """Agents that used something on several days; one reports its cost, one has no price."""
    await many(fleet, home)
    known = Prices(input=3.0, output=15.0, cached=0.3, cache_written=4.0)
    fleet.prices = lambda model: None if model == "gemini-4-pro" else known
    for number, info in enumerate(tuple(fleet.infos.values())):
        for day in range(0, 28, number + 2):
            tokens = 40_000 * (number + 1) + 9_000 * (day % 7)
            spend(fleet, info.session, day, tokens, 0.4 if info.name == "docs" else 0)


def _row(fleet: StagedFleet, name: str, amount: float, used: float, **fields: object) -> BudgetRow:
    known = {info.name: info.session for info in fleet.infos.values()}
    scope = "tree" if name in known else "day" if name.startswith("the day") else "project"
    title = f"{name} and all that it starts" if name in known else name
    return BudgetRow(
        **{"scope": scope, "subject": known.get(name, name), "name": title, "unit": "usd",
           "amount": amount, "used": used, **fields}
    )  # fmt: skip


async def limited(fleet: StagedFleet, home: Path) -> None:
    """The same with budgets at every level."""
    await spent(fleet, home)
    level: dict[str, BudgetLevel] = {"stopped": "stopped", "warned": "warned"}
    today = format_local_time(START, "%Y-%m-%d")
    rows = (
        _row(fleet, "ann", 5, 5.21, level=level["stopped"]),
        _row(fleet, f"the day {today}", 2_000_000, 1_740_000, unit="tokens", level=level["warned"]),
        _row(fleet, "dora", 4, 1.12),
        _row(fleet, "the project /home/ann/src/tides", 30, 3.2, unpriced=12_000),
    )
    fleet.budget_rows = {(row.scope, row.subject, row.unit): row for row in rows}


async def _show(stage: Stage, words: str, *shown: str) -> None:
    """The panel alone on the screen, so that its look at each size is its own."""
    await calm(stage)
    await stage.command("open", words)
    await stage.until(*shown)
    await stage.command("zoom")
    await stage.until(*shown)


@state(spent)
async def usage_by_agent(stage: Stage) -> None:
    await _show(stage, "usage", "by agent", "cleo", "tokens by day", "no price for gemini-4-pro")


@state(limited)
async def usage_with_budgets(stage: Stage) -> None:
    await _show(stage, "usage", "by agent", "budgets", "5.21/5 $", "tokens by day")


@state(spent)
async def usage_by_day(stage: Stage) -> None:
    await _show(stage, "usage by=day period=week", "by day", "today", "since 26 Dec")


@state(spent)
async def panel_that_loads(stage: Stage) -> None:
    await _show(stage, "usage", "by agent", "cleo")
    panel = stage.app.main.query_one(UsagePanel)
    panel.look = asyncio.Event().wait  # pyright: ignore[reportAttributeAccessIssue]
    await stage.press("r")
    await stage.until("loading", "by agent")


@state(limited)
async def agents_with_budgets(stage: Stage) -> None:
    await calm(stage)
    store: BudgetStore = stage.app.context.budgets
    assert store.rows
    await stage.until("5.21/5 $")


@state(limited)
async def budgets_to_change(stage: Stage) -> None:
    await calm(stage)
    await stage.command("budgets")
    await stage.until("enter raise", "ann and all that it starts", "5.21/5 $")


@state(limited)
async def budget_to_raise(stage: Stage) -> None:
    await calm(stage)
    await stage.command("budgets")
    await stage.until("enter raise", "5.21/5 $")
    await stage.press("enter")
    await stage.until("raise ann and all that it starts by", "5usd")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def budget_that_stopped_an_agent(stage: Stage) -> None:
    fleet = stage.fleet
    ann = next(iter(fleet.infos))
    bound = Bound(
        scope="tree", subject=ann, unit="usd", amount=5.0, source="log", used=BudgetAmounts(),
        reserved=BudgetAmounts(), allowance=0.05,
    )  # fmt: skip
    reason = (
        f"{bound.describe('ann and all that it starts')} is used up: 5.21 usd, and the next call "
        "does not fit"
    )
    await fleet.ask(ann, make_budget_question(RequestId("req_budget"), bound, reason))
    await stage.until("Raise it by", "as much again")


@state()
async def spawn_form_with_a_wrong_budget(stage: Stage) -> None:
    form = await open_spawn_form(stage)
    form.query_one("#budget").value = "5 or so"  # pyright: ignore[reportAttributeAccessIssue]
    await stage.pilot.pause()
    await stage.press("ctrl+s")
    await stage.until("✗ budget: '5 or' is no budget; write it as 5usd")
