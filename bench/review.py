"""What it costs to look at a very large change: the list of files, the first page, the memory."""

import asyncio
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from quarterdeck.fleet.review.comparison import Comparison
from quarterdeck.fleet.review.patch import PatchHunk, cut_page
from quarterdeck.fleet.review.words import find_changed_words, pair_lines
from quarterdeck.fleet.worktrees.snapshots import WorktreeSnapshots
from quarterdeck.system.git.object_store import ObjectStore

from .size import Size
from .table import Row, Table

T = TypeVar("T")
PAGE = 200


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    lines, files = size.choose((50_000, 2_000), (10_000, 500), (40, 5))
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows(Path(folder), lines, files)
    yield Table(f"Review, one change of {lines:,} lines and {files:,} small ones", rows)


def _rows(folder: Path, lines: int, files: int) -> list[Row]:
    work = _repository(folder / "work", lines, files)
    plain, _ = _timed(lambda: _git(work, "diff", "HEAD"))
    snapshots = WorktreeSnapshots(folder / "snapshots")
    first, _ = _timed(lambda: asyncio.run(snapshots.take(str(work))))
    taken, snapshot = _timed(lambda: asyncio.run(snapshots.take(str(work))))
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


def _paint(hunk: PatchHunk) -> None:
    for old, new in pair_lines(hunk):
        if old is not None and new is not None and old != new:
            find_changed_words(hunk.lines[old].text, hunk.lines[new].text)


def _repository(work: Path, lines: int, files: int) -> Path:
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
