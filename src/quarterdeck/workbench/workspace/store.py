"""What is open in a directory: saved when it changes, and restored at the next start."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

from ..layout.files import LayoutFiles
from ..layout.view import LayoutView
from ..panels.chat import ChatPanel
from ..screens.main import MainScreen
from .snapshot import WorkspaceFiles, WorkspaceSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import App

    from quarterdeck.config.places import Places
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext
    from ..fleet_actions import ShowMessage
    from ..panels.kinds import PanelKind

__all__ = ["OpenWorkspace", "WorkspaceStore", "find_project_layouts"]

_SOON = 0.5
"""Seconds after which what is open is on disk."""


class WorkspaceStore:
    """The files: what is open in each directory, and the layouts that have a name.

    Args:
        places: where files are; None: nothing is read or saved.
    """

    def __init__(self, places: "Places | None") -> None:
        self._places = places
        state = places.state / "workbench" / "workspaces" if places is not None else None
        self.workspaces = WorkspaceFiles(state)
        self.layouts = LayoutFiles(places.config / "layouts" if places is not None else None)

    def find_project(self, cwd: str) -> None:
        """Look for the layouts of a project, which count if the person trusts it. Blocks."""
        if self._places is not None:
            project = find_project_layouts(self._places, Path(cwd))
            self.layouts = LayoutFiles(self._places.config / "layouts", project)


def find_project_layouts(places: "Places", cwd: Path) -> Path | None:
    """The folder for layouts of a project that the person trusts. Blocks."""
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.config.workspace import FOLDER, find_workspace
    from quarterdeck.wire.errors import QuarterdeckError

    with suppress(OSError, QuarterdeckError):
        workspace = find_workspace(cwd)
        if TrustStore(places.trust_file).is_trusted(workspace.project):
            return workspace.project / FOLDER / "layouts"
    return None


class OpenWorkspace:
    """What is open now: the main screen with its layout, and the selected agent.

    Args:
        app: runs timers and workers.
        context: knows the directory and the selected agent.
        kinds: the widgets that layouts can name.
        store: the files. They are read here, so that making one blocks.
        show_message: shows what went wrong.
    """

    def __init__(
        self,
        app: "App[None]",
        context: "WorkbenchContext",
        kinds: "Mapping[str, PanelKind]",
        store: WorkspaceStore,
        show_message: "ShowMessage",
    ) -> None:
        self._app = app
        self._app_context = context
        self._kinds = kinds
        self._store = store
        self._show_message = show_message
        self._is_save_due = False
        self._saving = asyncio.Lock()
        snapshot = store.workspaces.load(context.cwd, kinds)
        self.notice = snapshot.notice
        """What the person should know about how the files were read."""
        self._selected = snapshot.shown
        """The agent that was selected the last time, until the agents are known."""
        self._focus = snapshot.focus
        self._is_known = False
        view = LayoutView(context, kinds, snapshot.layout, states=snapshot.states, tab=snapshot.tab)
        view.base = snapshot.base or snapshot.layout
        self.main = MainScreen(context, view)

    # Saving

    def save_soon(self) -> None:
        """Something has changed; it is on disk soon."""
        if not self._is_save_due:
            self._is_save_due = True
            # Not a coroutine: a worker that never starts, because we end, must not have made one.
            self._app.set_timer(_SOON, lambda: self._app.run_worker(self._save_in_background))

    async def save(self) -> None:
        """Save what is open now; if the disk refuses, the next change reports it."""
        with suppress(OSError):
            await self._save()

    def capture(self) -> WorkspaceSnapshot:
        """The layout and everything beside it that is saved."""
        view = self.main.view
        return WorkspaceSnapshot(
            layout=view.spec,
            base=view.base if view.base != view.spec else None,
            tab=view.tab,
            focus=view.current,
            shown=self._app_context.shown,
            states=view.remember(),
        )

    def capture_panels(self) -> None:
        """Ask the panels what to remember, before they are removed."""
        if self.main.is_running:
            self.main.view.remember()

    async def _save(self) -> None:
        self._is_save_due = False
        snapshot = self.capture()
        async with self._saving:
            await asyncio.to_thread(self._store.workspaces.save, self._app_context.cwd, snapshot)

    async def _save_in_background(self) -> None:
        try:
            await self._save()
        except OSError as error:
            self._show_message(f"cannot save the open panels: {error}", True)

    # Restoring

    def restore_selected(self) -> None:
        """Select the agent that was selected the last time, or the first, if none is."""
        context = self._app_context
        is_first, self._is_known = not self._is_known, True
        if context.is_home or context.roster.find(context.shown) is not None:
            return
        if not context.roster.agents:
            return
        wanted = context.find_session(self._selected) if self._selected else None
        if is_first and self._is_quiet(wanted):
            context.go_home()
            return
        self._selected = None
        context.select(wanted or context.roster.agents[0].session)

    def _is_quiet(self, wanted: "SessionId | None") -> bool:
        """Whether nothing runs, has failed or is half written: the home screen offers the rest."""
        context = self._app_context
        if wanted is not None and context.drafts.get(wanted):
            return False
        over = ("idle", "done", "interrupted", "killed")
        return not any(one.is_live or one.state not in over for one in context.roster.agents)

    def restore_focus(self) -> None:
        """Give the focus to the panel that had it the last time."""
        focus, self._focus = self._focus, None
        if focus is not None and not self.main.chat.text:
            self.main.view.enter(focus)

    async def move(self, cwd: str, *, force: bool = False) -> None:
        """Go to another directory: what was open there is shown; agents keep running.

        Raises:
            UnsavedPanelsError: something would be lost; nothing has changed.
        """
        await self.save()
        snapshot = await asyncio.to_thread(self._store.workspaces.load, cwd, self._kinds)
        context, view = self._app_context, self.main.view
        before, context.cwd = context.cwd, cwd
        try:
            await view.move(snapshot.layout, tab=snapshot.tab, states=snapshot.states, force=force)
        except QuarterdeckError:
            context.cwd = before
            raise
        view.base = snapshot.base or snapshot.layout
        context.move(cwd)
        view.enter(snapshot.focus)
        if (session := context.find_session(snapshot.shown or "")) is not None:
            context.select(session)
        if snapshot.notice is not None:
            self._show_message(snapshot.notice, True)
        await asyncio.to_thread(self._store.find_project, cwd)

    async def show_agent(self, session: "SessionId", seq: int | None = None) -> None:
        """Go to the chat that has an agent of its own, or select it for the chat that follows."""
        view = self.main.view
        chats = {n: p for n, p in view.panels.items() if isinstance(p, ChatPanel)}
        own = [n for n, p in chats.items() if p.session == session and not p.follows]
        following = [n for n, p in chats.items() if p.follows]
        if not own:
            self._app_context.select(session)
        target = next(iter([*own, *following]), None)
        if target is None:
            return
        await view.show_panel(target)
        chats[target].enter()
        if seq is not None:
            chats[target].go_to(seq)
