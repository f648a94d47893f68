"""The link to an agent in a terminal: what it displays is read, and keys are sent."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from quarterdeck.system.api import CommandSpec, EndingDeadlines
from quarterdeck.system.environment import child_environment
from quarterdeck.system.errors import CommandNotFoundError, SpawnError
from quarterdeck.system.paths import Roots
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import LinkClosedError
from quarterdeck.wire.redaction import mask_secrets
from quarterdeck.wire.tasks import start_task

from ..agent_process import Launch
from ..command_line import render_agent_mode, render_option
from ..driver import Capabilities, DriverSessionOptions
from ..enforcement import Enforcement, enforcement_of
from ..errors import (
    AgentMissingError,
    LoginNeededError,
    OpenFailedError,
    SteeringUnsupportedError,
)
from ..link import (
    AGENT_OPTIONS,
    AgentExit,
    FixedSettings,
    LinkHost,
    StartedAgent,
    TurnOutcome,
)
from ..pipe.oneshot_link import plain_text
from .conversation import PtyConversation
from .events import TurnTextFinder
from .patterns import TerminalPatterns, load_patterns, parse_patterns
from .reader import TerminalReader, TerminalReading, TerminalWatcher

__all__ = ["TRANSPORT", "PtyLink", "command_words"]

TRANSPORT = "pty"


def command_words(
    launch: Launch, opening: DriverSessionOptions, session: str | None
) -> tuple[str, ...]:
    """The words; ``session`` is an id for a new session where the agent takes one.

    ``title`` is ours to keep, ``replay`` may be declined, ``mode`` is our gate's.

    Raises:
        UnsupportedError: the agent has no words for an option.
    """
    words: list[str] = []
    if opening.options.agent_mode is not None:
        words += render_agent_mode(launch, TRANSPORT, opening.options.agent_mode)
    else:
        words += launch.words.get("ask", ())
    words += render_option(launch, TRANSPORT, "model", opening.options.model)
    words += render_option(launch, TRANSPORT, "roots", opening.options.roots)
    words += render_option(launch, TRANSPORT, "system_prompt", opening.options.system_prompt)
    if opening.options.resume is not None:
        words += render_option(
            launch, TRANSPORT, "fork" if opening.options.fork else "resume", opening.options.resume
        )
    elif session is not None:
        words += render_option(launch, TRANSPORT, "session", session)
    return (*words, *opening.arguments)


_ENDING = EndingDeadlines(ask=1.5, terminate=1.5, kill=5.0)
_DRAWN = 0.3
"""Seconds that a screen must not have changed before it counts as drawn."""
_POLICY = {
    ("trust", "accept-trust"): "accept",
    ("update", "accept-update"): "accept",
    ("update", "decline-update"): "decline",
    ("notice", "decline-update"): "decline",
}


class PtyLink:
    """The link to an agent in a terminal. See ``link.Link``."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        fixed = FixedSettings(launch.agent, TRANSPORT)
        self.set_mode, self.set_model = fixed.set_mode, fixed.set_model
        self.set_option, self.list_sessions = fixed.set_option, fixed.list_sessions
        self._knowledge: TerminalPatterns
        self._host: LinkHost
        self._terminal: HeadlessTerminal | None = None
        self._watch: TerminalWatcher
        self._conversation: PtyConversation
        self._leaving: asyncio.Task[None] | None = None
        self._session: str | None = None
        self._is_ended = False
        self._answered: set[str] = set()
        """The dialogs of this turn that were answered."""
        self.capabilities = Capabilities(
            asks=True,
            streams=True,
            resumes="resume" in launch.words,
            forks="fork" in launch.words,
            verbatim=False,
        )

    @property
    def transport(self) -> str:
        """How the agent is reached."""
        return TRANSPORT

    @property
    def terminal(self) -> HeadlessTerminal:
        """The terminal it runs in, for display."""
        assert self._terminal is not None
        return self._terminal

    @property
    def supported_options(self) -> frozenset[str]:
        """All that can be words of a command line, where a person might type them."""
        return AGENT_OPTIONS - {"mcp_servers"}

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=True)

    async def start(self, host: LinkHost) -> StartedAgent:
        """Start the agent and wait until it is ready for a prompt.

        Raises:
            AgentMissingError: there is no such program.
            LoginNeededError: its screen asks for a login.
            OpenFailedError: it shows a dialog without a configured answer, or left.
            UnsupportedError: an option has no words in the agent's file.
        """
        self._host = host
        opening = host.opening
        self._knowledge = await asyncio.to_thread(_known, self._launch)
        asks = self._knowledge.asking is not None
        self.capabilities = replace(self.capabilities, asks=asks)
        self._session = opening.options.resume if not opening.options.fork else None
        if self._session is None and "session" in self._launch.words and not opening.options.fork:
            self._session = str(uuid4())
        words = command_words(self._launch, opening, self._session)
        self._terminal = await self._open(opening, words)
        host.runs_in(self._terminal)
        self._watch = TerminalWatcher(self._terminal, TerminalReader(self._knowledge))
        lines = TurnTextFinder(self._knowledge.answer, self._knowledge.columns)
        self._conversation = PtyConversation(host, self._knowledge, self._watch, lines, self._pass)
        await self._until_ready()
        self._leaving = start_task(self._watch_leaving(self._terminal), name="pty: exit")
        return StartedAgent(
            agent_session=self._session,
            model=opening.options.model,
            mode=opening.options.agent_mode,
        )

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        """Paste a prompt, send it, and emit what the screen shows until the agent is ready again.

        Raises:
            LinkError: the agent is gone.
            OpenFailedError, LoginNeededError: it shows a dialog into which nothing is typed
                unasked.
        """
        if self._is_ended:
            raise LinkClosedError("the session is closed")
        self._answered.clear()
        return await self._conversation.turn(plain_text(content))

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        """It takes no message while a turn runs."""
        raise SteeringUnsupportedError(self._launch.agent, TRANSPORT)

    async def interrupt(self) -> None:
        """Press what stops a turn, again if it does not."""
        await self._conversation.interrupt()

    async def end(self) -> AgentExit | None:
        """Hang up, and end everything that it started."""
        self._is_ended = True
        if self._terminal is None:
            return None
        left = await self._terminal.close(_ENDING)
        if self._leaving is not None:
            await asyncio.wait([self._leaving])
        return AgentExit(exit_code=left.code, signal=left.signal, stderr=self._last_rows())

    async def _open(
        self, opening: DriverSessionOptions, words: tuple[str, ...]
    ) -> HeadlessTerminal:
        launch = self._launch
        own = {**launch.environment, **opening.options.variables}
        argv = (*launch.command, *words, *opening.arguments)
        command = CommandSpec(argv=argv, cwd=opening.options.cwd, env=own, inherit=launch.inherit)
        size = (self._knowledge.columns, self._knowledge.rows)
        roots = Roots([opening.options.cwd, *opening.options.roots])
        try:
            return await HeadlessTerminal.start(
                command, size=size, roots=roots, guard=shared_guard()
            )
        except CommandNotFoundError as error:
            searched = child_environment(own, launch.inherit).get("PATH", "")
            raise AgentMissingError(launch.agent, argv[0], searched, launch.install) from error
        except SpawnError as error:
            raise OpenFailedError(f"{launch.agent} could not be started: {error}") from error

    async def _until_ready(self) -> None:
        """Wait for the prompt; dialogs on the way are answered as the agent's file says."""
        while True:
            reading = await self._watch.until(lambda one: one.state != "unknown", within=600)
            if reading is None or not await self._watch.settled(_DRAWN, within=10):
                continue
            reading = self._watch.now
            if reading.state == "ready":
                return
            if reading.state in ("unknown", "busy"):
                await self._watch.step(_DRAWN)
                continue
            await self._pass(reading)
            await self._watch.until(lambda one, old=reading: one.shown != old.shown, within=10)

    async def _pass(self, reading: TerminalReading) -> None:
        """Answer a dialog that is no permission request, if policy says how."""
        agent = self._launch.agent
        if reading.shown in self._answered:
            raise OpenFailedError(f"{agent} does not accept the answer to its dialog")
        self._answered.add(reading.shown)
        if reading.state == "login":
            raise LoginNeededError(f"{agent} needs a login first. Run it in a terminal once.")
        for (state, quirk), answer in _POLICY.items():
            if state == reading.state and quirk in self._launch.quirks and reading.rule:
                keys = reading.rule.accept if answer == "accept" else reading.rule.decline
                await self.terminal.press(*keys)
                return
        names = [quirk for (state, quirk) in _POLICY if state == reading.state]
        how = f", or give it quirks = {names!r} in a file of your own" if names else ""
        shown = " ".join(reading.shown.split())[:300]
        raise OpenFailedError(
            f"{agent} shows a dialog ({reading.state}) that it does not answer by itself: "
            f"{shown!r}. Run it in this directory once and answer the dialog{how}."
        )

    async def _watch_leaving(self, terminal: HeadlessTerminal) -> None:
        """Report to the session when the program has left by itself."""
        await terminal.wait()
        if not self._is_ended:
            self._host.lost(self._watch.gone())

    def _last_rows(self) -> str:
        rows = [row.text for row in self.terminal.screen.rows() if row.text]
        own = {**self._launch.environment, **self._host.opening.options.variables}
        return mask_secrets("\n".join(rows[-10:]), child_environment(own, self._launch.inherit))


def _known(launch: Launch) -> TerminalPatterns:
    if launch.events:
        return parse_patterns(f"{launch.agent}.toml: transports.pty.events", launch.events)
    return load_patterns(launch.dialect or launch.agent)


if TYPE_CHECKING:
    from typing import cast

    from ..link import AgentLink

    _link: AgentLink = cast("PtyLink", None)
