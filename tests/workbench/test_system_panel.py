"""The machine's load on a screen."""

import os
from pathlib import Path

from quarterdeck.fleet.api import FleetStatus
from tests.support.panel_app import alone, desk_in, shown, until_shown


def status(pid: int) -> FleetStatus:
    return FleetStatus(
        version="1", pid=pid, started=0, log="", last_seq=0, agents={}, needs_person=0
    )


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
