"""A session with an agent that runs once for each turn and prints lines of JSON.

Each prompt starts the program anew; it learns the agent's id of the session from the first turn
and resumes it by that in the next. Nothing runs between turns, so nothing can break there: a crash
is a failed turn, and the next prompt may go well.
"""

import asyncio
import logging
import os
import signal
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from quarterdeck.system.api import EndingDeadlines
from quarterdeck.system.environment import child_environment, find_program
from quarterdeck.system.errors import CommandNotFoundError, SpawnError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.wire.content import ContentBlock, EmbeddedResource, ResourceLink, TextContent
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError, LinkError, RpcError
from quarterdeck.wire.events import Event, NoticePosted, SessionChanged, UnknownEvent, UsageReported
from quarterdeck.wire.tasks import run_beside
from quarterdeck.wire.usage import TokenUsage

from ..agent_process import AgentProcess, Launch
from ..command_line import render_agent_mode, render_mode, render_option
from ..driver import Capabilities, DriverSessionOptions
from ..enforcement import Enforcement, enforcement_of
from ..errors import AgentMissingError, OpenFailedError, SteeringUnsupportedError, UnsupportedError
from ..foreign_json import read_lines
from ..link import (
    AGENT_OPTIONS,
    AgentExit,
    FixedSettings,
    LinkHost,
    StartedAgent,
    TurnOutcome,
)
from .dialect import ExtraArguments, PipeDialect, TurnContext, TurnReader

__all__ = ["OneshotLink", "plain_text"]

_log = logging.getLogger(__name__)

_TRANSPORT = "pipe"
_SIGINT_LIMIT = 2.0
"""Seconds that an agent which obeys SIGINT gets to leave."""
_LINGER = 3.0
"""Seconds that a process may live on after it closed its output."""
_CANCEL = EndingDeadlines(ask=0.0, terminate=1.5, kill=5.0)
_STDERR_PAUSE = 0.5
"""Seconds between looks at standard error, where it reports retries."""


