"""Opening the workbench on a terminal."""

import os
from collections.abc import Mapping
from pathlib import Path

from quarterdeck.config.places import Places

__all__ = ["open_workbench"]


def open_workbench(
    places: Places | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    demo: bool = False,
) -> int:
    """Run until the person leaves; returns the exit code. The agents go on.

    ``demo`` begins the demo at once.

    Raises:
        Exception: what ended it unexpectedly; the terminal is as it was before.
    """
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.host.dialling import dial
    from quarterdeck.fleet.host.starting import ensure_host

    from .app import Workbench, now
    from .desk import Desk
    from .drafts import Drafts
    from .first import clear_demo
    from .looks import load_looks

    found = places or Places.find()
    environment = dict(os.environ if environ is None else environ)
    client = HostClient(lambda: dial(found), "workbench")

    async def reach(starts: bool) -> None:
        await client.reach((lambda: ensure_host(found, environment)) if starts else None)

    drafts = Drafts(found.state / "workbench" / "drafts")
    drafts.load()
    here = str(cwd or Path.cwd())
    looks = load_looks(found, here, environment)
    desk = Desk(fleet=client, drafts=drafts, cwd=here, clock=now, looks=looks)
    desk.ground.places, desk.ground.environment = found, environment
    desk.ground.begins_demo = demo

    async def leave() -> None:
        await clear_demo(desk.ground, client)
        await client.disconnect()

    app = Workbench(desk, reach, leave=leave)
    app.run()
    if app.crash is not None:
        raise app.crash
    return app.return_code or 0
