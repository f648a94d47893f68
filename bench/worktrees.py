"""What a worktree costs an agent that starts: a large repository with much that git ignores."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.fleet.worktrees.builder import WorktreeBuilder
from quarterdeck.fleet.worktrees.record import WorktreeRecords
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import WorktreeOptions

from .size import Size
from .table import Row, Table


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    files, megabytes, rounds = size.choose((20_000, 500, 3), (2_000, 50, 3), (20, 1, 1))
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows(Path(folder), files, megabytes, rounds)
    title = f"A worktree of {files:,} files with {megabytes} MB of ignored files"
    yield Table(title, rows)


def _rows(folder: Path, files: int, megabytes: int, rounds: int) -> list[Row]:
    work = _repository(folder / "work", files, megabytes)
    plain: list[float] = []
    ours: list[float] = []
    for number in range(rounds):  # in turns, so that a busy moment is both sides'
        plain.append(_timed(lambda: _by_git(work, folder / f"git{number}")))  # noqa: B023
        ours.append(_timed(lambda: _by_us(work, folder / "state", f"agent{number}")))  # noqa: B023
    git, own = min(plain), min(ours)
    return [
        Row("git worktree add and cp -a", f"{git * 1000:.0f} ms", "1.0×"),
        Row("a worktree of ours", f"{own * 1000:.0f} ms", f"{own / git:.2f}×"),
    ]


def _by_git(work: Path, target: Path) -> None:
    _git(work, "worktree", "add", "-q", "-b", target.name, str(target))
    subprocess.run(["cp", "-a", str(work / "ignored"), str(target)], check=True)


def _by_us(work: Path, state: Path, agent: str) -> None:
    builder = WorktreeBuilder(WorktreeRecords(state), state / "trees")
    options = SessionOptions(cwd=str(work), worktree=WorktreeOptions())
    made = builder.make(options, agent, WorktreeSettings())
    assert (Path(made.worktree.path) / "ignored").is_dir()


def _repository(work: Path, files: int, megabytes: int) -> Path:
    for number in range(files):
        directory = work / f"d{number % 200}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}.py").write_text(f"print({number})\n" * 60)
    (work / ".gitignore").write_text("ignored/\n")
    (work / ".worktreeinclude").write_text("ignored/\n")
    (work / "ignored").mkdir()
    for number in range(megabytes):
        (work / "ignored" / f"{number}.bin").write_bytes(os.urandom(1_000_000))
    _git(work, "init", "-q")
    _git(work, "add", "-A")
    _git(work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all")
    return work


def _timed(act: Callable[[], None]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def _git(work: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(work), *words], check=True, stdout=subprocess.DEVNULL)
