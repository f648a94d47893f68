"""What writing a work tree of 20,000 files down costs a turn, and taking a turn back."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from quarterdeck.agent.checkpoints.restore import FileRestorer
from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.wire.events import Checkpointed, Rewound
from quarterdeck.wire.ids import TurnId

from .size import Size
from .table import Row, Table

T = TypeVar("T")
SESSION = "ses_" + "0" * 26
TURN = TurnId("trn_1")


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    files, changed = size.choose((20_000, 100), (2_000, 100), (20, 5))
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows(Path(folder), files, changed)
    yield Table(f"Undo, a work tree of {files:,} files", rows)


def _rows(folder: Path, files: int, changed: int) -> list[Row]:
    work = _repository(folder / "work", files)
    status, _ = _timed(lambda: _git(work, "status", "--porcelain"))
    keeping = TurnSnapshots(folder / "state", SESSION, (str(work),))
    restoring = FileRestorer(keeping.directory, keeping.blobs, keeping.root)
    first, _ = _timed(lambda: keeping.begin(TURN))
    second, pending = _timed(lambda: keeping.begin(TURN))
    for number in range(changed):
        (work / "d1" / f"new{number}.py").write_text(f"new = {number}\n" * 50)
        (work / f"d{number}" / f"f{number}.py").write_text("changed\n")
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


def _git(work: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(work), *words], check=True, stdout=subprocess.DEVNULL)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    done = work()
    return time.perf_counter() - start, done
