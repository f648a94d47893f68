"""Runs commands, wherever they come from: a key, the palette, the input, an agent."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from ..remote_control import RefusedCallError
from .registry import WorkbenchCommand, find_command

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext
    from ..fleet_actions import FleetActions, ShowMessage
    from ..preferences.store import Preferences

__all__ = ["LOCAL_COMMANDS", "CommandQueue", "CommandRunner"]

_PATIENCE = 1.0
"""Seconds that a command holds up the next one at the most."""

_AT_ONCE = frozenset({"interrupt", "kill"})
"""Commands that do not wait for what an agent is still doing."""

LOCAL_COMMANDS = frozenset(
    {
        *("default-mode", "demo", "doctor", "install", "login", "permissions", "plan-run"),
        *("settings", "trust", "untrust", "web"),
    }
)
"""Commands that read or change this machine; refused while the agents are on another."""

_turn: ContextVar[asyncio.Event | None] = ContextVar("_turn", default=None)
"""Set when the command that runs here no longer holds up the next one."""


class CommandQueue:
    """Runs what a person asks for in the order in which it was given.

    Each starts when the one before it has ended, shows a dialog, or has taken ``patience`` seconds:
    a host that does not answer must not hold up everything else. What is for one agent waits for
    what was given before for that agent, however long it takes.

    Args:
        work: runs a coroutine in the background.
        patience: in seconds.
    """

    def __init__(
        self, work: Callable[[Coroutine[Any, Any, object]], None], patience: float = _PATIENCE
    ) -> None:
        self._work = work
        self.patience = patience
        self._last: asyncio.Event | None = None
        self._last_of: dict[SessionId, asyncio.Event] = {}

    def add(
        self,
        start: Callable[[], Coroutine[Any, Any, object]],
        agent: "SessionId | None" = None,
    ) -> None:
        """Call ``start`` when it is its turn, and wait for what it returns.

        ``agent``: the one that it is for. An interrupt names none: it must not wait for what it
        ends.
        """
        turn = asyncio.Event()
        before, self._last = self._last, turn
        same = None
        if agent is not None:
            same, self._last_of[agent] = self._last_of.get(agent), turn
        self._work(self._run(start, before, same, turn))

    @staticmethod
    def pass_on() -> None:
        """Let the next command start now; for a command that waits for the person."""
        if (turn := _turn.get()) is not None:
            turn.set()

    async def _run(
        self,
        start: Callable[[], Coroutine[Any, Any, object]],
        before: asyncio.Event | None,
        same: asyncio.Event | None,
        turn: asyncio.Event,
    ) -> None:
        try:
            if before is not None and not before.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(before.wait(), self.patience)
            if same is not None:
                await same.wait()
            _turn.set(turn)
            await start()
        finally:
            turn.set()


class CommandRunner:
    """Runs the commands of the registry.

    Args:
        app: the workbench; functions of commands get it.
        context: knows the agent that commands are for.
        actions: carries out commands to agents.
        queue: runs them in the order in which they were given.
        show_message: shows a line.
    """

    def __init__(
        self,
        app: "App[None]",
        context: "WorkbenchContext",
        actions: "FleetActions",
        *,
        queue: CommandQueue,
        show_message: "ShowMessage",
    ) -> None:
        self._app = app
        self._app_context = context
        self._actions = actions
        self._queue = queue
        self._show_message = show_message

    async def choose(self) -> None:
        """Show the palette, and run what is chosen there."""
        from ..screens.help import collect_command_keys
        from ..screens.palette import PaletteScreen, collect_entries

        preferences = self._app_context.preferences
        bound = self._app.screen_stack[0].active_bindings
        keys = collect_command_keys(preferences, {key: one.binding for key, one in bound.items()})
        recent = preferences.choices.recent
        name = await self._app.push_screen_wait(PaletteScreen(collect_entries(keys), recent))
        if name is not None and (found := find_command(f"/{name}")) is not None:
            self.run(*found)

    def run(self, command: WorkbenchCommand, words: str = "") -> None:
        """Run a command that was chosen or typed by name, and remember that."""
        preferences = self._app_context.preferences
        if preferences.note_command(command.name):
            self._app.run_worker(partial(self._remember, preferences), group="recent")
        self._run(command, words)

    async def _remember(self, preferences: "Preferences") -> None:
        with suppress(OSError):  # it is shown in this run all the same
            await asyncio.to_thread(preferences.save)

    def _run(self, command: WorkbenchCommand, words: str) -> None:
        """Run it with what was typed after its name, after those that were given before.

        A command for an agent is for the one in view now, not for the one in view when it starts.
        """
        agent = self._app_context.agent
        if command.target is not None:
            self._queue.add(partial(self._call, command, words))
        elif command.agent_action is None:
            self._queue.add(partial(self._act, command.action or "help"))
        elif agent is None:
            self._show_message("no agents yet; press ctrl+t to start one", True)
        else:
            waits = None if command.name in _AT_ONCE else agent.session
            self._queue.add(partial(self._call_for_agent, command, agent, words), waits)

    def run_named(self, name: str, words: str = "") -> None:
        """Run a command by its name; keys are bound to names."""
        found = find_command(f"/{name} {words}")
        if found is None:
            self._show_message(f"unknown command {name!r}; press f1 for the list", True)
        else:
            self._run(*found)

    async def call(self, name: str, words: str) -> None:
        """Run a command that has a function, and wait for it. Raises QuarterdeckError."""
        found = find_command(f"/{name} {words}")
        assert found is not None
        await self._call(*found)

    async def call_for_agent(self, session: "SessionId", name: str) -> None:
        """Run a command for an agent; asks first if it cannot be undone."""
        from ..screens.dialogs import AskLineScreen, ConfirmScreen

        agent = self._app_context.roster.find(session)
        found = find_command(f"/{name}")
        if name == "here":
            await self.call("here", "")
        if name == "review" and agent is not None:
            await self.call("review", agent.session)
        if agent is None or found is None or found[0].agent_action is None:
            return
        words = ""
        if name == "kill" and not await self._app.push_screen_wait(
            ConfirmScreen(
                f"kill {agent.name}?",
                "This ends the agent, its child agents and all their processes now.",
                "kill",
            )
        ):
            return
        if name == "rename":
            words = await self._app.push_screen_wait(AskLineScreen("new name", agent.name)) or ""
            if not words:
                return
        await self._actions.do(found[0], agent, words)

    async def _call(self, command: WorkbenchCommand, words: str) -> None:
        remote = self._app_context.remote
        if remote is not None and command.name in LOCAL_COMMANDS:
            raise RefusedCallError(
                f"/{command.name} is about this machine, and the agents are on {remote!r}; run "
                "quarterdeck there"
            )
        given = await self._ask_words(command, words)
        if given is not None and (done := command.call(self._app, given)) is not None:
            await done

    async def _act(self, action: str) -> None:
        self._app.call_later(self._app.run_action, action)

    async def _call_for_agent(
        self, command: WorkbenchCommand, agent: "AgentInfo", words: str
    ) -> None:
        given = await self._ask_words(command, words)
        if given is not None:
            await self._actions.do(command, agent, given)

    async def _ask_words(self, command: WorkbenchCommand, words: str) -> str | None:
        """The words for a command, asked for where it needs some; None: the person cancelled."""
        if command.asks is None or words:
            return words

        from ..screens.dialogs import AskLineScreen

        return await self._app.push_screen_wait(AskLineScreen(command.asks)) or None
