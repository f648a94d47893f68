"""Claude Code, and who speaks its language, in one process until its conversation goes back."""

import asyncio
import json
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.errors import (
    LinkBrokenError,
    LinkClosedError,
    LinkEndedError,
    LinkError,
    RpcError,
)
from quarterdeck.wire.events import Event, SessionChanged, UnknownEvent
from quarterdeck.wire.session_options import AgentMcpServer
from quarterdeck.wire.tasks import start_task

from ...agent_process import AgentProcess, Launch
from ...command_line import render_option
from ...driver import Capabilities, DriverSessionOptions
from ...enforcement import Enforcement, enforcement_of
from ...errors import LoginMethod, LoginNeededError, OpenFailedError, UnsupportedError
from ...foreign_json import JsonLine, as_list, as_map, as_text, read_lines
from ...link import AGENT_OPTIONS, AgentExit, LinkHost, StartedAgent, TurnOutcome
from . import control as control
from .control import ClaudeControlChannel, ClaudeRequestHandler
from .events import ClaudeTranslator
from .messages import failure_of
from .params import DIALECTS, blocks_of, command_words, mcp_config
from .turn import ClaudeTurn

__all__ = ["ClaudeLink"]

_log = logging.getLogger(__name__)

_REWINDING = frozenset(("resume", "fork", "session", "rewind"))
"""The options without whose words the conversation cannot go back."""
_LEAVING = 2.0
"""Seconds that a process may live on after it closed its output."""


