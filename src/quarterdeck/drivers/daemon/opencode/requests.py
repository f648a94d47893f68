"""Requests of ``opencode serve``: permission for a call, answers from a person."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, cast

from quarterdeck.net.http1 import HttpError
from quarterdeck.policy.foreign_calls import UNSEEN
from quarterdeck.wire.events import PermissionAsked, QuestionAsked
from quarterdeck.wire.ids import ToolCallId, new_request_id, new_tool_call_id
from quarterdeck.wire.tasks import cancel_tasks, start_task
from quarterdeck.wire.tool_calls import ToolCallLocation

from ...foreign_json import as_list, as_map, as_text, output_content, tool_kind
from ...link import LinkHost
from .client import OpencodeAnswerError, OpencodeClient, OpencodeStatusError, path_of

__all__ = ["OpencodeRequestHandler"]

_log = logging.getLogger(__name__)
_AGAIN = 0.5
"""Seconds until an answer that did not get through is sent again."""
_DENIED = "The person did not allow this call."


class OpencodeRequestHandler:
    """Answers the requests of a server, each once and in a task of its own.

    Requests come from the stream and, after it was cut, from lists; the server forgets one when
    it has been answered.
    """

    def __init__(self, agent: str, host: LinkHost, api: OpencodeClient) -> None:
        self._agent = agent
        self._host = host
        self._api = api
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._decided: set[str] = set()
        """Requests that are being answered, or were."""
        self.is_interrupted = False
        """Whether the turn is being stopped; the server then forgets what it asked."""

    def permission(self, asked: Mapping[str, Any], call: Mapping[str, Any]) -> None:
        """A permission request; ``call`` is the part of the tool call, if it is known."""
        self._begin(as_text(asked.get("id")), self._permit, asked, call)

    def question(self, asked: Mapping[str, Any]) -> None:
        """Something that a person is to answer."""
        self._begin(as_text(asked.get("id")), self._ask, asked, {})

    def withdraw(self, request: str) -> None:
        """It was answered elsewhere; our decision is no longer needed."""
        task = self._tasks.get(request)
        if task is not None and request not in self._decided:
            self._decided.add(request)
            task.cancel()

    def keep(self, requests: Iterable[str]) -> None:
        """Only these are still open at the server."""
        for request in self._tasks.keys() - set(requests):
            self.withdraw(request)

    async def close(self) -> None:
        """Leave everything unanswered."""
        await cancel_tasks(self._tasks.values())

    def _begin(
        self,
        request: str,
        answer: "Any",
        asked: Mapping[str, Any],
        call: Mapping[str, Any],
    ) -> None:
        if not request or request in self._tasks or request in self._decided:
            return
        step: Coroutine[Any, Any, None] = answer(request, asked, call)
        task = self._tasks[request] = start_task(step, name=f"opencode: request {request}")
        task.add_done_callback(lambda done: self._done(request, done))

    def _done(self, request: str, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(request, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a request of %s was not answered", self._agent, exc_info=error)

    async def _permit(
        self, request: str, asked: Mapping[str, Any], call: Mapping[str, Any]
    ) -> None:
        verdict = await self._host.permit(permission_of(asked, call))
        self._decided.add(request)
        if verdict.cancelled and self.is_interrupted:
            return
        # Without a message the whole turn would end with the refusal.
        answer = {"reply": "reject", "message": verdict.model_reason or _DENIED}
        if verdict.allowed:
            answer = {"reply": "once"}
        await self._send(path_of("permission", request, "reply"), answer)

    async def _ask(self, request: str, asked: Mapping[str, Any], _: Mapping[str, Any]) -> None:
        questions = [as_map(one) for one in as_list(asked.get("questions"))]
        answered = await self._host.ask(_question_of(asked, questions))
        self._decided.add(request)
        if answered.action != "accept":
            if not self.is_interrupted:
                await self._send(path_of("question", request, "reject"), {})
            return
        given = answered.content or {}
        answers = [_answer_text(given.get(f"q{number}")) for number, _ in enumerate(questions, 1)]
        await self._send(path_of("question", request, "reply"), {"answers": answers})

    async def _send(self, path: str, answer: Mapping[str, Any]) -> None:
        """Send an answer until it gets through: the server waits for it for ever."""
        while True:
            with suppress(HttpError):
                with suppress(
                    OpencodeStatusError, OpencodeAnswerError
                ):  # it was answered elsewhere
                    await self._api.post(path, answer)
                return
            await asyncio.sleep(_AGAIN)


def permission_of(asked: Mapping[str, Any], call: Mapping[str, Any]) -> PermissionAsked:
    """The question in a permission request.

    Opencode's own "always" is not offered: it would make it stop asking us, and what a person
    allows for longer is kept by the session's own gate.
    """
    about, metadata = as_map(asked.get("tool")), as_map(asked.get("metadata"))
    permission = as_text(asked.get("permission"))
    given = dict(as_map(as_map(call.get("state")).get("input")) or metadata)
    name = as_text(call.get("tool")) or permission
    patterns = [as_text(one) for one in as_list(asked.get("patterns"))]
    paths = [as_text(metadata.get("filepath")), as_text(given.get("filePath"))]
    paths = [path for path in paths if path] or [""]
    # Ids of calls are the model's: the request may be about another one than the call.
    named, command = as_text(metadata.get("command")), as_text(given.get("command"))
    if named and named != command:
        given[UNSEEN] = f"the request names another command: {named!r}"
    if permission == "external_directory":
        paths += [pattern.removesuffix("/*") for pattern in patterns]
    about_path = f"{name} {paths[0]}" if paths[0] else f"{permission}: {', '.join(patterns)}"
    title = command or about_path
    id_ = as_text(about.get("callID"))
    return PermissionAsked(
        request=new_request_id(),
        call=ToolCallId(id_) if id_ else new_tool_call_id(),
        title=title,
        options=(),
        kind=tool_kind(name),
        name=name or None,
        content=output_content(as_text(metadata.get("diff"))),
        locations=tuple(ToolCallLocation(path=path) for path in dict.fromkeys(paths) if path),
        raw_input=given,
        reason=f"It accesses paths outside its directory: {', '.join(patterns)}"
        if permission == "external_directory"
        else None,
    )


def _question_of(asked: Mapping[str, Any], questions: list[Mapping[str, Any]]) -> QuestionAsked:
    properties = {f"q{number}": _property(one) for number, one in enumerate(questions, 1)}
    call = as_text(as_map(asked.get("tool")).get("callID"))
    return QuestionAsked(
        request=new_request_id(),
        text="\n".join(as_text(one.get("question")) for one in questions),
        form={"type": "object", "properties": properties, "required": list(properties)},
        call=ToolCallId(call) if call else None,
    )


def _property(question: Mapping[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "title": as_text(question.get("header")) or as_text(question.get("question")),
        "description": as_text(question.get("question")),
    }
    choices = [
        {"const": label, "title": label, "description": as_text(one.get("description"))}
        for one in map(as_map, as_list(question.get("options")))
        if (label := as_text(one.get("label")))
    ]
    if question.get("multiple") is True and choices:
        return {"type": "array", "items": {"anyOf": choices}, **about}
    if choices and question.get("custom") is False:
        return {"type": "string", "oneOf": choices, **about}
    return {"type": "string", "examples": [one["const"] for one in choices], **about}


def _answer_text(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(one) for one in cast("list[Any]", value)]
    return [] if value is None else [str(value)]
