"""Finding every process of a tree, also one that left its group, its session or its parent.

A process belongs to a tree when one of these leads back to it:

- its chain of parents,
- its process group or session, which began with the child that we started,
- a random mark in the environment that every child gets and passes on (``MARK_VARIABLE``).

A daemon forks twice and begins a session of its own, so the first two lose it; the mark stays.
Process ids are reused, therefore a process is its id together with its start time.

Only the standard library is imported, and little of it: the watchdog process runs this too.
Everything here blocks for some milliseconds; callers are in a thread.
"""
# Importing pathlib would double the watchdog's start.
# ruff: noqa: PTH123, PTH208

import os
import signal
import sys
from collections.abc import Iterable

__all__ = [
    "MARK_VARIABLE",
    "ProcessInfo",
    "ProcessTree",
    "find_processes",
    "list_processes",
    "marked_by_ps",
    "send_signal",
    "start_of",
    "table_of_ps",
]

MARK_VARIABLE = "QUARTERDECK_MARK"
"""Environment variable with the marks of the trees a process belongs to, ``:`` between them.

There are several when one of our children is a program like us and has children of its own.
"""


class ProcessInfo:
    """One process: who it is, where it hangs in the tree of processes."""

    __slots__ = ("group", "is_dead", "parent", "pid", "session", "start")

    def __init__(
        self, pid: int, parent: int, group: int, session: int, start: str, is_dead: bool
    ) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.start = start
        """Start time in the system's own form; with the pid it names a process for good."""
        self.is_dead = is_dead
        """A zombie: it has ended and waits for its parent to take notice."""


class ProcessTree:
    """What there is to recognise a tree by: its mark, its first process and when that started."""

    __slots__ = ("mark", "pid", "start")

    def __init__(self, mark: str, pid: int = 0, start: str = "") -> None:
        self.mark = mark
        self.pid = pid
        self.start = start


def find_processes(
    trees: Iterable[ProcessTree], table: dict[int, ProcessInfo] | None = None
) -> list[ProcessInfo]:
    """Every living process of these trees, never ourselves; oldest first where start times sort.

    A parent is signalled before its children then, and does not react to their death.

    A process that forks while we look may be missed once; look again until nothing is found.
    """
    table = list_processes() if table is None else table
    trees = list(trees)
    marks = _marked(trees, table)
    leaders = {tree.pid for tree in trees if tree.pid and not _is_reused(tree, table)}
    members = {
        one.pid
        for one in table.values()
        if one.pid in marks or one.pid in leaders or one.group in leaders or one.session in leaders
    }
    members |= _below(members, table)
    members.discard(os.getpid())
    found = [table[pid] for pid in members if not table[pid].is_dead]
    return sorted(found, key=lambda one: (len(one.start), one.start, one.pid))


def send_signal(one: ProcessInfo, number: int) -> bool:
    """Send a signal, unless the process id was reused meanwhile.

    False when the process is gone or not ours to signal.
    """
    try:
        if not hasattr(os, "pidfd_open"):
            os.kill(one.pid, number)
            return True
        handle = os.pidfd_open(one.pid)
        try:
            if start_of(one.pid) != one.start:
                return False
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except OSError:
        return False
    return True


def start_of(pid: int) -> str:
    """The start time of a process; empty when there is none of this id."""
    if sys.platform != "linux":
        one = table_of_ps(["-p", str(pid)]).get(pid)
    else:
        one = _status(pid)
    return one.start if one is not None else ""


def list_processes() -> dict[int, ProcessInfo]:
    """Every process of this machine that can be seen, by id."""
    if sys.platform != "linux":
        return table_of_ps(["-ax"])
    found = (_status(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {one.pid: one for one in found if one is not None}


def _is_reused(tree: ProcessTree, table: dict[int, ProcessInfo]) -> bool:
    first = table.get(tree.pid)
    return first is not None and bool(tree.start) and first.start != tree.start


def _below(members: set[int], table: dict[int, ProcessInfo]) -> set[int]:
    """Children of the members, their children and so on."""
    children: dict[int, list[int]] = {}
    for one in table.values():
        children.setdefault(one.parent, []).append(one.pid)
    found: set[int] = set()
    waiting = list(members)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(new)
        waiting += new
    return found


def _status(pid: int) -> ProcessInfo | None:
    text = _content(f"/proc/{pid}/stat", 1024)
    if not text:
        return None
    # The name of the program stands in parentheses and may hold anything, also parentheses.
    fields = text[text.rindex(b")") + 2 :].split(b" ", 20)
    return ProcessInfo(
        pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start=fields[19].decode(),
        is_dead=fields[0] in b"ZX",
    )


def _content(path: str, size: int) -> bytes:
    """The beginning of a file of the kernel; nothing when there is no such process."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, size)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _marked(trees: list[ProcessTree], table: dict[int, ProcessInfo]) -> set[int]:
    """The processes whose environment holds one of the marks."""
    marks = {tree.mark for tree in trees if tree.mark}
    if not marks:
        return set()
    if sys.platform != "linux":
        return marked_by_ps(marks)
    wanted = {mark.encode() for mark in marks}
    # Nothing is older than its tree: most processes need not be looked at.
    oldest = min(int(tree.start or 0) for tree in trees)
    return {
        pid
        for pid, one in table.items()
        if not one.is_dead and int(one.start) >= oldest and _carries(pid, wanted)
    }


def _carries(pid: int, wanted: set[bytes]) -> bool:
    environment = b"\0" + _whole(f"/proc/{pid}/environ")
    _, found, value = environment.partition(b"\0" + MARK_VARIABLE.encode() + b"=")
    return bool(found) and not wanted.isdisjoint(value.partition(b"\0")[0].split(b":"))


def _whole(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""


def table_of_ps(which: list[str]) -> dict[int, ProcessInfo]:
    """What ps says, for systems without /proc. Sessions are not to be had there: 0."""
    found: dict[int, ProcessInfo] = {}
    for line in _ps([*which, "-o", "pid=,ppid=,pgid=,stat=,lstart="]):
        fields = line.split(None, 4)
        if len(fields) == 5:
            pid, parent, group = map(int, fields[:3])
            found[pid] = ProcessInfo(
                pid, parent, group, 0, start=fields[4].strip(), is_dead="Z" in fields[3]
            )
    return found


def marked_by_ps(marks: set[str]) -> set[int]:
    """Ps appends the environment to the command; it shows that of our own processes only."""
    found: set[int] = set()
    for line in _ps(["axeww", "-o", "pid=,command="]):
        _, variable, value = line.partition(f" {MARK_VARIABLE}=")
        if variable and not marks.isdisjoint(value.partition(" ")[0].split(":")):
            found.add(int(line.split(None, 1)[0]))
    return found


def _ps(arguments: list[str]) -> list[str]:
    import subprocess

    done = subprocess.run(
        ["ps", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        env={"PATH": "/bin:/usr/bin", "LC_ALL": "C"},
    )
    return done.stdout.decode("utf-8", "replace").splitlines()
