"""Requests of ``codex app-server``: permission for a call, answers from a person."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias, cast

from quarterdeck.policy.foreign_calls import UNSEEN, WIDER
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

_Answer: TypeAlias = Callable[
    [Mapping[str, Any], Mapping[str, Any]], Coroutine[Any, Any, Mapping[str, Any]]
]
"""Takes what is asked, and the call that it is about as codex described it."""
_Key: TypeAlias = tuple[str, str, str, str]

_QUIET = frozenset(
    (
        *("kind", "threadId", "turnId", "itemId", "approvalId", "startedAtMs", "environmentId"),
        *("command", "cwd", "commandActions", "reason", "availableDecisions"),
        # What an answer could grant for later; ours grants the call, once.
        *("proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments"),
    )
)
"""Fields of a request that grant nothing beyond its call."""
_WIDER = {
    "additionalPermissions": "a wider sandbox",
    "networkApprovalContext": "the network",
    "grantRoot": "writing anything below a directory for the rest of the session",
}
_ABOUT = ("type", "command", "cwd", "changes")
"""The fields of an item that say what it does."""


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
        self._ambiguous: set[str] = set()
        """Ids of calls that run, and under which another call began: ids are the model's."""
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
        id_ = as_text(item.get("id"))
        if method == "item/started":
            before = self._items.get(id_)
            if before is not None and any(before.get(key) != item.get(key) for key in _ABOUT):
                self._ambiguous.add(id_)
            self._items[id_] = item
        elif method == "item/completed":
            self._items.pop(id_, None)
        elif method == "serverRequest/resolved":
            self._withdraw(lambda key: key[0] == str(params.get("requestId")))

    def forget(self) -> None:
        """A turn is over, and with it its calls."""
        self._items.clear()
        self._ambiguous.clear()
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
        id_ = as_text(params.get("itemId"))
        # An id that comes again for something else does not get the answer of before.
        about = {key: value for key, value in params.items() if key not in ("startedAtMs",)}
        key = (str(request), method, id_, repr(sorted(about.items())))
        deciding = self._deciding.get(key)
        if deciding is None:
            asking = answer(params, self._items.get(id_, {}))
            deciding = self._deciding[key] = start_task(asking, name=f"codex: {method}")
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

    async def _command(
        self, params: Mapping[str, Any], item: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        data = {key: params[key] for key in ("command", "cwd") if params.get(key)}
        known = {**item, **data, "type": "commandExecution"}
        more = _marks(params, is_command=True)
        network = as_map(params.get("networkApprovalContext"))
        if not as_text(known.get("command")):
            known["command"] = f"connect to {as_text(network.get('host')) or 'the network'}"
        return _decision(await self._permit(params, known, more))

    async def _change(
        self, params: Mapping[str, Any], item: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        known = {**item, "type": "fileChange"}
        return _decision(await self._permit(params, known, _marks(params)))

    async def _permit(
        self, params: Mapping[str, Any], item: Mapping[str, Any], more: Mapping[str, Any]
    ) -> PermissionVerdict:
        title, name, kind, given = describe(item)
        call = as_text(params.get("itemId"))
        changes = map(as_map, as_list(item.get("changes")))
        paths = [as_text(one.get("path")) for one in changes]
        diffs = (as_text(as_map(one).get("diff")) for one in as_list(item.get("changes")))
        raw = {**given, **more}
        if call in self._ambiguous:
            raw[UNSEEN] = "; ".join(filter(None, (raw.get(UNSEEN), "two calls have this id")))
        question = PermissionAsked(
            request=new_request_id(),
            call=ToolCallId(call) if call else new_tool_call_id(),
            title=title,
            options=(),
            kind=kind,
            name=name,
            content=output_content("\n".join(filter(None, diffs))),
            locations=tuple(ToolCallLocation(path=path) for path in paths if path),
            raw_input=raw,
        )
        return await self._host.permit(question)

    async def _permissions(
        self, params: Mapping[str, Any], _: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Wider permissions for the rest of the turn; nothing is granted for longer."""
        asked = {key: value for key, value in as_map(params.get("permissions")).items() if value}
        call = as_text(params.get("itemId"))
        raw: dict[str, Any] = {"permissions": asked, WIDER: "a wider sandbox for this turn"}
        raw |= {key: params[key] for key in ("cwd", "environmentId") if params.get(key)}
        question = PermissionAsked(
            request=new_request_id(),
            call=ToolCallId(call) if call else new_tool_call_id(),
            title="Widen the sandbox",
            options=(),
            name="request_permissions",
            raw_input={**raw, **_justification(params)},
        )
        verdict = await self._host.permit(question)
        return {"permissions": asked if verdict.allowed else {}, "scope": "turn"}

    async def _questions(
        self, params: Mapping[str, Any], _: Mapping[str, Any]
    ) -> Mapping[str, Any]:
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

    async def _elicitation(
        self, params: Mapping[str, Any], _: Mapping[str, Any]
    ) -> Mapping[str, Any]:
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


def _marks(params: Mapping[str, Any], *, is_command: bool = False) -> dict[str, Any]:
    """What a request says beside its call: shown, and where it asks for more, decided.

    A field that we do not know may grant anything.
    """
    more = _justification(params)
    wider: list[str] = []
    for key, value in params.items():
        if key in _QUIET or value in (None, "", False) or value == {} or value == []:
            continue
        more[key] = value
        wider.append(f"{_WIDER.get(key) or 'what is not known'} ({key})")
    if wider:
        more[WIDER] = ", ".join(wider)
    environment = as_text(params.get("environmentId"))
    if environment not in ("", "local"):
        more[UNSEEN] = f"it runs in another environment, {environment!r}"
    if is_command and as_text(params.get("kind")) not in ("", "command"):
        more[UNSEEN] = "it is input for a program that runs"
    return more


def _justification(params: Mapping[str, Any]) -> dict[str, Any]:
    reason = as_text(params.get("reason"))
    return {"justification": reason} if reason else {}


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
