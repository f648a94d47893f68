"""Agents as text for models: framed messages, one-line descriptions, facts for programs.

A framed message cannot be mistaken for a person's words: no text inside can end the frame.
"""

from html import escape
from typing import Any, Literal, TypeAlias

from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.events import QuestionAsked

from ..api import AgentInfo
from ..projections import OpenRequest

__all__ = [
    "NOT_A_PERSON",
    "AgentMessageKind",
    "cut",
    "describe_agent",
    "extract_prompt_text",
    "frame_agent_message",
    "list_agent_facts",
]

AgentMessageKind: TypeAlias = Literal["note", "question", "message", "answer", "done", "conflict"]
_TAG = "message-from-agent"
NOT_A_PERSON = "From another agent, not from the user:"
"""What stands before such words where they are a prompt."""


def frame_agent_message(
    name: str, kind: AgentMessageKind, words: str, *, request: str | None = None
) -> str:
    """What an agent says to another.

    ``<`` and ``&`` in the words are escaped, so that no words can end the frame, begin another or
    look like a frame of the reader's own system.
    """
    which = f' request="{escape(request)}"' if request is not None else ""
    frame = f'<{_TAG} name="{escape(name)}" kind="{kind}"{which}>'
    return f"{frame}\n{escape(words, quote=False)}\n</{_TAG}>"


def cut(words: str, most: int) -> str:
    """The words, or their beginning and how much is left out."""
    if len(words) <= most:
        return words
    return f"{words[:most]}… ({len(words) - most} more characters)"


def extract_prompt_text(content: tuple[ContentBlock, ...]) -> str:
    """The text of a prompt; other content by its kind."""
    return "\n".join(
        block.text if isinstance(block, TextContent) else f"[{block.__struct_config__.tag}]"
        for block in content
    )


_LONGEST_QUESTION = 2_000


def list_agent_facts(info: AgentInfo) -> dict[str, Any]:
    """What programs want to know."""
    return {
        "name": info.name,
        "id": info.session,
        "agent": info.agent,
        "state": info.state,
        "waits_for": info.waits_for,
        "needs_person": info.needs_person,
        "reason": info.reason,
        "cwd": info.cwd,
        "mode": info.mode,
        "tokens": info.usage.total,
        "archived": info.is_archived,
    }


def describe_agent(info: AgentInfo, asks: OpenRequest | None) -> str:
    """One agent in one line, and what it asks."""
    words = [f"{info.name} ({info.agent}): {_state(info)}"]
    if info.reason:
        words.append(f"because: {cut(info.reason, 300)}")
    if info.queue:
        words.append(f"{len(info.queue)} messages wait for it")
    line = "; ".join(words)
    if asks is not None and isinstance(asks.event, QuestionAsked):
        question = cut(asks.event.text, _LONGEST_QUESTION)
        line += f"\n  It asks you (request {asks.request}): {question}"
    return line


def _state(info: AgentInfo) -> str:
    match info.waits_for:
        case "permission":
            return "waiting for a person to permit something"
        case "person":
            return "waiting for a person's answer"
        case "agent":
            return "waiting for an agent's answer"
        case _:
            return f"{info.state}{', archived' if info.is_archived else ''}"
