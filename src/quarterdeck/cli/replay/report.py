"""The report of a replay as lines, for every command that runs one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..output import escape_controls

if TYPE_CHECKING:
    from quarterdeck.agent.replay.check import ReplayReport
    from quarterdeck.agent.replay.conductor import Divergence

__all__ = ["format_report"]


def format_report(report: "ReplayReport", *, is_question: bool = False) -> Iterator[str]:
    """The report as lines; ``is_question``: what would be different, not what is wrong."""
    for number, found in enumerate(report.divergences, 1):
        yield from _format_divergence(number, found)
    for note in report.notes:
        yield f"note: {escape_controls(note)}"
    steps = f"{report.steps} step{'s' * (report.steps != 1)}, {report.compared} comparisons"
    count = len(report.divergences)
    if not count:
        yield f"{report.session}: {steps}: no difference"
    elif is_question:
        yield f"{report.session}: {steps}: {count} would be different"
    else:
        yield f"{report.session}: {steps}: {count} difference{'s' * (count != 1)}"


def _format_divergence(number: int, found: "Divergence") -> Iterator[str]:
    words = {"missing": "missing: ", "extra": "not recorded: "}.get(found.kind, "")
    yield f"{number}. {found.place}: {words}{escape_controls(found.what)}"
    for line in found.diff.splitlines():
        yield f"   {escape_controls(line)}"
