"""Our side of the watchdog: which trees it has to end should we be killed."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from quarterdeck.system.process_tree import ProcessTree

__all__ = ["ProcessGuard", "shared_guard"]

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from quarterdeck.system.watchdog import main; main(int(sys.argv[1]))"
)
_SOURCE = str(Path(__file__).parents[2])


class ProcessGuard:
    """Keeps the watchdog informed, and alive. Every method may block shortly: call from a thread.

    A tree is announced before its first process exists; a line in the pipe is enough, because the
    watchdog reads the pipe to its end after our death even if it had only just been started.
    """

    def __init__(self) -> None:
        self._trees: dict[str, ProcessTree] = {}
        self._lock = threading.Lock()
        self._pipe = -1
        self._pid = 0

    def begin(self, mark: str) -> None:
        """A tree with this mark is about to begin. Raises OSError if there can be no watchdog."""
        with self._lock:
            self._trees[mark] = ProcessTree(mark)
            self._tell(f"+{mark}\n")

    def started(self, tree: ProcessTree) -> None:
        """The first process of a tree runs."""
        with self._lock:
            self._trees[tree.mark] = tree
            self._tell(f"={tree.mark} {tree.pid} {tree.start}\n")

    def settle(self, mark: str) -> None:
        """The start of a tree is over; one that has no process was not to be."""
        with self._lock:
            tree = self._trees.get(mark)
        if tree is not None and not tree.pid:
            self.gone(mark)

    def gone(self, mark: str) -> None:
        """Nothing of the tree is left."""
        with self._lock:
            if self._trees.pop(mark, None) is not None and self._pipe >= 0:
                self._tell(f"-{mark}\n")

    def close(self) -> None:
        """Let the watchdog go; it ends every tree that is not gone, as if we had died."""
        with self._lock:
            self._trees.clear()
            if self._pipe >= 0:
                os.close(self._pipe)
                self._pipe = -1

    @property
    def pid(self) -> int:
        """The process id of the watchdog; 0 before the first tree."""
        return self._pid

    def _tell(self, line: str) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, line.encode())
            except BrokenPipeError:  # it was killed: a new one learns everything anew
                self._drop()
            else:
                return
        self._start()
        lines = [f"+{mark}\n" for mark in self._trees]
        lines += [f"={t.mark} {t.pid} {t.start}\n" for t in self._trees.values() if t.pid]
        os.write(self._pipe, "".join(lines).encode())

    def _start(self) -> None:
        theirs, ours = os.pipe()
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", "-c", _PROGRAM, str(os.getpid()), _SOURCE],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._pipe = ours
        self._pid = child.pid
        # It outlives us on purpose: Popen must not complain that it was not waited for.
        child.returncode = 0

    def _drop(self) -> None:
        os.close(self._pipe)
        self._pipe = -1
        with suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)


_shared: tuple[int, ProcessGuard] | None = None
_shared_lock = threading.Lock()


def shared_guard() -> ProcessGuard:
    """The one guard of this process; a forked copy of us gets its own."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared[0] != os.getpid():
            _shared = os.getpid(), ProcessGuard()
        return _shared[1]
