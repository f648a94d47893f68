"""The progress of a run: an append-only file of what happened, and the state that follows from it.

One process writes it at a time, the one that holds the lock of the run. Every entry has a key, and
an entry whose key is there already is not written again: a step of the engine that is repeated
after a crash leaves one entry.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import field

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.private_files import open_private
from quarterdeck.wire.values import Value

__all__ = [
    "CheckOutcome",
    "ContenderReport",
    "ContenderState",
    "EntryKind",
    "ProgressEntry",
    "ProgressLog",
    "RunProgress",
    "TaskProgress",
    "TaskState",
    "read_entries",
]

PROGRESS_VERSION = 1

EntryKind: TypeAlias = Literal[
    "run_started",
    "run_ended",
    "run_stopped",
    "run_resumed",
    "plan_changed",
    "task_begun",
    "task_ended",
    "turn_sent",
    "turn_repeated",
    "turn_interrupted",
    "check_ended",
    "attempt_ended",
    "contender_ended",
    "gate_opened",
    "gate_answered",
    "landed",
    "pull_request",
    "discarded",
    "picked",
]
TaskState: TypeAlias = Literal["waiting", "running", "gate", "done", "failed", "skipped"]
ContenderState: TypeAlias = Literal["passed", "failed", "withdrawn"]
"""``withdrawn``: another one was first."""


class CheckOutcome(Value, frozen=True, kw_only=True):
    """What came of a check."""

    name: str
    passed: bool
    reason: str = ""
    """Why it failed."""
    output: str = ""
    """The last lines."""
    seconds: float = 0.0
    tests: int = 0
    """In its JUnit report."""
    failed_tests: tuple[str, ...] = ()


class ContenderReport(Value, frozen=True, kw_only=True):
    """What one agent made of a task."""

    contender: str
    agent: str
    state: ContenderState
    reason: str = ""
    """Why it failed."""
    session: str = ""
    """Empty: it was never started."""
    name: str = ""
    """The agent's, in the fleet."""
    attempts: int = 0
    repeated: int = 0
    """Turns that were sent again because their session had ended."""
    checks: tuple[CheckOutcome, ...] = ()
    """Of the last attempt."""
    files: int = 0
    added: int = 0
    removed: int = 0
    seconds: float = 0.0
    """Of its turns and checks."""
    tokens: int = 0
    costs: dict[str, float] = field(default_factory=dict[str, float])
    """By currency."""
    permissions: int = 0
    """How often it asked for permission."""
    output: str = ""
    """Its last message."""
    worktree: str = ""

    @property
    def passed_checks(self) -> int:
        """How many."""
        return sum(check.passed for check in self.checks)


class ProgressEntry(Value, frozen=True, kw_only=True):
    """One thing that happened in a run."""

    v: int = PROGRESS_VERSION
    time: int
    """Microseconds since the epoch."""
    kind: EntryKind
    key: str
    """Unique in the run."""
    task: str = ""
    contender: str = ""
    attempt: int = 0
    session: str = ""
    message: str = ""
    """The id of a prompt."""
    request: str = ""
    """Of a gate: the id of the permission request."""
    state: str = ""
    text: str = ""
    """For people: a reason, a note."""
    output: str = ""
    """Of a task: what templates of later tasks get."""
    check: CheckOutcome | None = None
    report: ContenderReport | None = None


class ProgressLog:
    """Appends entries to the file of a run; a context manager. Blocks shortly."""

    def __init__(self, path: Path, show: Callable[[ProgressEntry], None] = lambda _: None) -> None:
        self._path = path
        self._show = show
        self._handle = -1
        self.entries: list[ProgressEntry] = []
        self._by_key: dict[str, ProgressEntry] = {}

    def __enter__(self) -> "ProgressLog":
        self._handle = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        data = self._path.read_bytes()
        if data and not data.endswith(b"\n"):
            # The writer was killed within a line.
            os.ftruncate(self._handle, data.rfind(b"\n") + 1)
        self.entries = list(read_entries(self._path))
        self._by_key = {entry.key: entry for entry in self.entries}
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def find(self, key: str) -> ProgressEntry | None:
        """The entry with this key."""
        return self._by_key.get(key)

    def note(self, kind: EntryKind, key: str, **fields: Any) -> bool:
        """Append an entry, durably; False if its key is there already."""
        if key in self._by_key:
            return False
        entry = ProgressEntry(time=read_wall_clock(), kind=kind, key=key, **fields)
        os.write(self._handle, msgspec.json.encode(entry) + b"\n")
        os.fsync(self._handle)
        self._by_key[key] = entry
        self.entries.append(entry)
        self._show(entry)
        return True


def read_entries(path: Path) -> Iterator[ProgressEntry]:
    """The entries of a file, without a last line that is not whole. Blocks.

    Raises:
        msgspec.DecodeError: the file is damaged.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        yield decode_json(line, ProgressEntry)


class TaskProgress:
    """How far a task has come."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.state: TaskState = "waiting"
        self.text = ""
        self.begun = self.ended = 0
        self.attempts = self.repeated = 0
        self.winner = ""
        self.sessions: dict[str, str] = {}
        """By contender."""
        self.reports: dict[str, ContenderReport] = {}
        self.is_picked = False
        self.pull_request = ""
        """The address of the one that was opened for it."""
        self.request = ""
        """Of an open gate."""

    def take(self, entry: ProgressEntry) -> None:
        """Count one more entry."""
        match entry.kind:
            case "task_begun":
                self.state, self.begun = "running", entry.time
            case "task_ended":
                self.state = _END_STATES[entry.state]
                self.ended, self.text, self.winner = entry.time, entry.text, entry.contender
            case "turn_sent":
                self.attempts = max(self.attempts, entry.attempt)
                self.sessions[entry.contender] = entry.session
            case "turn_repeated":
                self.repeated += 1
            case "contender_ended" if entry.report is not None:
                self.reports[entry.contender] = entry.report
            case "gate_opened":
                self.state, self.request = "gate", entry.request
            case "gate_answered":
                self.state, self.request = "running", ""
            case "pull_request":
                self.pull_request = entry.text
            case "picked":
                self.winner, self.is_picked = entry.contender, True
            case _:
                return


_END_STATES: dict[str, TaskState] = {"done": "done", "failed": "failed", "skipped": "skipped"}


class RunProgress:
    """How far a run has come: a projection of its entries."""

    def __init__(self, entries: "list[ProgressEntry] | Iterator[ProgressEntry]") -> None:
        self.tasks: dict[str, TaskProgress] = {}
        self.is_ended = False
        self.is_stopped = False
        self.notes: list[str] = []
        for entry in entries:
            self._take(entry)

    def _take(self, entry: ProgressEntry) -> None:
        match entry.kind:
            case "run_resumed":
                self.is_stopped = False
            case "run_started":
                for key in entry.text.split():
                    self.tasks.setdefault(key, TaskProgress(key))
            case "run_ended":
                self.is_ended = True
            case "run_stopped":
                self.is_stopped = True
            case "plan_changed":
                self.notes.append(entry.text)
            case _:
                task = self.tasks.setdefault(entry.task, TaskProgress(entry.task))
                task.take(entry)

    @property
    def has_failed(self) -> bool:
        """Whether a task did not succeed."""
        return any(task.state in ("failed", "skipped") for task in self.tasks.values())
