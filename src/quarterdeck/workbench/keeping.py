"""What is kept over restarts of what is open: named layouts, and what was open in a directory."""

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .layout.files import LayoutFiles
from .workspace import Opened, Workspaces

if TYPE_CHECKING:
    from quarterdeck.config.places import Places

    from .arranged import Arranged

__all__ = ["Keeping", "project_layouts"]

_SOON = 0.5
"""Seconds after which what is open is on disk."""


class Keeping:
    """Knows the files, and when to write them.

    Args:
        places: where files are; None: nothing is read or kept.
    """

    def __init__(self, places: "Places | None") -> None:
        self._places = places
        state = places.state / "workbench" / "workspaces" if places is not None else None
        self.workspaces = Workspaces(state)
        self.layouts = LayoutFiles(places.config / "layouts" if places is not None else None)
        self._is_due = False
        self._writing = asyncio.Lock()

    def find_project(self, cwd: str) -> None:
        """Look for the layouts of a project, which count if the person trusts it. Blocks."""
        if self._places is not None:
            project = project_layouts(self._places, Path(cwd))
            self.layouts = LayoutFiles(self._places.config / "layouts", project)

    def changed(self, app: "Arranged") -> None:
        """Something to keep has changed; it is on disk soon."""
        if not self._is_due:
            self._is_due = True
            # A worker that never begins, because we end, must not have begun a coroutine either.
            save = partial(self._save_told, app)
            app.set_timer(_SOON, lambda: app.run_worker(save))

    async def save(self, app: "Arranged") -> None:
        """Keep what is open now.

        Raises:
            OSError: it cannot be written.
        """
        self._is_due = False
        opened = what_is_open(app)
        async with self._writing:
            await asyncio.to_thread(self.workspaces.save, app.desk.cwd, opened)

    async def _save_told(self, app: "Arranged") -> None:
        try:
            await self.save(app)
        except OSError as error:
            app.tell(f"what is open cannot be kept on disk: {error}", True)


def what_is_open(app: "Arranged") -> Opened:
    """The layout and everything beside it that is kept."""
    view = app.main.view
    return Opened(
        layout=view.spec,
        base=view.base if view.base != view.spec else None,
        tab=view.tab,
        focus=view.current,
        shown=app.desk.shown,
        states=view.remember(),
    )


def project_layouts(places: "Places", cwd: Path) -> Path | None:
    """The folder for layouts of a project that the person trusts. Blocks."""
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.config.workspace import FOLDER, find_workspace
    from quarterdeck.wire.errors import QuarterdeckError

    with suppress(OSError, QuarterdeckError):
        root = find_workspace(cwd).root
        if TrustStore(places.trust_file).is_trusted(root):
            return root / FOLDER / "layouts"
    return None
