"""A host whose agents spend at random until it is killed, or until nothing is left; a program.

It writes what each call used to a file at the moment at which a vendor would charge it, so that
what was really used is known whatever becomes of the host.

Usage: python -m tests.fleet.budgets.kill_budgets FOLDER SEED
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.budgets import BudgetLimit, CallEstimate, Refusal
from quarterdeck.wire.events import ModelCallFinished
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.usage import Cost, TokenUsage
from tests.support.scripted_fleet import Casting, new_agent, places_in

LIMIT = 400_000
DOLLARS = 4.0
AGENTS = 20
PRICE = 10.0
"""For a million tokens, in and out, so that the two limits are near each other."""


class Spenders:
    """Agents that make calls side by side."""

    def __init__(self, fleet: LocalFleet, seed: int, charge: int) -> None:
        self.fleet = fleet
        self.random = random.Random(seed)
        self.charge = charge

    async def run(self) -> None:
        names = [one.session for one in await self.fleet.agents()]
        async with asyncio.TaskGroup() as group:
            for session in names:
                group.create_task(self.spend(session))

    async def spend(self, session: SessionId) -> None:
        budgets, dice = self.fleet.budget_service, self.random
        while True:
            size, most = dice.randrange(100, 6_000), dice.randrange(300, 8_000)
            estimate = CallEstimate(
                model="acme/m", input=size, output=most, input_price=PRICE, output_price=PRICE
            )
            reserved = await budgets.reserve(session, estimate)
            if isinstance(reserved, Refusal):
                return
            longest = reserved.max_output or most
            usage = TokenUsage(input=dice.randrange(size + 1), output=dice.randrange(longest + 1))
            os.write(self.charge, f"{usage.total}\n".encode())
            await asyncio.sleep(dice.uniform(0, 0.005))
            await self.end(session, reserved, usage)

    async def end(self, session: SessionId, reserved, usage: TokenUsage) -> None:
        budgets = self.fleet.budget_service
        match self.random.randrange(8):
            case 0:  # it broke off: what is known is an estimate, never too low
                await budgets.settle(reserved, usage, broke_off=True)
            case _:
                cost = Cost(amount=usage.total * PRICE / 1e6, currency="USD")
                finished = ModelCallFinished(model="acme/m", usage=usage, cost=cost)
                await self.fleet.journal.append(session, finished)
                await asyncio.sleep(0)
                await budgets.settle(reserved, usage)


async def main(folder: Path, seed: int) -> None:
    charge = os.open(folder / "charged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    options = {"open_session": Casting()}
    async with LocalFleet.open(places_in(folder / "home"), {}, **options) as fleet:
        if not await fleet.agents():
            for number in range(AGENTS):
                await fleet.spawn(new_agent(folder, name=f"a{number}"))
            await fleet.set_budget("all", "", BudgetLimit(unit="tokens", amount=LIMIT))
            await fleet.set_budget("day", "", BudgetLimit(unit="usd", amount=DOLLARS))
        print("open", flush=True)
        await Spenders(fleet, seed, charge).run()
        rows = {(row.scope, row.unit): row for row in (await fleet.budgets()).rows}
        while rows["all", "tokens"].reserved:  # the last settlements are on their way
            await asyncio.sleep(0.01)
            rows = {(row.scope, row.unit): row for row in (await fleet.budgets()).rows}
        tokens, dollars = rows["all", "tokens"], rows["day", "usd"]
        print("over", tokens.used, tokens.reserved, dollars.used, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
