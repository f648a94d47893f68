"""Recorded programs, with the grid that other emulators make of what they drew."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarterdeck.terminal.emulator import GridRow

__all__ = ["FOLDER", "PROGRAMS", "Program", "Step", "looks_of", "program", "runs_of", "without_end"]

FOLDER = Path(__file__).parents[1] / "fixtures" / "programs"
PROGRAMS = sorted(file.stem for file in FOLDER.glob("*.json"))
_FLAGS = ("bold", "italic", "underline", "inverse")

Step = bytes | tuple[int, int]
"""Bytes, or a new size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    size: tuple[int, int]
    steps: list[Step]
    rows: list[str]
    cursor: tuple[int, int]
    styles: dict[int, list[Any]]

    @property
    def raw(self) -> bytes:
        """All bytes, whatever the sizes were."""
        return b"".join(step for step in self.steps if isinstance(step, bytes))


def program(name: str, meta: dict[str, Any] | None = None) -> Program:
    meta = meta or json.loads((FOLDER / f"{name}.json").read_text())
    stream = FOLDER / meta.get("stream", f"{name}.bin.gz")
    raw = gzip.decompress(stream.read_bytes())[: meta.get("until")]
    steps: list[Step] = []
    at = 0
    for resize in meta.get("resizes", []):
        steps += [raw[at : resize["at"]], (resize["size"][0], resize["size"][1])]
        at = resize["at"]
    return Program(
        size=(meta["size"][0], meta["size"][1]),
        steps=[*steps, raw[at:]],
        rows=meta.get("rows", []),
        cursor=tuple(meta.get("cursor", (0, 0))),
        styles={int(row): runs for row, runs in meta.get("styles", {}).items()},
    )


def looks_of(row: GridRow) -> list[tuple[str, tuple[Any, ...]]]:
    """Each character with its colours and attributes; blanks at the end are left out."""
    found: list[tuple[str, tuple[Any, ...]]] = []
    for span in row.spans:
        style = span.style
        names = [name for name in _FLAGS if getattr(style, name)]
        found += [(one, (style.foreground, style.background, *names)) for one in span.text]
    return without_end(found)


def without_end(row: list[tuple[str, tuple[Any, ...]]]) -> list[tuple[str, tuple[Any, ...]]]:
    """Without blanks at the end: tmux does not tell the colour of what was erased."""
    while row and row[-1][0] == " " and "inverse" not in row[-1][1]:
        row.pop()
    return row


def runs_of(row: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
    """Characters that look the same together, as they stand in the files."""
    found: list[Any] = []
    for text, looks in row:
        plain = [list(one) if isinstance(one, tuple) else one for one in looks]
        if found and found[-1][1] == plain:
            found[-1][0] += text
        else:
            found.append([text, plain])
    return found
