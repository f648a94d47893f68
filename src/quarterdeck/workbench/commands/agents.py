"""Commands for agents: sort and filter the table, retry, start fresh, install, log in."""

import asyncio
from typing import TYPE_CHECKING

from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError

from ..rendering.agent_rows import COLUMNS
from ..stores.roster import GROUPS, SORTS
from ..widgets.agent_table import AgentTable

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo

    from ..app import Workbench
    from ..stores.discovery import DiscoveredAgent

__all__ = [
    "AgentTableError",
    "choose_columns",
    "copy_install_command",
    "filter_agents",
    "go_to_agent",
    "group_agents",
    "log_in_agent",
    "retry_agent",
    "sort_agents",
    "start_fresh_agent",
    "toggle_directory_filter",
]


class AgentTableError(QuarterdeckError):
    """A column or an agent that there is not."""


def go_to_agent(app: "Workbench", words: str) -> None:
    """Show an agent by its number in the list, or by its name. Raises AgentTableError."""
    agents, wanted = app.context.roster.agents, words.strip()
    session = app.context.find_session(wanted) if wanted else None
    if session is None and wanted.isdecimal() and 0 < int(wanted) <= len(agents):
        session = agents[int(wanted) - 1].session
    if session is None:
        raise AgentTableError(f"no agent {wanted!r} in the list, which has {len(agents)}")
    app.workspace.go_to_agent(session)


async def sort_agents(app: "Workbench", words: str) -> None:
    """Sort the agents; a minus before the name turns it round. Raises AgentTableError."""
    by = words.strip().removeprefix("-")
    if by not in SORTS:
        raise AgentTableError(f"cannot sort by {by!r}; choose one of {', '.join(SORTS)}")
    app.context.roster.sort(by, is_reversed=words.strip().startswith("-"))
    app.preferences.choices.sort = words.strip()
    await _keep(app)


async def group_agents(app: "Workbench", words: str) -> None:
    """Group the agents; by what comes next where nothing is named. Raises AgentTableError."""
    by = words.strip()
    if not by:
        by = GROUPS[(GROUPS.index(app.context.roster.query.group) + 1) % len(GROUPS)]
        app.show_message(f"grouped by {by}" if by != "none" else "not grouped")
    if by not in GROUPS:
        raise AgentTableError(f"cannot group by {by!r}; choose one of {', '.join(GROUPS)}")
    app.context.roster.group(by)
    app.preferences.choices.group = by
    await _keep(app)


def filter_agents(app: "Workbench", words: str) -> None:
    """Show only agents with these words."""
    app.context.roster.seek(words.strip())


async def choose_columns(app: "Workbench", words: str) -> None:
    """Choose the columns of the agents. Raises AgentTableError."""
    names = tuple(words.replace(",", " ").split())
    for name in names:
        if name not in COLUMNS:
            raise AgentTableError(f"no column {name!r}; choose from {', '.join(COLUMNS)}")
    for table in app.main.query(AgentTable):
        table.columns = names
        table.update()
    app.preferences.choices.columns = names
    await _keep(app)


def toggle_directory_filter(app: "Workbench", _: str) -> None:
    """Show only agents of the directory of the workbench, or all."""
    roster = app.context.roster
    roster.narrow(app.context.cwd if roster.query.within is None else None)


async def _keep(app: "Workbench") -> None:
    try:
        await asyncio.to_thread(app.preferences.save)
    except OSError as error:
        app.show_message(f"cannot save this choice: {error}", True)


async def retry_agent(app: "Workbench", words: str) -> None:
    """Start the agent in view again; its prompt, if that was not heard, comes with it."""
    agent = app.context.agent
    if agent is None:
        app.show_message("reconnecting to the host")
        app.feed.start_host()
    elif agent.is_live and agent.state == "failed":
        await _send_again(app, agent)
    elif agent.is_live or agent.state == "starting":
        app.show_message(f"{agent.name} is running; there is nothing to retry")
    elif agent.can_resume:
        await app.context.fleet.resume(agent.session)
        app.show_message(f"restarting {agent.name}")
        app.feed.refresh()
    else:
        await start_fresh_agent(app, words)


async def start_fresh_agent(app: "Workbench", words: str) -> None:
    """An agent like the one in view, without its past; that one is put away.

    What it was sent last is put into the input: it may be what it failed at.
    """
    del words
    agent = app.context.agent
    if agent is None:
        app.show_message("no agents yet; press ctrl+t to start one", True)
        return
    from quarterdeck.fleet.api import SpawnOptions
    from quarterdeck.wire.session_options import SessionOptions

    fleet = app.context.fleet
    prompts = _prompts(app, agent)
    options = SpawnOptions(
        options=SessionOptions(
            agent=agent.agent,
            cwd=agent.cwd,
            mode=agent.mode,
            model=agent.model if agent.agent == "native" else None,
        ),
        name=agent.name,
    )
    await fleet.archive(agent.session)
    try:
        info = await fleet.spawn(options)
    except QuarterdeckError:
        await fleet.archive(agent.session, archived=False)
        raise
    if prompts:
        app.context.drafts.put(info.session, prompts[-1])
    app.feed.refresh()
    app.main.show_agent(info.session)
    app.show_message(
        f"started a new session for {agent.name}; the old one is archived, see /archived"
    )


def copy_install_command(app: "Workbench", words: str) -> None:
    """Copy the command that installs the agent in view, or the one that is named."""
    found = _found(app, words)
    if found is None or not found.install:
        app.show_message("no install command known for this agent; see /doctor", True)
        return
    app.copy_to_clipboard(found.install)
    app.show_message(f"copied: {found.install}")


async def log_in_agent(app: "Workbench", words: str) -> None:
    """Log in to the agent in view, or the one that is named.

    In a terminal, by one of the ways that the agent offers; where it offers none, tell how.
    """
    found, agent = _found(app, words), app.context.agent
    if found is not None and found.offers_logins:
        from quarterdeck.drivers.agent_description import SELF, expand_command

        command = list(expand_command((SELF, "login", found.name)))
        options = {"cwd": app.context.cwd, "command": command}
        await app.screen_controller.call("open_panel", {"widget": "terminal", "options": options})
        app.show_message(f"choose how to log in to {found.title}, then press ctrl+r to retry")
        return
    from ..screens.dialogs import ReadingScreen

    name = found.title if found is not None else words or (agent.agent if agent else "an agent")
    hint = found.login_hint if found is not None else ""
    steps = [
        ("1", hint or "start the program in a terminal and follow its login"),
        ("", "/terminal opens a shell here, /terminal COMMAND runs a program"),
        ("2", "close this and press ctrl+r to retry"),
    ]
    app.push_screen(ReadingScreen(f"log in to {name}", [("How", steps)]))


async def _send_again(app: "Workbench", agent: "AgentInfo") -> None:
    prompts = _prompts(app, agent)
    if not prompts:
        app.show_message(f"{agent.name} has no prompt to resend; type one", True)
        return
    await app.context.fleet.send(agent.session, (text(prompts[-1]),))
    app.show_message("resent the last prompt")


def _prompts(app: "Workbench", agent: "AgentInfo") -> list[str]:
    from quarterdeck.wire.event_text import describe_content

    sent = app.context.pages.store(agent.session).prompts()
    waiting = [" ".join(map(describe_content, queued.content)) for queued in agent.queue]
    return [*sent, *waiting]


def _found(app: "Workbench", words: str) -> "DiscoveredAgent | None":
    agent, found = app.context.agent, app.context.discovery.found
    name = words or (agent.agent if agent is not None else "")
    return found.agent(name) if found is not None else None
