"""Runs of plans: their directories in the state directory, their locks, their definitions."""

import logging
import os
import re
import signal
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import field
from msgspec.structs import replace

from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import NewerVersionError, QuarterdeckError
from quarterdeck.wire.filelock import open_lock, release_lock, try_lock
from quarterdeck.wire.ids import new_request_id
from quarterdeck.wire.private_files import write_private
from quarterdeck.wire.values import Value

from .errors import NoSuchRunError, PlanError, RunExistsError, RunningError
from .plan import CheckedPlan, PlannedTask, expand_tasks, load_plan
from .progress import RunProgress, read_entries
from .schema import PlanFields

__all__ = ["PlanRun", "RunInfo", "RunState", "create_run", "find_run", "list_runs"]

RunState: TypeAlias = Literal["running", "needs you", "stopped", "done", "failed"]

_log = logging.getLogger(__name__)

RUN_VERSION = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_STOP_SECONDS = 15.0
_PAUSE = 0.05


class RunInfo(Value, frozen=True, kw_only=True):
    """What a run is started with."""

    v: int = RUN_VERSION
    name: str
    id: str
    """Short; in the names of its agents."""
    plan: str
    """The file."""
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    created: int = 0
    """Microseconds since the epoch."""
    approved_by: str = ""
    """An agent proposed the plan, and this request approved it: changes of the file do not
    count."""


class _KeptPlan(Value, frozen=True, kw_only=True):
    text: str
    fields: PlanFields
    prompts: dict[str, str]


