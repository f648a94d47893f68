"""Three agents that wait at once, run for real: each ``y`` answers one, none goes elsewhere."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.screens.permission import PermissionCard
from tests.support.agent_files import write_agent_files
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import new_agent, places_in
from tests.support.work_trees import new_repository
from tests.support.workbench_app import screen_text, until

SCRIPT = """
version = 1
default = "run"
[[scenes.run.replies]]
parts = [{ tool = "shell", arguments = { command = "make things" } }]
[[scenes.run.replies]]
parts = [{ text = "Done." }]
"""
VENDORS = {
    "claude": {"agent": "claude", "transport": "pipe", "prompt": "ask make things"},
    "codex": {"agent": "codex", "transport": "daemon", "prompt": "ask make things"},
    "opencode": {"agent": "opencode", "transport": "daemon", "prompt": "ask make things"},
}


def write_world(home: Path, work: Path) -> None:
    write_agent_files(places_in(home).agents)
    new_repository(work, {"kept.txt": "kept\n"})
    (home / "script.toml").write_text(SCRIPT)


@pytest.mark.parametrize("which", ["vendors", "own"])
async def test_a_key_every_second_and_a_half_answers_all(tmp_path: Path, which: str):
    home, work = tmp_path / "home", tmp_path / "work"
    await asyncio.to_thread(write_world, home, work)
    model = f"scripted/{home / 'script.toml'}"
    agents: dict[str, dict[str, Any]] = dict(VENDORS)
    if which == "own":
        one = {"agent": "native", "model": model, "prompt": "go"}
        agents = {name: dict(one) for name in ("ann", "bob", "cleo")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    async def there(starts: bool) -> None:
        del starts

    async with LocalFleet.open(places_in(home), environment) as fleet:
        for name, options in agents.items():
            await fleet.spawn(new_agent(work, name=name, mode="ask", **options))
        async with asyncio.timeout(3 * SOON):
            while len(await fleet.inbox()) < 3:
                await asyncio.sleep(0.05)
        context = WorkbenchContext(
            fleet=fleet, drafts=Drafts(tmp_path / "drafts"), cwd=str(work), clock=read_wall_clock
        )
        app = await asyncio.to_thread(Workbench, context, there)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await until(pilot, lambda: len(context.inbox.items) == 3)
            context.select(context.inbox.items[0].session)
            for left in (3, 2, 1):
                await until(
                    pilot,
                    lambda: (
                        isinstance(card := app.requests.current, PermissionCard)
                        and bool(card.summary.heading)
                    ),
                )
                assert screen_text(app).count("y allow once") == 1
                await pilot.pause(1.5)
                await pilot.press("y")
                async with asyncio.timeout(SOON):
                    while len(await fleet.inbox()) >= left:
                        await pilot.pause(0.02)
                assert app.main.chat.text == ""
            await until(pilot, lambda: app.requests.current is None)
            assert app.main.chat.text == ""
        for name in agents:
            await fleet.wait([name], timeout=SOON)