class ClaudeLink:
    """Stream-json in both directions with the control protocol; see ``link.Link``."""

    transport = "pipe"
    supported_options = AGENT_OPTIONS
    capabilities = Capabilities(
        asks=True,
        streams=True,
        resumes=True,
        forks=True,
        sets_mode=True,
        sets_model=True,
        images=True,
        questions=True,
        mcp=True,
    )

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._origin = launch.dialect or "claude"
        if self._origin == "claude":  # of others it is not known
            self.capabilities = replace(
                self.capabilities, steers=True, rewinds=launch.words.keys() >= _REWINDING
            )
        self._host: LinkHost
        self._opening: DriverSessionOptions
        """With what was changed since the start."""
        self._system: LocalSystem | None = None
        self._folder: str | None = None
        self._mcp: str | None = None
        self._process: _Process | None = None
        self._session: str | None = None
        self._entries: list[str | None] = []
        """The last entry of the conversation before the first turn and after each; empty: there
        was none, None: it is not known."""
        self._turn: ClaudeTurn | None = None
        self._over: LinkError | None = None
        self._ending: asyncio.Task[AgentExit | None] | None = None

    # Beginning

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=True)

    async def start(self, host: LinkHost) -> StartedAgent:
        """Start the program and greet it."""
        self._host = host
        opening = self._opening = host.opening
        session = None
        if "session" in self._launch.words and (
            opening.options.resume is None or opening.options.fork
        ):
            session = str(uuid.uuid4())
        self._mcp = await self._write_servers(opening.options.mcp_servers)
        words = command_words(self._launch, opening, self.transport, session=session, mcp=self._mcp)
        self._process = await self._launch_process(opening, words)
        started = self._started(opening, session, await self._greet(self._process))
        self._session = started.agent_session
        self._entries = [None if opening.options.resume is not None else ""]
        return started

    async def _launch_process(
        self, opening: DriverSessionOptions, words: tuple[str, ...]
    ) -> "_Process":
        if self._system is None:
            roots = [opening.options.cwd, *opening.options.roots]
            self._system = LocalSystem(roots, guard=shared_guard())
        child = await AgentProcess.start(self._launch, opening, self._system, words)
        channel = ClaudeControlChannel(child)
        return _Process(
            child,
            channel,
            ClaudeRequestHandler(self._launch.agent, self._host, channel),
            ClaudeTranslator(self._origin),
            self._hear,
            self._lose,
        )

    async def _greet(self, process: "_Process") -> Mapping[str, Any]:
        try:
            hooks = control.hooks_before() if "read" in self._launch.asks else None
            greeting = await process.channel.request("initialize", hooks=hooks)
        except RpcError as error:
            raise OpenFailedError(f"{self._launch.agent} refused: {error.message}") from error
        except LinkError as error:
            if process.refusal:
                raise OpenFailedError(f"{self._launch.agent} refused: {process.refusal}") from error
            raise
        self._check_login(greeting)
        return greeting

    def _started(
        self, opening: DriverSessionOptions, session: str | None, greeting: Mapping[str, Any]
    ) -> StartedAgent:
        resumed = None if opening.options.fork else opening.options.resume
        return StartedAgent(
            agent_session=session or resumed,
            agent_version=as_text(greeting.get("claude_code_version")) or None,
            mode=as_text(greeting.get("current_permission_mode")) or opening.options.agent_mode,
        )

    def _check_login(self, greeting: Mapping[str, Any]) -> None:
        account = as_map(greeting.get("account"))
        known = [account.get(key) for key in ("tokenSource", "apiKeySource")]
        if account.get("apiProvider") != "firstParty" or any(
            k not in ("none", None) for k in known
        ):
            return
        login = DIALECTS[self._origin].login
        way = LoginMethod(id="terminal", name="log in in a terminal", command=login)
        raise LoginNeededError(f"{self._launch.agent} is not logged in.", [way])

    async def _write_servers(self, servers: tuple[AgentMcpServer, ...]) -> str | None:
        """Write the tool servers where only we can read them: they may hold secrets."""
        if not servers:
            return None
        self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="quarterdeck-")
        path = Path(self._folder) / "mcp.json"
        await asyncio.to_thread(_write_private, path, json.dumps(mcp_config(servers)))
        return str(path)

    # Turns

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        """Send a prompt and wait for its result."""
        if self._over is not None:
            raise self._over
        process = self._running
        self._entries.append(self._entries[-1])
        if process.answers.is_interrupted:  # before it was sent
            process.answers.is_interrupted = False
            return TurnOutcome(stop="cancelled")
        line = self._user_line(content)
        turn = self._turn = ClaudeTurn()
        try:
            await self._say({**line, "uuid": turn.prompt})
            return await turn.outcome
        finally:
            turn.close()
            self._entries[-1] = turn.entry or self._entries[-1]
            self._turn = None
            process.answers.is_interrupted = False

    async def steer(self, content: tuple[ContentBlock, ...]) -> bool:
        """Add a message to the turn; the program reads it before its next model call."""
        turn = self._turn
        if turn is None or not turn.takes_messages:
            return False
        line = self._user_line(content)
        await self._say({**line, "uuid": turn.add_message()})
        return True

    def _user_line(self, content: tuple[ContentBlock, ...]) -> dict[str, Any]:
        try:
            blocks = blocks_of(content)
        except ValueError as error:
            raise UnsupportedError(self._launch.agent, self.transport, str(error)) from error
        return {
            "type": "user",
            "message": {"role": "user", "content": blocks},
            "parent_tool_use_id": None,
            "session_id": "",
        }

    async def _say(self, line: Mapping[str, Any]) -> None:
        process = self._running
        try:
            await process.channel.send(line)
        except LinkError as error:
            # What it last said, and how it left, is heard by the reader and tells more.
            await asyncio.wait([process.reader], timeout=_LEAVING)
            self._lose(process, error)

    @property
    def _running(self) -> "_Process":
        assert self._process is not None
        return self._process

    async def interrupt(self) -> None:
        """Stop the turn, also one that waits in the program's own queue."""
        self._running.answers.is_interrupted = True
        turn = self._turn
        if turn is None:
            return
        turn.withdraw_messages()
        try:
            answer = await self._running.channel.request("interrupt", cancel_queued=True)
        except RpcError as error:
            _log.warning("%s refused to be interrupted: %s", self._launch.agent, error)
            return
        if turn.prompt in as_list(answer.get("cancelled")):
            turn.finish(TurnOutcome(stop="cancelled"))

    async def rewind(self, turns: int) -> None:
        """Go on in a copy of the conversation without its last turns, in another process.

        The conversation itself stays on disk, and its process runs until the other is ready.

        Raises:
            UnsupportedError: it has not run so many since it was started, or it refused.
            LinkError: it is gone.
        """
        if self._over is not None:
            raise self._over
        what = f"go back {turns} turns in its conversation"
        entry = self._entries[-turns - 1] if turns < len(self._entries) else None
        if entry is None:
            known = "Only turns since its process was started can be taken back."
            raise UnsupportedError(self._launch.agent, self.transport, what, known)
        session = str(uuid.uuid4())
        try:
            async with asyncio.timeout(self._opening.start_limit):
                process = await self._open_copy(entry, session)
        except (OpenFailedError, LinkError, TimeoutError) as error:
            why = str(error) or "It did not start in time."
            raise UnsupportedError(self._launch.agent, self.transport, what, why) from error
        former, self._process = self._running, process
        await former.close(LinkClosedError("its conversation goes on in another process"))
        del self._entries[-turns:]
        self._session = session
        await self._host.emit(SessionChanged(agent_session=session))

    async def _open_copy(self, entry: str, session: str) -> "_Process":
        """A process that knows the conversation up to an entry; empty: nothing of it."""
        opening = self._opening.with_options(
            resume=self._session if entry else None, fork=bool(entry)
        )
        words = command_words(self._launch, opening, self.transport, session=session, mcp=self._mcp)
        words += render_option(self._launch, self.transport, "rewind", entry or None)
        process = await self._launch_process(opening, words)
        try:
            await self._greet(process)
            if self._over is not None:
                raise self._over
        except BaseException:
            await process.close(LinkClosedError("it is not needed"))
            raise
        return process

    async def set_mode(self, mode: str) -> None:
        """Change the program's own permission mode."""
        await self._change(f"use the mode {mode!r}", "set_permission_mode", mode=mode)
        self._opening = self._opening.with_options(agent_mode=mode)

    async def set_model(self, model: str) -> None:
        """Change the model."""
        await self._change(f"use the model {model!r}", "set_model", model=model)
        self._opening = self._opening.with_options(model=model)

    async def set_option(self, option: str, value: str | bool) -> None:
        """It has no other settings to change."""
        raise UnsupportedError(self._launch.agent, self.transport, f"change the option {option!r}")

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """It cannot list its sessions."""
        raise UnsupportedError(self._launch.agent, self.transport, "list its sessions")

    async def _change(self, what: str, subtype: str, **fields: Any) -> None:
        try:
            await self._running.channel.request(subtype, **fields)
        except RpcError as error:
            raise UnsupportedError(
                self._launch.agent, self.transport, what, error.message
            ) from error

    # Listening

    async def _hear(self, process: "_Process", line: JsonLine) -> None:
        if line.value is None:
            item = process.translator.noise(line.text)
            if item.event is not None:
                await self._host.emit(item.event)
            return
        match line.value.get("type"):
            case "control_request":
                for item in process.translator.asked(as_map(line.value.get("request"))):
                    if item.event is not None:
                        await self._host.emit(item.event, parent=item.parent)
                process.answers.begin(line.value)
            case "control_response":
                await self._answered(process, as_map(line.value.get("response")))
            case "control_cancel_request":
                process.answers.withdraw(line.value)
            case _:
                if self._turn is not None:
                    self._turn.hear(line.value)
                await self._tell(process, line.value)

    async def _tell(self, process: "_Process", line: Mapping[str, Any]) -> None:
        for item in process.translator.read(line):
            if item.event is not None:
                self._note_session(item.event)
                await self._host.emit(item.event, parent=item.parent)
            elif item.outcome is not None:
                await self._end_turn(process, line, item.outcome)

    def _note_session(self, event: Event) -> None:
        if isinstance(event, SessionChanged) and isinstance(event.agent_session, str):
            self._session = event.agent_session

    async def _end_turn(
        self, process: "_Process", line: Mapping[str, Any], outcome: TurnOutcome
    ) -> None:
        if self._turn is not None and self._turn.end(line, outcome):
            return
        if process.channel.is_asking:
            process.refusal = failure_of(line)
        else:
            reason = "it ends a turn that we did not start"
            await self._host.emit(UnknownEvent(origin=self._origin, raw=line, reason=reason))

    async def _answered(self, process: "_Process", response: Mapping[str, Any]) -> None:
        waiting = process.channel.answered(response)
        if waiting is None:
            return
        answer = as_map(response.get("response"))
        for event in process.translator.answer(answer):
            await self._host.emit(event)
        if not waiting.done():
            waiting.set_result(answer)

    # Ending

    def _lose(self, process: "_Process", error: LinkError) -> None:
        """Everybody who waits hears that the program is gone."""
        process.channel.close(error)
        if process is not self._process:
            return
        self._over = self._over or error
        if self._turn is not None:
            self._turn.fail(self._over)
        self._host.lost(self._over)

    async def end(self) -> AgentExit | None:
        """End the program and all that it started."""
        if self._ending is None:
            self._ending = start_task(self._end(), name="claude: end")
        return await asyncio.shield(self._ending)

    async def _end(self) -> AgentExit | None:
        closed = LinkClosedError(f"the session of {self._launch.agent} is closed")
        self._over = self._over or closed
        try:
            return await self._process.child.end() if self._process is not None else None
        finally:
            if self._process is not None:
                await self._process.close(self._over)
            if self._turn is not None:
                self._turn.fail(self._over)
            if self._system is not None:
                await self._system.close()
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