class OneshotLink:
    """The link to an agent that runs once for each turn. See ``link.Link``."""

    def __init__(self, launch: Launch, dialect: PipeDialect) -> None:
        self._launch = launch
        fixed = FixedSettings(launch.agent, _TRANSPORT)
        self.set_mode, self.set_model = fixed.set_mode, fixed.set_model
        self.set_option, self.list_sessions = fixed.set_option, fixed.list_sessions
        self._dialect = dialect
        self._host: LinkHost
        self._system: LocalSystem | None = None
        self._extra = ExtraArguments()
        self._fixed: tuple[str, ...] = ()
        """The words that are the same in each turn."""
        self._session: str | None = None
        self._fork = False
        self._is_kept = False
        """The agent is known to keep the session."""
        self._reported = 0
        """Events of this turn."""
        self._prompts: list[str] = []
        self._total: TokenUsage | None = TokenUsage()
        self._model: str | None = None
        self._child: AgentProcess | None = None
        self._telling = asyncio.Lock()
        self._interrupted = False
        self._is_ended = False
        self.capabilities = Capabilities(
            streams=dialect.streams,
            resumes="resume" in launch.words,
            forks="fork" in launch.words,
            rewinds=dialect.rewind is not None and "rewind" in launch.words,
            process="turn",
        )

    @property
    def transport(self) -> str:
        """How the agent is reached."""
        return _TRANSPORT

    @property
    def supported_options(self) -> frozenset[str]:
        """All that can be words of a command line; the agent's file has those words or not."""
        return AGENT_OPTIONS

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=False)

    async def start(self, host: LinkHost) -> StartedAgent:
        """See that the program is there and that each option can be honoured; nothing runs yet.

        Raises:
            AgentMissingError: there is no such program.
            UnsupportedError: an option has no words in the agent's file.
        """
        opening = host.opening
        self._host = host
        self._session = opening.options.resume
        self._fork = opening.options.fork
        self._model = opening.options.model
        if opening.options.resume is not None:
            self._is_kept, self._total = True, None
        elif "session" in self._launch.words:
            # Known from the beginning: a turn that is interrupted early reports none.
            self._session = str(uuid4())
        self._extra = self._dialect.extra(self._launch, opening)
        self._fixed = self._options(opening)
        self._resume_words()
        await asyncio.to_thread(_look_for, self._launch, opening)
        self._system = LocalSystem(
            [opening.options.cwd, *opening.options.roots], guard=shared_guard()
        )
        agent_session = None if opening.options.fork else self._session
        return StartedAgent(agent_session=agent_session, model=opening.options.model)

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        """Run the program with this prompt; returns when it has left and its events were emitted.

        Raises:
            UnsupportedError: the agent takes prompts as words only, and this cannot be one.
            OpenFailedError: the program could not be started.
        """
        prompt = plain_text(content)
        self._prompts.append(prompt)
        try:
            outcome = await self._run(prompt)
            if outcome.stop == "failed" and self._was_forgotten():
                await self._begin_anew(outcome)
                outcome = await self._run(prompt)
            self._is_kept = self._is_kept or outcome.stop not in ("failed", "cancelled")
            return outcome
        finally:
            # Not at the beginning: the order to stop may come before this ever ran.
            self._interrupted = False

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        """It takes no message while a turn runs."""
        raise SteeringUnsupportedError(self._launch.agent, _TRANSPORT)

    async def interrupt(self) -> None:
        """End the turn's process and everything it started."""
        self._interrupted = True
        child = self._child
        if child is None:
            return
        if self._dialect.obeys_sigint and child.process.exit is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.process.pid, signal.SIGINT)
            with suppress(TimeoutError):
                async with asyncio.timeout(_SIGINT_LIMIT):
                    await child.left()
        await child.end(_CANCEL)

    async def rewind(self, turns: int) -> None:
        """Go on in a copy of the session without its last turns; the session itself stays.

        Raises:
            UnsupportedError: it does not have so many, or it refused.
            LinkClosedError: the session is closed.
        """
        assert self._dialect.rewind is not None
        what = f"go back {turns} turns in its conversation"
        asking = render_option(self._launch, _TRANSPORT, "rewind", True)
        child = await self._start((*self._fixed, *self._resume_words(), *asking))
        try:
            async with asyncio.timeout(self._host.opening.start_limit):
                copy = await self._dialect.rewind(child, turns, self._prompts[-turns:])
        except (RpcError, LinkError, TimeoutError) as error:
            why = error.message if isinstance(error, RpcError) else child.stderr() or str(error)
            raise UnsupportedError(self._launch.agent, _TRANSPORT, what, why) from error
        finally:
            await child.end(_CANCEL)
        del self._prompts[-turns:]
        self._session = copy
        await self._host.emit(SessionChanged(agent_session=copy))

    async def end(self) -> AgentExit | None:
        """End what runs, if anything does."""
        self._is_ended = True
        if self._system is not None:
            await self._system.close()
        return None

    # The command line

    def _options(self, opening: DriverSessionOptions) -> tuple[str, ...]:
        """The words for every field of the opening; those that no agent needs are left out.

        ``title`` is ours to keep and ``replay`` may be declined; both need no words.
        """
        launch, served = self._launch, self._extra.honoured
        words: list[str] = []
        if opening.options.agent_mode is not None:
            words += render_agent_mode(launch, _TRANSPORT, opening.options.agent_mode)
        elif "mode" not in served:
            words += render_mode(launch, _TRANSPORT, opening.mode)
        words += render_option(launch, _TRANSPORT, "model", opening.options.model)
        if "roots" not in served:
            words += render_option(launch, _TRANSPORT, "roots", opening.options.roots)
        if "system_prompt" not in served:
            words += render_option(
                launch, _TRANSPORT, "system_prompt", opening.options.system_prompt
            )
        if opening.options.mcp_servers and "mcp_servers" not in served:
            raise UnsupportedError(launch.agent, _TRANSPORT, "accept the option 'mcp_servers'")
        if opening.title is not None and "title" in launch.words:
            words += render_option(launch, _TRANSPORT, "title", opening.title)
        return (*words, *self._extra.words, *opening.arguments)

    def _resume_words(self) -> tuple[str, ...]:
        if self._session is None:
            return ()
        if self._fork:
            return render_option(self._launch, _TRANSPORT, "fork", self._session)
        if not self._is_kept and "session" in self._launch.words:
            return render_option(self._launch, _TRANSPORT, "session", self._session)
        return render_option(self._launch, _TRANSPORT, "resume", self._session)

    def _words(self, prompt: str) -> tuple[tuple[str, ...], bytes]:
        """All words for a turn, and what goes to standard input.

        An agent whose file has ``{}`` in its words for a prompt takes it as a word; all others
        read it from standard input, where its length and its characters do not matter.
        """
        words = (*self._fixed, *self._resume_words())
        asking = self._launch.words.get("prompt", ())
        if any("{}" in word for word in asking):
            return (*words, *render_option(self._launch, _TRANSPORT, "prompt", prompt)), b""
        return (*words, *asking), prompt.encode("utf-8", "surrogatepass")

    # One turn

    async def _run(self, prompt: str) -> TurnOutcome:
        """Run the program once."""
        self._reported = 0
        words, data = self._words(prompt)
        reader = self._dialect.reader(TurnContext(session=self._session, total=self._total))
        child = self._child = await self._start(words)
        try:
            if self._interrupted or self._is_ended:
                await child.end(_CANCEL)
            broken = await self._hear(child, reader, data)
            left = await child.end(EndingDeadlines(ask=_LINGER))
        finally:
            self._child = None
            await child.end(_CANCEL)
        if self._interrupted:
            return replace(reader.outcome(left), stop="cancelled", reason=None)
        return reader.outcome(left) if broken is None else _unreadable(broken)

    def _was_forgotten(self) -> bool:
        """Whether the agent refused to go on with a session of which no turn ever went well.

        Agents report the id of a session before they keep it, and some keep none whose first turn
        failed; without this no later prompt could go well.
        """
        if "session" in self._launch.words:
            return False  # a session that we named is made where there is none
        return self._session is not None and not self._is_kept and self._reported == 0

    async def _begin_anew(self, outcome: TurnOutcome) -> None:
        title = "The agent stored nothing of the conversation so far; it starts a new session."
        await self._emit(NoticePosted(title=title, severity="warning", description=outcome.reason))
        self._session = None
        self._total = TokenUsage()

    async def _start(self, words: tuple[str, ...]) -> AgentProcess:
        if self._system is None or self._is_ended:
            raise LinkClosedError("the session is closed")
        launch = replace(
            self._launch, environment={**self._launch.environment, **self._extra.environment}
        )
        opening = replace(self._host.opening, arguments=())
        return await AgentProcess.start(launch, opening, self._system, words)

    async def _hear(
        self, child: AgentProcess, reader: TurnReader, data: bytes
    ) -> LinkBrokenError | None:
        """Emit everything that the process prints; returns why if it cannot be read to its end."""
        async with (
            run_beside(_feed(child, data), name="turn: input"),
            run_beside(self._watch_stderr(child), name="turn: stderr"),
        ):
            try:
                async for line in read_lines(child.process):
                    if line.value is None:
                        await self._tell(UnknownEvent(origin=self._launch.agent, raw=line.text))
                        continue
                    for event in reader.read(line.value):
                        await self._tell(event)
            except LinkBrokenError as error:
                await child.end(_CANCEL)
                return error
        return None

    async def _tell(self, event: Event) -> None:
        """Pass an event on, and keep what the next turn needs of it."""
        match event:
            case SessionChanged():
                news = self._news(event)
                if news is not None:
                    await self._emit(news)
            case UsageReported(session_tokens=TokenUsage() as total):
                self._total = total
                await self._emit(event)
            case _:
                await self._emit(event)

    async def _emit(self, event: Event) -> None:
        self._reported += 1
        async with self._telling:
            await self._host.emit(event)

    def _news(self, event: SessionChanged) -> SessionChanged | None:
        """What of this is new: agents report their session's id with every turn."""
        session = event.agent_session if isinstance(event.agent_session, str) else None
        model = event.model if isinstance(event.model, str) else None
        fresh: dict[str, Any] = {}
        if session and (session != self._session or self._fork):
            self._session, self._fork = session, False
            fresh["agent_session"] = session
        if model and model != self._model:
            self._model = model
            fresh["model"] = model
        return SessionChanged(**fresh) if fresh else None

    async def _watch_stderr(self, child: AgentProcess) -> None:
        """Report retries that an agent mentions on standard error only."""
        read = self._dialect.stderr_events
        if read is None:
            return
        position = 0
        while True:
            await asyncio.sleep(_STDERR_PAUSE)
            for after, event in read(child.process.stderr(), position):
                position = after
                await self._emit(event)


