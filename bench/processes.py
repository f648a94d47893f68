"""What a process and all that it starts cost: wall and CPU time, and memory at its peak.

On Linux this process adopts the orphans of those it starts (``adopt_orphans``), so that what an
agent leaves behind in the background is counted and ended too; elsewhere only what the agent
itself has waited for counts.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["Cost", "Started", "adopt_orphans", "measure_tree", "started"]

_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.01
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Cost:
    """Seconds of wall and CPU time; bytes of the whole tree at its peak, if it was watched."""

    wall: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    code: int = 0


@dataclass(slots=True)
class Started:
    """A process that runs, and what it has cost once ``started`` is left."""

    process: subprocess.Popen[bytes]
    cost: Cost

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def wait(self) -> None:
        """Wait for the end of the process itself, and leave its figures to be collected."""
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def kill(self) -> None:
        """Kill it and its group, from any thread."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of whatever the processes that we start leave behind; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextlib.contextmanager
def started(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stderr: Path,
    talks: bool = False,
    watch_memory: bool = False,
) -> Iterator[Started]:
    """Run a command; on leaving, the clock stops and everything it has started is ended.

    With ``talks`` its input is a pipe, else it is empty. Watching memory costs CPU time on a
    small machine: do it in a run of its own. The caller waits for the end, or for an answer.
    """
    older = set(_children(os.getpid()))
    begin = time.perf_counter()
    with stderr.open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    run = Started(process, Cost())
    watcher = _Watcher(process.pid) if watch_memory else None
    try:
        yield run
        run.cost.wall = time.perf_counter() - begin
    finally:
        if watcher is not None:
            run.cost.memory = watcher.end()
        _end(run, older)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _end(run: Started, older: set[int]) -> None:
    """Kill what is left and collect what each has cost; orphans are our children now."""
    first = True
    while left := ({run.process.pid} if first else set[int]()) | _strangers(older):
        for pid in (*left, *(p for one in left for p in _below(one))):
            if pid != run.process.pid or not _is_over(run):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for pid in left:
            _, status, usage = os.wait4(pid, 0)
            run.cost.cpu += usage.ru_utime + usage.ru_stime
            run.cost.memory = max(run.cost.memory, usage.ru_maxrss * _RSS_UNIT)
            if pid == run.process.pid:
                run.cost.code = run.process.returncode = os.waitstatus_to_exitcode(status)
        first = False


_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def _is_over(run: Started) -> bool:
    """Whether the process has ended by itself; leaves it to be waited for."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, run.process.pid, flags) is not None


def _strangers(older: set[int]) -> set[int]:
    return set(_children(os.getpid())) - older


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def _below(pid: int) -> list[int]:
    found = _children(pid)
    for child in tuple(found):
        found += _below(child)
    return found


class _Watcher:
    """Adds up the resident memory of a tree, every few milliseconds, and keeps the most."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return self._most

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            self._most = max(self._most, measure_tree(self._pid))


def measure_tree(pid: int) -> int:
    """Bytes of the resident pages of a process and all below it.

    A child that has not begun its program yet borrows the memory of its parent (vfork): nothing
    is copied, and it counts once. Such a child has its parent's program and figures.
    """
    seen = _identity(pid)
    return (_resident(seen) if seen else 0) + sum(
        measure_tree(child) for child in _children(pid) if not _is_borrower(child, pid, seen)
    )


def _is_borrower(child: int, parent: int, before: tuple[str, str] | None) -> bool:
    """Whether it looks like its parent; other threads of which may go on and change its figures."""
    seen = _identity(child)
    return seen is not None and seen in (before, _identity(parent))


def _resident(identity: tuple[str, str]) -> int:
    return int(identity[1].split()[1]) * _PAGE


def _identity(pid: int) -> tuple[str, str] | None:
    """Its program and its figures of memory; None when it is gone."""
    try:
        place = Path("/proc") / str(pid)
        return str((place / "exe").readlink()), (place / "statm").read_text()
    except OSError:
        return None
