"""Claude Code's control protocol: requests in both directions, by id, among the other lines.

Here is what is asked and what is answered; who waits for what is the link's business.
"""

from collections.abc import Mapping
from typing import Any, cast

from quarterdeck.wire.events import PermissionAsked, QuestionAnswered, QuestionAsked
from quarterdeck.wire.ids import ToolCallId, new_request_id, new_tool_call_id

from ...foreign_json import as_list, as_map, as_text
from ...link import PermissionVerdict
from .tools import describe

__all__ = [
    "QUESTIONS",
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
"""The tool by which the model asks the person; leave for it is the answer itself."""


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


# Leave for a tool call


def permission_of(request: Mapping[str, Any]) -> PermissionAsked:
    """The question that a request for leave puts.

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
    """What to tell the agent about a call."""
    if verdict.allowed:
        return {"behavior": "allow", "updatedInput": request.get("input") or {}}
    told = verdict.told or "The person did not allow this call."
    return {"behavior": "deny", "message": told, "interrupt": interrupted}


def hooks_before() -> dict[str, Any]:
    """What makes the program tell us of every call before it does it, asked about or not."""
    return {"PreToolUse": [{"matcher": None, "hookCallbackIds": ["gate"]}]}


def answer_to_hook(verdict: PermissionVerdict) -> dict[str, Any]:
    """What to say about a call that is about to be done."""
    decision = "ask" if verdict.cancelled else "deny"
    told = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": verdict.told,
    }
    return {"hookSpecificOutput": told}


# Questions to the person


def questions_of(request: Mapping[str, Any]) -> QuestionAsked | None:
    """The form for what the model asks; None if it cannot be read."""
    asked = _questions(request)
    if not asked:
        return None
    properties = {f"q{number}": _property(one) for number, one in enumerate(asked, 1)}
    call = as_text(request.get("tool_use_id"))
    return QuestionAsked(
        request=new_request_id(),
        text="\n".join(as_text(one.get("question")) for one in asked),
        form={"type": "object", "properties": properties, "required": list(properties)},
        call=ToolCallId(call) if call else None,
    )


def answer_to_questions(request: Mapping[str, Any], answered: QuestionAnswered) -> dict[str, Any]:
    """What to tell the agent: leave, with the answers in the call's own input."""
    if answered.action != "accept":
        return {"behavior": "deny", "message": "The person did not answer.", "interrupt": False}
    given = answered.content or {}
    answers = {
        as_text(one.get("question")): _told(given.get(f"q{number}"))
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
    """What to tell the tool server."""
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


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in cast("list[Any]", value))
    return "" if value is None else str(value)