class _Process:
    """A process of the program, which is heard until it leaves or is closed."""

    def __init__(
        self,
        child: AgentProcess,
        channel: ClaudeControlChannel,
        answers: ClaudeRequestHandler,
        translator: ClaudeTranslator,
        hear: "Callable[[_Process, JsonLine], Awaitable[None]]",
        lose: "Callable[[_Process, LinkError], None]",
    ) -> None:
        self.child = child
        self.channel = channel
        self.answers = answers
        self.translator = translator
        self.refusal = ""
        """Why it did not open its session, in its words."""
        self.reader = start_task(self._read(hear, lose), name="claude: read")

    async def _read(
        self,
        hear: "Callable[[_Process, JsonLine], Awaitable[None]]",
        lose: "Callable[[_Process, LinkError], None]",
    ) -> None:
        problem: LinkError | None = None
        try:
            async for line in read_lines(self.child.process):
                await hear(self, line)
        except LinkError as error:
            problem = error
        lose(self, await _departed(self.child, problem))

    async def close(self, error: LinkError) -> None:
        """Hear nothing more, and end it with all that it started."""
        self.reader.cancel()
        await asyncio.wait([self.reader])
        await self.answers.close()
        self.channel.close(error)
        await self.child.end()


async def _departed(child: AgentProcess, problem: LinkError | None) -> LinkError:
    """Why there is no more output."""
    if problem is not None:
        return problem
    try:
        async with asyncio.timeout(_LEAVING):
            left = await child.left()
    except TimeoutError:
        return LinkBrokenError("it closed its output and is still running", stderr=child.stderr())
    if left.exit_code == 0:
        return LinkEndedError("it left")
    how = f"exit code {left.exit_code}" if left.signal is None else left.signal
    last = left.stderr.splitlines()[-1] if left.stderr else ""
    return LinkBrokenError(
        f"it exited with {how}: {last}" if last else f"it exited with {how}",
        exit_code=left.exit_code,
        signal=left.signal,
        stderr=left.stderr,
    )


def _write_private(path: Path, content: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)


if TYPE_CHECKING:
    from ...link import AgentLink

    _link: AgentLink = ClaudeLink(Launch(agent="claude", command=("claude",)))