def plain_text(content: tuple[ContentBlock, ...]) -> str:
    """A prompt as text: resources as what they hold or where they are."""
    return "\n\n".join(part for block in content if (part := _text_of(block)))


def _text_of(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ResourceLink():
            return block.uri
        case EmbeddedResource():
            held = block.resource.text
            return f"{block.resource.uri}\n{held}" if held is not None else block.resource.uri
        case _:
            return ""


def _unreadable(error: LinkBrokenError) -> TurnOutcome:
    return TurnOutcome(stop="failed", reason=f"what it printed could not be read: {error.reason}")


async def _feed(child: AgentProcess, data: bytes) -> None:
    """Send the prompt; a program that left or closed its input early has its own reasons."""
    with suppress(LinkError):
        if data:
            await child.process.send(data)
        child.process.close_input()


def _look_for(launch: Launch, opening: DriverSessionOptions) -> None:
    """Make sure that the program is there. Raises AgentMissingError, OpenFailedError."""
    own = {**launch.environment, **opening.options.variables}
    environment = child_environment(own, launch.inherit)
    program = launch.command[0]
    try:
        find_program(program, environment, opening.options.cwd)
    except CommandNotFoundError as error:
        searched = environment.get("PATH", os.defpath)
        raise AgentMissingError(launch.agent, program, searched, launch.install) from error
    except SpawnError as error:
        raise OpenFailedError(f"{launch.agent} cannot be started: {error}") from error


if TYPE_CHECKING:
    from typing import cast

    from ..link import AgentLink

    _link: AgentLink = cast("OneshotLink", None)
