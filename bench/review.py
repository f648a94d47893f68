"""What it costs to look at a very large change: the list of files, the first page, the memory; and
the review panel on a terminal, beside ``git diff`` in a pager.
"""

import asyncio
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from quarterdeck.fleet.review.comparison import Comparison
from quarterdeck.fleet.review.patch import PatchHunk, cut_page
from quarterdeck.fleet.review.words import find_changed_words, pair_lines
from quarterdeck.fleet.worktrees.snapshots import WorktreeSnapshots
from quarterdeck.system.git.object_store import ObjectStore
from quarterdeck.wire.worktrees import Worktree

from .size import Size
from .table import Row, Table
from .terminals import Screen, on_terminal
from .workbench import OURS, home, quarterdeck

T = TypeVar("T")
PAGE = 200


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    lines, files = size.choose((50_000, 2_000), (10_000, 500), (40, 5))
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows(Path(folder), lines, files)
    yield Table(f"Review, one change of {lines:,} lines and {files:,} small ones", rows)
    lines, keys, rounds = size.choose((50_000, 60, 5), (50_000, 20, 3), (200, 2, 1))
    yield _panel_table(lines, keys, rounds)


def _rows(folder: Path, lines: int, files: int) -> list[Row]:
    work = _worktree(folder, lines, files)
    plain, _ = _timed(lambda: _git(work, "diff", "HEAD"))
    snapshots = WorktreeSnapshots(folder / "snapshots")
    worktree = Worktree(path=str(work), repository=str(folder / "main"), base="")
    first, _ = _timed(lambda: asyncio.run(snapshots.take(worktree)))
    taken, snapshot = _timed(lambda: asyncio.run(snapshots.take(worktree)))
    repository = snapshot.repository
    base = repository.ask(("rev-parse", "HEAD^{tree}")).data.decode().strip()
    compared = Comparison(
        store=ObjectStore(folder / "review"),
        alternates=(repository.objects, snapshot.objects),
        old=base,
        new=snapshot.tree,
        root=bytes(work),
        against="HEAD",
    )
    listed, found = _timed(compared.list_files)
    assert len(found) == files + 1
    large = next(file for file in found if file.path == b"large.py")
    read, (patch, _) = _timed(lambda: compared.read_patch(large))
    tracemalloc.start()
    kept, _ = compared.read_patch(large)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    cut, (page, _, _) = _timed(lambda: cut_page(patch, 0, PAGE))
    pairs, _ = _timed(lambda: [_paint(hunk) for hunk in page.hunks])
    assert kept.added == large.added
    return [
        Row("git diff HEAD, for comparison", f"{plain * 1000:.0f} ms", ""),
        Row("snapshot, the first", f"{first * 1000:.0f} ms", f"{first / plain:.1f}×"),
        Row("snapshot, later", f"{taken * 1000:.0f} ms", f"{taken / plain:.1f}×"),
        Row("list of the files with counts", f"{listed * 1000:.0f} ms", f"{listed / plain:.1f}×"),
        Row("large file: first page", f"{(read + cut) * 1000:.0f} ms", f"{read / plain:.1f}×"),
        Row("large file: a later page", f"{cut * 1000:.1f} ms", f"{cut / plain:.2f}×"),
        Row("changed words of a page", f"{pairs * 1000:.1f} ms", f"{pairs / plain:.2f}×"),
        Row("large file in memory", f"{memory / 1e6:.1f} MB", ""),
    ]


