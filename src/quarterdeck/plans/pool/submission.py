"""Runs of a pool: submitted from anywhere, and looked at from anywhere."""

import asyncio
import getpass
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from quarterdeck.fleet.landing.pull_request import PullRequestError, run_own_program
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.references import resolve_commit
from quarterdeck.system.git.repository import expect_repository, list_remotes
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import NewerVersionError
from quarterdeck.wire.ids import new_request_id
from quarterdeck.wire.redaction import mask_secrets
from quarterdeck.wire.values import Value

from ..errors import NoSuchRunError, RunExistsError
from ..plan import CheckedPlan, PlannedTask, expand_tasks
from ..progress import ProgressEntry, RunProgress
from ..run import PlanRun, RunInfo, RunState
from ..schema import PlanFields
from .database import Connection, PoolDatabase
from .errors import PoolError, TransportError
from .store import PoolStore, WorkerInfo
from .transport import commit_included, name_reference

__all__ = ["PoolRun", "PoolRuns", "RunDefinition"]

DEFINITION_VERSION = 1


class RunDefinition(Value, frozen=True, kw_only=True):
    """What a run is, for every worker."""

    v: int = DEFINITION_VERSION
    info: RunInfo
    text: str
    """The plan's file, whole."""
    fields: PlanFields
    prompts: dict[str, str]
    file: str
    """The plan's file in the repository, relative."""
    remote: str
    base: str
    """The commit that tasks start from, at the remote below ``refs/quarterdeck/pool``."""
    branch: str = ""
    """Where work is landed, unless a task says otherwise."""
    included: str = ""
    """The commit with the ignored files that worktrees start with; empty: none."""


class PoolRun(PlanRun):
    """A run of a pool: the same questions as for one on disk, answered by what the pool has.

    Args:
        definition: of the run.
        checkout: where its repository is on this machine; None: nowhere.
    """

    def __init__(self, definition: RunDefinition, checkout: Path | None = None) -> None:
        super().__init__(checkout or Path("/nonexistent"), definition.info)
        self.definition = definition
        self.state: RunState = "running"
        self.entries: Sequence[ProgressEntry] = ()

    def load_kept_plan(self) -> CheckedPlan:
        """The plan as it was submitted."""
        kept = self.definition
        return CheckedPlan(
            path=self.directory / kept.file,
            name=self.info.name,
            text=kept.text,
            fields=kept.fields,
            prompts=kept.prompts,
        )

    def take_change(self) -> str:
        """What was submitted is what runs."""
        return ""

    def read_progress(self) -> RunProgress:
        """How far it had come when it was read."""
        return RunProgress(list(self.entries))

    def find_state(self, progress: RunProgress) -> RunState:
        """Where it stood when it was read."""
        waits = any(task.state == "gate" for task in progress.tasks.values())
        return "needs you" if waits and self.state == "running" else self.state

    def find_runner(self) -> int | None:
        """No one process runs it."""
        return None


class PoolRuns:
    """The runs of a pool, for people."""

    def __init__(self, database: PoolDatabase) -> None:
        self._database = database
        self._store = PoolStore(database)

    async def submit(
        self, plan: CheckedPlan, inputs: Mapping[str, str], name: str | None
    ) -> PoolRun:
        """Give a plan to the pool; its workers begin at once.

        The commit that is checked out is pushed to the remote, below ``refs/quarterdeck/pool``;
        what is not committed stays here. The project must be trusted, since git runs in it.

        Raises:
            PlanInputError: an input is missing or not known.
            RunExistsError: there is a run of this name.
            PoolError: the plan has something that a pool cannot do.
            TransportError: there is no remote, or it cannot be pushed to.
        """
        tasks = expand_tasks(plan, inputs)
        _check_tasks(tasks)
        info = RunInfo(
            name=name or plan.name,
            id=new_request_id()[-6:].lower(),
            plan=str(plan.path),
            inputs=dict(inputs),
            created=read_wall_clock(),
        )
        if await self._read("WHERE name = %s", (info.name,)):
            raise RunExistsError(info.name, is_over=True)
        definition = await asyncio.to_thread(_define, plan, info)
        await _push_start(definition, plan.directory)
        try:
            await self._database.run(lambda connection: _insert(connection, definition, tasks))
        except RunExistsError:
            # Another one came first, between the two.
            await _push_start(definition, plan.directory, removes=True)
            raise
        return await self.find(info.name)

    async def find(self, name: str) -> PoolRun:
        """A run by its name, as it is now. Raises NoSuchRunError."""
        found = await self._read("WHERE name = %s", (name,))
        if not found:
            raise NoSuchRunError(name)
        run = found[0]
        run.entries = [entry for _, entry in await self._store.read_progress(run.info.id)]
        return run

    async def list_all(self) -> list[PoolRun]:
        """Every run, the latest first."""
        runs = await self._read("ORDER BY created DESC, name", ())
        for run in runs:
            run.entries = [entry for _, entry in await self._store.read_progress(run.info.id)]
        return runs

    async def _read(self, clause: str, values: tuple[Any, ...]) -> list[PoolRun]:
        async def read(connection: Connection) -> list[PoolRun]:
            words = f"SELECT definition, state FROM quarterdeck.runs {clause}"
            found: list[PoolRun] = []
            async for definition, state in await connection.execute(words.encode(), values):
                run = PoolRun(read_definition(definition))
                run.state = state
                found.append(run)
            return found

        return await self._database.run(read)

    async def set_state(self, name: str, state: str) -> bool:
        """Stop a run, or let it go on; False: it has ended. Raises NoSuchRunError.

        Workers that are at it end their agents with their next heartbeat.
        """
        await self.find(name)

        async def write(connection: Connection) -> bool:
            done = await connection.execute(
                "UPDATE quarterdeck.runs SET state = %s WHERE name = %s "
                "AND state IN ('running', 'stopped')",
                (state, name),
            )
            return done.rowcount == 1

        return await self._database.run(write)

    async def follow(
        self, run: PoolRun, show: Callable[[ProgressEntry], None], pause: float = 0.3
    ) -> PoolRun:
        """Show what happens in a run until it has ended, or is stopped."""
        after = 0
        while True:
            now = await self.find(run.info.name)
            for number, entry in await self._store.read_progress(run.info.id, after):
                after = number
                show(entry)
            if now.state != "running":
                return now
            await asyncio.sleep(pause)

    async def list_workers(self) -> list[WorkerInfo]:
        """The workers, by name."""

        async def read(connection: Connection) -> list[WorkerInfo]:
            rows = await connection.execute(
                "SELECT id, name, labels, slots, program, state, "
                "extract(epoch FROM now() - seen)::float8 FROM quarterdeck.workers ORDER BY name"
            )
            return [
                WorkerInfo(
                    id=id_, name=name, labels=tuple(labels), slots=slots, program=program,
                    state=state, seconds=seconds,
                )
                async for id_, name, labels, slots, program, state, seconds in rows
            ]  # fmt: skip

        return await self._database.run(read)


