"""Requests of ``codex app-server``: permission for a call, answers from a person."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias, cast

from quarterdeck.wire.events import PermissionAsked, QuestionAsked
from quarterdeck.wire.ids import ToolCallId, new_request_id, new_tool_call_id
from quarterdeck.wire.rpc.errors import MethodNotFoundError
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.tool_calls import ToolCallLocation

from ...foreign_json import as_list, as_map, as_text, output_content
from ...link import LinkHost, PermissionVerdict
from .items import describe

__all__ = ["CodexRequestHandler"]

_log = logging.getLogger(__name__)

_Answer: TypeAlias = Callable[[Mapping[str, Any]], Coroutine[Any, Any, Mapping[str, Any]]]
_Key: TypeAlias = tuple[str, str, str]


class CodexRequestHandler:
    """Answers the requests of a server, each once and in a task of its own.

    A server that several clients use asks all of them, and says when one has answered; one whose
    connection was cut is asked again, and goes on with what was being decided.
    """

    def __init__(self, host: LinkHost) -> None:
        self._host = host
        self._deciding: dict[_Key, asyncio.Task[Mapping[str, Any]]] = {}
        """Also what is decided, until the server confirms it."""
        self._items: dict[str, Mapping[str, Any]] = {}
        """The calls that run, as codex described them: what it asks about one says less."""
        self._answers: dict[str, _Answer] = {
            "item/commandExecution/requestApproval": self._command,
            "item/fileChange/requestApproval": self._change,
            "item/permissions/requestApproval": self._permissions,
            "item/tool/requestUserInput": self._questions,
            "mcpServer/elicitation/request": self._elicitation,
        }

    def saw(self, method: str, params: Mapping[str, Any]) -> None:
        """Remember a call until it is over."""
        item = as_map(params.get("item"))
        if method == "item/started":
            self._items[as_text(item.get("id"))] = item
        elif method == "item/completed":
            self._items.pop(as_text(item.get("id")), None)
        elif method == "serverRequest/resolved":
            self._withdraw(lambda key: key[0] == str(params.get("requestId")))

    def forget(self) -> None:
        """A turn is over, and with it its calls."""
        self._items.clear()
        self._deciding = {key: task for key, task in self._deciding.items() if not task.done()}

    async def answer(
        self, request: object, method: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Answer a request; ``request`` is its id.

        Raises:
            MethodNotFoundError: we serve no such thing, and say so.
            asyncio.CancelledError: the request was answered elsewhere.
        """
        answer = self._answers.get(method)
        if answer is None:
            raise MethodNotFoundError(method)
        key = (str(request), method, as_text(params.get("itemId")))
        deciding = self._deciding.get(key)
        if deciding is None:
            deciding = self._deciding[key] = start_task(answer(params), name=f"codex: {method}")
            deciding.add_done_callback(lambda task: self._done(key, task))
        # The connection that asked may end before there is an answer.
        return await asyncio.shield(deciding)

    def _done(self, key: _Key, task: "asyncio.Task[Mapping[str, Any]]") -> None:
        if task.cancelled():
            self._deciding.pop(key, None)
        elif (error := task.exception()) is not None:
            self._deciding.pop(key, None)
            _log.debug("a request of codex was not decided: %s", error)

    def withdraw_all(self) -> None:
        """Nothing is asked any more."""
        self._withdraw(lambda _: True)

    def _withdraw(self, is_meant: Callable[[_Key], bool]) -> None:
        for key in [key for key in self._deciding if is_meant(key)]:
            self._deciding.pop(key).cancel()

    async def close(self) -> None:
        """Leave everything unanswered."""
        tasks = list(self._deciding.values())
        self.withdraw_all()
        if tasks:
            await asyncio.wait(tasks)

    async def _command(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        item = self._items.get(as_text(params.get("itemId")), {})
        data = {key: params[key] for key in ("command", "cwd") if params.get(key)}
        known = {**item, **data, "type": "commandExecution"}
        if not as_text(known.get("command")):
            known["command"] = _network(params)
        return _decision(await self._permit(params, known))

    async def _change(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        item = self._items.get(as_text(params.get("itemId")), {})
        known = {**item, "type": "fileChange"}
        root = as_text(params.get("grantRoot"))
        return _decision(await self._permit(params, known, (root,) if root else ()))

    async def _permit(
        self, params: Mapping[str, Any], item: Mapping[str, Any], roots: tuple[str, ...] = ()
    ) -> PermissionVerdict:
        title, name, kind, given = describe(item)
        call = as_text(params.get("itemId"))
        changes = map(as_map, as_list(item.get("changes")))
        paths = [as_text(one.get("path")) for one in changes]
        diffs = (as_text(as_map(one).get("diff")) for one in as_list(item.get("changes")))
        question = PermissionAsked(
            request=new_request_id(),
            call=ToolCallId(call) if call else new_tool_call_id(),
            title=title,
            options=(),
            kind=kind,
            name=name,
            content=output_content("\n".join(filter(None, diffs))),
            locations=tuple(ToolCallLocation(path=path) for path in (*paths, *roots) if path),
            raw_input=given,
            reason=as_text(params.get("reason")) or None,
        )
        return await self._host.permit(question)

    async def _permissions(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wider permissions for the rest of the turn; nothing is granted for longer."""
        asked = as_map(params.get("permissions"))
        call = as_text(params.get("itemId"))
        question = PermissionAsked(
            request=new_request_id(),
            call=ToolCallId(call) if call else new_tool_call_id(),
            title=as_text(params.get("reason")) or "Widen the sandbox",
            options=(),
            name="request_permissions",
            raw_input=dict(asked),
        )
        verdict = await self._host.permit(question)
        return {"permissions": dict(asked) if verdict.allowed else {}, "scope": "turn"}

    async def _questions(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = [as_map(one) for one in as_list(params.get("questions"))]
        properties = {as_text(one.get("id")): _property(one) for one in asked}
        names = list(properties)
        # Choices with which another answer is taken have a field for that, and need none of both.
        open_ended = [
            as_text(one.get("id"))
            for one in asked
            if one.get("isOther") is True and "oneOf" in properties[as_text(one.get("id"))]
        ]
        properties |= {f"{name}_other": {"type": "string", "title": "Other"} for name in open_ended}
        required = [name for name in names if name not in open_ended]
        call = as_text(params.get("itemId"))
        question = QuestionAsked(
            request=new_request_id(),
            text="\n".join(as_text(one.get("question")) for one in asked),
            form={"type": "object", "properties": properties, "required": required},
            call=ToolCallId(call) if call else None,
        )
        answered = await self._host.ask(question)
        given = answered.content or {} if answered.action == "accept" else {}
        return {
            "answers": {
                id_: {
                    "answers": [
                        *_answer_texts(given.get(id_)),
                        *_answer_texts(given.get(f"{id_}_other")),
                    ]
                }
                for id_ in names
            }
        }

    async def _elicitation(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a tool server asks the person."""
        schema = params.get("requestedSchema")
        question = QuestionAsked(
            request=new_request_id(),
            text=as_text(params.get("message")),
            form=cast("dict[str, Any]", schema) if isinstance(schema, dict) else None,
            url=as_text(params.get("url")) or None,
        )
        answered = await self._host.ask(question)
        return {"action": answered.action, "content": answered.content}


def _decision(verdict: PermissionVerdict) -> Mapping[str, Any]:
    if verdict.allowed:
        return {"decision": "accept"}
    return {"decision": "decline"}


def _network(params: Mapping[str, Any]) -> str:
    context = as_map(params.get("networkApprovalContext"))
    return f"connect to {as_text(context.get('host')) or 'the network'}"


def _property(question: Mapping[str, Any]) -> dict[str, Any]:
    shown_: dict[str, Any] = {
        "title": as_text(question.get("header")) or as_text(question.get("question")),
        "description": as_text(question.get("question")),
        "type": "string",
    }
    options = map(as_map, as_list(question.get("options")))
    choices = [
        {"const": label, "title": label, "description": as_text(one.get("description"))}
        for one in options
        if (label := as_text(one.get("label")))
    ]
    if choices:
        shown_["oneOf"] = choices
    return shown_


def _answer_texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(one) for one in cast("list[Any]", value)]
    return [] if value is None else [str(value)]
