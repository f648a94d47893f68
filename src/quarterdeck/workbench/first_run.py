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
    from collections.abc import Awaitable, Callable, Sequence

    from textual.app import App

    from quarterdeck.config.places import Places
    from quarterdeck.drivers.agent_description import Agent
    from quarterdeck.drivers.probe import AgentInstallation

    from .context import WorkbenchContext
    from .fleet_actions import ShowMessage
    from .screens.dialogs import ReadingSection
    from .screens.trust import TrustScreen
    from .stores.discovery import DiscoveryStore
    from .widgets.chat_input import ChatInput
    from .workspace.store import WorkspaceStore

__all__ = ["FirstRun", "discover_machine", "set_mode"]

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


def set_mode(places: "Places", mode: str) -> Path:
    """Write the mode into the person's settings; returns the file. Blocks.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    from quarterdeck.config.writer import write_user_setting

    return write_user_setting(places, ("mode",), mode)


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


class FirstRun:
    """What a person needs before the first agent: what is installed, trust, mode, the demo.

    Args:
        app: shows screens.
        context: the fleet and what is known of this machine.
        store: the layouts of a project count when it is trusted.
        run_command: runs a command by its name, with the words after it.
        show_message: shows a line.
    """

    def __init__(
        self,
        app: "App[None]",
        context: "WorkbenchContext",
        store: "WorkspaceStore",
        *,
        run_command: "Callable[[str, str], Awaitable[None]]",
        show_message: "ShowMessage",
    ) -> None:
        self._app = app
        self._app_context = context
        self._store = store
        self._run_command = run_command
        self._show_message = show_message
        self._watched_cwd: str | None = None

    async def discover(self) -> None:
        """Look for agents, keys and trust in a thread, and ask about trust if there is need to."""
        discovery = self._app_context.discovery
        if discovery.places is None:
            return

        discovery.found = await asyncio.to_thread(
            discover_machine, discovery.places, discovery.environment
        )
        await self._look_at_trust()
        self._app_context.changed()
        self._watch_directory()
        if discovery.demo is not None:
            await _connected(self._app_context)
            await self._run_command("demo", "begin")
        else:
            self.offer_trust()

    def _watch_directory(self) -> None:
        """Another directory is another project: look at that one's trust as well."""
        is_first, self._watched_cwd = self._watched_cwd is None, self._app_context.cwd
        if is_first:
            self._app_context.watch(self._check_directory)

    def _check_directory(self) -> None:
        if self._app_context.cwd != self._watched_cwd:
            self._watched_cwd = self._app_context.cwd
            self._app.run_worker(self._look_again)

    async def _look_again(self) -> None:
        await self._look_at_trust()
        self._app_context.changed()
        self.offer_trust()

    def offer_trust(self) -> None:
        """Ask whether the workspace is trusted, unless the person is busy, or has been asked."""
        known = self._app_context.discovery.trust
        if known is None or known.state != "untrusted" or known.is_unasked:
            return
        if len(self._app.screen_stack) > 1 or any(chat.text for chat in self._inputs()):
            return
        from .screens.trust import TrustScreen

        self._app.push_screen(TrustScreen(known))

    async def answer_trust(self, event: "TrustScreen.Answered") -> None:
        """Do what the person decided; what was typed meanwhile goes to the input."""
        from .screens.trust import TrustScreen

        if isinstance(self._app.screen, TrustScreen):
            self._app.pop_screen()
        if event.typed and (inputs := self._inputs()):
            next((chat for chat in inputs if chat.has_focus), inputs[0]).insert(event.typed)
        if event.answer == "trust":
            await self._change_trust("trust")
        elif event.answer == "never":
            await self._change_trust("leave_unasked")
        elif not event.typed:
            self._app_context.preferences.note_step("trust")
            self._app_context.changed()
            with suppress(OSError):
                await asyncio.to_thread(self._app_context.preferences.save)

    async def ask_trust(self) -> None:
        """Ask about this workspace now, whatever was answered before."""
        if self._app_context.discovery.places is None:
            return
        await self._look_at_trust()
        known = self._app_context.discovery.trust
        if known is None:
            self._show_message("cannot read the list of trusted directories; see /doctor", True)
        elif known.state == "trusted":
            self._show_message(f"{known.root} is already trusted; /untrust revokes it")
        elif known.state == "plain":
            self._show_message(f"{known.root} has no settings or instructions; nothing to trust")
        else:
            from .screens.trust import TrustScreen

            self._app.push_screen(TrustScreen(known))

    async def revoke_trust(self) -> None:
        """Trust this workspace no longer."""
        if self._app_context.discovery.places is not None:
            await self._change_trust("revoke")

    async def choose_mode(self, mode: str) -> None:
        """Let agents that start from now on have a mode. Raises QuarterdeckError."""
        places = self._app_context.discovery.places
        if places is not None:
            path = await asyncio.to_thread(set_mode, places, mode)
            self._show_message(f"new agents have mode {mode}; it is in {path}")

    async def show_doctor(self) -> None:
        """Show every agent with its version, or how to get it, and the keys."""
        from .screens.dialogs import ReadingScreen

        discovery = self._app_context.discovery
        if discovery.places is None:
            return
        from quarterdeck.drivers.catalogue import load_catalogue
        from quarterdeck.drivers.probe import probe

        self._show_message("checking …")
        catalogue = await asyncio.to_thread(load_catalogue, discovery.places)
        agents = [agent for agent in catalogue.agents.values() if agent.name != "native"]
        states = await probe(agents, places=discovery.places, environment=discovery.environment)
        self._app.push_screen(
            ReadingScreen("agents and API keys on this machine", _found(states, discovery))
        )

    def _inputs(self) -> "list[ChatInput]":
        from .widgets.chat_input import ChatInput

        return list(self._app.screen_stack[0].query(ChatInput))

    async def _look_at_trust(self) -> None:
        """Look whether the workspace is trusted; its layouts are there if it is."""
        from quarterdeck.fleet.permissions.workspace_trust import inspect_workspace_trust

        discovery = self._app_context.discovery
        assert discovery.places is not None
        directory = Path(self._app_context.cwd)
        try:
            discovery.trust = await asyncio.to_thread(
                inspect_workspace_trust, discovery.places, discovery.environment, directory
            )
        except (QuarterdeckError, OSError):
            discovery.trust = None
        await asyncio.to_thread(self._store.find_project, self._app_context.cwd)

    async def _change_trust(self, how: str) -> None:
        from quarterdeck.config.trust import TrustStore
        from quarterdeck.config.workspace import find_workspace

        discovery = self._app_context.discovery
        assert discovery.places is not None
        store = TrustStore(discovery.places.trust_file)
        root = (await asyncio.to_thread(find_workspace, Path(self._app_context.cwd))).project
        match how:
            case "trust":
                await asyncio.to_thread(store.trust, root)
                text = f"trusted {root}; new agents use its settings and instructions"
            case "leave_unasked":
                await asyncio.to_thread(store.leave_unasked, root)
                text = (
                    f"{root} is not trusted; you will not be asked again, use /trust to change it"
                )
            case _:
                was = await asyncio.to_thread(store.revoke, root)
                text = f"{root} is {'no longer' if was else 'not'} trusted"
        self._show_message(text)
        await self._look_at_trust()
        self._app_context.changed()


async def _connected(context: "WorkbenchContext") -> None:
    """Wait for the host."""
    changed = asyncio.Event()
    stop = context.watch(changed.set)
    try:
        while context.host != "connected":
            changed.clear()
            await changed.wait()
    finally:
        stop()


def _found(
    states: "Sequence[AgentInstallation]", discovery: "DiscoveryStore"
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
    found = discovery.found
    names = found.key_names if found is not None else ()
    are_set = found.keys if found is not None else ()
    keys = [(name, "set" if name in are_set else "not set") for name in names]
    return [
        ("Installed agents", here or [("none", "the native agent is built in")]),
        ("Not installed; how to install them", missing),
        ("API keys for the built-in agent, by variable", keys),
    ]
