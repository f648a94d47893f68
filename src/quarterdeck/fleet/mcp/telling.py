"""How one agent is told about another: a line for the model, facts for programs."""

from typing import Any

from quarterdeck.wire.events import QuestionAsked

from ..port import AgentInfo
from ..roster import Request
from .words import cut

__all__ = ["facts", "line"]

_LONGEST_QUESTION = 2_000


def facts(info: AgentInfo) -> dict[str, Any]:
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


def line(info: AgentInfo, asks: Request | None) -> str:
    """One agent in one line, and what it asks."""
    words = [f"{info.name} ({info.agent}): {_state(info)}"]
    if info.reason:
        words.append(f"because: {cut(info.reason, 300)}")
    if info.queue:
        words.append(f"{len(info.queue)} messages wait for it")
    told = "; ".join(words)
    if asks is not None and isinstance(asks.event, QuestionAsked):
        question = cut(asks.event.text, _LONGEST_QUESTION)
        told += f"\n  It asks you (request {asks.request}): {question}"
    return told


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
