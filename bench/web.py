"""The browser interface: many agents that speak at once, to several tabs and to real pages."""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .acp import ENVIRONMENT, PEERS, peer
from .size import Size
from .table import Row, Table

__all__ = ["run"]


SERVE = Path(__file__).parents[1] / "build" / "textual-serve" / "bin" / "python"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@contextmanager
def _home() -> Iterator[Path]:
    """An empty place in which there is an agent that speaks at a pace."""
    # The host may still write its last words while it is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        (Path(place) / "agents").mkdir()
        command = [sys.executable, "-S", str(PEERS / "agent_paced.py")]
        (Path(place) / "agents" / "paced.toml").write_text(
            f'title = "Paced"\n[transports.acp]\ncommand = {json.dumps(command)}\n'
        )
        yield Path(place)


def _run(place: Path, timeout: float, name: str, *words: object) -> Any:
    """What a peer found out."""
    done = subprocess.run(
        [*peer(name), *map(str, words)],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, "HOME": str(place), "QUARTERDECK_HOME": str(place)},
        cwd=place,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-1500:]}")
    return json.loads(done.stdout)


def measure_tabs(seconds: float, agents: int, tabs: int) -> dict[str, float]:
    """What the tabs saw, and what the server used."""
    with _home() as place:
        return _run(place, seconds * 4 + 120, "web_tabs.py", seconds, agents, tabs)


def measure_pages(seconds: float, agents: int, pages: int, entries: int) -> dict[str, Any]:
    """What Chromium showed, and when."""
    from quarterdeck.config.places import Places

    from .workbench import write_sessions

    with _home() as place:
        log = Places.find({"QUARTERDECK_HOME": str(place), "HOME": str(place)}).journal_file
        asyncio.run(write_sessions(log, entries, str(place)))
        return _run(place, seconds * 6 + 240, "web_browser.py", seconds, agents, pages, "long")


def measure_served(seconds: float, agents: int, viewers: int) -> dict[str, float]:
    """The same traffic through the workbench that textual-serve serves."""
    with _home() as place:
        patience = seconds * 4 + 300
        return _run(place, patience, "web_served.py", seconds, agents, viewers, SERVE)


def compare_served(size: Size, ours: dict[str, float], tabs: int) -> Table:
    """Bytes and CPU of a browser, against those of the workbench in a browser."""
    seconds, agents, counts = size.choose((15.0, 50, (1, 10)), (6.0, 50, (1, 10)), (0.5, 2, (1,)))
    title = "The same traffic through textual-serve: a workbench of 120×40 for each browser"
    if not SERVE.exists():
        return Table(title, [Row("textual-serve", "skipped: `make build/textual-serve/.done`")])
    rows: list[Row] = []
    for count in counts:
        own = ours if count == tabs else measure_tabs(seconds, agents, count)
        served = measure_served(seconds, agents, count)
        who = "1 browser" if count == 1 else f"{count} browsers"
        for what, key, unit, scale in (
            ("CPU", "cpu", "% of a core", 100),
            ("memory", "memory", "MB", 1 / 1024),
            ("bytes to each", "bytes", "kB a second", 1 / 1000),
        ):
            times = f"{served[key] / own[key]:.1f}×" if own[key] else ""
            rows.append(Row(f"ours, {who}: {what}", f"{own[key] * scale:.1f} {unit}"))
            rows.append(
                Row(f"textual-serve, {who}: {what}", f"{served[key] * scale:.1f} {unit}", times)
            )
    return Table(title, rows)


def _describe_view(told: dict[str, float]) -> str:
    return f"{told['seen']:.0f} ms, {told['bytes'] / 1000:.0f} kB, {told['heap']:.1f} MB of heap"


def describe_pages(size: Size) -> Table:
    """The page, as Chromium draws it."""
    seconds, agents, pages, entries = size.choose(
        (20.0, 50, 10, 100_000), (8.0, 50, 10, 100_000), (0.5, 2, 1, 40)
    )
    told = measure_pages(seconds, agents, pages, entries)
    fleet, session, words = told["fleet"], told["session"], told["words"]
    late = words["p99"]
    rows = [
        Row(f"first paint of {agents} agents", f"{fleet['painted']:.0f} ms"),
        Row(f"all {agents} agents seen", _describe_view(fleet)),
        Row(f"the end of {entries:,} entries seen", _describe_view(session)),
        Row("written → in a frame, median", f"{words['p50']:.1f} ms"),
        Row("written → in a frame, p99", f"{late:.1f} ms", "", "< 300 ms", late < 300),
        Row("CPU of the web server meanwhile", f"{words['cpu'] * 100:.0f} % of a core"),
    ]
    title = f"Chromium on the same machine; {agents} agents × 20 messages a second, {pages} pages"
    return Table(title, rows)


def run(size: Size) -> Iterator[Table]:
    """All of it."""
    seconds, agents, tabs = size.choose((30.0, 50, 10), (8.0, 50, 10), (0.5, 2, 2))
    told = measure_tabs(seconds, agents, tabs)
    lost = told["expected"] - told["heard"]
    rows = [
        Row("messages lost", f"{lost:.0f}", "", "none", lost == 0),
        Row("CPU of the web server", f"{told['cpu'] * 100:.0f} % of a core"),
        Row("memory of the web server", f"{told['memory'] / 1024:.0f} MB"),
        Row("bytes to each tab", f"{told['bytes'] / 1000:.1f} kB a second"),
        Row("written → received, median", f"{told['p50'] * 1000:.1f} ms"),
        Row("written → received, p99", f"{told['p99'] * 1000:.1f} ms"),
    ]
    yield Table(f"{agents} agents × 20 messages a second for {seconds:g} s, {tabs} tabs", rows)
    yield compare_served(size, told, tabs)
    if find_spec("playwright") is not None and any(map(shutil.which, _BROWSERS)):
        yield describe_pages(size)
