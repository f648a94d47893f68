"""Opening the workbench on a terminal."""

import gc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from quarterdeck.config.places import Places

if TYPE_CHECKING:
    from quarterdeck.fleet.port import Fleet

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
    # Nothing that is made before the first frame is garbage; looking for some delays it.
    gc.disable()
    from .app import Workbench, now
    from .desk import Desk
    from .drafts import Drafts
    from .first import clear_demo
    from .late import LateFleet
    from .looks import load_looks
    from .terminals.alt_keys import know_alt_keys

    found = places or Places.find()
    environment = dict(os.environ if environ is None else environ)
    client = LateFleet(found, environment)
    drafts = Drafts(found.state / "workbench" / "drafts")
    drafts.load()
    here = str(cwd or Path.cwd())
    looks = load_looks(found, here, environment)
    desk = Desk(fleet=cast("Fleet", client), drafts=drafts, cwd=here, clock=now, looks=looks)
    desk.ground.places, desk.ground.environment = found, environment
    desk.ground.begins_demo = demo

    async def leave() -> None:
        await clear_demo(desk.ground, desk.fleet)
        await client.disconnect()

    know_alt_keys()
    app = Workbench(desk, client.reach, leave=leave, begun=_collect_again)
    app.run()
    if app.crash is not None:
        raise app.crash
    return app.return_code or 0


def _collect_again() -> None:
    """Look for garbage from now on, and not among what stays until the end."""
    gc.freeze()
    gc.enable()
