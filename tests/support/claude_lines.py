"""Recorded lines of Claude Code, and what a translator makes of lines."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.drivers.pipe.claude.events import ClaudeTranslator
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import Event, MessageChunk
from quarterdeck.wire.ids import ToolCallId

__all__ = ["CAPTURES", "Replayed", "recorded", "replay"]

CAPTURES = Path(__file__).parents[1] / "drivers" / "captures" / "claude-2.1.325"
E = TypeVar("E")


@dataclass(slots=True)
class Replayed:
    """Everything that lines said."""

    events: list[Event] = field(default_factory=list[Event])
    parents: list[ToolCallId | None] = field(default_factory=list["ToolCallId | None"])
    outcomes: list[TurnOutcome] = field(default_factory=list[TurnOutcome])

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        return "".join(
            event.content.text
            for event in self.all(MessageChunk)
            if event.role == "agent" and isinstance(event.content, TextContent)
        )


def recorded(scene: str) -> list[dict[str, Any]]:
    """What the program printed, such as in ``stream-json/approve``."""
    lines = map(json.loads, (CAPTURES / f"{scene}.jsonl").read_text().splitlines())
    return [line["msg"] for line in lines if line["dir"] == "a2c"]


def replay(lines: Iterable[dict[str, Any]]) -> Replayed:
    """Translate lines as a link does."""
    translator, heard = ClaudeTranslator("claude"), Replayed()
    for line in lines:
        if line.get("type") == "control_response":
            answer = line["response"].get("response") or {}
            heard.events.extend(translator.answer(answer))
        elif not str(line.get("type")).startswith("control_"):
            for told in translator.read(line):
                if told.event is not None:
                    heard.events.append(told.event)
                    heard.parents.append(told.parent)
                if told.outcome is not None:
                    heard.outcomes.append(told.outcome)
    return heard
