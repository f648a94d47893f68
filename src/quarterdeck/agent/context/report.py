"""What fills the window, by source."""

from typing import TYPE_CHECKING

import msgspec

from quarterdeck.wire.conversation import ImagePart, Message, TextPart, ToolResultPart

from ..conversation import Conversation
from .token_estimate import bytes_of, weigh
from .token_meter import Thresholds

if TYPE_CHECKING:
    from ..session_setup import SessionSetup

__all__ = ["report"]

_INSTRUCTIONS = "\n# Instructions from "
_BAR = 30


def report(setup: "SessionSetup", conversation: Conversation, marks: Thresholds) -> str:
    """The sources of the next request with their tokens, largest groups first to last as sent."""
    sizes = _sources(setup, conversation)
    overhead = sum(size for name, size in sizes.items() if name in _BEFORE)
    total = conversation.gauge.tokens(conversation.size, overhead, setup.model.info.name)
    scale = total / max(1, sum(sizes.values()))
    rows = [(name, round(size * scale)) for name, size in sizes.items() if size]
    rows += [("reserve for the answer", marks.reserve)]
    rows += [("free", max(0, marks.usable - total))]
    share = total / marks.window
    lines = [
        f"{setup.model.info.name}: about {total:,} of {marks.window:,} tokens ({share:.0%})",
        *(_row(name, tokens, marks.window) for name, tokens in rows),
        f"Clears results at {marks.clear:,}, summarises at {marks.summarise:,}, "
        f"waits at {marks.wait:,}.",
    ]
    if not setup.context.enabled:
        lines[-1] = "Automatic clearing and summarising is off (context.enabled = false)."
    if conversation.memory.pins:
        lines.append(f"{len(conversation.memory.pins)} pinned.")
    return "\n".join(lines)


_BEFORE: tuple[str, ...] = ("system prompt", "instructions", "tools", "MCP tools")
_SOURCES = (*_BEFORE, "summary", "user", "assistant", "tool results")


def _sources(setup: "SessionSetup", conversation: Conversation) -> dict[str, int]:
    """Bytes by source, in the order in which they are sent."""
    base, *instructions = setup.system_prompt.split(_INSTRUCTIONS)
    sizes: dict[str, int] = dict.fromkeys(_SOURCES, 0)
    sizes["system prompt"] = bytes_of(base)
    sizes["instructions"] = sum(map(bytes_of, instructions))
    for spec in setup.toolbox.specs:
        source = "MCP tools" if spec.name.startswith("mcp__") else "tools"
        sizes[source] += len(msgspec.json.encode(spec))
    sizes["summary"] = conversation.head_size
    for message in conversation.recent_messages:
        for part in message.parts:
            size = weigh(Message(role=message.role, parts=(part,)))
            sizes[_source(message, part)] += size
    return sizes


def _source(message: Message, part: object) -> str:
    if message.role == "assistant":
        return "assistant"
    if isinstance(part, ToolResultPart):
        return "tool results"
    assert isinstance(part, TextPart | ImagePart)
    return "user"


def _row(name: str, tokens: int, window: int) -> str:
    bar = "█" * round(_BAR * tokens / window)
    return f"  {name:<24}{tokens:>10,}  {tokens / window:>4.0%}  {bar}".rstrip()
