"""The application's workspace: what is open in a directory, saved when it changes and restored
at the next start.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on
from textual.binding import Binding, BindingType

from quarterdeck.wire.errors import QuarterdeckError

from ..custom_widgets.kinds import all_kinds
from ..keyboard import KeyboardApp
from ..layout.edit import ResizeDirection
from ..layout.files import LayoutFiles
from ..layout.spec import panels_of
from ..layout.view import LayoutView
from ..panels.chat import ChatPanel
from ..panels.panel import Panel
from ..remote_control.api import ScreenCallSpec, ScreenController
from ..screens.main import MainScreen
from .snapshot import WorkspaceFiles, WorkspaceSnapshot

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext
    from ..panels.kinds import PanelKind

__all__ = [
    "LAYOUT_BINDINGS",
    "LAYOUT_KEYS",
    "WorkspaceApp",
    "WorkspaceStore",
    "find_project_layouts",
]

_SOON = 0.5
"""Seconds after which what is open is on disk."""


class WorkspaceStore:
    """Knows the files, and when to write them.

    Args:
        places: where files are; None: nothing is read or kept.
    """

    def __init__(self, places: "Places | None") -> None:
        self._places = places
        state = places.state / "workbench" / "workspaces" if places is not None else None
        self.workspaces = WorkspaceFiles(state)
        self.layouts = LayoutFiles(places.config / "layouts" if places is not None else None)
        self._is_due = False
        self._writing = asyncio.Lock()

    def find_project(self, cwd: str) -> None:
        """Look for the layouts of a project, which count if the person trusts it. Blocks."""
        if self._places is not None:
            project = find_project_layouts(self._places, Path(cwd))
            self.layouts = LayoutFiles(self._places.config / "layouts", project)

    def changed(self, app: "WorkspaceApp") -> None:
        """Something to keep has changed; it is on disk soon."""
        if not self._is_due:
            self._is_due = True
            # A worker that never begins, because we end, must not have begun a coroutine either.
            save = partial(self._save_told, app)
            app.set_timer(_SOON, lambda: app.run_worker(save))

    async def save(self, app: "WorkspaceApp") -> None:
        """Keep what is open now.

        Raises:
            OSError: it cannot be written.
        """
        self._is_due = False
        opened = capture_workspace(app)
        async with self._writing:
            await asyncio.to_thread(self.workspaces.save, app.desk.cwd, opened)

    async def _save_told(self, app: "WorkspaceApp") -> None:
        try:
            await self.save(app)
        except OSError as error:
            app.tell(f"cannot save the open panels: {error}", True)


def capture_workspace(app: "WorkspaceApp") -> WorkspaceSnapshot:
    """The layout and everything beside it that is kept."""
    view = app.main.view
    return WorkspaceSnapshot(
        layout=view.spec,
        base=view.base if view.base != view.spec else None,
        tab=view.tab,
        focus=view.current,
        shown=app.desk.shown,
        states=view.remember(),
    )


def find_project_layouts(places: "Places", cwd: Path) -> Path | None:
    """The folder for layouts of a project that the person trusts. Blocks."""
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.config.workspace import FOLDER, find_workspace
    from quarterdeck.wire.errors import QuarterdeckError

    with suppress(OSError, QuarterdeckError):
        root = find_workspace(cwd).root
        if TrustStore(places.trust_file).is_trusted(root):
            return root / FOLDER / "layouts"
    return None


def _load_screen_calls() -> Mapping[str, ScreenCallSpec]:
    from ..remote_control.calls import SCREEN_CALLS

    return SCREEN_CALLS


LAYOUT_BINDINGS: list[BindingType] = [
    # With priority, as all that move the focus: a key that comes right after is for the new place.
    Binding("f4", "cycle(1)", "focus the next panel", priority=True),
    Binding("shift+f4,f16", "cycle(-1)", "focus the previous panel", priority=True),
    Binding("f5", "command('layouts')", "choose a layout"),
    # With priority: an input would select by these.
    Binding("f6", "tab(-1)", "previous tab", priority=True),
    Binding("f7", "tab(1)", "next tab", priority=True),
    Binding("ctrl+w", "command('close-panel')", "close the focused panel"),
    Binding("alt+left", "resize('left')", "resize the focused panel"),
    Binding("alt+right", "resize('right')", "resize the focused panel"),
    Binding("alt+shift+up", "resize('up')", "resize the focused panel"),
    Binding("alt+shift+down", "resize('down')", "resize the focused panel"),
]
LAYOUT_KEYS = frozenset({"cycle", "tab", "resize"})
"""Actions that count on the main screen alone."""


class WorkspaceApp(KeyboardApp):
    """Shows what was open in the directory the last time, and keeps what is open now.

    Args:
        desk: the fleet and what is known of it. Reads files, so that making one blocks.
    """

    def __init__(self, desk: "WorkbenchContext") -> None:
        super().__init__(desk.looks)
        self.desk = desk
        self.kinds: Mapping[str, PanelKind] = all_kinds(desk)
        """The widgets that layouts can name; custom ones come to the built-in."""
        self.keeping = WorkspaceStore(desk.ground.places)
        self._deeds: set[Coroutine[Any, Any, object]] = set()
        """What was given to be done and has not begun."""
        self.screens_desk = ScreenController(self, _load_screen_calls)
        opened = self.keeping.workspaces.load(desk.cwd, self.kinds)
        if opened.notice is not None:
            desk.looks.problems.append(opened.notice)
        self._wanted = opened.shown
        """The agent that was selected the last time, until the agents are known."""
        self._focus: str | None = opened.focus
        view = LayoutView(desk, self.kinds, opened.layout, states=opened.states, tab=opened.tab)
        view.base = opened.base or opened.layout
        self.main = MainScreen(desk, view)

    def tell(self, words: str, is_bad: bool = False) -> None:
        """Show a line for some time."""
        raise NotImplementedError

    async def run_command(self, name: str, words: str) -> None:
        """Do a command that has a function of its own, and wait for it."""
        raise NotImplementedError

    def work(self, deed: Coroutine[Any, Any, object]) -> None:
        """Do something while the screen goes on; what goes wrong is told."""
        self._deeds.add(deed)
        self.run_worker(partial(self._told, deed))

    async def _told(self, deed: Coroutine[Any, Any, object]) -> None:
        self._deeds.discard(deed)
        try:
            await deed
        except QuarterdeckError as error:
            self.tell(str(error), True)

    # What is open

    @on(Panel.Altered)
    @on(LayoutView.Changed)
    def _layout_changed(self) -> None:
        self.keeping.changed(self)

    @on(LayoutView.TabWanted)
    def _tab_wanted(self) -> None:
        self.work(self.screens_desk.call("open_tab", {}))

    @on(LayoutView.TabClosed)
    def _tab_closed(self, event: LayoutView.TabClosed) -> None:
        self.action_command("tab", f"close {event.tab + 1}")

    @on(Panel.FileWanted)
    def _file_wanted(self, event: Panel.FileWanted) -> None:
        wish = {"path": event.path, "line": event.line, "how": event.how}
        self.work(self.screens_desk.call("open_file", wish))

    @on(Panel.AgentWanted)
    def _agent_wanted(self, event: Panel.AgentWanted) -> None:
        self.work(self.show_agent(event.session, event.seq))

    def action_cycle(self, step: int) -> None:
        """Focus the next panel."""
        self.main.view.cycle(step)

    def action_tab(self, step: int) -> None:
        """Show the next tab."""
        self.work(self.main.view.show_tab(self.main.view.tab + step))

    def action_resize(self, way: ResizeDirection) -> None:
        """Move the line beside the panel with the focus."""
        self.work(self.main.view.resize_panel(way))

    def action_go(self, place: str) -> None:
        """Move the focus to a panel of a kind, or back to the input.

        At once where it is on the screen: the next key is meant for it already.
        """
        view = self.main.view
        if place == "transcript":
            at_it = self.main.transcript.has_focus
            self.main.set_focus(self.main.chat if at_it else self.main.transcript)
            return
        found = [n.id for n in panels_of(view.spec) if n.widget == place]
        shown = [panel for panel in found if panel in view.plan.panels and panel in view.panels]
        if any(view.panels[panel].has_focus_within for panel in shown):
            self.main.panel.enter()
        elif shown:
            view.enter(shown[0])
        elif found:
            self.work(view.show_panel(found[0]))
        else:
            self.tell(f"no {place} panel is open; /open {place} opens one", True)

    async def show_agent(self, session: "SessionId", seq: int | None = None) -> None:
        """Go to the chat that has an agent of its own, or select it for the chat that follows."""
        view = self.main.view
        chats = {n: p for n, p in view.panels.items() if isinstance(p, ChatPanel)}
        own = [n for n, p in chats.items() if p.session == session and not p.follows]
        following = [n for n, p in chats.items() if p.follows]
        if not own:
            self.desk.select(session)
        target = next(iter([*own, *following]), None)
        if target is None:
            return
        await view.show_panel(target)
        chats[target].enter()
        if seq is not None:
            chats[target].go_to(seq)

    # Over restarts and directories

    def restore_selected(self) -> None:
        """Select the agent that was selected the last time, or the first, if none is."""
        if self.desk.roster.find(self.desk.shown) is not None or not self.desk.roster.agents:
            return
        wanted = self.desk.find_session(self._wanted) if self._wanted else None
        self._wanted = None
        self.desk.select(wanted or self.desk.roster.agents[0].session)

    def restore_focus(self) -> None:
        """Give the focus to the panel that had it the last time."""
        focus, self._focus = self._focus, None
        if focus is not None and not self.main.chat.text:
            self.main.view.enter(focus)

    def exit(self, *given: Any, **named: Any) -> None:
        """Leave; panels are asked now what to remember, as they are taken down first."""
        if self.main.is_running:
            self.main.view.remember()
        super().exit(*given, **named)

    async def on_unmount(self) -> None:
        """Keep what is open; what was about to begin does not."""
        for deed in self._deeds:
            deed.close()
        await self.keep()

    async def keep(self) -> None:
        """Put what is open on disk now; a disk that refuses is told at the next change."""
        with suppress(OSError):
            await self.keeping.save(self)

    async def move(self, cwd: str, *, force: bool = False) -> None:
        """Go to another directory: what was open there is shown; agents go on.

        Raises:
            UnsavedPanelsError: something would be lost; nothing has changed.
        """
        await self.keep()
        opened = await asyncio.to_thread(self.keeping.workspaces.load, cwd, self.kinds)
        view = self.main.view
        before, self.desk.cwd = self.desk.cwd, cwd
        try:
            await view.move(opened.layout, tab=opened.tab, states=opened.states, force=force)
        except QuarterdeckError:
            self.desk.cwd = before
            raise
        view.base = opened.base or opened.layout
        self.desk.move(cwd)
        view.enter(opened.focus)
        if (session := self.desk.find_session(opened.shown or "")) is not None:
            self.desk.select(session)
        if opened.notice is not None:
            self.tell(opened.notice, True)
        await asyncio.to_thread(self.keeping.find_project, cwd)
        await self._dress_for(cwd)

    async def _dress_for(self, cwd: str) -> None:
        """Put on the colours that were chosen for a directory."""
        from ..preferences.store import load_preferences
        from ..preferences.themes.apply import ThemeError, apply_theme

        places, environment = self.desk.ground.places, self.desk.ground.environment
        if places is None:
            return
        looks = await asyncio.to_thread(load_preferences, places, cwd, environment)
        self.looks.cwd, self.looks.project = cwd, looks.project
        if looks.theme is not None and looks.theme != self.looks.theme:
            try:
                apply_theme(self, looks.theme)
            except ThemeError as error:
                self.tell(str(error), True)
            else:
                self.looks.theme = looks.theme
