"""Results: figures with a unit for each subject, as JSON and as a table."""

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["FORMAT", "Figure", "Results", "SubjectResults", "summarize"]

FORMAT = 1
"""The version of the JSON."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured: its median, and all of it."""

    what: str
    unit: str
    value: float
    samples: tuple[float, ...] = ()
    note: str = ""


def summarize(what: str, unit: str, samples: Sequence[float], note: str = "") -> Figure:
    """The median of samples; raises ``ValueError`` if there is none."""
    if not samples:
        raise ValueError(f"{what!r} was not measured; take at least one sample")
    return Figure(what, unit, statistics.median(samples), tuple(samples), note)


@dataclass(slots=True)
class SubjectResults:
    """What was measured of one agent or client."""

    name: str
    kind: Literal["agent", "client", "path"]
    command: str
    figures: list[Figure] = field(default_factory=list[Figure])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """What could not be measured, and why."""


@dataclass(slots=True)
class Results:
    """A whole run."""

    subjects: list[SubjectResults] = field(default_factory=list[SubjectResults])

    def to_json(self) -> str:
        """All of it, with samples, machine and time."""
        found: dict[str, Any] = {
            "format": FORMAT,
            "measured": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {
                "system": platform.system(),
                "processor": platform.machine(),
                "cores": os.cpu_count(),
                "load": round(os.getloadavg()[0], 2),
                "python": platform.python_version(),
            },
            "subjects": [self._write(subject) for subject in self.subjects],
        }
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    def _write(self, subject: SubjectResults) -> Mapping[str, Any]:
        figures = [
            {
                "what": one.what,
                "unit": one.unit,
                "value": one.value,
                "samples": list(one.samples),
                **({"note": one.note} if one.note else {}),
            }
            for one in subject.figures
        ]
        return {
            "name": subject.name,
            "kind": subject.kind,
            "command": subject.command,
            "figures": figures,
            "missing": subject.missing,
        }

    def to_markdown(self) -> str:
        """A table for each kind of subject: a row for each figure, a column for each subject."""
        kinds = {"agent": "Agents", "client": "Clients", "path": "Ways from an agent to its reader"}
        parts: list[str] = []
        for kind, title in kinds.items():
            if mine := [one for one in self.subjects if one.kind == kind]:
                parts.append(f"**{title}**\n\n{_write_table(mine)}")
        return "\n\n".join(parts) + "\n"


def _write_table(subjects: Sequence[SubjectResults]) -> str:
    names: dict[tuple[str, str], None] = {}
    for subject in subjects:
        names |= dict.fromkeys((one.what, one.unit) for one in subject.figures)
    lines = [["", *(_escape(one.name) for one in subjects)], ["---"] * (len(subjects) + 1)]
    for what, unit in names:
        cells = [_cell(subject, what, unit) for subject in subjects]
        lines.append([_escape(f"{what}, {unit}" if unit else what), *cells])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = [
        f"{subject.name}: no figure for {what}: {why}"
        for subject in subjects
        for what, why in subject.missing.items()
    ]
    return "\n\n".join([table, *map(_escape, notes)])


def _cell(subject: SubjectResults, what: str, unit: str) -> str:
    for one in subject.figures:
        if (one.what, one.unit) == (what, unit):
            text = f"{one.value:,.0f}" if abs(one.value) >= 100 else f"{one.value:,.2f}"
            text = text.rstrip("0").rstrip(".") if "." in text else text
            return _escape(f"{text} ({one.note})" if one.note else text)
    return "–"


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
