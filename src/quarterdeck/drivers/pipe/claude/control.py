"""Claude Code's control protocol: its messages, and both ends of the channel.

Here is what is asked and what is answered; who waits for what is the link's business.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from quarterdeck.wire.errors import LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.events import PermissionAsked, QuestionAnswered, QuestionAsked
from quarterdeck.wire.ids import ToolCallId, new_request_id, new_tool_call_id
from quarterdeck.wire.tasks import cancel_tasks, start_task

from ...agent_process import AgentProcess
from ...foreign_json import as_list, as_map, as_text
from ...link import LinkHost, PermissionVerdict
from .tools import describe

__all__ = [
    "QUESTIONS",
    "ClaudeControlChannel",
    "ClaudeRequestHandler",
    "answer_to_elicitation",
    "answer_to_hook",
    "answer_to_permission",
    "answer_to_questions",
    "elicitation_of",
    "error_line",
    "hooks_before",
    "permission_of",
    "questions_of",
    "request_line",
    "response_line",
]

QUESTIONS = "AskUserQuestion"
"""The tool by which the model asks the person; permission for it is the answer itself."""


def request_line(id_: str, subtype: str, **fields: Any) -> dict[str, Any]:
    """A request of ours."""
    request = {"subtype": subtype, **fields}
    return {"type": "control_request", "request_id": id_, "request": request}


def response_line(id_: str, response: Mapping[str, Any]) -> dict[str, Any]:
    """Our answer to a request."""
    answer = {"subtype": "success", "request_id": id_, "response": response}
    return {"type": "control_response", "response": answer}


def error_line(id_: str, error: str) -> dict[str, Any]:
    """Our answer to a request that we cannot serve."""
    answer = {"subtype": "error", "request_id": id_, "error": error}
    return {"type": "control_response", "response": answer}


# Permission for a tool call


def permission_of(request: Mapping[str, Any]) -> PermissionAsked:
    """The question in a permission request.

    The standing answers that the agent suggests are not offered: they would make it stop asking
    us, and what a person allows for longer is kept by the session's own gate.
    """
    name = as_text(request.get("tool_name"))
    described = describe(name, request.get("input"))
    call = as_text(request.get("tool_use_id"))
    return PermissionAsked(
        request=new_request_id(),
        call=ToolCallId(call) if call else new_tool_call_id(),
        title=described.title,
        options=(),
        kind=described.kind,
        name=name or None,
        content=described.content,
        locations=described.locations,
        raw_input=request.get("input"),
    )


def answer_to_permission(
    request: Mapping[str, Any], verdict: PermissionVerdict, *, interrupted: bool
) -> dict[str, Any]:
    """The answer to the agent about a call."""
    if verdict.allowed:
        return {"behavior": "allow", "updatedInput": request.get("input") or {}}
    text = verdict.model_reason or "The person did not allow this call."
    return {"behavior": "deny", "message": text, "interrupt": interrupted}


def hooks_before() -> dict[str, Any]:
    """Settings that make the program report every call before it does it, asked about or not."""
    return {"PreToolUse": [{"matcher": None, "hookCallbackIds": ["gate"]}]}


def answer_to_hook(verdict: PermissionVerdict) -> dict[str, Any]:
    """What to say about a call that is about to be done."""
    decision = "ask" if verdict.cancelled else "deny"
    data = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": verdict.model_reason,
    }
    return {"hookSpecificOutput": data}


# Questions to the person

_OWN_WORDS = "_other"
"""The end of the name of the field for an answer besides the choices."""


def questions_of(request: Mapping[str, Any]) -> QuestionAsked | None:
    """The form for what the model asks; None if it cannot be read."""
    asked = _questions(request)
    if not asked:
        return None
    properties = {f"q{number}": _property(one) for number, one in enumerate(asked, 1)}
    required = [name for name, field in properties.items() if not _has_choices(field)]
    # Claude Code itself always offers another answer besides its choices.
    for name in [name for name in properties if name not in required]:
        properties[name + _OWN_WORDS] = {"type": "string", "title": "Other"}
    call = as_text(request.get("tool_use_id"))
    return QuestionAsked(
        request=new_request_id(),
        text="\n".join(as_text(one.get("question")) for one in asked),
        form={"type": "object", "properties": properties, "required": required},
        call=ToolCallId(call) if call else None,
    )


def answer_to_questions(request: Mapping[str, Any], answered: QuestionAnswered) -> dict[str, Any]:
    """The answer to the agent: allowed, with the answers in the call's own input."""
    if answered.action != "accept":
        return {"behavior": "deny", "message": "The person did not answer.", "interrupt": False}
    given = answered.content or {}
    answers = {
        as_text(one.get("question")): _answer_text(
            [*_listed(given.get(f"q{number}")), *_listed(given.get(f"q{number}{_OWN_WORDS}"))]
        )
        for number, one in enumerate(_questions(request), 1)
    }
    updated = {**as_map(request.get("input")), "answers": answers}
    return {"behavior": "allow", "updatedInput": updated}


