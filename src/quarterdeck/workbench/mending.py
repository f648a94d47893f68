"""What can be done about an agent that failed: try again, begin anew, install it, log in."""

from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo

    from .app import Workbench
    from .stores.ground import FoundAgent

__all__ = ["copy_install", "fresh", "log_in", "retry"]


async def retry(app: "Workbench", words: str) -> None:
    """Start the agent in view again; its prompt, if that was not heard, comes with it."""
    agent = app.desk.agent
    if agent is None:
        app.tell("looking for the host once more")
        app.feed.start_host()
    elif agent.is_live and agent.state == "failed":
        await _send_again(app, agent)
    elif agent.is_live or agent.state == "starting":
        app.tell(f"{agent.name} is at work; there is nothing to try again")
    elif agent.can_resume:
        await app.desk.fleet.resume(agent.session)
        app.tell(f"{agent.name} starts again")
        app.feed.refresh()
    else:
        await fresh(app, words)


async def fresh(app: "Workbench", words: str) -> None:
    """An agent like the one in view, without its past; that one is put away.

    What it was told last is put into the input: it may be what it failed at.
    """
    del words
    agent = app.desk.agent
    if agent is None:
        app.tell("there is no agent yet; ctrl+t starts one", True)
        return
    from quarterdeck.fleet.port import Spawn

    fleet = app.desk.fleet
    prompts = _prompts(app, agent)
    wish = Spawn(
        agent=agent.agent,
        cwd=agent.cwd,
        name=agent.name,
        mode=agent.mode,
        model=agent.model if agent.agent == "native" else None,
    )
    await fleet.archive(agent.session)
    try:
        info = await fleet.spawn(wish)
    except QuarterdeckError:
        await fleet.archive(agent.session, archived=False)
        raise
    if prompts:
        app.desk.drafts.put(info.session, prompts[-1])
    app.feed.refresh()
    app.main.show_agent(info.session)
    app.tell(f"{agent.name} begins anew; the old one is put away, /archived shows it")


def copy_install(app: "Workbench", words: str) -> None:
    """Copy the command that installs the agent in view, or the one that is named."""
    found = _found(app, words)
    if found is None or not found.install:
        app.tell("nobody knows how to install that; /doctor lists what is known", True)
        return
    app.copy_to_clipboard(found.install)
    app.tell(f"copied: {found.install}")


async def log_in(app: "Workbench", words: str) -> None:
    """Log in to the agent in view, or the one that is named.

    In a terminal, by one of the ways that the agent offers; where it offers none, tell how.
    """
    found, agent = _found(app, words), app.desk.agent
    if found is not None and found.offers_logins:
        from quarterdeck.drivers.description import SELF, expand

        command = list(expand((SELF, "login", found.name)))
        options = {"cwd": app.desk.cwd, "command": command}
        await app.screens_desk.call("open_panel", {"widget": "terminal", "options": options})
        app.tell(f"choose a way to log in to {found.title}; then ctrl+r tries again")
        return
    from .screens.reading import ReadingScreen

    name = found.title if found is not None else words or (agent.agent if agent else "an agent")
    hint = found.login_hint if found is not None else ""
    steps = [
        ("1", hint or "start its program in a terminal and follow it"),
        ("", "/terminal opens one here, /terminal COMMAND runs a program in it"),
        ("2", "close this and press ctrl+r: it is tried again"),
    ]
    app.push_screen(ReadingScreen(f"log in to {name}", [("How", steps)]))


async def _send_again(app: "Workbench", agent: "AgentInfo") -> None:
    from quarterdeck.wire.content import text

    prompts = _prompts(app, agent)
    if not prompts:
        app.tell(f"nobody said anything to {agent.name} yet; type it", True)
        return
    await app.desk.fleet.send(agent.session, (text(prompts[-1]),))
    app.tell("sent again")


def _prompts(app: "Workbench", agent: "AgentInfo") -> list[str]:
    from .stores.contents import told

    said = app.desk.pages.store(agent.session).prompts()
    waiting = [" ".join(map(told, queued.content)) for queued in agent.queue]
    return [*said, *waiting]


def _found(app: "Workbench", words: str) -> "FoundAgent | None":
    agent, found = app.desk.agent, app.desk.ground.found
    name = words or (agent.agent if agent is not None else "")
    return found.agent(name) if found is not None else None