class PlanRun:
    """A run on disk. Methods block on files."""

    def __init__(self, directory: Path, info: RunInfo) -> None:
        self.directory = directory
        self.info = info
        self._files: tuple[Path, ...] | None = None
        self._looked_at: object = None
        """The files of the plan when they were last read: to read them costs more than a look."""

    @property
    def progress_file(self) -> Path:
        """What happened."""
        return self.directory / "progress.jsonl"

    @property
    def log_file(self) -> Path:
        """What a runner in the background writes."""
        return self.directory / "runner.log"

    def read_progress(self) -> RunProgress:
        """How far it has come.

        Raises:
            PlanError: its file is damaged.
        """
        try:
            return RunProgress(read_entries(self.progress_file))
        except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
            name = self.info.name
            raise PlanError(f"the progress of the run {name!r} cannot be read: {error}") from error

    def load_kept_plan(self) -> CheckedPlan:
        """The plan as it was when the run started or last took a change.

        Raises:
            PlanError: the copy is damaged.
        """
        path = self.directory / "plan.json"
        try:
            kept = decode_json(path.read_bytes(), _KeptPlan)
        except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
            raise PlanError(f"{str(path)!r} cannot be read: {error}") from error
        return CheckedPlan(
            path=Path(self.info.plan),
            name=self.info.name,
            text=kept.text,
            fields=kept.fields,
            prompts=kept.prompts,
        )

    def take_change(self) -> str:
        """Take over the plan's file if it was changed since; what to know about that, or nothing.

        Only other words count: an agent of the plan may be able to write to the file, and what
        tasks may do was decided when the run was started. A file that cannot run does not count.
        """
        if self.info.approved_by:
            return ""
        now = self._look_at_files()
        if now is not None and now == self._looked_at:
            return ""
        self._looked_at = now
        kept = self.load_kept_plan()
        try:
            changed = load_plan(Path(self.info.plan))
        except PlanError as error:
            first = str(error).splitlines()[0]
            return f"the plan cannot be used as it is now, the old one counts: {first}"
        if (changed.text, changed.prompts) == (kept.text, kept.prompts):
            return ""
        if _without_words(kept.fields) != _without_words(changed.fields):
            return "the plan has more than other words now, the old one counts; start a new run"
        self.keep_plan(changed)
        return "the plan was changed; tasks that have not begun use it"

    def _look_at_files(self) -> object:
        """What tells whether a file of the plan was written since; None: one is not there."""
        path = Path(self.info.plan)
        if self._files is None:
            tasks = self.load_kept_plan().fields.tasks.values()
            prompts = [path.parent / one.prompt_file for one in tasks if one.prompt_file]
            self._files = (path, *prompts)
        try:
            found = [one.stat() for one in self._files]
        except OSError:
            return None
        return [(one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found]

    def keep_plan(self, plan: CheckedPlan) -> None:
        """Store a copy of the plan, with prompts of other files in it."""
        kept = _KeptPlan(text=plan.text, fields=plan.fields, prompts=dict(plan.prompts))
        write_private(self.directory / "plan.json", msgspec.json.encode(kept).decode())

    def expand(self, plan: CheckedPlan) -> dict[str, PlannedTask]:
        """The tasks, with the inputs of the run."""
        return expand_tasks(plan, self.info.inputs)

    @contextmanager
    def hold(self) -> Generator[None]:
        """Be the one process that writes to the run.

        Raises:
            RunningError: another process is.
        """
        handle = open_lock(self.directory / "lock")
        try:
            if not any(_try_again(handle, count) for count in range(10)):
                raise RunningError(self.info.name, self._read_pid())
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            with suppress(OSError):
                release_lock(handle)

    def find_runner(self) -> int | None:
        """The process that runs it; None: it does not run."""
        handle = open_lock(self.directory / "lock")
        try:
            return None if try_lock(handle, shared=True) else self._read_pid()
        finally:
            release_lock(handle)

    def find_state(self, progress: RunProgress) -> RunState:
        """Where it stands, in a word."""
        if progress.is_ended:
            return "failed" if progress.has_failed else "done"
        if self.find_runner() is None:
            return "stopped"
        waits = any(task.state == "gate" for task in progress.tasks.values())
        return "needs you" if waits else "running"

    def end_runner(self) -> bool:
        """End the process that runs it and wait until it is gone; False: there is none.

        Raises:
            PlanError: it does not end.
        """
        pid = self.find_runner()
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while self.find_runner() is not None:
            if time.monotonic() > deadline:
                raise PlanError(f"the process {pid} of the run {self.info.name!r} does not end")
            time.sleep(_PAUSE)
        return True

    def _read_pid(self) -> int:
        try:
            return int((self.directory / "lock").read_text() or "0")
        except (OSError, ValueError):
            return 0


def _try_again(handle: int, count: int) -> bool:
    """Take the lock; who only looks at it has it for a moment."""
    if count:
        time.sleep(_PAUSE)
    return try_lock(handle)


def _without_words(fields: PlanFields) -> PlanFields:
    """A plan without what only agents and people read: what it does, and with which permissions."""
    tasks = {
        name: replace(task, text="", prompt="", retry_message="")
        for name, task in fields.tasks.items()
    }
    return replace(fields, text="", tasks=tasks)


def runs_directory(places: Places) -> Path:
    """Where runs are."""
    return places.state / "plans"


def create_run(
    places: Places,
    plan: CheckedPlan,
    inputs: Mapping[str, str],
    name: str | None,
    *,
    approved_by: str = "",
) -> PlanRun:
    """Make a new run; nothing is started. ``approved_by``: see ``RunInfo``.

    Raises:
        PlanInputError: an input is missing or not known.
        RunExistsError: a run of this name has not ended.
        PlanError: the name cannot be one.
    """
    expand_tasks(plan, inputs)
    above = runs_directory(places)
    make_private(above)
    chosen = _choose_name(above, plan.name, name)
    directory = above / chosen
    info = RunInfo(
        name=chosen,
        id=new_request_id()[-6:].lower(),
        plan=str(plan.path),
        inputs=dict(inputs),
        created=read_wall_clock(),
        approved_by=approved_by,
    )
    run = PlanRun(directory, info)
    make_private(directory)
    run.keep_plan(plan)
    write_private(directory / "run.json", msgspec.json.encode(info).decode())
    return run


def _choose_name(above: Path, usual: str, wanted: str | None) -> str:
    if wanted is not None and not _NAME.fullmatch(wanted):
        raise PlanError(f"{wanted!r} cannot be a name; use small letters, digits, '-' and '_'")
    stem = wanted or usual
    number, name = 1, stem
    while (above / name).exists():
        found = _read_run(above / name)
        is_over = found is None or found.read_progress().is_ended
        if wanted is not None or not is_over:
            raise RunExistsError(name, is_over=is_over)
        number += 1
        name = f"{stem}-{number}"
    return name


def find_run(places: Places, name: str) -> PlanRun:
    """A run by its name. Raises NoSuchRunError."""
    found = _read_run(runs_directory(places) / name) if _NAME.fullmatch(name) else None
    if found is None:
        raise NoSuchRunError(name)
    return found


def list_runs(places: Places) -> list[PlanRun]:
    """Every run that can be read, the latest first; what is wrong with others is logged."""
    directory = runs_directory(places)
    runs: list[PlanRun] = []
    try:
        paths = [path for path in directory.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []
    for path in paths:
        try:
            if (run := _read_run(path)) is not None:
                runs.append(run)
        except QuarterdeckError as error:
            _log.warning("%s", error)
    return sorted(runs, key=lambda run: run.info.created, reverse=True)


def _read_run(directory: Path) -> PlanRun | None:
    try:
        data = (directory / "run.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    about = f"the run {directory.name!r}"
    try:
        version = decode_json(data, dict[str, object]).get("v", RUN_VERSION)
        if isinstance(version, int) and version > RUN_VERSION:
            raise NewerVersionError(about, version, RUN_VERSION)
        return PlanRun(directory, decode_json(data, RunInfo))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{about} is damaged: {error}") from error
