"""OpenAI Responses."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, assert_never

from quarterdeck.models.model import ModelStop
from quarterdeck.models.script import ScriptFailure, ScriptFault
from quarterdeck.models.script.performance import (
    SIGNATURE,
    TextBeat,
    ThinkingBeat,
    ToolInputBeat,
    ToolStartBeat,
)
from quarterdeck.models.script.question import ScriptConversation, ScriptQuestion
from quarterdeck.models.script.tools import OfferedTool
from quarterdeck.testing.wires.openai_chat import CREATED, error_body
from quarterdeck.testing.wires.wire import (
    ReplyEncoder,
    ServerWire,
    event,
    media_type,
    objects,
    table,
    text_of,
)
from quarterdeck.wire.conversation import Part, TextPart, ThinkingPart, ToolUsePart
from quarterdeck.wire.usage import TokenUsage

__all__ = ["ResponsesWire"]

_INCOMPLETE: dict[ModelStop, str] = {
    "max_tokens": "max_output_tokens",
    "refusal": "content_filter",
}


class ResponsesWire:
    """``POST /v1/responses``."""

    name = "responses"

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def read(self, path: str, body: dict[str, Any]) -> tuple[ScriptQuestion, bool]:
        """See ``ServerWire``."""
        history = ScriptConversation()
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        tools = list(objects(body.get("tools")))
        system = [str(body.get("instructions") or "")]
        for item in objects(items):
            if item.get("role") in ("system", "developer"):
                system.append(text_of(item.get("content")))
            # Some models get their tools as an entry of the conversation.
            tools += objects(item.get("tools") if item.get("type") == "additional_tools" else None)
            _read_item(item, history)
        form = table(table(body.get("text")).get("format"))
        question = history.question(
            system="\n".join(system),
            tools=tuple(_offered(tools)),
            schema=form.get("schema"),
            max_output=body.get("max_output_tokens"),
            model=str(body.get("model", "scripted")),
            source=body,
        )
        return question, bool(body.get("stream"))

    def encoder(self, question: ScriptQuestion, body: dict[str, Any]) -> ReplyEncoder:
        """See ``ServerWire``."""
        return _ResponsesEncoder(self._head(question))

    def whole(
        self, question: ScriptQuestion, parts: tuple[Part, ...], usage: TokenUsage, stop: ModelStop
    ) -> dict[str, Any]:
        """See ``ServerWire``."""
        free = {tool.name for tool in question.tools if tool.free}
        output = [_item(part, index, free) for index, part in enumerate(parts)]
        return _ended(self._head(question), output, usage, stop)

    def failure(self, failure: ScriptFailure) -> dict[str, Any]:
        """See ``ServerWire``."""
        return error_body(failure)

    def _head(self, question: ScriptQuestion) -> dict[str, Any]:
        return {
            "id": f"resp_{next(self._ids):024}",
            "object": "response",
            "created_at": CREATED,
            "model": question.model,
            "status": "in_progress",
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "metadata": {},
        }


_MCP, _JOINT = "mcp__", "__"
"""Tools of an MCP server come in a namespace of its own, and are called with it."""


def _offered(tools: list[dict[str, Any]], space: str = "") -> Iterator[OfferedTool]:
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from _offered(list(objects(tool.get("tools"))), str(tool.get("name") or ""))
            continue
        name = str(tool.get("name") or tool.get("type"))
        yield OfferedTool(
            name=f"{space}{_JOINT}{name}" if space.startswith(_MCP) else name,
            parameters=table(tool.get("parameters")),
            free=tool.get("type") == "custom",
        )


def _read_item(item: dict[str, Any], history: ScriptConversation) -> None:
    kind = str(item.get("type", "message"))
    if kind.endswith("_output"):
        output = item.get("output")
        history.add_result(str(item.get("call_id")), text_of(output))
    elif kind.endswith("_call"):
        history.add_answer(calls=True)
    elif kind == "message" and item.get("role") == "assistant":
        history.add_answer(calls=False)
    elif kind == "message" and item.get("role") == "user":
        content = item.get("content")
        blocks = [b for b in objects(content) if b.get("type") == "input_image"]
        images = [media_type(b.get("image_url")) for b in blocks]
        history.add_prompt([text_of(content)], images)


def _ended(
    head: dict[str, Any], output: list[dict[str, Any]], usage: TokenUsage, stop: ModelStop
) -> dict[str, Any]:
    tokens = {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thought},
        "total_tokens": usage.total,
    }
    reason = _INCOMPLETE.get(stop)
    return {
        **head,
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "output": output,
        "usage": tokens,
    }


def _item(part: Part, index: int, free: set[str]) -> dict[str, Any]:
    match part:
        case TextPart():
            return {**_message(index), "status": "completed", "content": [_text(part.text)]}
        case ThinkingPart():
            return {**_reasoning(index), "summary": [_summary(part.text)]}
        case ToolUsePart():
            start = ToolStartBeat(part.id.removeprefix("call_"), part.name, part.name in free)
            key = "input" if start.free else "arguments"
            return {**_call(start), "status": "completed", key: part.arguments}
        case _:
            raise AssertionError(f"a script tells no {type(part).__name__}")


def _message(index: int) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{index}",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }


def _reasoning(index: int) -> dict[str, Any]:
    id = f"rs_{index}"
    return {"type": "reasoning", "id": id, "summary": [], "encrypted_content": SIGNATURE}


def _call(start: ToolStartBeat) -> dict[str, Any]:
    kind = "custom_tool_call" if start.free else "function_call"
    space, joint, name = start.name.rpartition(_JOINT)
    if not (joint and space.startswith(_MCP)):
        return _plain_call(start, kind, start.name)
    return {**_plain_call(start, kind, name), "namespace": space}


def _plain_call(start: ToolStartBeat, kind: str, name: str) -> dict[str, Any]:
    return {
        "type": kind,
        "id": f"{'ctc' if start.free else 'fc'}_{start.id}",
        "status": "in_progress",
        "call_id": f"call_{start.id}",
        "name": name,
        "input" if start.free else "arguments": "",
    }


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


class _ResponsesEncoder:
    """Items are opened, filled and closed, each with a pair of events of its kind."""

    def __init__(self, head: dict[str, Any]) -> None:
        self._head = head
        self._sequence = itertools.count()
        self._done: list[dict[str, Any]] = []
        self._open: ToolStartBeat | type[TextBeat] | type[ThinkingBeat] | None = None
        self._pieces: list[str] = []

    def begin(self, input_tokens: TokenUsage) -> bytes:
        created = self._event("response.created", response=self._head)
        return created + self._event("response.in_progress", response=self._head)

    def beat(self, beat: TextBeat | ThinkingBeat | ToolStartBeat | ToolInputBeat) -> bytes:
        match beat:
            case TextBeat(text) | ThinkingBeat(text):
                opening = b"" if self._open is type(beat) else self._begin(type(beat))
                self._pieces.append(text)
                return opening + self._delta(text)
            case ToolStartBeat():
                return self._begin(beat)
            case ToolInputBeat(_, text):
                self._pieces.append(text)
                return self._delta(text)
            case _:
                assert_never(beat)

    def end(self, usage: TokenUsage, stop: ModelStop) -> bytes:
        closing = self._end_item()
        response = _ended(self._head, self._done, usage, stop)
        return closing + self._event(f"response.{response['status']}", response=response)

    def fail(self, fault: ScriptFault) -> bytes:
        code = "rate_limit_exceeded" if fault.status == 429 else "server_error"
        message = fault.message or "scripted failure in the middle"
        error = {"code": code, "message": message}
        return self._event(
            "response.failed", response={**self._head, "status": "failed", "error": error}
        )

    def _begin(self, kind: ToolStartBeat | type[TextBeat] | type[ThinkingBeat]) -> bytes:
        closing = self._end_item()
        self._open = kind
        added = self._event("response.output_item.added", **self._index(), item=self._item())
        if kind is TextBeat:
            added += self._event("response.content_part.added", **self._place(), part=_text(""))
        elif kind is ThinkingBeat:
            part = _summary("")
            added += self._event(
                "response.reasoning_summary_part.added", **self._place(), part=part
            )
        return closing + added

    def _delta(self, text: str) -> bytes:
        return self._event(f"{self._kind()}.delta", **self._place(), delta=text)

    def _end_item(self) -> bytes:
        if self._open is None:
            return b""
        text = "".join(self._pieces)
        item, part, key = self._item(), "", "text"
        if self._open is TextBeat:
            part, ending = "response.content_part.done", _text(text)
            item |= {"status": "completed", "content": [ending]}
        elif self._open is ThinkingBeat:
            part, ending = "response.reasoning_summary_part.done", _summary(text)
            item |= {"summary": [ending]}
        else:
            ending = None
            key = "input" if "input" in item else "arguments"
            item |= {"status": "completed", key: text}
        done = self._event(f"{self._kind()}.done", **self._place(), **{key: text})
        if ending is not None:
            done += self._event(part, **self._place(), part=ending)
        done += self._event("response.output_item.done", **self._index(), item=item)
        self._done.append(item)
        self._open = None
        self._pieces.clear()
        return done

    def _item(self) -> dict[str, Any]:
        """The open item as it is when it is added."""
        index = len(self._done)
        if isinstance(self._open, ToolStartBeat):
            return _call(self._open)
        return _message(index) if self._open is TextBeat else _reasoning(index)

    def _index(self) -> dict[str, Any]:
        return {"output_index": len(self._done)}

    def _place(self) -> dict[str, Any]:
        """Where in the output the open item's text belongs."""
        if isinstance(self._open, ToolStartBeat):
            prefix = "ctc" if self._open.free else "fc"
            return {"item_id": f"{prefix}_{self._open.id}", "output_index": len(self._done)}
        prefix, part = (
            ("msg", "content_index") if self._open is TextBeat else ("rs", "summary_index")
        )
        index = len(self._done)
        return {"item_id": f"{prefix}_{index}", "output_index": index, part: 0}

    def _kind(self) -> str:
        if isinstance(self._open, ToolStartBeat):
            free = self._open.free
            return f"response.{'custom_tool_call_input' if free else 'function_call_arguments'}"
        if self._open is TextBeat:
            return "response.output_text"
        return "response.reasoning_summary_text"

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": next(self._sequence), **fields}
        return event(data, kind)


if TYPE_CHECKING:
    _: ServerWire = ResponsesWire()