def elicitation_of(request: Mapping[str, Any]) -> QuestionAsked:
    """What a tool server asks the person."""
    schema = request.get("requested_schema")
    return QuestionAsked(
        request=new_request_id(),
        text=as_text(request.get("message")),
        form=cast("dict[str, Any]", schema) if isinstance(schema, dict) else None,
        url=as_text(request.get("url")) or None,
    )


def answer_to_elicitation(answered: QuestionAnswered) -> dict[str, Any]:
    """The answer to the tool server."""
    content = {"content": answered.content} if answered.content is not None else {}
    return {"action": answered.action, **content}


def _questions(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = as_map(request.get("input")).get("questions")
    questions = map(as_map, as_list(listed))
    return [one for one in questions if as_text(one.get("question"))]


def _property(question: Mapping[str, Any]) -> dict[str, Any]:
    listed = question.get("options")
    options = map(as_map, as_list(listed))
    choices = [
        {"const": label, "title": label, "description": as_text(one.get("description"))}
        for one in options
        if (label := as_text(one.get("label")))
    ]
    shown: dict[str, Any] = {
        "title": as_text(question.get("header")) or as_text(question.get("question")),
        "description": as_text(question.get("question")),
    }
    if not choices:
        return {"type": "string", **shown}
    if question.get("multiSelect"):
        return {"type": "array", "items": {"anyOf": choices}, **shown}
    return {"type": "string", "oneOf": choices, **shown}


def _has_choices(field: Mapping[str, Any]) -> bool:
    return "oneOf" in field or "items" in field


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)
    return [] if value is None else [value]


def _answer_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in cast("list[Any]", value))
    return "" if value is None else str(value)


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
            with suppress(LinkError):  # the reader sees why it is gone
                await self.send(request_line(id_, subtype, **fields))
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
        """Nothing more is sent or received; may be called again."""
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
            line = response_line(id_, await self._decide(request))
        except RpcError as error:
            line = error_line(id_, error.message)
        except QuarterdeckError as error:
            line = error_line(id_, str(error))
        # From here on the answer must not be cut in two by a request that is withdrawn.
        self._decided.add(id_)
        with suppress(LinkError):
            await self._channel.send(line)

    async def _before(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Say whether a call may be done that the program would not ask about."""
        if data.get("tool_name") == QUESTIONS:
            return {}
        asked = {"input": data.get("tool_input"), **data}
        verdict = await self._host.forbids(permission_of(asked))
        return answer_to_hook(verdict) if verdict is not None else {}

    async def _decide(self, request: Mapping[str, Any]) -> dict[str, Any]:
        subtype = as_text(request.get("subtype"))
        if subtype == "elicitation":
            question = elicitation_of(request)
            return answer_to_elicitation(await self._host.ask(question))
        if subtype == "hook_callback":
            return await self._before(as_map(request.get("input")))
        if subtype != "can_use_tool":
            raise RpcError(_REFUSED, f"Unsupported control request subtype: {subtype}")
        if request.get("tool_name") == QUESTIONS:
            asked = questions_of(request)
            if asked is not None:
                return answer_to_questions(request, await self._host.ask(asked))
        verdict = await self._host.permit(permission_of(request))
        return answer_to_permission(request, verdict, interrupted=self.is_interrupted)
