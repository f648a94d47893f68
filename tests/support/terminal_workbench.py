"""A workbench with a terminal in it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.panels.terminal.panel import TerminalPanel
from quarterdeck.workbench.widgets.terminal import TerminalView

from .memory_fleet import FakeFleet
from .workbench_app import opened, screen_text, until

__all__ = ["LEAVE", "Seat", "echoing", "seated"]

LEAVE = "ctrl+backslash"


def echoing(first: str = "") -> str:
    """A program that shows each byte that it gets, after it has written something."""
    return f"stty raw -echo; printf '{first}ready\\r\\n'; exec cat -vt"


class Seat:
    """Somebody in front of a terminal."""

    def __init__(self, app: Workbench, pilot: Pilot[None], fleet: FakeFleet, home: Path) -> None:
        self.app, self.pilot, self.fleet, self.home = app, pilot, fleet, home

    @property
    def panel(self) -> TerminalPanel:
        return self.app.main.query(TerminalPanel).last()

    @property
    def view(self) -> TerminalView:
        return self.panel.view

    @property
    def text(self) -> str:
        """What the terminal shows, rows without their ends."""
        return self.view.page.text

    @property
    def screen(self) -> str:
        return screen_text(self.app)

    @property
    def is_fitted(self) -> bool:
        """Whether the terminal is as large as the panel."""
        screen, size = self.view.page.shown.screen, self.view.size
        return screen is not None and tuple(screen.size) == (size.width, size.height)

    async def run(self, command: str, *shown: str) -> None:
        """Open a terminal with a line of shell, and wait until it shows something."""
        self.app.action_command("terminal", command and f"{command} ;")
        await until(self.pilot, lambda: self.app.main.query(TerminalPanel))
        await self.until(*shown or ("ready",))
        await until(self.pilot, lambda: self.app.is_typed_through)
        # It is asked to be as large as the panel a moment later, which moves what stands there.
        await until(self.pilot, lambda: self.is_fitted)

    async def until(self, *words: str) -> None:
        """Wait until the terminal shows these."""
        try:
            await until(self.pilot, lambda: all(word in self.text for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} in\n{self.screen}") from None

    async def shows(self, *words: str) -> None:
        """Wait until the whole screen shows these."""
        try:
            await until(self.pilot, lambda: all(word in self.screen for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} in\n{self.screen}") from None

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)


@asynccontextmanager
async def seated(home: Path, size: tuple[int, int] = (100, 30)) -> AsyncGenerator[Seat]:
    """A workbench over a fleet whose terminals run programs; they are ended with it."""
    fleet = FakeFleet()
    try:
        async with opened(fleet, home / "drafts", size) as (app, pilot):
            app.context.cwd = str(home)
            yield Seat(app, pilot, fleet, home)
    finally:
        await fleet.stop()
