"""Sends what people write in a chat: a prompt, a command, or the first prompt of a new agent."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

from .commands.registry import find_command
from .drafts import NEW
from .input_lines import LineSign, find_sign

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.fleet.api import AgentInfo, SpawnOptions
    from quarterdeck.fleet.remote.host_group import HostGroup

    from .commands.registry import WorkbenchCommand
    from .commands.runner import CommandQueue
    from .context import WorkbenchContext
    from .fleet_actions import FleetActions
    from .panels.chat import ChatPanel

__all__ = ["PromptSender", "list_directories", "place_agent"]

_EXAMPLES: dict[LineSign, str] = {
    "!": "! and a command runs it, such as !git status",
    "#": "# and a note keeps it for agents, such as #tests need make up first",
}


class PromptSender:
    """Sends what people write, and keeps it until it has arrived.

    Args:
        app: shows screens.
        context: the agents and the drafts.
        actions: sends prompts and starts agents.
        queue: sends in the order in which things were written.
        run_command: runs a command with the words after its name.
        save: puts drafts on disk.
    """

    def __init__(
        self,
        app: "App[None]",
        context: "WorkbenchContext",
        actions: "FleetActions",
        *,
        queue: "CommandQueue",
        run_command: "Callable[[WorkbenchCommand, str], None]",
        save: Callable[[], None],
    ) -> None:
        self._app = app
        self._app_context = context
        self._actions = actions
        self._queue = queue
        self._run_command = run_command
        self._save = save
        self._starting: set[ChatPanel] = set()

    def submit(self, panel: "ChatPanel", text: str, *, steers: bool = False) -> None:
        """Do what was written in a chat; ``steers``: a message is for the running turn."""
        found = find_command(text)
        line = self._find_shown_sign(panel, text)
        if found is not None:
            self._clear(panel)
            self._run_command(*found)
        elif line is not None:
            self._clear(panel)
            self._queue.add(partial(self._take_line, panel, line, text.strip()))
        elif self._app_context.roster.find(panel.session) is None:
            self._queue.add(partial(self._start_like_the_last, panel, text))
        else:
            self._send(panel, text, steers=steers)

    @staticmethod
    def _find_shown_sign(panel: "ChatPanel", text: str) -> LineSign | None:
        """The sign of a line that the person sees in full: a folded paste is never run."""
        return find_sign(text) if panel.chat.text.strip() == text.strip() else None

    @staticmethod
    def _clear(panel: "ChatPanel") -> None:
        panel.chat.set_text("")
        panel.keep_draft()

    async def _take_line(self, panel: "ChatPanel", sign: LineSign, text: str) -> None:
        """Run a command of the person, or keep a note; what is refused returns to the input."""
        words = text[1:].strip()
        try:
            if not words:
                self._actions.show_message(_EXAMPLES[sign], False)
            elif sign == "!":
                await self._run_line(panel, words)
                return
            elif await self._keep_note(panel, words):
                return
        except QuarterdeckError as error:
            self._actions.show_message(str(error), True)
        if panel.is_attached and not panel.chat.text:
            panel.chat.set_text(text)

    async def _run_line(self, panel: "ChatPanel", line: str) -> None:
        agent = self._app_context.roster.find(panel.session)
        if agent is not None:
            panel.transcript.action_follow()
            await self._app_context.fleet.run_command(agent.session, line)
        elif (terminal := find_command(f"/terminal {line}")) is not None:
            self._run_command(*terminal)

    async def _keep_note(self, panel: "ChatPanel", words: str) -> bool:
        """Ask where a note is to be kept and keep it; False: it was not."""
        from .notes import append_note, find_note_places
        from .screens.note import SEND_AS_PROMPT, NoteScreen

        context = self._app_context
        discovery, agent = context.discovery, context.roster.find(panel.session)
        if discovery.places is None:
            return False
        directory = agent.cwd if agent is not None else context.cwd
        places = await asyncio.to_thread(
            find_note_places, discovery.places, discovery.environment, directory
        )
        home = discovery.environment.get("HOME", "")
        chosen = await self._app.push_screen_wait(NoteScreen(words, places, home))
        if chosen == SEND_AS_PROMPT:
            panel.chat.set_text(f"#{words}")
            self._send(panel, f"#{words}", steers=False)
            return agent is not None
        place = next((one for one in places if one.scope == chosen), None)
        if place is None:
            return False
        line = await asyncio.to_thread(append_note, place, words)
        self._actions.show_message(f"{line}\nadded to {place.path}; agents read it when they start")
        return True

    def _send(self, panel: "ChatPanel", text: str, *, steers: bool) -> None:
        context = self._app_context
        agent, key, drafts = context.roster.find(panel.session), panel.draft, context.drafts
        if agent is None:
            return
        drafts.begin_sending(key, text)
        panel.chat.set_text("")
        panel.keep_draft()
        panel.transcript.action_follow()
        deliver = partial(self._deliver, panel, agent, key, text, steers=steers)
        self._queue.add(deliver, agent.session)

    async def _deliver(
        self, panel: "ChatPanel", agent: "AgentInfo", key: str, text: str, *, steers: bool
    ) -> None:
        is_sent = await self._actions.send(agent, text, steers=steers)
        self._app_context.drafts.end_sending(key, text, is_sent=is_sent)
        if panel.is_attached and panel.draft == key:
            panel.show_draft()
        self._save()

    async def _start_like_the_last(self, panel: "ChatPanel", text: str) -> None:
        """Start an agent as the last of this project was started; ask where there was none."""
        from quarterdeck.fleet.api import SpawnOptions

        from .screens.spawn_model import recall_options

        context, cwd = self._app_context, self._app_context.cwd
        chosen = context.preferences.choices.spawns.get(cwd)
        if not chosen:
            await self.spawn(panel)
            return
        if panel in self._starting or panel.chat.full_text.strip() != text.strip():
            return  # enter was pressed twice
        self._starting.add(panel)
        panel.show_start("starting …")
        problem: str | None = None
        try:
            options = SpawnOptions(options=recall_options(chosen, cwd), prompt=text.strip())
            session = await self._actions.spawn(options)
        except (QuarterdeckError, ValueError) as error:
            problem = str(error)
        else:
            if panel.is_attached and panel.draft.startswith(NEW):
                self._clear(panel)
            panel.show_started(session)
            await self._remember(cwd, options)
        finally:
            self._starting.discard(panel)
            panel.show_start()
        if problem is not None:
            await self.spawn(panel, problem)

    async def spawn(self, panel: "ChatPanel", problem: str = "") -> None:
        """Ask for a new agent, with what is typed if no agent has it yet.

        ``problem``: why one like the last was not started.
        """
        from .screens.spawn import HostRow, SpawnScreen
        from .screens.spawn_lookup import SpawnLookup

        context = self._app_context
        is_free = context.roster.find(panel.session) is None
        typed = panel.chat.full_text if is_free else ""
        cwd, preferences = context.cwd, context.preferences

        group = context.hosts
        row = HostRow(list_directories(group, cwd), group.problems) if group is not None else None

        async def start(options: "SpawnOptions") -> None:
            if group is not None and row is not None:
                options = place_agent(options, group, row.host)
            session = await self._actions.spawn(options)
            if options.prompt == typed.strip() and panel.draft.startswith(NEW):
                panel.chat.set_text("")
            panel.show_started(session)
            await self._remember(cwd, options)

        chosen = preferences.choices.spawns.get(cwd)
        lookup = SpawnLookup(context)
        form = SpawnScreen(
            cwd, typed, lookup, start=start, chosen=chosen, problem=problem, host=row
        )
        await self._app.push_screen_wait(form)

    async def _remember(self, cwd: str, options: "SpawnOptions") -> None:
        """Keep what was chosen, to be offered again in the same project."""
        from .screens.spawn_model import list_remembered

        preferences, given = self._app_context.preferences, options.options
        preferences.note_spawn(cwd, given.cwd, list_remembered(given))
        # A choice that cannot be kept is not worth a warning: the agent runs.
        with suppress(OSError):
            await asyncio.to_thread(preferences.save)


def list_directories(group: "HostGroup", cwd: str) -> dict[str, str]:
    """The directory that is offered on each host; empty: the host cannot be used now."""
    found: dict[str, str] = {}
    for host in group.active:
        directory = cwd if host is group.home else host.resolve(None)
        is_known = host.problem is None and directory.startswith("/")
        found[host.label] = directory if is_known else ""
    return found


def place_agent(options: "SpawnOptions", group: "HostGroup", label: str) -> "SpawnOptions":
    """The options of an agent that is to start on a host; its directory is one of that host."""
    from msgspec.structs import replace

    host = next(one for one in group.hosts if one.label == label)
    given = replace(options.options, cwd=host.resolve(options.options.cwd))
    return replace(options, options=given, name=host.prefix.add_to_name(options.name or ""))