def read_definition(text: str) -> RunDefinition:
    """What a run is.

    Raises:
        NewerVersionError: a newer program submitted it.
        PoolError: it is damaged.
    """
    data = text.encode()
    try:
        version = decode_json(data, _Versioned).v
        if version > DEFINITION_VERSION:
            raise NewerVersionError("the run", version, DEFINITION_VERSION)
        return decode_json(data, RunDefinition)
    except msgspec.DecodeError as error:
        raise PoolError(f"a run of the pool cannot be read: {error}") from error


class _Versioned(Struct, frozen=True):
    v: int = 0


def _check_tasks(tasks: Mapping[str, PlannedTask]) -> None:
    for key, task in tasks.items():
        if task.fields.options.roots:
            raise PoolError(f"{key!r} has further roots, which other machines do not have")


def _define(plan: CheckedPlan, info: RunInfo) -> RunDefinition:
    try:
        repository = expect_repository(str(plan.directory))
        remotes = list_remotes(repository)
        base = resolve_commit(repository, "HEAD")
    except GitError as error:
        raise TransportError(f"a pool needs a git repository with a commit: {error}") from error
    wanted = plan.fields.remote or "origin"
    address = remotes.get(wanted, wanted if "/" in wanted or ":" in wanted else "")
    if not address:
        known = ", ".join(remotes) or "it has none; add one with git remote add"
        raise TransportError(
            f"workers fetch the project from a git remote, and there is no {wanted!r}; name one "
            f"with remote at the top of the plan: {known}"
        )
    if mask_secrets(address) != address:
        raise TransportError(
            f"the address of the remote {wanted!r} has a password, which every worker would see; "
            "use an address without one and a credential helper, or ssh"
        )
    try:
        file = plan.path.resolve().relative_to(Path(repository.top).resolve())
    except ValueError as error:
        raise TransportError(f"the plan must be in the repository {repository.top!r}") from error
    included = ""
    if plan.fields.carry_ignored:
        with tempfile.TemporaryDirectory(prefix="quarterdeck-included-") as folder:
            included = commit_included(repository.top, Path(folder))
    return RunDefinition(
        info=info,
        included=included,
        text=plan.text,
        fields=plan.fields,
        prompts=dict(plan.prompts),
        file=str(file),
        remote=address,
        base=base,
        branch=repository.branch if repository.is_on_branch else "",
    )


async def _push_start(definition: RunDefinition, directory: Path, *, removes: bool = False) -> None:
    """Push what a run starts from, or remove it again."""
    commits = {"base": definition.base, "included": definition.included}
    pairs = [
        f"{'' if removes else commit}:{name_reference(definition.info.id, name)}"
        for name, commit in commits.items()
        if commit
    ]
    words = ("push", "-q", "--porcelain", "--", definition.remote, *pairs)
    try:
        await run_own_program("git", words, cwd=str(directory))
    except PullRequestError as error:
        raise TransportError(mask_secrets(str(error), os.environ)) from error


async def _insert(
    connection: Connection, definition: RunDefinition, tasks: Mapping[str, PlannedTask]
) -> None:
    info = definition.info
    done = await connection.execute(
        "INSERT INTO quarterdeck.runs (id, name, definition, at_once, submitted_by) "
        "VALUES (%s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING",
        (
            *(info.id, info.name, msgspec.json.encode(definition).decode()),
            *(definition.fields.at_once, getpass.getuser()),
        ),
    )
    if done.rowcount != 1:
        raise RunExistsError(info.name, is_over=True)
    rows = [
        (
            *(info.id, key, place, list(task.needs), list(task.fields.labels)),
            sorted({one.agent for one in task.contenders}),
            "waiting" if task.needs else "ready",
        )
        for place, (key, task) in enumerate(tasks.items())
    ]
    async with connection.cursor() as cursor:
        await cursor.executemany(
            "INSERT INTO quarterdeck.tasks (run, key, place, needs, labels, agents, state) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            rows,
        )
    entry = ProgressEntry(
        time=read_wall_clock(), kind="run_started", key="run", text=" ".join(tasks)
    )
    await connection.execute(
        "INSERT INTO quarterdeck.progress (run, key, entry) VALUES (%s, %s, %s)",
        (info.id, entry.key, msgspec.json.encode(entry).decode()),
    )
