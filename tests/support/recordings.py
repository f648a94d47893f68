"""What a client and an agent said to each other, as ``tests/interop/recorder.py`` wrote it down."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.acp_schema import FrameJudge, is_request

__all__ = ["Frame", "Recording"]


@dataclass(frozen=True, slots=True)
class Frame:
    time: float
    """Seconds, on a clock that only goes forward."""
    way: str
    """``in``: to the agent; ``out``: from it."""
    message: dict[str, Any]

    @property
    def method(self) -> str:
        return self.message.get("method", "")

    @property
    def params(self) -> dict[str, Any]:
        return self.message.get("params") or {}


class Recording:
    """The frames of every agent that was started, each agent's in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def agents(self) -> list[list[Frame]]:
        """Complete lines only: it may be read while it is written."""
        return [list(_frames(path)) for path in sorted(self.folder.glob("*.jsonl"))]

    def frames(self) -> list[Frame]:
        return [frame for agent in self.agents() for frame in agent]

    def methods(self, way: str) -> list[str]:
        return [frame.method for frame in self.frames() if frame.way == way and frame.method]

    def updates(self, kind: str) -> list[dict[str, Any]]:
        found = (frame.params.get("update", {}) for frame in self.frames())
        return [update for update in found if update.get("sessionUpdate") == kind]

    def stops(self) -> list[str]:
        results = [frame.message.get("result") for frame in self.frames() if frame.way == "out"]
        return [each["stopReason"] for each in results if each and "stopReason" in each]

    def faults(self) -> list[str]:
        """What the official schema finds wrong in what the agents sent."""
        found: list[str] = []
        for agent in self.agents():
            judge = FrameJudge()
            judge.frames = [(frame.way, frame.message) for frame in agent]
            found += judge.faults()
        return found

    def cancel_times(self) -> list[float]:
        """Seconds from each cancel, as it reached the agent, to its prompt's answer."""
        return [seconds for agent in self.agents() for seconds in _cancel_times(agent)]


def _frames(path: Path) -> Iterator[Frame]:
    for line in path.read_text().split("\n")[:-1]:
        time, way, text = json.loads(line)
        yield Frame(time, way, json.loads(text))


def _cancel_times(frames: list[Frame]) -> Iterator[float]:
    prompts: dict[str, Any] = {}
    cancelled: dict[Any, float] = {}
    for frame in frames:
        session = frame.params.get("sessionId")
        if frame.way == "in" and frame.method == "session/prompt":
            prompts[str(session)] = frame.message["id"]
        elif frame.way == "in" and frame.method == "session/cancel":
            cancelled.setdefault(prompts.get(str(session)), frame.time)
        elif frame.way == "out" and not is_request(frame.message):
            began = cancelled.pop(frame.message.get("id"), None)
            if began is not None:
                yield frame.time - began
