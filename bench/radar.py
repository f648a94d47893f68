"""What the conflict radar costs: worktrees of a large repository, at rest and at a change."""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from quarterdeck.config.places import Places
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.radar.comparisons import WorktreeComparisons
from quarterdeck.fleet.worktrees.snapshots import WorktreeSnapshots
from quarterdeck.wire.events import SessionSpawned, WorktreeAssigned
from quarterdeck.wire.ids import new_session_id
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import Worktree

from .size import Size
from .table import Row, Table
from .turns import cpu_seconds


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    files, trees, rounds, rest = size.choose(
        (20_000, 20, 5, 20.0), (2_000, 10, 3, 5.0), (20, 3, 1, 0.5)
    )
    with tempfile.TemporaryDirectory() as folder:
        yield asyncio.run(_measure(Path(folder), files, trees, rounds, rest))


async def _measure(folder: Path, files: int, trees: int, rounds: int, rest: float) -> Table:
    worktrees = await asyncio.to_thread(_make, folder, files, trees)
    comparisons = WorktreeComparisons(WorktreeSnapshots(folder / "snapshots"))
    paths = [one.path for one in worktrees]

    async def look(*some: Worktree) -> None:
        await comparisons.look(some)
        await comparisons.compare(paths)

    first = await _cpu(lambda: look(*worktrees))
    others = await asyncio.to_thread(lambda: [_commit(one) for one in worktrees[1:]])
    costs = _Costs()
    for number in range(rounds):  # in turns, so that a busy moment is all sides'
        await asyncio.to_thread(_change, worktrees[0], f"ours {number}\n")
        costs.changes.append(await _cpu(lambda: look(worktrees[0])))
        costs.looks.append(await _cpu(lambda: look(worktrees[0])))
        await asyncio.to_thread(_change, worktrees[0], f"by hand {number}\n")
        by_hand = asyncio.to_thread(_compare_by_hand, worktrees[0], others)
        costs.by_hand.append(await _cpu(lambda: by_hand))  # noqa: B023
        status = asyncio.to_thread(_git, Path(paths[0]), "status", "--porcelain")
        costs.statuses.append(await _cpu(lambda: status))  # noqa: B023
    idle = await _measure_rest(folder, worktrees, rest)
    found = comparisons.pair(paths[0], paths[1])
    assert found and found[0].kind == "text"
    return Table(
        f"Radar, {trees} worktrees of a repository of {files:,} files; CPU time",
        costs.rows(first, idle),
        notes=(f"The least of {rounds} rounds in turns; ratios to the line of git above.",),
    )


@dataclass(frozen=True, slots=True)
class _Costs:
    """CPU seconds of each round."""

    changes: list[float] = field(default_factory=list[float])
    looks: list[float] = field(default_factory=list[float])
    by_hand: list[float] = field(default_factory=list[float])
    statuses: list[float] = field(default_factory=list[float])

    def rows(self, first: float, idle: float) -> list[Row]:
        by_hand, status = min(self.by_hand), min(self.statuses)
        change = min(self.changes)
        return [
            Row("git add, write-tree and merge-tree by hand, one change", _milliseconds(by_hand)),
            replace(
                _row("one change, seen and compared with all others", change, by_hand),
                goal="< 1×",
                met=change < by_hand,
            ),
            _row("the first look at all worktrees", first, by_hand),
            Row("git status of one worktree", _milliseconds(status)),
            _row("a look at a worktree without a change", min(self.looks), status),
            replace(
                _row("all agents at rest, a second", idle, status), goal="< 1×", met=idle < status
            ),
        ]


def _row(what: str, seconds: float, reference: float) -> Row:
    return Row(what, _milliseconds(seconds), f"{seconds / reference:.2f}×")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


async def _measure_rest(folder: Path, worktrees: list[Worktree], seconds: float) -> float:
    """CPU a second of a fleet whose agents have worktrees and do nothing."""
    places = Places.find({"QUARTERDECK_HOME": str(folder / "home")})
    async with LocalFleet.open(places, {}) as fleet:
        for number, worktree in enumerate(worktrees):
            session = new_session_id()
            options = SessionOptions(agent="claude", cwd=worktree.path)
            spawned = SessionSpawned(options=options, name=f"agent{number}")
            await fleet.journal.append(session, spawned)
            await fleet.journal.append(session, WorktreeAssigned(worktree=worktree))
        while len(await fleet.agents()) < len(worktrees):  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # the log is followed a moment later
        await fleet.conflicts()
        await asyncio.sleep(1.0)  # what the new worktrees had due has begun
        await fleet.conflicts()
        return await _cpu(lambda: asyncio.sleep(seconds)) / seconds


async def _cpu(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds of processors that this process and its children used."""
    before = cpu_seconds()
    await work()
    return cpu_seconds() - before


def _make(folder: Path, files: int, trees: int) -> list[Worktree]:
    project = folder / "project"
    for number in range(files):
        directory = project / f"d{number % 200}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}.py").write_text(f"def f{number}():\n    return {number}\n" * 20)
    _git(project, "init", "-q", "-b", "main")
    _git(project, "add", "-A")
    _git(project, "commit", "-qm", "all")
    base = _git(project, "rev-parse", "HEAD").strip()
    found: list[Worktree] = []
    for number in range(trees):
        path = folder / f"tree{number}"
        branch = f"quarterdeck/agent{number}"
        _git(project, "worktree", "add", "-q", "-b", branch, str(path))
        found.append(
            Worktree(
                path=os.path.realpath(path),
                repository=os.path.realpath(project),
                base=base,
                base_ref="main",
                branch=branch,
            )
        )
        _change(found[-1], f"agent {number}\n")
    time.sleep(1.1)  # git reads files again that are as young as its index
    return found


def _change(worktree: Worktree, words: str) -> None:
    """In a file that all change, and in one that is the agent's own."""
    for name in ("f0.py", f"own-{Path(worktree.path).name}.py"):
        Path(worktree.path, "d0", name).write_text(f"# {words}def f0():\n    return 1\n")


def _compare_by_hand(one: Worktree, others: list[str]) -> None:
    """As a script would: write down the worktree that changed, merge it with each other."""
    mine = _commit(one)
    for other in others:
        words = ("merge-tree", "--write-tree", mine, other)
        _git(Path(one.path), *words, accepted=(0, 1))


def _commit(worktree: Worktree) -> str:
    where = Path(worktree.path)
    _git(where, "add", "-A")
    tree = _git(where, "write-tree").strip()
    return _git(where, "commit-tree", "-p", worktree.base, "-m", "x", tree).strip()


def _git(where: Path, *words: str, accepted: tuple[int, ...] = (0,)) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", "-C", str(where), *own, *words], capture_output=True, text=True)
    assert done.returncode in accepted, done.stderr
    return done.stdout
