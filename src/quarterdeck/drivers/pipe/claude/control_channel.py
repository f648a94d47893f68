"""Both ends of Claude Code's control protocol: what we ask it, and what it asks us."""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from quarterdeck.wire.errors import LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.tasks import cancel_tasks, start_task

from ...agent_process import AgentProcess
from ...foreign_json import as_map, as_text
from ...link import LinkHost
from . import control_messages as control

__all__ = ["ClaudeControlChannel", "ClaudeRequestHandler"]

_log = logging.getLogger(__name__)
_REFUSED = -32000


class ClaudeControlChannel:
    """Sends lines to the program, and requests whose answers come among its other lines."""

    def __init__(self, child: AgentProcess) -> None:
        self._child = child
        self._sending = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._count = 0
        self._over: LinkError | None = None

    @property
    def is_asking(self) -> bool:
        """Whether the program owes us an answer."""
        return any(not one.done() for one in self._waiting.values())

    async def send(self, line: Mapping[str, Any]) -> None:
        """Send an object.

        Raises:
            LinkError: the program takes no more.
        """
        if self._over is not None:
            raise self._over
        # ASCII alone: nothing in it can be taken for the end of a line.
        data = json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
        async with self._sending:
            await self._child.process.send(data)

    async def request(self, subtype: str, **fields: Any) -> Mapping[str, Any]:
        """Ask the program something.

        Raises:
            RpcError: it refuses.
            LinkError: it is gone.
        """
        self._count += 1
        id_ = f"quarterdeck-{self._count}-{subtype}"
        answer = self._waiting[id_] = asyncio.get_running_loop().create_future()
        try:
            with suppress(LinkError):  # why it is gone is heard by who reads
                await self.send(control.request_line(id_, subtype, **fields))
            if self._over is not None and not answer.done():
                raise self._over
            return await answer
        finally:
            self._waiting.pop(id_, None)

    def answered(self, response: Mapping[str, Any]) -> "asyncio.Future[Mapping[str, Any]] | None":
        """Who waits for this answer, unless it is a refusal or a repetition of our own words."""
        waiting = self._waiting.get(as_text(response.get("request_id")))
        if waiting is None or waiting.done():
            return None
        if response.get("subtype") != "success":
            error = as_text(response.get("error")) or "no reason given"
            waiting.set_exception(RpcError(_REFUSED, error))
            return None
        return waiting

    def close(self, error: LinkError) -> None:
        """Nothing more is sent or heard; may be called again."""
        self._over = self._over or error
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


class ClaudeRequestHandler:
    """Answers what the program asks, each in a task of its own: a person may take long."""

    def __init__(self, agent: str, host: LinkHost, channel: ClaudeControlChannel) -> None:
        self._agent = agent
        self._host = host
        self._channel = channel
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._decided: set[str] = set()
        self.is_interrupted = False
        """Whether the turn is being stopped."""

    def begin(self, line: Mapping[str, Any]) -> None:
        """Take a request."""
        id_ = as_text(line.get("request_id"))
        work = self._answer(id_, as_map(line.get("request")))
        task = start_task(work, name=f"claude: request {id_}")
        self._tasks[id_] = task
        task.add_done_callback(lambda done: self._done(id_, done))

    def withdraw(self, line: Mapping[str, Any]) -> None:
        """The program does not want to know any more."""
        task = self._tasks.get(as_text(line.get("request_id")))
        if task is not None and as_text(line.get("request_id")) not in self._decided:
            task.cancel()

    async def close(self) -> None:
        """Leave everything unanswered."""
        await cancel_tasks(self._tasks.values())

    def _done(self, id_: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(id_) is task:
            del self._tasks[id_]
            self._decided.discard(id_)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a request of %s was not answered", self._agent, exc_info=error)

    async def _answer(self, id_: str, request: Mapping[str, Any]) -> None:
        try:
            line = control.response_line(id_, await self._decide(request))
        except RpcError as error:
            line = control.error_line(id_, error.message)
        except QuarterdeckError as error:
            line = control.error_line(id_, str(error))
        # From here on the answer must not be cut in two by a request that is withdrawn.
        self._decided.add(id_)
        with suppress(LinkError):
            await self._channel.send(line)

    async def _before(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Say whether a call may be done that the program would not ask about."""
        if data.get("tool_name") == control.QUESTIONS:
            return {}
        asked = {"input": data.get("tool_input"), **data}
        verdict = await self._host.forbids(control.permission_of(asked))
        return control.answer_to_hook(verdict) if verdict is not None else {}

    async def _decide(self, request: Mapping[str, Any]) -> dict[str, Any]:
        subtype = as_text(request.get("subtype"))
        if subtype == "elicitation":
            question = control.elicitation_of(request)
            return control.answer_to_elicitation(await self._host.ask(question))
        if subtype == "hook_callback":
            return await self._before(as_map(request.get("input")))
        if subtype != "can_use_tool":
            raise RpcError(_REFUSED, f"Unsupported control request subtype: {subtype}")
        if request.get("tool_name") == control.QUESTIONS:
            asked = control.questions_of(request)
            if asked is not None:
                return control.answer_to_questions(request, await self._host.ask(asked))
        verdict = await self._host.permit(control.permission_of(request))
        return control.answer_to_permission(request, verdict, interrupted=self.is_interrupted)
