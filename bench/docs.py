"""The tables of docs/bench.md: each part's stand between two markers and are written by the bench.

A block begins with ``<!-- bench:NAME -->`` and ends with ``<!-- /bench:NAME -->``. What is between
them belongs to the bench, everything else to people.
"""

import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .curves import draw_curves
from .size import Size
from .table import Table, format_markdown

__all__ = ["PAGE", "MarkerError", "describe_commit", "describe_run", "replace_block", "write_docs"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "bench.md"


class MarkerError(Exception):
    """A page does not have the markers of a part, or not once, or not in order."""


def write_docs(found: Mapping[str, Sequence[Table]], stamp: str, page: Path = PAGE) -> None:
    """Write the tables of each part, with how they were measured, into its block of the page.

    Their curves are written into the folder ``bench`` beside it.
    """
    text = page.read_text(encoding="utf-8")
    for chart in (chart for tables in found.values() for one in tables for chart in one.charts):
        file = page.parent / "bench" / f"{chart.name}.svg"
        file.parent.mkdir(exist_ok=True)
        file.write_text(draw_curves(chart), encoding="utf-8")
    for name, tables in found.items():
        text = replace_block(text, name, "\n\n".join([stamp, *map(format_markdown, tables)]))
    page.write_text(text, encoding="utf-8")


def replace_block(text: str, name: str, block: str) -> str:
    """Put a block between the markers of a part; raises ``MarkerError``."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise MarkerError(f"{begin!r} and {end!r} must each be there once, in this order")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{block}\n{end}{after}"


def describe_run(size: Size) -> str:
    """Say when, on which commit and on which machine a run is made."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    load = os.getloadavg()[0]
    return (
        f"*Measured {date} at commit {describe_commit()}, size {size.value}: {_processor()}, "
        f"{os.cpu_count()} cores, load {load:.1f}, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}.*"
    )


def describe_commit(root: Path = ROOT) -> str:
    """Name the commit that is checked out; ``with changes`` if files differ from it."""
    head = _git(root, "rev-parse", "--short=10", "HEAD")
    return f"{head} with changes" if _git(root, "status", "--porcelain", "-uno") else head


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown processor")
