"""One request, answered from four places at once: decided once, and everyone learns it."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck import __version__
from quarterdeck.cli.fleet.exit_codes import ANSWERED
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.host.lock import HostLock, LockHolder, lock_file
from quarterdeck.wire.events import PermissionAnswered
from quarterdeck.wire.rpc import connect_unix
from tests.support.browser import PHONE, SCREEN, BrowserPage, browsing_many, needs_browser
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent, places_in
from tests.support.web_rig import WebRig, serving_web

pytestmark = needs_browser
PRESS = """name => {
  const button = [...document.querySelectorAll("button")].find((one) => one.textContent === name);
  button?.click();
  return Boolean(button);
}"""


@asynccontextmanager
async def announced(home: Path, rig: WebRig) -> AsyncGenerator[None]:
    """Let commands find the host of the rig."""
    lock = await asyncio.to_thread(HostLock.acquire, lock_file(places_in(home)))
    path = str(rig.host.path)
    lock.sign(LockHolder(pid=os.getpid(), socket=path, version=__version__, started=0))
    try:
        yield
    finally:
        lock.release()


async def answer_by_command(home: Path, request: str) -> bool:
    """Whether ``quarterdeck answer`` says that it was first."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quarterdeck", "answer", request, "deny"),
        env={**os.environ, "QUARTERDECK_HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode in (0, ANSWERED), said
    return process.returncode == 0


class AnsweringPage:
    """A browser that keeps what became of its answers."""

    def __init__(self, browser: BrowserPage) -> None:
        self.browser = browser
        self.results: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        browser.page.on("response", self._heard)

    async def _heard(self, response: Any) -> None:
        if response.url.endswith("/fleet/answer_group"):
            self.results.put_nowait(await response.json())

    async def answer(self, name: str) -> bool:
        """Press a button if it is still there; whether this answer was the first."""
        if not await self.browser.page.evaluate(PRESS, name):
            return False
        return bool((await asyncio.wait_for(self.results.get(), SOON)).get("answered"))


@pytest.mark.parametrize("rounds", [3, pytest.param(10, marks=pytest.mark.stress)])
async def test_workbench_command_and_two_browsers_decide_once(tmp_path: Path, rounds: int):
    home = tmp_path / "home"
    winners: list[str] = []
    async with (
        fleet_of(home) as fleet,
        serving_web(tmp_path, fleet) as rig,
        announced(home, rig),
        browsing_many(rig, PHONE, SCREEN) as pages,
    ):
        workbench = HostClient.create(lambda: connect_unix(rig.host.path), "workbench")
        phone, laptop = map(AnsweringPage, pages)
        await phone.browser.pair("approver", person="ann")
        await laptop.browser.pair("approver", person="bob")
        for number in range(rounds):
            name = f"a{number}"
            await fleet.spawn(new_agent(tmp_path, name=name, prompt=f"ask make {name}"))
            await fleet.wait([name], timeout=SOON)
            (item,) = await workbench.inbox()
            for page in (phone, laptop):
                await page.browser.page.get_by_role("button", name="Yes").wait_for()
            clients = (await workbench.status()).clients
            command = asyncio.create_task(answer_by_command(home, item.request))
            if number % 2:  # a program takes long to start: give it the same chance
                while (await workbench.status()).clients == clients and not command.done():
                    await asyncio.sleep(0)
            first = await asyncio.gather(
                command,
                workbench.answer(item.request, "allow_once", by="workbench"),
                phone.answer("Yes"),
                laptop.answer("No"),
            )
            assert sum(first) == 1, first
            winner = ("cli", "workbench", "ann", "bob")[first.index(True)]
            events = await events_of(fleet, name)
            (answered,) = [one for one in events if isinstance(one, PermissionAnswered)]
            assert (answered.by.name or "").partition(" (")[0] == winner
            winners.append(winner)
            for page in (phone, laptop):
                await page.browser.sees("No agent needs you")
            assert not await workbench.inbox()
        await workbench.disconnect()
    assert len(winners) == rounds