@dataclass(frozen=True, slots=True)
class _Showing:
    """What one program took to show a change on a terminal; seconds and bytes."""

    first: float
    cpu: float
    """Until the first page."""
    memory: float
    keys: list[float]
    """From a key to the next page."""
    end: float
    """From a key to the last page."""

    def rows(self, title: str, other: "_Showing | None" = None) -> list[Row]:
        """Those of the panel have goals; ``other``: what it is compared with."""
        keys = sorted(self.keys)
        middle = statistics.median(keys)
        is_ours = title == _PANEL
        return [
            Row(
                f"{title}: first page",
                f"{self.first * 1000:.0f} ms, CPU {self.cpu * 1000:.0f} ms",
                f"{self.first / other.first:.1f}×" if other else "",
                "< 1000 ms" if is_ours else "",
                self.first < 1.0 if is_ours else None,
            ),
            Row(
                f"{title}: key → next page",
                f"{middle * 1000:.0f} ms, {keys[-1] * 1000:.0f} at most",
                f"{middle / statistics.median(other.keys):.1f}×" if other else "",
                "< 100 ms" if is_ours else "",
                middle < 0.1 if is_ours else None,
            ),
            Row(
                f"{title}: key → last page",
                f"{self.end * 1000:.0f} ms",
                f"{self.end / other.end:.1f}×" if other else "",
                "< 1000 ms" if is_ours else "",
                self.end < 1.0 if is_ours else None,
            ),
            Row(
                f"{title}: memory",
                f"{self.memory / 1e6:+.1f} MB",
                "",
                "< 20 MB" if is_ours else "",
                self.memory < 20e6 if is_ours else None,
            ),
        ]


_PANEL, _PAGER = "review panel", "git diff in less"
_REMOVED = re.compile(r"[A-Z]_(\d+)_[A-Z]")
"""What is removed stands above all that is added, which has small letters."""
_PAGE_DOWN, _END = "\x1b[6~", "\x1b[F"


def _panel_table(lines: int, keys: int, rounds: int) -> Table:
    """The panel of a workbench that runs, from the command to the first page."""
    ours: list[_Showing] = []
    others: list[_Showing] = []
    has_less = shutil.which("less") is not None
    with home() as (project, environment):
        tree = _spawn_in_worktree(project, environment, lines)
        for _ in range(rounds):  # in turns, so that a busy moment is both sides'
            ours.append(_show_panel(project, environment, lines, keys))
            if has_less:
                others.append(_show_in_pager(tree, environment, lines, keys))
    mine = min(ours, key=lambda one: one.first)
    other = min(others, key=lambda one: one.first, default=None)
    rows = mine.rows(_PANEL, other) + (other.rows(_PAGER) if other else [])
    notes = () if has_less else ("less is not installed; the panel alone is measured.",)
    note = (
        f"The fastest of {rounds} rounds in turns. Memory: by what the workbench grew; all of less."
    )
    return Table(f"Review panel on a terminal, a change of {lines:,} lines", rows, (note, *notes))


