"""What a test run may leave on this machine: nothing. Files go into directories of its own, what
it starts has ended, and what it changed is as it was.

``run_directory`` is where everything goes that asks for a temporary directory without saying where,
also programs that we did not write; it is gone after the run.
"""

import os
import resource
import shutil
import signal
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "Traces",
    "find_processes",
    "left_processes",
    "make_run_directory",
    "reap",
    "remove_run_directory",
]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGCHLD)
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)
_OF_PYTEST = frozenset(("PYTEST_CURRENT_TEST",))


@dataclass(frozen=True, slots=True)
class Traces:
    """What the tests of one process share, so that one test could spoil it for the next."""

    cwd: str
    umask: int
    environment: dict[str, str]
    handlers: dict[str, object]
    limits: dict[int, tuple[int, int]]
    modes: dict[str, int]

    @classmethod
    def now(cls, directories: list[Path]) -> "Traces":
        """As it is now, with the permissions of these directories and of those above them."""
        umask = os.umask(0)
        os.umask(umask)
        return cls(
            cwd=str(Path.cwd()),
            umask=umask,
            environment={k: v for k, v in os.environ.items() if k not in _OF_PYTEST},
            handlers={one.name: signal.getsignal(one) for one in _SIGNALS},
            limits={one: resource.getrlimit(one) for one in _LIMITS},
            modes={
                str(one): stat.S_IMODE(one.stat().st_mode) for one in _with_parents(*directories)
            },
        )

    def changes(self, later: "Traces") -> list[str]:
        """What is different later, one line for each."""
        lines: list[str] = []
        for name in ("cwd", "umask"):
            before, after = getattr(self, name), getattr(later, name)
            if before != after:
                lines.append(f"{name}: {before!r} is {after!r}")
        for name in ("environment", "handlers", "limits", "modes"):
            before, after = getattr(self, name), getattr(later, name)
            lines += [
                f"{name}: {key} was {before.get(key)!r} and is {after.get(key)!r}"
                for key in sorted({*before, *after}, key=str)
                if before.get(key) != after.get(key)
            ]
        return lines

    def restore(self) -> None:
        """Put back what else would fail every test that follows."""
        os.chdir(self.cwd)
        os.umask(self.umask)
        for folder, mode in self.modes.items():
            path = Path(folder)
            if path.exists() and stat.S_IMODE(path.stat().st_mode) != mode:
                path.chmod(mode)


@cache
def _with_parents(*directories: Path) -> tuple[Path, ...]:
    return tuple({one for folder in directories for one in (folder, *folder.parents)})


def make_run_directory() -> Path:
    """A short directory for what has no directory: sockets must fit below it."""
    # pytest's own directories stay where they were: those of tests that failed are looked at.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    made = Path(tempfile.mkdtemp(prefix="qdt"))
    os.environ["TMPDIR"] = str(made)
    tempfile.tempdir = None
    return made


def remove_run_directory(made: Path) -> None:
    """Forget it, with what is in it."""
    os.environ["TMPDIR"] = str(made.parent)
    tempfile.tempdir = None
    shutil.rmtree(made, ignore_errors=True)


def left_processes(folders: list[Path], *, within: float) -> dict[int, str]:
    """Those that were started during the run and have not ended ``within`` seconds: the id of
    each, its command, its home and the test whose home that is.
    """
    until = time.monotonic() + within
    while (left := find_processes(folders)) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def reap(*, within: float) -> None:
    """Take leave of children that have ended, and wait until the system has done so with those of
    theirs: else they are listed as processes of ours for some seconds more.
    """
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    until = time.monotonic() + within
    while _orphans() and time.monotonic() < until:
        time.sleep(0.1)


def _orphans() -> list[int]:
    """Processes of ours that have ended and were left to the system's first process."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if (state, parent) == ("Z", "1") and entry.stat().st_uid == os.getuid():
                found.append(int(entry.name))
    return found


def find_processes(folders: list[Path]) -> dict[int, str]:
    """Those that are at work in these folders, which are in their command, environment or
    directory: the id of each, its command and its home; where ``/proc`` is.
    """
    marks = [os.fsencode(folder) for folder in folders]
    found: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) in (os.getpid(), os.getppid()):
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:  # it has ended
            continue
        environment, folder = b"", b""
        with suppress(OSError):  # it is somebody else's, or hides them, as ssh does
            environment = (entry / "environ").read_bytes()
            folder = os.fsencode((entry / "cwd").readlink())
        known = command + environment + folder
        if any(mark in known for mark in marks):
            words = (os.fsdecode(word) for word in environment.split(b"\0"))
            home = next((word[5:] for word in words if word.startswith("HOME=")), "")
            found[int(entry.name)] = f"{os.fsdecode(command).strip()} (home: {home})"
    return found
