"""A panel alone in an application of its own."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot

import quarterdeck.workbench
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.panels.kinds import KINDS
from quarterdeck.workbench.panels.panel import Panel
from quarterdeck.workbench.textual_fixes import use_reliable_textual

from .deadlines import SOON
from .memory_fleet import FakeFleet
from .screen_strips import render_screen

if TYPE_CHECKING:
    from quarterdeck.wire.clock import WallClock

__all__ = ["Alone", "alone", "desk_in", "shown", "until_shown"]


class Alone(App[None]):
    """One panel, and what it asks of the workbench."""

    CSS_PATH = [  # noqa: RUF012 - as Textual has it
        Path(quarterdeck.workbench.__file__).with_name(name)
        for name in ("workbench.tcss", "late.tcss")
    ]

    def __init__(self, panel: Panel) -> None:
        use_reliable_textual()
        super().__init__()
        self.panel = panel
        self.wanted: list[Panel.FileWanted] = []

    def compose(self) -> ComposeResult:
        yield self.panel

    @on(Panel.FileWanted)
    def _wanted(self, event: Panel.FileWanted) -> None:
        self.wanted.append(event)


def desk_in(cwd: Path, fleet: FakeFleet | None = None) -> WorkbenchContext:
    """Somebody's place in a directory."""
    drafts = Drafts(cwd.parent / "drafts")
    clock: WallClock = lambda: 1_000_000  # noqa: E731
    return WorkbenchContext(fleet=fleet or FakeFleet(), drafts=drafts, cwd=str(cwd), clock=clock)


@asynccontextmanager
async def alone(
    kind: str,
    desk: WorkbenchContext,
    options: dict[str, Any] | None = None,
    *,
    size: tuple[int, int] = (80, 24),
    state: dict[str, Any] | None = None,
) -> AsyncGenerator[tuple[Any, Alone, Pilot[None]]]:
    """A panel of a kind, with the focus."""
    made = await asyncio.to_thread(KINDS[kind].load)
    panel = made(desk, made.options_type(**(options or {})), id=kind)
    if state is not None:
        panel.recall(state)
    app = await asyncio.to_thread(Alone, panel)  # it reads its style sheet
    async with app.run_test(size=size) as pilot:
        panel.enter()
        await pilot.pause()
        yield panel, app, pilot


def shown(app: App[None]) -> str:
    """What stands on the screen, line by line."""
    lines = render_screen(app)
    return "\n".join(strip.text for strip in lines)


async def until_shown(app: App[None], pilot: Pilot[None], *words: str) -> str:
    """Wait until all of these are on the screen; gives the screen."""
    try:
        async with asyncio.timeout(SOON):
            while not all(word in shown(app) for word in words):
                await pilot.pause(0.02)
    except TimeoutError:
        missing = [word for word in words if word not in shown(app)]
        raise AssertionError(f"{missing} is not on the screen:\n{shown(app)}") from None
    return shown(app)