def _spawn_in_worktree(project: Path, environment: dict[str, str], lines: int) -> Path:
    """An agent in a worktree in which one file has changed; returns the worktree.

    Half of the lines are removed, half are added.
    """
    _git(project, "init", "-q", "-b", "main")
    names = [_name(number) for number in range(lines // 2)]
    old = [f"{name} = compute({number % 7})\n" for number, name in enumerate(names)]
    (project / "large.py").write_text("".join(old))
    _git(project, "add", "-A")
    _git(project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all")
    words = ("spawn", "-n", "writer", "-m", "scripted/default", "--worktree", "--wait", "hello")
    quarterdeck(environment, project, *words)
    found = list(Path(environment["QUARTERDECK_HOME"]).glob("**/large.py"))
    (large,) = found
    large.write_text("".join(line.lower() for line in old))
    return large.parent


def _name(number: int) -> str:
    """A name whose ends differ from those of other lines.

    The workbench writes only the cells that changed: from page to page, these are all of it.
    """
    first, last = (chr(ord("A") + number * number // step % 26) for step in (7, 11))
    return f"{first}_{number}_{last}"


def _show_panel(project: Path, environment: dict[str, str], lines: int, keys: int) -> _Showing:
    opened = Path(environment["QUARTERDECK_HOME"], "state", "workbench", "workspaces")
    shutil.rmtree(opened, ignore_errors=True)  # the review of the round before is not open
    with on_terminal([OURS], cwd=project, environment=environment) as screen:
        screen.wait_for("You said: hello")
        time.sleep(1.0)  # what a start has to do is done
        cpu, memory = screen.cpu(), screen.memory()
        screen.press("/review writer large.py")
        time.sleep(1.0)  # it is drawn in any number of pieces
        at = screen.mark()
        pressed = screen.press("\r")
        first = _wait_for_lines(screen, at, -1)[0] - pressed
        cpu = screen.cpu() - cpu
        time.sleep(0.5)  # all of the page is there, and keys are the panel's
        screen.press(_PAGE_DOWN)  # the first moves the cursor to the last line that is shown
        time.sleep(1.0)
        taken = _page_down(screen, keys, _PAGE_DOWN)
        end = _go_to_end(screen, _END, lines)
        return _Showing(first, cpu, screen.memory() - memory, taken, end)


def _show_in_pager(tree: Path, environment: dict[str, str], lines: int, keys: int) -> _Showing:
    command = ["git", "-c", "core.pager=less -R", "-c", "color.ui=always", "diff", "HEAD"]
    with on_terminal(command, cwd=tree, environment=environment) as screen:
        screen.wait_for(_name(0))
        first, cpu = time.perf_counter() - screen.begun, screen.cpu()
        taken = _page_down(screen, keys, " ")
        end = _go_to_end(screen, "G", lines)
        memory = sum(map(_resident, _children(screen.process.pid)))
        return _Showing(first, cpu, memory, taken, end)


def _go_to_end(screen: Screen, key: str, lines: int) -> float:
    at = screen.mark()
    pressed = screen.press(key)
    names = [_name(number).lower() for number in range(lines // 2)[-5:]]
    return screen.wait_for(*names, after=at) - pressed


def _page_down(screen: Screen, keys: int, key: str) -> list[float]:
    taken: list[float] = []
    last = max(map(int, _REMOVED.findall(screen.text())), default=-1)
    for _ in range(keys):
        at = screen.mark()
        pressed = screen.press(key)
        moment, last = _wait_for_lines(screen, at, last)
        taken.append(moment - pressed)
        time.sleep(0.05)
    return taken


def _wait_for_lines(screen: Screen, at: int, last: int) -> tuple[float, int]:
    """The moment at which a line after the last one is drawn, and the last that is drawn then."""
    deadline = time.perf_counter() + 60
    while time.perf_counter() < deadline:
        found = max(map(int, _REMOVED.findall(screen.text(at))), default=-1)
        if found > last:
            return time.perf_counter(), found
        time.sleep(0.002)
    raise RuntimeError(f"no line after {last} was drawn: {screen.text(at)[-2000:]}")


def _children(pid: int) -> list[int]:
    """The processes that one has started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in listed]


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _paint(hunk: PatchHunk) -> None:
    for old, new in pair_lines(hunk):
        if old is not None and new is not None and old != new:
            find_changed_words(hunk.lines[old].text, hunk.lines[new].text)


def _worktree(folder: Path, lines: int, files: int) -> Path:
    """A linked worktree with uncommitted changes, of a repository beside it."""
    work = folder / "main"
    work.mkdir()
    _git(work, "init", "-q")
    for number in range(files):
        directory = work / f"d{number % 50}"
        directory.mkdir(exist_ok=True)
        (directory / f"f{number}.py").write_text(f"print({number})\n" * 60)
    old = [f"value_{number} = compute({number}, {number % 7})\n" for number in range(lines)]
    (work / "large.py").write_text("".join(old))
    _git(work, "add", "-A")
    _git(work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all")
    _git(work, "worktree", "add", "-q", str(folder / "work"))
    work = folder / "work"
    new = [line.replace("compute", f"sum_{n % 5}") if n % 3 else line for n, line in enumerate(old)]
    (work / "large.py").write_text("".join(new))
    for number in range(files):
        (work / f"d{number % 50}" / f"f{number}.py").write_text(f"print({number}, 1)\n" * 60)
    return work


def _git(work: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(work), *words], check=True, stdout=subprocess.DEVNULL)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    done = work()
    return time.perf_counter() - start, done
