"""A host whose agents spend through the meter until it is killed or nothing is left; a program.

Two agents are behind the meter and one reserves as ours do. The vendor writes what it charges to a
file before it answers, so that what was really used is known whatever becomes of the host.

Usage: python -m tests.fleet.meter.kill_metered FOLDER SEED
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
from quarterdeck.wire.usage import TokenUsage
from tests.support.http_server import serving
from tests.support.metered_agents import (
    MODEL,
    VARIABLE,
    CallingLink,
    Vendor,
    ask_meter,
    make_body,
    write_settings,
)
from tests.support.scripted_fleet import Casting, new_agent, places_in

LIMIT = 200_000
DOLLARS = 2.0
ACTS = ("ok",) * 6 + ("cut", "busy", "plain")


async def spend_metered(link: CallingLink, dice: random.Random) -> None:
    while True:
        size, most = dice.randrange(400, 20_000), dice.randrange(300, 4_000)
        answer = await ask_meter(link.address, make_body(size, most, dice.choice(ACTS)))
        if answer.startswith(b"HTTP/1.1 402 "):
            return


async def spend_own(
    fleet: LocalFleet, session: SessionId, dice: random.Random, charge: int
) -> None:
    budgets = fleet.budget_service
    while True:
        size, most = dice.randrange(100, 5_000), dice.randrange(300, 4_000)
        estimate = CallEstimate(model=MODEL, input=size, output=most)
        reserved = await budgets.reserve(session, estimate)
        if isinstance(reserved, Refusal):
            return
        longest = reserved.max_output or most
        usage = TokenUsage(input=dice.randrange(size + 1), output=dice.randrange(longest + 1))
        os.write(charge, f"{usage.total}\n".encode())
        await asyncio.sleep(dice.uniform(0, 0.005))
        await fleet.journal.append(session, ModelCallFinished(model=MODEL, usage=usage))
        await budgets.settle(reserved, usage)


async def main(folder: Path, seed: int) -> None:
    charge = os.open(folder / "charged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    dice = random.Random(seed)
    vendor = Vendor(
        output=lambda most: dice.randrange(most + 1),
        charge=lambda used: (os.write(charge, f"{used}\n".encode()), None)[1],
    )
    casting = Casting()
    casting.make = CallingLink
    home = folder / "home"
    write_settings(home)
    async with (
        serving(vendor) as server,
        LocalFleet.open(places_in(home), {}, open_session=casting) as fleet,
    ):
        if not (await fleet.budgets()).rows:
            await fleet.set_budget("all", "", BudgetLimit(unit="tokens", amount=LIMIT))
            await fleet.set_budget("day", "", BudgetLimit(unit="usd", amount=DOLLARS))
        infos = [
            await fleet.spawn(
                new_agent(folder, name=f"{name}{seed}", environment={VARIABLE: server.url})
            )
            for name in ("f", "g", "own")
        ]
        await fleet.wait([info.name for info in infos])
        print("open", flush=True)
        links = [one for one in casting.links if isinstance(one, CallingLink)]
        async with asyncio.TaskGroup() as group:
            for link in links[:2]:
                group.create_task(spend_metered(link, dice))
            group.create_task(spend_own(fleet, infos[2].session, dice, charge))
        rows = {(row.scope, row.unit): row for row in (await fleet.budgets()).rows}
        while rows["all", "tokens"].reserved:  # the last settlements are on their way
            await asyncio.sleep(0.01)
            rows = {(row.scope, row.unit): row for row in (await fleet.budgets()).rows}
        tokens, dollars = rows["all", "tokens"], rows["day", "usd"]
        print("over", tokens.used, tokens.reserved, dollars.used, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
