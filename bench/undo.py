"""What writing a work tree of 20,000 files down costs a turn, against git's own ways, and undo."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from quarterdeck.agent.checkpoints.restore import FileRestorer, RestoreStep
from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.config.schema import CheckpointSettings
from quarterdeck.fleet.checkpoints.selective_restore import SelectivePlanner
from quarterdeck.fleet.checkpoints.turn_snapshots import SessionFiles
from quarterdeck.fleet.checkpoints.work_trees import WatchedTurn, WorkTrees
from quarterdeck.wire.events import Checkpointed, Rewound
from quarterdeck.wire.ids import SessionId, TurnId

from .size import Size
from .table import Row, Table

T = TypeVar("T")
SESSION = SessionId("ses_" + "0" * 26)
TURN = TurnId("trn_1")


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    files, changed = size.choose((20_000, 100), (2_000, 100), (20, 5))
    with tempfile.TemporaryDirectory() as folder:
        work = _repository(Path(folder) / "work", files)
        yield Table(f"Undo, a work tree of {files:,} files", _own_rows(Path(folder), work, changed))
    with tempfile.TemporaryDirectory() as folder:
        work = _repository(Path(folder) / "work", files)
        yield Table(
            f"Checkpoints of any agent, {files:,} files, {2 * changed} changed in a turn",
            _fleet_rows(Path(folder), work, changed),
        )


def _own_rows(folder: Path, work: Path, changed: int) -> list[Row]:
    status, _ = _timed(lambda: _git(work, "status", "--porcelain"))
    keeping = TurnSnapshots(folder / "state", SESSION, (str(work),))
    restoring = FileRestorer(keeping.directory, keeping.blobs, keeping.root)
    first, _ = _timed(lambda: keeping.begin(TURN))
    second, pending = _timed(lambda: keeping.begin(TURN))
    _change(work, changed)
    finish, events = _timed(lambda: keeping.finish(pending))
    (event,) = (event for event in events if isinstance(event, Checkpointed))
    assert event.changed == 2 * changed
    manifest = keeping.blobs.get_manifest(event.manifest)

    def undo() -> None:
        plan = restoring.plan(change.reversed for change in manifest.changes)
        restoring.carry_out(plan, Rewound(to=TURN))
        restoring.done()

    undone, _ = _timed(undo)
    return [
        Row("git status, for comparison", f"{status * 1000:.0f} ms", ""),
        Row("first snapshot of a session", f"{first * 1000:.0f} ms", f"{first / status:.1f}×"),
        Row("later, nothing changed", f"{second * 1000:.0f} ms", f"{second / status:.1f}×"),
        Row(
            f"end of a turn, {2 * changed} changed",
            f"{finish * 1000:.0f} ms",
            f"{finish / status:.1f}×",
        ),
        Row(f"undo of {2 * changed} files", f"{undone * 1000:.0f} ms", f"{undone / status:.1f}×"),
    ]


def _fleet_rows(folder: Path, work: Path, changed: int) -> list[Row]:
    settings = CheckpointSettings(patience=120.0)
    tree = WorkTrees(folder / "state").open_top(os.fsencode(os.path.realpath(work)), settings)
    files = SessionFiles.find(folder / "state", SESSION, str(work))
    private = folder / "private-index"
    add_first, _ = _timed(lambda: _git(work, "add", "-A", GIT_INDEX_FILE=str(private)))
    first, before = _timed(tree.take)
    add_idle, _ = _timed(lambda: _git(work, "add", "-A", GIT_INDEX_FILE=str(private)))
    idle, _ = _timed(tree.take)
    _change(work, changed)
    # Each of them has the same to read: the index of none knows these files yet.
    stash, _ = _timed(lambda: _git(work, "stash", "create"))
    add, _ = _timed(lambda: _git(work, "add", "-A", GIT_INDEX_FILE=str(private)))
    taken, after = _timed(tree.take)
    turn = WatchedTurn(SESSION, "ann", TURN, files.save)
    turn.pending.opened[tree.top] = before
    turn.close_segment(tree.top, after)
    described, events = _timed(lambda: files.describe(turn, [tree]))
    (event,) = (event for event in events if isinstance(event, Checkpointed))
    assert event.changed == 2 * changed
    undone, merged = _undo_with_merges(work, files, event, changed)
    return [
        Row("git add -A, private index, first", f"{add_first * 1000:.0f} ms", ""),
        Row("first snapshot of a tree", _ms(first), f"{first / add_first:.1f}× git add"),
        Row("git add -A, private index, nothing changed", _ms(add_idle), ""),
        Row("before a turn, nothing changed", _ms(idle), f"{idle / add_idle:.1f}× git add"),
        Row("git stash create, after the turn", _ms(stash), ""),
        Row("git add -A, private index, after the turn", _ms(add), ""),
        Row(
            "after a turn",
            _ms(taken),
            f"{taken / stash:.1f}× git stash, {taken / add:.1f}× git add",
        ),
        Row("list of changes with contents", _ms(described), f"{described / stash:.1f}× git stash"),
        Row(f"undo, {merged} files merged", _ms(undone), f"{undone / stash:.1f}× git stash"),
    ]


def _undo_with_merges(
    work: Path, files: SessionFiles, event: Checkpointed, changed: int
) -> tuple[float, int]:
    """Undo the turn while a tenth of its files has other changes that stay."""
    merged = max(1, changed // 10)
    for number in range(merged):
        with (work / f"d{number}" / f"f{number}.py").open("a") as file:
            file.write("mine = True\n")
    planner = SelectivePlanner(files.directory, files.blobs, files.root)
    restorer = FileRestorer(files.directory, files.blobs, files.root)
    manifest = files.blobs.get_manifest(event.manifest)
    steps = [RestoreStep(change=change.reversed) for change in manifest.changes]

    def undo() -> int:
        plan = planner.plan(steps)
        restorer.carry_out(plan, Rewound(to=TURN))
        restorer.done()
        return len(plan.merged)

    return _timed(undo)


def _change(work: Path, changed: int) -> None:
    for number in range(changed):
        (work / "d1" / f"new{number}.py").write_text(f"new = {number}\n" * 50)
        path = work / f"d{number}" / f"f{number}.py"
        path.write_text(path.read_text().replace("print", "changed", 1))


def _repository(work: Path, files: int) -> Path:
    for number in range(files):
        directory = work / f"d{number % 200}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}.py").write_text(f"print({number})\n" * 60)
    _git(work, "init", "-q")
    _git(work, "add", "-A")
    _git(work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all")
    time.sleep(1.1)  # git reads files again that are as young as its index
    _git(work, "status")
    return work


def _git(work: Path, *words: str, **variables: str) -> None:
    named = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"}
    named |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(
        ["git", "-C", str(work), *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **named, **variables},
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    done = work()
    return time.perf_counter() - start, done
