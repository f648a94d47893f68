"""Claude Code, and who speaks its language, in one process for the whole session."""

import asyncio
import json
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarterdeck.drivers.agent_process import AgentProcess, Launch
from quarterdeck.drivers.driver import Capabilities, DriverSessionOptions
from quarterdeck.drivers.enforcement import Enforcement, enforcement_of
from quarterdeck.drivers.errors import (
    LoginMethod,
    LoginNeededError,
    OpenFailedError,
    UnsupportedError,
)
from quarterdeck.drivers.foreign_json import JsonLine, as_list, as_map, as_text, read_lines
from quarterdeck.drivers.link import AGENT_OPTIONS, AgentExit, LinkHost, StartedAgent, TurnOutcome
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
from quarterdeck.wire.events import UnknownEvent
from quarterdeck.wire.session_options import AgentMcpServer
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.usage import Cost

from . import control as control
from .control import ClaudeControlChannel, ClaudeRequestHandler
from .events import ClaudeTranslator
from .messages import failure_of
from .params import DIALECTS, blocks_of, command_words, mcp_config

__all__ = ["ClaudeLink", "ClaudeTurn"]

_log = logging.getLogger(__name__)

_READING = 2.0
"""Seconds after the end of its turn in which the program must begin with a message that it has."""


class ClaudeTurn:
    """A turn that we began.

    The program reads a further message before its next model call. One that comes after the last
    of them is answered in a turn of the program's own, which is part of ours: the turn ends when
    every message was read and answered.
    """

    def __init__(self) -> None:
        self.prompt = str(uuid.uuid4())
        """Our id of the prompt."""
        self.outcome: asyncio.Future[TurnOutcome] = asyncio.get_running_loop().create_future()
        self._messages = {self.prompt}
        self._unread: set[str] = set()
        self._answered: TurnOutcome | None = None
        """How the part of it went that has an end already."""
        self._ending: asyncio.TimerHandle | None = None

    @property
    def takes_messages(self) -> bool:
        """Whether a further message becomes part of it."""
        return not self.outcome.done() and self._ending is None

    def add_message(self) -> str:
        """The id of a further message."""
        name = str(uuid.uuid4())
        self._messages.add(name)
        self._unread.add(name)
        return name

    def withdraw_messages(self) -> None:
        """The turn is interrupted, and the program drops what it has not read."""
        self._unread.clear()

    def hear(self, line: Mapping[str, Any]) -> None:
        """The program repeats a message when it reads it, and tells when it begins with it."""
        if line.get("isReplay") is True:
            self._unread.discard(as_text(line.get("uuid")))
        elif line.get("type") == "command_lifecycle" and line.get("state") != "queued":
            self._unread.discard(as_text(line.get("command_uuid")))
        if self._ending is not None:
            self._ending.cancel()
            self._ending = self._end_later() if self._unread else None

    def end(self, line: Mapping[str, Any], outcome: TurnOutcome) -> bool:
        """A result of the program; False: it is of a turn that we did not begin."""
        named = [as_text(one) for one in as_list(line.get("user_message_uuids"))]
        if named and self._messages.isdisjoint(named):
            return False
        self._unread.difference_update(named)
        self._answered = _joined(self._answered, outcome)
        if self._unread and outcome.stop == "end_turn":
            self._ending = self._end_later()
        else:
            self.finish(self._answered)
        return True

    def finish(self, outcome: TurnOutcome) -> None:
        """It is over."""
        self.close()
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: LinkError) -> None:
        """The program is gone."""
        self.close()
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def close(self) -> None:
        """Wait for nothing more."""
        if self._ending is not None:
            self._ending.cancel()

    def _end_later(self) -> asyncio.TimerHandle:
        assert self._answered is not None
        loop = asyncio.get_running_loop()
        return loop.call_later(_READING, self.finish, self._answered)


