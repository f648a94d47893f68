"""Recorded traffic of real agents, read by the same code that reads the living ones."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quarterdeck.drivers.link import AgentExit, TurnOutcome
from quarterdeck.drivers.pipe.dialect import PipeDialect, TurnContext
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    SessionChanged,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    UnknownEvent,
)

__all__ = ["Replay", "lines_of", "replay"]

FOLDER = Path(__file__).parents[1] / "drivers" / "captures"


@dataclass
class Replay:
    """What became of a recorded turn."""

    events: list[Event] = field(default_factory=list[Event])
    outcome: TurnOutcome = field(default_factory=lambda: TurnOutcome(stop="failed"))
    stderr: str = ""

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        return _joined(self.all(MessageChunk))

    @property
    def thoughts(self) -> str:
        return _joined(self.all(ThoughtChunk))

    @property
    def messages(self) -> int:
        return len({event.message for event in self.all(MessageChunk)})

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Of each tool call: its name, its kind, how it ended."""
        ends = {event.call: event.status for event in self.all(ToolCallEnded)}
        starts = self.all(ToolCallStarted)
        assert len({start.call for start in starts}) == len(starts)
        assert set(ends) == {start.call for start in starts}
        return [(start.name, start.kind, ends[start.call]) for start in starts]

    @property
    def sessions(self) -> set[str]:
        return {event.agent_session for event in self.all(SessionChanged)}


def lines_of(capture: str) -> list[dict[str, Any]]:
    """The lines of a capture, such as ``codex-0.166.0/pipe/text``."""
    return [json.loads(line) for line in (FOLDER / f"{capture}.jsonl").read_text().splitlines()]


def replay(dialect: PipeDialect, capture: str, asked: TurnContext | None = None) -> Replay:
    """Read a recorded turn, to its recorded exit."""
    reader = dialect.reader(asked or TurnContext())
    done = Replay()
    left = AgentExit()
    lines = lines_of(capture)
    done.stderr = "\n".join(line["line"] for line in lines if line["dir"] == "err")
    for line in lines:
        if line["dir"] == "out":
            done.events += reader.read(json.loads(line["line"]))
        elif line["dir"] == "exit":
            left = AgentExit(exit_code=line["code"], stderr=done.stderr)
    done.outcome = reader.outcome(left)
    assert not done.all(UnknownEvent)
    return done


def _joined(chunks: list[Any]) -> str:
    return "".join(c.content.text for c in chunks if isinstance(c.content, TextContent))
