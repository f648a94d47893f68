"""Usage and the machine's load on a screen."""

import os
from pathlib import Path

from quarterdeck.fleet.api import AgentInfo, FleetStatus
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from tests.support.panel_app import alone, desk_in, shown, until_shown


def agent(name: str, tokens: int, model: str = "m1") -> AgentInfo:
    return AgentInfo(
        session=SessionId(f"ses_{name}"), name=name, agent="claude", cwd=f"/work/{name}",
        state="idle", model=model, usage=TokenUsage(input=tokens), is_live=True,
        cost=Cost(amount=tokens / 1000, currency="USD"),
        context=ContextUsage(used=50, size=100),
    )  # fmt: skip


def status(pid: int) -> FleetStatus:
    return FleetStatus(
        version="1", pid=pid, started=0, log="", last_seq=0, agents={}, needs_person=0
    )


async def test_usage_is_drawn_and_follows_the_agents(tmp_path: Path):
    desk = desk_in(tmp_path)
    async with alone("usage", desk) as (panel, app, pilot):
        await until_shown(app, pilot, "What agents use appears here", "ctrl+t")
        desk.roster.replace([agent("ann", 1_000), agent("[b]ob", 3_000, "m2")], None)
        await until_shown(
            app, pilot, "[b]ob", "ann", "3.00 $", "4.0k tokens", "3.0k", "50 %", "75 %", "by agent"
        )
        desk.roster.replace([agent("ann", 1_500), agent("[b]ob", 3_000, "m2")], None)
        await until_shown(app, pilot, "500 in all", "█")
        await pilot.press("g")
        await until_shown(app, pilot, "by model", "m1", "m2")
        await pilot.press("g")
        await until_shown(app, pilot, "by day", "agents")
        assert panel.remember() == {"by": "day", "archived": False}
    async with alone("usage", desk, {"by": "agent"}, state={"by": "model"}) as (_, app, pilot):
        await until_shown(app, pilot, "by model")


async def test_the_machine_is_measured_only_while_somebody_looks(tmp_path: Path):
    desk = desk_in(tmp_path)
    desk.roster.replace([], status(os.getppid()))
    async with alone("system", desk) as (panel, app, pilot):
        await until_shown(app, pilot, "cpu", "memory", "disk", "load", "agents ", "process")
        await until_shown(app, pilot, "of a cpu", "%")
        panel.display = False
        await pilot.pause(0.1)
        before = panel.sample
        await pilot.pause(2.2)
        assert panel.sample is before
    desk.roster.replace([], status(2**30))
    async with alone("system", desk) as (_, app, pilot):
        await until_shown(app, pilot, "appear here when a host runs", "/host")
        assert "measuring" in shown(app)
