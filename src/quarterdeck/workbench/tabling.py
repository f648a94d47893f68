"""What a person does with the table of agents, and through it."""

import asyncio
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

from .rendering.agents import COLUMNS
from .stores.ordering import SORTS
from .widgets.agents import AgentTable

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

    from .app import Workbench

__all__ = ["BadTable", "columns", "do", "here", "narrow", "sort"]


class BadTable(QuarterdeckError):
    """A column that there is not."""


async def do(app: "Workbench", session: "SessionId", name: str) -> None:
    """Do a command to an agent, asking first where there is no way back."""
    from .commands import find_command
    from .screens.ask_line import AskLine
    from .screens.confirm import ConfirmScreen

    agent = app.desk.roster.find(session)
    found = find_command(f"/{name}")
    if name == "here":
        here(app, "")
    if agent is None or found is None or found[0].deed is None:
        return
    words = ""
    if name == "kill" and not await app.push_screen_wait(
        ConfirmScreen(f"kill {agent.name}", "It ends now, with all its processes and children.")
    ):
        return
    if name == "rename":
        words = await app.push_screen_wait(AskLine("new name", agent.name)) or ""
        if not words:
            return
    await app.steering.do(found[0], agent, words)


async def sort(app: "Workbench", words: str) -> None:
    """Sort the agents; a minus before the name turns it round. Raises BadTable."""
    by = words.strip().removeprefix("-")
    if by not in SORTS:
        raise BadTable(f"agents cannot be sorted by {by!r}; one of {', '.join(SORTS)}")
    app.desk.roster.sort(by, is_reversed=words.strip().startswith("-"))
    app.looks.choices.sort = words.strip()
    await _keep(app)


def narrow(app: "Workbench", words: str) -> None:
    """Show only agents with these words."""
    app.desk.roster.seek(words.strip())


async def columns(app: "Workbench", words: str) -> None:
    """Choose the columns of the agents. Raises BadTable."""
    names = tuple(words.replace(",", " ").split())
    for name in names:
        if name not in COLUMNS:
            raise BadTable(f"there is no column {name!r}; {', '.join(COLUMNS)}")
    for table in app.main.query(AgentTable):
        table.columns = names
        table.update()
    app.looks.choices.columns = names
    await _keep(app)


def here(app: "Workbench", _: str) -> None:
    """Show only agents of the directory of the workbench, or all."""
    roster = app.desk.roster
    roster.narrow(app.desk.cwd if roster.wish.within is None else None)


async def _keep(app: "Workbench") -> None:
    try:
        await asyncio.to_thread(app.looks.save)
    except OSError as error:
        app.tell(f"the choice cannot be kept: {error}", True)
