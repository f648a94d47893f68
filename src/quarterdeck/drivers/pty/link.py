"""An agent driven through its screen, as a person would: what it shows is read, keys are pressed.

The least exact way to reach an agent, for those that have no other. Text comes as the screen shows
it; there is no usage. Nothing is typed into a dialog unless it is known and the agent's file says
so: ``quirks`` ``accept-trust``, ``accept-update``, ``decline-update``.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from quarterdeck.system.environment import child_environment
from quarterdeck.system.errors import CommandNotFound, SpawnFault
from quarterdeck.system.guard import shared_guard
from quarterdeck.system.paths import Roots
from quarterdeck.system.port import Command, Ending
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import Closed
from quarterdeck.wire.masking import mask

from ..child import Launch
from ..driver import Capabilities, Opening
from ..enforcement import Enforcement, enforcement_of
from ..errors import AgentMissing, LoginNeeded, OpenFailed, Unsupported
from ..link import Departure, Host, Outcome, Started
from ..pipe.turns import plain_text
from .answers import Lines
from .conversing import Conversation
from .knowledge import Knowledge, knowledge_of, screens_of
from .options import TRANSPORT, words_of
from .reading import Reader, Reading
from .terminal import Terminal
from .watching import Watch

__all__ = ["PtyLink"]

_ENDING = Ending(ask=1.5, terminate=1.5, kill=5.0)
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
        self._knowledge: Knowledge
        self._host: Host
        self._terminal: Terminal | None = None
        self._watch: Watch
        self._conversation: Conversation
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
    def terminal(self) -> Terminal:
        """Where it runs; for whoever wants to look at it."""
        assert self._terminal is not None
        return self._terminal

    def enforcement(self, opening: Opening) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=True)

    async def start(self, host: Host) -> Started:
        """Start the agent and wait until it is ready for a prompt.

        Raises:
            AgentMissing: there is no such program.
            LoginNeeded: its screen asks for a login.
            OpenFailed: it shows a dialog that nobody has said how to answer, or left.
            Unsupported: an option has no words in the agent's file.
        """
        self._host = host
        opening = host.opening
        self._knowledge = await asyncio.to_thread(_known, self._launch)
        asks = self._knowledge.asking is not None
        self.capabilities = replace(self.capabilities, asks=asks)
        self._session = opening.resume if not opening.fork else None
        if self._session is None and "session" in self._launch.words and not opening.fork:
            self._session = str(uuid4())
        words = words_of(self._launch, opening, self._session)
        self._terminal = await self._open(opening, words)
        host.runs_in(self._terminal)
        self._watch = Watch(self._terminal, Reader(self._knowledge))
        lines = Lines(self._knowledge.answer, self._knowledge.columns)
        self._conversation = Conversation(host, self._knowledge, self._watch, lines, self._pass)
        await self._until_ready()
        self._leaving = asyncio.create_task(self._watch_leaving(self._terminal))
        return Started(agent_session=self._session, model=opening.model, mode=opening.agent_mode)

    async def prompt(self, content: tuple[ContentBlock, ...]) -> Outcome:
        """Paste a prompt, send it, and tell what the screen shows until the agent is ready again.

        Raises:
            LinkError: the agent is gone.
            OpenFailed, LoginNeeded: it shows a dialog into which nothing is typed unasked.
        """
        if self._is_ended:
            raise Closed("the session is closed")
        self._answered.clear()
        return await self._conversation.turn(plain_text(content))

    async def interrupt(self) -> None:
        """Press what stops a turn, again if it does not."""
        await self._conversation.interrupt()

    async def set_mode(self, mode: str) -> None:
        """Not while a session runs: the words for it are fixed at its start."""
        raise Unsupported(self._launch.agent, TRANSPORT, "change its mode while it runs")

    async def set_model(self, model: str) -> None:
        """Not while a session runs."""
        raise Unsupported(self._launch.agent, TRANSPORT, "change its model while it runs")

    async def set_option(self, option: str, value: str | bool) -> None:
        """There is none."""
        raise Unsupported(self._launch.agent, TRANSPORT, f"set {option!r} while it runs")

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """It cannot say."""
        raise Unsupported(self._launch.agent, TRANSPORT, "list its sessions")

    async def end(self) -> Departure | None:
        """Hang up, and end everything that it started."""
        self._is_ended = True
        if self._terminal is None:
            return None
        left = await self._terminal.close(_ENDING)
        if self._leaving is not None:
            await asyncio.wait([self._leaving])
        return Departure(exit_code=left.code, signal=left.signal, stderr=self._last_rows())

    async def _open(self, opening: Opening, words: tuple[str, ...]) -> Terminal:
        launch = self._launch
        own = {**launch.environment, **opening.environment}
        argv = (*launch.command, *words)
        command = Command(argv=argv, cwd=opening.cwd, env=own, inherit=launch.inherit)
        size = (self._knowledge.columns, self._knowledge.rows)
        roots = Roots([opening.cwd, *opening.roots])
        try:
            return await Terminal.start(command, size=size, roots=roots, guard=shared_guard())
        except CommandNotFound as error:
            searched = child_environment(own, launch.inherit).get("PATH", "")
            raise AgentMissing(launch.agent, argv[0], searched, launch.install) from error
        except SpawnFault as error:
            raise OpenFailed(f"{launch.agent} could not be started: {error}") from error

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

    async def _pass(self, reading: Reading) -> None:
        """Answer a dialog that is no request for leave, if policy says how."""
        agent = self._launch.agent
        if reading.shown in self._answered:
            raise OpenFailed(f"{agent} does not take the answer to its dialog")
        self._answered.add(reading.shown)
        if reading.state == "login":
            raise LoginNeeded(f"{agent} wants to be logged in first. Run it in a terminal once.")
        for (state, quirk), answer in _POLICY.items():
            if state == reading.state and quirk in self._launch.quirks and reading.rule:
                keys = reading.rule.accept if answer == "accept" else reading.rule.decline
                await self.terminal.press(*keys)
                return
        names = [quirk for (state, quirk) in _POLICY if state == reading.state]
        how = f", or give it quirks = {names!r} in a file of your own" if names else ""
        shown = " ".join(reading.shown.split())[:300]
        raise OpenFailed(
            f"{agent} shows a dialog ({reading.state}) into which nothing is typed unasked: "
            f"{shown!r}. Run it in this directory once and answer it{how}."
        )

    async def _watch_leaving(self, terminal: Terminal) -> None:
        """Tell the session when the program has left by itself."""
        await terminal.wait()
        if not self._is_ended:
            self._host.lost(self._watch.gone())

    def _last_rows(self) -> str:
        rows = [row.text for row in self.terminal.screen.rows() if row.text]
        own = {**self._launch.environment, **self._host.opening.environment}
        return mask("\n".join(rows[-10:]), child_environment(own, self._launch.inherit))


def _known(launch: Launch) -> Knowledge:
    if launch.events:
        return knowledge_of(f"{launch.agent}.toml: transports.pty.events", launch.events)
    return screens_of(launch.dialect or launch.agent)


if TYPE_CHECKING:
    from typing import cast

    from ..link import Link

    _link: Link = cast("PtyLink", None)
