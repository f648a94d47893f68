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
from quarterdeck.fleet.checkpoints.work_trees import WatchedTree, WatchedTurn, WorkTrees
from quarterdeck.wire.events import Checkpointed, Rewound
from quarterdeck.wire.ids import SessionId, TurnId

from .size import Size
from .table import Row, Table
from .turns import Cost, Way, measure_in_turns, tell_medians

T = TypeVar("T")
SESSION = SessionId("ses_" + "0" * 26)
TURN = TurnId("trn_1")


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    files, changed, rounds = size.choose((20_000, 100, 9), (2_000, 100, 5), (20, 5, 2))
    with tempfile.TemporaryDirectory() as folder:
        work = _repository(Path(folder) / "work", files)
        yield Table(f"Undo, a work tree of {files:,} files", _own_rows(Path(folder), work, changed))
    with tempfile.TemporaryDirectory() as folder:
        work = _repository(Path(folder) / "work", files)
        title = f"Checkpoints of any agent, {files:,} files, {2 * changed} changed in a turn"
        rows, costs = _fleet_rows(Path(folder), work, changed, rounds)
        yield Table(title, rows, notes=(tell_medians(costs),))


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


ADD_FIRST, TAKE_FIRST = "git add -A, private index, first", "first snapshot of a tree"
ADD_IDLE, TAKE_IDLE = "git add -A, private index, no change", "before a turn, no change"
STASH, ADD = "git stash create, after a turn", "git add -A, private index, after a turn"
WRITE, TAKE = "git add -A and write-tree, after a turn", "after a turn"


def _fleet_rows(
    folder: Path, work: Path, changed: int, rounds: int
) -> tuple[list[Row], dict[str, Cost]]:
    tree, costs = _measure_snapshots(folder, work, changed, rounds)
    files = SessionFiles.find(folder / "state", SESSION, str(work))
    before = tree.take()
    _change(work, changed, rounds)
    turn = WatchedTurn(SESSION, "ann", TURN, files.save)
    turn.pending.opened[tree.top] = before
    turn.close_segment(tree.top, tree.take())
    described, events = _timed(lambda: files.describe(turn, [tree]))
    (event,) = (event for event in events if isinstance(event, Checkpointed))
    assert event.changed == 2 * changed
    undone, merged = _undo_with_merges(work, files, event, changed)
    stash = costs[STASH]
    return [
        *_pair(costs, ADD_FIRST, TAKE_FIRST),
        *_pair(costs, ADD_IDLE, TAKE_IDLE),
        Row(STASH, str(stash)),
        Row(ADD, str(costs[ADD])),
        Row(WRITE, str(costs[WRITE])),
        Row(f"{TAKE}, to git stash", str(costs[TAKE]), costs[TAKE].ratio(stash)),
        Row(f"{TAKE}, to git add", str(costs[TAKE]), costs[TAKE].ratio(costs[ADD])),
        _row(costs, f"{TAKE}, to git add and write-tree", costs[TAKE], costs[WRITE]),
        Row("list of changes with contents", _ms(described), f"{described / stash.wall:.1f}×"),
        Row(f"undo, {merged} files merged", _ms(undone), f"{undone / stash.wall:.1f}×"),
    ], costs


def _pair(costs: dict[str, Cost], git: str, ours: str) -> list[Row]:
    return [Row(git, str(costs[git])), _row(costs, ours, costs[ours], costs[git])]


def _row(costs: dict[str, Cost], what: str, ours: Cost, git: Cost) -> Row:
    return Row(what, str(ours), ours.ratio(git), "≤ 1.2× CPU", ours.cpu <= 1.2 * git.cpu)


def _measure_snapshots(
    folder: Path, work: Path, changed: int, rounds: int
) -> tuple[WatchedTree, dict[str, Cost]]:
    """Ours and git's, each with an index of its own: the same is new to each of them."""
    settings = CheckpointSettings(patience=120.0)
    top = os.fsencode(os.path.realpath(work))

    def open_tree(name: str) -> WatchedTree:
        return WorkTrees(folder / name).open_top(top, settings)

    def add(index: str) -> None:
        _git(work, "add", "-A", GIT_INDEX_FILE=str(folder / index))

    def write(index: str) -> None:
        add(index)
        _git(work, "write-tree", GIT_INDEX_FILE=str(folder / index))

    tree = open_tree("state")
    tree.take()
    add("index")
    write("other-index")
    costs = measure_in_turns(
        rounds,
        [
            Way(ADD_FIRST, lambda number: add(f"index{number}")),
            Way(TAKE_FIRST, lambda number: open_tree(f"state{number}").take()),
            Way(ADD_IDLE, lambda _: add("index")),
            Way(TAKE_IDLE, lambda _: tree.take()),
        ],
    )
    costs |= measure_in_turns(
        rounds,
        [
            Way(STASH, lambda _: _git(work, "stash", "create")),
            Way(ADD, lambda _: add("index")),
            Way(WRITE, lambda _: write("other-index")),
            Way(TAKE, lambda _: tree.take()),
        ],
        prepare=lambda number: _change(work, changed, number),
    )
    return tree, costs


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


def _change(work: Path, changed: int, turn: int = 0) -> None:
    for number in range(changed):
        (work / "d1" / f"new{turn}-{number}.py").write_text(f"new = {number}\n" * 50)
        path = work / f"d{number}" / f"f{number}.py"
        path.write_text(f"changed({turn})\n" + path.read_text())


def _repository(work: Path, files: int) -> Path:
    for number in range(files):
        directory = work / f"d{number % 200}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}.py").write_text(f"print({number})\n" * 60)
    _git(work, "init", "-q")
    _git(work, "add", "-A")
    _git(work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all")
    _git(work, "repack", "-a", "-d", "-q")  # as after a clone
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
