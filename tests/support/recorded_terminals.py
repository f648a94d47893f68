"""Recorded screens of real agents: raw bytes, the size they were drawn for, and what they mean."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarterdeck.terminal.emulator import Emulator, EmulatorBackend, open_emulator

__all__ = ["AGENTS", "RECORDINGS", "Recorded", "played", "recorded"]

FOLDER = Path(__file__).parents[1] / "fixtures" / "screens"
_DRAWN = b"\x1b[?2026l"
AGENTS = sorted(file.parent.name for file in FOLDER.glob("*/session.json"))
"""Those of which there is a whole session."""
RECORDINGS = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.json"))
"""All, by their names: sessions, dialogs, and what a model said that looks like one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    agent: str
    version: str
    size: tuple[int, int]
    moments: list[dict[str, Any]]
    raw: bytes

    def until(self, name: str) -> bytes:
        """What was drawn up to a moment."""
        return self.raw[: next(one["at"] for one in self.moments if one["name"] == name)]

    def pieces(self) -> Iterator[bytes]:
        """Each drawing as one piece, where the agent says when one is over; cut at each moment."""
        begun = 0
        for end in [*(moment["at"] for moment in self.moments), len(self.raw)]:
            part, begun = self.raw[begun:end], end
            if self.raw.count(_DRAWN) < 20:
                yield from (part[at : at + 512] for at in range(0, len(part), 512))
            else:
                *drawings, rest = part.split(_DRAWN)
                yield from (drawing + _DRAWN for drawing in drawings)
                yield rest


def recorded(name: str) -> Recorded:
    """A recording by its name; that of an agent alone is its session."""
    agent, _, scene = name.partition("/")
    file = FOLDER / agent / (scene or "session")
    meta = json.loads(file.with_suffix(".json").read_text())
    return Recorded(
        agent=meta["agent"],
        version=meta["version"],
        size=tuple(meta["size"]),
        moments=meta["moments"],
        raw=gzip.decompress(file.with_suffix(".bin.gz").read_bytes()),
    )


def played(data: bytes, size: tuple[int, int], backend: EmulatorBackend | None = None) -> Emulator:
    screen = open_emulator(*size, backend=backend)
    screen.feed(data)
    return screen
