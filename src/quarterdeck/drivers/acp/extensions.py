"""What agents report beside the protocol, in ``_meta``: read where it is known, never needed.

Terminals: an agent that runs commands itself shows their output as ``terminal_info``,
``terminal_output`` (or ``terminal_output_delta``) and ``terminal_exit`` of a tool call. Codex has
its retries and failures in ``codex``; Claude the tool's name and the call that a sub-agent belongs
to in ``claudeCode``, others the tool's name in ``goose``, ``tool_name`` and ``toolName``; several
the tokens of a turn in ``quota``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.events import Event, RateLimited, RetryScheduled, TerminalExited
from quarterdeck.wire.events import TerminalOutput as Output
from quarterdeck.wire.ids import TerminalId, ToolCallId
from quarterdeck.wire.tool_calls import ContentItem, ToolCallContent
from quarterdeck.wire.usage import TokenUsage

__all__ = [
    "TERMINAL_OUTPUT",
    "codex_error",
    "codex_failed",
    "parent_call",
    "quota",
    "speaks_of_more",
    "streamed_input",
    "terminal_events",
    "tool_name",
]

TERMINAL_OUTPUT: dict[str, Any] = {"terminal_output": True}
"""The ``_meta`` of client capabilities that asks for the output of terminals the agent runs."""

_TOO_MANY = 429

_MORE = re.compile(
    r"\bnetwork access\b|\b(?:http|https|socks5\w*) access to\b|\bsandbox permissions?\b", re.I
)

Meta = Mapping[str, Any]


def terminal_events(meta: Meta) -> Iterator[Event]:
    """What happened on a terminal that the agent runs itself: output first, then its exit."""
    for key in ("terminal_output", "terminal_output_delta"):
        fields = _object(meta.get(key))
        terminal, data = fields.get("terminal_id"), fields.get("data")
        if isinstance(terminal, str) and isinstance(data, str) and data:
            yield Output(terminal=TerminalId(terminal), data=data)
    fields = _object(meta.get("terminal_exit"))
    if isinstance(terminal := fields.get("terminal_id"), str):
        yield TerminalExited(
            terminal=TerminalId(terminal),
            exit_code=_number(fields.get("exit_code")),
            signal=_text(fields.get("signal")),
        )


def tool_name(meta: Meta | None) -> str | None:
    """The tool's own name, where the protocol's field for it is empty.

    Of an extension of Goose's, other than the one with its own tools, it is a server's tool.
    """
    if not meta:
        return None
    goose = _object(_object(meta.get("goose")).get("toolCall"))
    if name := _text(goose.get("toolName")):
        extension = _text(goose.get("extensionName")) or ""
        return name if extension in ("", "developer") else f"mcp__{extension}__{name}"
    candidates = (
        _object(meta.get("claudeCode")).get("toolName"),
        meta.get("tool_name"),  # vibe
        meta.get("toolName"),  # qwen
    )
    return next((name for one in candidates if (name := _text(one))), None)


def streamed_input(content: Iterable[ToolCallContent]) -> dict[str, Any] | None:
    """The arguments of a call, from an agent that shows them as they grow, such as Kimi.

    It shows them as the text of the call; what is not whole yet is no arguments.
    """
    texts = [
        item.content.text
        for item in content
        if isinstance(item, ContentItem) and isinstance(item.content, TextContent)
    ]
    if len(texts) != 1 or not texts[0].startswith("{"):
        return None
    try:
        return decode_json(texts[0].encode(), dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def speaks_of_more(text: str) -> bool:
    """Whether words of a request say that more than its command is asked for.

    Codex asks so for the network and for a wider sandbox; its arguments then show the command only.
    """
    return _MORE.search(text) is not None


def parent_call(meta: Meta | None) -> ToolCallId | None:
    """The call whose sub-agent says this."""
    if not meta:
        return None
    parent = _text(_object(meta.get("claudeCode")).get("parentToolUseId"))
    return ToolCallId(parent) if parent else None


def codex_error(meta: Meta) -> tuple[Event, ...]:
    """A failure that Codex will try to get over, or was held back by."""
    error = _object(_object(meta.get("codex")).get("error"))
    if not error:
        return ()
    reason = _text(error.get("additionalDetails")) or _text(error.get("message")) or "it failed"
    events: list[Event] = []
    if _TOO_MANY in _statuses(error.get("codexErrorInfo")):
        events.append(RateLimited(reason=reason))
    if error.get("willRetry") is True:
        attempt = _attempt(_text(error.get("message")) or "")
        events.append(RetryScheduled(attempt=attempt, delay=0.0, reason=reason))
    return tuple(events)


def codex_failed(meta: Meta) -> bool:
    """Whether Codex says that its turn has failed; its answer to the prompt does not."""
    status = _object(_object(meta.get("codex")).get("threadStatus"))
    return status.get("type") == "systemError"


def quota(meta: Meta | None) -> TokenUsage | None:
    """The tokens of a turn, from an agent whose answer has no ``usage``."""
    count = _object(_object(meta.get("quota")).get("token_count")) if meta else {}
    read, written = _number(count.get("input_tokens")), _number(count.get("output_tokens"))
    if read is None or written is None:
        return None
    return TokenUsage(input=read, output=written)


def _attempt(message: str) -> int:
    """The attempt that comes: ``Reconnecting... 1/2`` announces the second."""
    _, _, count = message.rpartition(" ")
    number = count.partition("/")[0]
    return int(number) + 1 if number.isdecimal() else 2


def _statuses(info: Any) -> list[Any]:
    return [_object(value).get("httpStatusCode") for value in _object(info).values()]


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
