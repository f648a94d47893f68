"""The first run: agents and API keys on this machine, workspace trust, and the demo.

Discovery starts no program and reads no key; it blocks on files.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

from .stores.discovery import DiscoveredAgent, MachineDiscovery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.config.places import Places
    from quarterdeck.drivers.agent_description import Agent
    from quarterdeck.drivers.probe import AgentInstallation
    from quarterdeck.fleet.api import Fleet

    from .command_app import CommandApp
    from .context import WorkbenchContext
    from .screens.dialogs import ReadingSection
    from .screens.trust import TrustScreen
    from .stores.discovery import DiscoveryStore
    from .widgets.chat_input import ChatInput

__all__ = [
    "answer_trust",
    "ask_trust",
    "clear_demo",
    "control_demo",
    "discover_and_ask_trust",
    "discover_machine",
    "offer_trust",
    "revoke_trust",
    "show_doctor",
]

_WELL_KNOWN = ("claude", "codex", "gemini", "opencode")
"""These are offered first where none is here."""


def discover_machine(places: "Places", environment: Mapping[str, str]) -> MachineDiscovery:
    """Every agent of the catalogue, and the keys whose variables are set."""
    from quarterdeck.drivers.catalogue import load_catalogue

    try:
        described = load_catalogue(places).agents.values()
    except QuarterdeckError:
        described = ()
    agents = [_look(agent, environment) for agent in described if agent.name != "native"]
    names = _key_names()
    return MachineDiscovery(
        agents=tuple(sorted(agents, key=_order)),
        keys=tuple(name for name in names if environment.get(name, "").strip()),
        key_names=names,
    )


def _look(agent: "Agent", environment: Mapping[str, str]) -> DiscoveredAgent:
    import shutil

    from quarterdeck.drivers.probe import login_state

    path = environment.get("PATH")
    programs = {reach.command[0] for reach in agent.transports.values()} | {agent.program}
    acp = agent.transports.get("acp")
    return DiscoveredAgent(
        name=agent.name,
        title=agent.title or agent.name,
        is_here=any(shutil.which(program, path=path) for program in programs if program),
        login=login_state(agent.login, environment),
        install=agent.install,
        login_hint=agent.login.hint,
        offers_logins=acp is not None and shutil.which(acp.command[0], path=path) is not None,
    )


def _order(agent: DiscoveredAgent) -> tuple[bool, int, str]:
    known = _WELL_KNOWN.index(agent.name) if agent.name in _WELL_KNOWN else len(_WELL_KNOWN)
    return not agent.is_here, known, agent.name


def _key_names() -> tuple[str, ...]:
    from quarterdeck.models.vendors import VENDORS

    def names() -> Iterable[str]:
        for vendor in VENDORS.values():
            if vendor.needs_key:
                yield from vendor.key_names
        yield from (vendor.token_name for vendor in VENDORS.values() if vendor.token_name)

    return tuple(dict.fromkeys(names()))


_CLEARING = 10.0
"""Seconds that clearing the demo away may take when the person leaves."""
_HOW = "demo runs it, demo keep keeps its project, demo end deletes it"


async def discover_and_ask_trust(app: "CommandApp") -> None:
    """Look for agents, keys and trust in a thread, and ask about trust if there is need to."""
    ground = app.desk.ground
    if ground.places is None:
        return

    ground.found = await asyncio.to_thread(discover_machine, ground.places, ground.environment)
    await _look_at_trust(app)
    app.desk.changed()
    _look_again_elsewhere(app)
    if ground.begins_demo:
        ground.begins_demo = False
        await _connected(app.desk)
        await control_demo(app, "")
    else:
        offer_trust(app)


def _look_again_elsewhere(app: "CommandApp") -> None:
    """Another directory is another project: look at that one's trust as well."""
    desk = app.desk
    seen = desk.cwd

    async def look_again() -> None:
        await _look_at_trust(app)
        desk.changed()
        offer_trust(app)

    def moved() -> None:
        nonlocal seen
        if desk.cwd != seen:
            seen = desk.cwd
            app.run_worker(look_again())

    desk.watch(moved)


def offer_trust(app: "CommandApp") -> None:
    """Ask whether the workspace is trusted, unless the person is busy, or has been asked."""
    known = app.desk.ground.trust
    if known is None or known.state != "untrusted" or known.is_unasked:
        return
    if len(app.screen_stack) > 1 or any(chat.text for chat in _inputs(app)):
        return
    from .screens.trust import TrustScreen

    app.push_screen(TrustScreen(known))


async def answer_trust(app: "CommandApp", event: "TrustScreen.Answered") -> None:
    """Do what the person decided; what was typed meanwhile goes to the input."""
    from .screens.trust import TrustScreen

    if isinstance(app.screen, TrustScreen):
        app.pop_screen()
    if event.typed and (inputs := _inputs(app)):
        next((chat for chat in inputs if chat.has_focus), inputs[0]).insert(event.typed)
    if event.answer == "trust":
        await _change_trust(app, "trust")
    elif event.answer == "never":
        await _change_trust(app, "leave_unasked")


async def ask_trust(app: "CommandApp", words: str) -> None:
    """Ask about this workspace now, whatever was answered before."""
    del words
    if _places(app) is None:
        return
    await _look_at_trust(app)
    known = app.desk.ground.trust
    if known is None:
        app.tell("cannot read the list of trusted directories; see /doctor", True)
    elif known.state == "trusted":
        app.tell(f"{known.root} is already trusted; /untrust revokes it")
    elif known.state == "plain":
        app.tell(f"{known.root} has no settings or instructions; nothing to trust")
    else:
        from .screens.trust import TrustScreen

        app.push_screen(TrustScreen(known))


