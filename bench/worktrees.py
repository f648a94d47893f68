"""What a worktree costs an agent that starts: a large repository with much that git ignores."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.fleet.worktrees.builder import MadeWorktree, WorktreeBuilder
from quarterdeck.fleet.worktrees.record import WorktreeRecords
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import WorktreeOptions

from .size import Size
from .table import Row, Table
from .turns import Cost, Way, measure_in_turns, tell_medians

GIT, OURS = "git worktree add and cp -a", "a worktree of ours"


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    files, megabytes, rounds = size.choose((20_000, 500, 7), (2_000, 50, 5), (20, 1, 1))
    with tempfile.TemporaryDirectory() as folder:
        work = _repository(Path(folder) / "work", files, megabytes)
        for title, ignored in ((f"{megabytes} MB of", True), ("no", False)):
            costs = _measure(Path(folder), work, rounds, ignored)
            yield Table(
                f"A worktree of {files:,} files with {title} ignored files",
                _rows(costs, 1.0 if ignored else 1.2),
                notes=(tell_medians(costs),),
            )


def _rows(costs: dict[str, Cost], most: float) -> list[Row]:
    """``most``: how much of git's time ours may take. It checks more, which costs CPU time."""
    git, ours = costs[GIT], costs[OURS]
    is_met = ours.cpu <= 1.2 * git.cpu and ours.wall <= most * git.wall
    return [
        Row(GIT, str(git), "1×"),
        Row(OURS, str(ours), ours.ratio(git), f"≤ 1.2× CPU, ≤ {most:g}×", is_met),
    ]


def _measure(folder: Path, work: Path, rounds: int, ignored: bool) -> dict[str, Cost]:
    included = work / ".worktreeinclude"
    included.write_text("ignored/\n" if ignored else "")
    state = folder / "state"

    def add(number: int) -> None:
        target = folder / f"git{number}"
        _git(work, "worktree", "add", "-q", "-b", target.name, str(target))
        if ignored:
            subprocess.run(["cp", "-a", str(work / "ignored"), str(target)], check=True)

    def forget(number: int) -> None:
        _git(work, "worktree", "remove", "--force", str(folder / f"git{number}"))
        _git(work, "branch", "-q", "-D", f"git{number}")

    def make(number: int) -> None:
        builder = WorktreeBuilder(WorktreeRecords(state), state / "trees")
        options = SessionOptions(cwd=str(work), worktree=WorktreeOptions())
        made[number] = builder.make(options, f"agent{number}", WorktreeSettings())

    def undo(number: int) -> None:
        top = Path(made[number].worktree.path)
        assert (top / "ignored").is_dir() == ignored
        WorktreeBuilder(WorktreeRecords(state), state / "trees").undo(made[number])

    made: dict[int, MadeWorktree] = {}
    return measure_in_turns(rounds, (Way(GIT, add, forget), Way(OURS, make, undo)))


def _repository(work: Path, files: int, megabytes: int) -> Path:
    for number in range(files):
        directory = work / f"d{number % 200}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}.py").write_text(f"print({number})\n" * 60)
    (work / ".gitignore").write_text("ignored/\n.worktreeinclude\n")
    (work / "ignored").mkdir()
    for number in range(megabytes):
        (work / "ignored" / f"{number}.bin").write_bytes(os.urandom(1_000_000))
    _git(work, "init", "-q")
    _git(work, "add", "-A")
    _git(work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all")
    _git(work, "repack", "-a", "-d", "-q")  # as after a clone
    return work


def _git(work: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(work), *words], check=True, stdout=subprocess.DEVNULL)