def _joined(before: TurnOutcome | None, now: TurnOutcome) -> TurnOutcome:
    """Two parts of a turn as one."""
    if before is None:
        return now
    usages = [one.usage for one in (before, now) if one.usage is not None]
    costs = [one.cost for one in (before, now) if one.cost is not None]
    usage = usages[0] + usages[1] if len(usages) == 2 else next(iter(usages), None)
    cost = Cost(amount=sum(one.amount for one in costs), currency="USD") if costs else None
    return replace(now, usage=usage, cost=cost)


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
            self.capabilities = replace(self.capabilities, steers=True)
        self._translator = ClaudeTranslator(self._origin)
        self._host: LinkHost
        self._child: AgentProcess | None = None
        self._system: LocalSystem | None = None
        self._folder: str | None = None
        self._reader: asyncio.Task[None] | None = None
        self._channel: ClaudeControlChannel
        self._answers: ClaudeRequestHandler
        self._turn: ClaudeTurn | None = None
        self._over: LinkError | None = None
        self._refusal = ""
        self._ending: asyncio.Task[AgentExit | None] | None = None

    # Beginning

    def enforcement(self, opening: DriverSessionOptions) -> Enforcement:
        """What a session asks about, and what it does unasked."""
        return enforcement_of(self._launch, opening, asks=True)

    async def start(self, host: LinkHost) -> StartedAgent:
        """Start the program and greet it."""
        self._host = host
        opening = host.opening
        session = None
        if "session" in self._launch.words and (
            opening.options.resume is None or opening.options.fork
        ):
            session = str(uuid.uuid4())
        mcp = await self._write_servers(opening.options.mcp_servers)
        words = command_words(self._launch, opening, self.transport, session=session, mcp=mcp)
        self._system = LocalSystem(
            [opening.options.cwd, *opening.options.roots], guard=shared_guard()
        )
        self._child = await AgentProcess.start(self._launch, opening, self._system, words)
        self._channel = ClaudeControlChannel(self._child)
        self._answers = ClaudeRequestHandler(self._launch.agent, host, self._channel)
        self._reader = start_task(self._read(self._child), name="claude: read")
        try:
            hooks = control.hooks_before() if "read" in self._launch.asks else None
            greeting = await self._channel.request("initialize", hooks=hooks)
        except RpcError as error:
            raise OpenFailedError(f"{self._launch.agent} refused: {error.message}") from error
        except LinkError as error:
            if self._refusal:
                raise OpenFailedError(f"{self._launch.agent} refused: {self._refusal}") from error
            raise
        self._check_login(greeting)
        return self._started(opening, session, greeting)

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
        if self._answers.is_interrupted:  # before it was sent
            self._answers.is_interrupted = False
            return TurnOutcome(stop="cancelled")
        line = self._user_line(content)
        turn = self._turn = ClaudeTurn()
        try:
            await self._say({**line, "uuid": turn.prompt})
            return await turn.outcome
        finally:
            turn.close()
            self._turn = None
            self._answers.is_interrupted = False

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
        try:
            await self._channel.send(line)
        except LinkError as error:
            # What it last said, and how it left, is heard by the reader and tells more.
            assert self._reader is not None
            await asyncio.wait([self._reader], timeout=_LEAVING)
            self._lose(error)

    async def interrupt(self) -> None:
        """Stop the turn, also one that waits in the program's own queue."""
        self._answers.is_interrupted = True
        turn = self._turn
        if turn is None:
            return
        turn.withdraw_messages()
        try:
            answer = await self._channel.request("interrupt", cancel_queued=True)
        except RpcError as error:
            _log.warning("%s refused to be interrupted: %s", self._launch.agent, error)
            return
        if turn.prompt in as_list(answer.get("cancelled")):
            turn.finish(TurnOutcome(stop="cancelled"))

    async def set_mode(self, mode: str) -> None:
        """Change the program's own permission mode."""
        await self._change(f"use the mode {mode!r}", "set_permission_mode", mode=mode)

    async def set_model(self, model: str) -> None:
        """Change the model."""
        await self._change(f"use the model {model!r}", "set_model", model=model)

    async def set_option(self, option: str, value: str | bool) -> None:
        """It has no other settings to change."""
        raise UnsupportedError(self._launch.agent, self.transport, f"change the option {option!r}")

    async def list_sessions(self) -> tuple[Mapping[str, Any], ...]:
        """It cannot list its sessions."""
        raise UnsupportedError(self._launch.agent, self.transport, "list its sessions")

    async def _change(self, what: str, subtype: str, **fields: Any) -> None:
        try:
            await self._channel.request(subtype, **fields)
        except RpcError as error:
            raise UnsupportedError(
                self._launch.agent, self.transport, what, error.message
            ) from error

    # Listening

    async def _read(self, child: AgentProcess) -> None:
        problem: LinkError | None = None
        try:
            async for line in read_lines(child.process):
                await self._hear(line)
        except LinkError as error:
            problem = error
        self._lose(await _departed(child, problem))

    async def _hear(self, line: JsonLine) -> None:
        if line.value is None:
            await self._tell_noise(line.text)
            return
        match line.value.get("type"):
            case "control_request":
                for item in self._translator.asked(as_map(line.value.get("request"))):
                    if item.event is not None:
                        await self._host.emit(item.event, parent=item.parent)
                self._answers.begin(line.value)
            case "control_response":
                await self._answered(as_map(line.value.get("response")))
            case "control_cancel_request":
                self._answers.withdraw(line.value)
            case _:
                if self._turn is not None:
                    self._turn.hear(line.value)
                await self._tell(line.value)

    async def _tell(self, line: Mapping[str, Any]) -> None:
        for item in self._translator.read(line):
            if item.event is not None:
                await self._host.emit(item.event, parent=item.parent)
            elif item.outcome is not None:
                await self._end_turn(line, item.outcome)

    async def _end_turn(self, line: Mapping[str, Any], outcome: TurnOutcome) -> None:
        if self._turn is not None and self._turn.end(line, outcome):
            return
        if self._channel.is_asking:
            self._refusal = failure_of(line)
        else:
            reason = "it ends a turn that we did not start"
            await self._host.emit(UnknownEvent(origin=self._origin, raw=line, reason=reason))

    async def _tell_noise(self, text: str) -> None:
        item = self._translator.noise(text)
        if item.event is not None:
            await self._host.emit(item.event)

    async def _answered(self, response: Mapping[str, Any]) -> None:
        waiting = self._channel.answered(response)
        if waiting is None:
            return
        answer = as_map(response.get("response"))
        for event in self._translator.answer(answer):
            await self._host.emit(event)
        if not waiting.done():
            waiting.set_result(answer)

    # Ending

    def _lose(self, error: LinkError) -> None:
        """Everybody who waits hears that the program is gone."""
        self._over = self._over or error
        self._channel.close(self._over)
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
            return await self._child.end() if self._child is not None else None
        finally:
            await self._stop_listening(self._over)
            if self._system is not None:
                await self._system.close()
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _stop_listening(self, error: LinkError) -> None:
        if self._reader is None:
            return
        self._reader.cancel()
        await asyncio.wait([self._reader])
        await self._answers.close()
        self._channel.close(error)
        if self._turn is not None:
            self._turn.fail(error)


async def _departed(child: AgentProcess, problem: LinkError | None) -> LinkError:
    """Why there is nothing more to hear."""
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
    from quarterdeck.drivers.link import AgentLink

    _link: AgentLink = ClaudeLink(Launch(agent="claude", command=("claude",)))
