"""What is open in a directory: saved when it changes, and restored at the next start."""

import asyncio
from contextlib import suppress
from functools import partial
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

    def finish_first_frame(self) -> None:
        """Have the looks of everything, and focus the panel that had the focus the last time."""
        self.main.add_late_styles()
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
        view, target = self.main.view, self._choose_chat(session)
        if target is None:
            return
        await view.show_panel(target)
        chat = view.panels[target]
        chat.enter()
        if seq is not None and isinstance(chat, ChatPanel):
            chat.go_to(seq)

    def go_to_agent(self, session: "SessionId") -> None:
        """Like ``show_agent``; at once where the chat is on the screen: the next key is for it."""
        view, target = self.main.view, self._choose_chat(session)
        if target is not None and target in view.plan.panels:
            view.panels[target].enter()
        elif target is not None:
            self._app.run_worker(partial(self.show_agent, session))

    def go_to_number(self, number: int) -> None:
        """Go to an agent by its number in the list; the home screen has numbers of its own."""
        panel, agents = self.main.panel, self._app_context.roster.agents
        if panel.is_home and panel.home is not None and panel.home.choose(str(number)):
            return
        if number <= len(agents):
            self.go_to_agent(agents[number - 1].session)

    def go_beside(self, step: int) -> None:
        """Select the agent so many rows further in the list, or go to the panel that has it."""
        context, is_other = self._app_context, self.main.panel.options.other
        session = context.roster.beside(context.focused if is_other else context.shown, step)
        if session is not None and (is_other or context.places.has(session)):
            self.go_to_agent(session)
        elif session is not None:
            context.select(session)

    def _choose_chat(self, session: "SessionId") -> str | None:
        """The chat that has an agent of its own, or one that follows, for which it is selected;
        of several the one that was used last. None: there is none.
        """
        view = self.main.view
        chats = {n: p for n, p in view.panels.items() if isinstance(p, ChatPanel)}
        names = sorted(chats, key=lambda name: name != view.current)
        own = [n for n in names if chats[n].session == session and not chats[n].follows]
        if not own:
            self._app_context.select(session)
        following = [n for n in names if chats[n].follows]
        return next(iter([*own, *following]), None)