async def revoke_trust(app: "CommandApp", words: str) -> None:
    """Trust this workspace no longer."""
    del words
    if _places(app) is not None:
        await _change_trust(app, "revoke")


async def show_doctor(app: "CommandApp", words: str) -> None:
    """Show every agent with its version, or how to get it, and the keys."""
    del words
    from .screens.dialogs import ReadingScreen

    ground = app.desk.ground
    if ground.places is None:
        return
    from quarterdeck.drivers.catalogue import load_catalogue
    from quarterdeck.drivers.probe import probe

    app.tell("checking …")
    catalogue = await asyncio.to_thread(load_catalogue, ground.places)
    agents = [agent for agent in catalogue.agents.values() if agent.name != "native"]
    states = await probe(agents, places=ground.places, environment=ground.environment)
    app.push_screen(ReadingScreen("agents and API keys on this machine", _found(states, ground)))


async def control_demo(app: "CommandApp", words: str) -> None:
    """Begin the demo, keep it, or clear it away."""
    from quarterdeck.fleet.demo import begin_demo, end_demo, keep_demo

    places, fleet = _places(app), app.desk.fleet
    if places is None:
        return
    match words:
        case "":
            app.tell("demo started: two agents in a scratch project")
            info = await begin_demo(fleet, places)
            app.desk.ground.demo = info.session
            app.feed.refresh()
            app.main.show_agent(info.session)
        case "keep":
            kept = await keep_demo(fleet, places)
            app.desk.ground.demo = None
            app.tell(f"kept: {', '.join(kept)}" if kept else "no demo to keep")
        case "end":
            count = await end_demo(fleet, places)
            app.desk.ground.demo = None
            app.feed.refresh()
            app.tell("deleted the demo" if count else "no demo is running")
        case _:
            app.tell(f"unknown argument {words!r}: {_HOW}", True)


async def clear_demo(ground: "DiscoveryStore", fleet: "Fleet") -> None:
    """Clear a demo away that was begun from here and not kept; for the end. Never raises."""
    from quarterdeck.fleet.demo import end_demo

    if ground.demo is None or ground.places is None:
        return
    with suppress(QuarterdeckError, OSError, TimeoutError):
        async with asyncio.timeout(_CLEARING):
            await end_demo(fleet, ground.places)


async def _connected(desk: "WorkbenchContext") -> None:
    """Wait for the host."""
    changed = asyncio.Event()
    stop = desk.watch(changed.set)
    try:
        while desk.host != "connected":
            changed.clear()
            await changed.wait()
    finally:
        stop()


def _inputs(app: "CommandApp") -> "list[ChatInput]":
    from .widgets.chat_input import ChatInput

    return list(app.screen_stack[0].query(ChatInput))


def _places(app: "CommandApp") -> "Places | None":
    return app.desk.ground.places


async def _look_at_trust(app: "CommandApp") -> None:
    """Look whether the workspace is trusted; its layouts are there if it is."""
    from quarterdeck.fleet.permissions.workspace_trust import inspect_workspace_trust

    ground = app.desk.ground
    assert ground.places is not None
    directory = Path(app.desk.cwd)
    try:
        ground.trust = await asyncio.to_thread(
            inspect_workspace_trust, ground.places, ground.environment, directory
        )
    except (QuarterdeckError, OSError):
        ground.trust = None
    await asyncio.to_thread(app.keeping.find_project, app.desk.cwd)


async def _change_trust(app: "CommandApp", how: str) -> None:
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.config.workspace import find_workspace

    ground = app.desk.ground
    assert ground.places is not None
    store = TrustStore(ground.places.trust_file)
    root = (await asyncio.to_thread(find_workspace, Path(app.desk.cwd))).root
    match how:
        case "trust":
            await asyncio.to_thread(store.trust, root)
            told = f"trusted {root}; new agents use its settings and instructions"
        case "leave_unasked":
            await asyncio.to_thread(store.leave_unasked, root)
            told = f"{root} is not trusted; you will not be asked again, use /trust to change it"
        case _:
            was = await asyncio.to_thread(store.revoke, root)
            told = f"{root} is {'no longer' if was else 'not'} trusted"
    app.tell(told)
    await _look_at_trust(app)
    app.desk.changed()


def _found(
    states: "Sequence[AgentInstallation]", ground: "DiscoveryStore"
) -> "list[ReadingSection]":
    logins = {"yes": "logged in", "no": "not logged in", "unknown": "login unknown"}
    here: list[tuple[str, str]] = []
    missing: list[tuple[str, str]] = []
    for state in states:
        agent = state.agent
        if not state.is_installed:
            missing.append((agent.name, agent.install or agent.website))
            continue
        facts = [state.version or state.problem or "version unknown", logins[state.login]]
        if state.login != "yes" and agent.login.hint:
            facts.append(agent.login.hint)
        here.append((agent.name, " · ".join(facts)))
    found = ground.found
    names = found.key_names if found is not None else ()
    are_set = found.keys if found is not None else ()
    keys = [(name, "set" if name in are_set else "not set") for name in names]
    return [
        ("Installed agents", here or [("none", "the native agent is built in")]),
        ("Not installed; how to install them", missing),
        ("API keys for the built-in agent, by variable", keys),
    ]
