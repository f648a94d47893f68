"""A workbench over a fleet in memory, without a terminal."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.errors import NoHostError
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, Prompted, ThoughtChunk, TurnStarted
from quarterdeck.wire.ids import SessionId, new_message_id, new_turn_id
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.context import WorkbenchContext
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.preferences.store import Preferences

from .deadlines import SOON
from .memory_fleet import FakeFleet
from .screen_strips import render_screen

__all__ = ["SIZES", "LostFleet", "begin", "opened", "say", "screen_text", "think", "until"]

SIZES = [(80, 24), (120, 40), (200, 50)]


class LostFleet(FakeFleet):
    """A fleet whose host can go away and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.is_gone = False

    async def reach(self, starts: bool) -> None:
        del starts
        if self.is_gone:
            raise NoHostError("no host is running")

    async def lose(self) -> None:
        self.is_gone = True
        async with self.changed:
            self.changed.notify_all()

    async def follow(self, after: int | None = None, *, agent: str | None = None):
        position = len(self.records) if after is None else after
        while True:
            async with self.changed:
                await self.changed.wait_for(
                    lambda at=position: self.is_gone or len(self.records) > at
                )
            if self.is_gone:
                raise NoHostError("the host went away")
            for record in self.records[position:]:
                position = record.seq
                yield record


@asynccontextmanager
async def opened(
    fleet: FakeFleet,
    drafts: Path,
    size: tuple[int, int] = (80, 24),
    *,
    looks: Preferences | None = None,
) -> AsyncGenerator[tuple[Workbench, Pilot[None]]]:
    """The workbench at a size, connected."""

    async def there(starts: bool) -> None:
        del starts

    kept = Drafts(drafts)
    await asyncio.to_thread(kept.load)
    reach = fleet.reach if isinstance(fleet, LostFleet) else there
    desk = WorkbenchContext(fleet=fleet, drafts=kept, cwd="/work/project", clock=lambda: 1_000_000)
    desk.preferences = looks or desk.preferences
    app = await asyncio.to_thread(Workbench, desk, reach)  # it reads its style sheet
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: desk.roster.is_known)
        yield app, pilot


async def until(pilot: Pilot[None], holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(SOON):
        while not holds():
            await pilot.pause(0.01)
    await pilot.pause()


def screen_text(app: Workbench) -> str:
    """What stands on the screen, line by line."""
    lines = render_screen(app)
    # While the size changes, the app knows the new one before its screen.
    assert len(lines) <= max(app.size.height, app.screen.size.height)
    return "\n".join(strip.text for strip in lines)


async def begin(fleet: FakeFleet, name: str, prompt: str = "do it") -> SessionId:
    """An agent in the middle of a turn."""
    info = await fleet.spawn(
        SpawnOptions(options=SessionOptions(agent="claude", cwd="/work/project"), name=name)
    )
    fleet.open_turns[info.session] = new_turn_id()
    await fleet.append(info.session, Prompted(content=(text(prompt),), message=new_message_id()))
    await fleet.append(info.session, TurnStarted())
    return info.session


async def say(fleet: FakeFleet, session: SessionId, words: str) -> None:
    await fleet.append(session, MessageChunk(content=text(words)))


async def think(fleet: FakeFleet, session: SessionId, words: str) -> None:
    await fleet.append(session, ThoughtChunk(content=text(words)))
