"""What a pool costs: fenced transactions, shipped events and claims at a real Postgres on loopback,
and the files of a turn on their way to a git remote. Postgres does not wait for the disk here.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import psycopg

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.plans.pool.address import PoolAddress
from quarterdeck.plans.pool.database import Connection, PoolDatabase, create_tables
from quarterdeck.plans.pool.event_shipment import EventShipment
from quarterdeck.plans.pool.store import Lease, PoolStore, WorkerInfo
from quarterdeck.plans.pool.transport import PoolTransport, name_reference
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import run_beside
from tests.support.postgres import run_postgres
from tests.support.work_trees import git, new_repository

from .size import Size
from .table import Row, Table

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient

__all__ = ["run"]

_CONNECTIONS = 8
_EVENTS_GOAL = 1_000.0
"""Events in a second: fifty agents with twenty messages each."""


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    seconds, tasks = size.choose((5.0, 10_000), (2.0, 2_000), (0.05, 4))
    with run_postgres() as url:
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE bench")
        yield asyncio.run(_measure_database(f"{url}/bench", seconds, tasks))
        agents, rate = size.choose((50, 20), (50, 20), (2, 20))
        yield asyncio.run(_measure_worker(f"{url}/bench", seconds * 2, agents, rate))
    with tempfile.TemporaryDirectory() as folder:
        files, turns = size.choose((5_000, 20), (1_000, 5), (3, 1))
        yield asyncio.run(_measure_files(Path(folder).resolve(), files, turns))


async def _measure_database(url: str, seconds: float, tasks: int) -> Table:
    address = PoolAddress(url)
    await create_tables(address)
    databases = [PoolDatabase(address) for _ in range(_CONNECTIONS)]
    try:
        await databases[0].run(lambda connection: _fill(connection, tasks))
        stores = [PoolStore(database) for database in databases]
        leases = [await _claim(store, number) for number, store in enumerate(stores)]
        steps = await _count(
            seconds,
            [_store_steps(store, lease) for store, lease in zip(stores, leases, strict=True)],
        )
        single = await _count(seconds, [_ship(stores[0], leases[0], "one", 1)])
        many = await _count(
            seconds,
            [
                _ship(store, lease, f"many_{number}", 100)
                for number, (store, lease) in enumerate(zip(stores, leases, strict=True))
            ],
        )
        began = time.perf_counter()
        for _ in range(10):
            await stores[0].claim(WorkerInfo(id="idle", name="idle"), [], 60)
        claim = (time.perf_counter() - began) / 10
        size, events = await databases[0].run(_read_size)
        waiting = await databases[0].run(_read_task_size)
    finally:
        for database in databases:
            await database.close()
    return Table(
        f"A pool at Postgres on loopback, {_CONNECTIONS} connections",
        [
            Row("steps stored, each fenced", f"{steps:,.0f}/s"),
            Row("events shipped one by one, one connection", f"{single:,.0f}/s"),
            Row("events shipped by the hundred", f"{many:,.0f}/s", f"{many / single:.0f}×",
                f"≥ {_EVENTS_GOAL:,.0f}/s", many >= _EVENTS_GOAL),
            Row("an event of 200 characters on disk", f"{size / events:,.0f} bytes"),
            Row(f"a claim that finds nothing among {tasks:,} tasks", f"{claim * 1e3:.1f} ms"),
            Row("a task that waits, in the database; in workers nothing", f"{waiting:,.0f} bytes"),
        ],
        notes=("Without waiting for the disk (fsync is off); everything on one machine.",),
    )  # fmt: skip


async def _fill(connection: Connection, tasks: int) -> None:
    words = "INSERT INTO quarterdeck.runs VALUES ('r', 'run', '{}', 1000000, 'running', 'ann')"
    await connection.execute(words)
    for first, count, label in ((0, _CONNECTIONS, "{}"), (_CONNECTIONS, tasks, "{gpu}")):
        await connection.execute(
            "INSERT INTO quarterdeck.tasks (run, key, place, needs, labels, state) "
            "SELECT 'r', 't' || n, n, '{}', %s, 'ready' FROM generate_series(%s::int, %s::int) n",
            (label, first, first + count - 1),
        )


async def _read_size(connection: Connection) -> tuple[int, int]:
    row = await (
        await connection.execute(
            "SELECT pg_total_relation_size('quarterdeck.events'), count(*) FROM quarterdeck.events"
        )
    ).fetchone()
    assert row is not None
    return row[0], row[1]


async def _read_task_size(connection: Connection) -> float:
    query = "SELECT pg_total_relation_size('quarterdeck.tasks'), count(*) FROM quarterdeck.tasks"
    row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return row[0] / row[1]


class _Speaker:
    """A fleet whose agents say so many messages a second; as much of one as a shipment uses."""

    def __init__(self, agents: int, rate: int) -> None:
        self.sessions = [f"speaker_{number}" for number in range(agents)]
        self._rate = rate
        self._said: dict[str, list[Record]] = {session: [] for session in self.sessions}
        self._new: asyncio.Queue[Record] = asyncio.Queue(100_000)
        self.times: dict[tuple[str, int], float] = {}

    async def speak(self, seconds: float) -> None:
        """Say it in steps of a fifth of a second, as streams do."""
        began, step = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            for session in self.sessions:
                said = self._said[session]
                for _ in range(max(1, self._rate // 5)):
                    record = Record(
                        seq=len(said) + 1, time=1, session=SessionId(session),
                        event=MessageChunk(content=text("x" * 200)),
                    )  # fmt: skip
                    said.append(record)
                    self.times[session, record.seq] = time.perf_counter()
                self._new.put_nowait(said[-1])
            step += 1
            await asyncio.sleep(max(0.0, began + step / 5 - time.perf_counter()))

    async def follow(self, after: int | None, *, patience: float) -> AsyncGenerator[Record]:
        """What is new."""
        while True:
            yield await self._new.get()

    async def read(self, session: str, *, after: int, limit: int) -> list[Record]:
        """A page."""
        return self._said[session][after : after + limit]

    async def agent(self, session: str) -> AgentInfo:
        """About one."""
        return AgentInfo(
            session=SessionId(session), name=session, agent="codex", cwd="/", state="running"
        )


class _TimedStore(PoolStore):
    """Notes how long records were on their way."""

    def __init__(self, database: PoolDatabase, speaker: _Speaker) -> None:
        super().__init__(database)
        self._times = speaker.times
        self.lags: list[float] = []

    async def ship(self, lease: Lease, info: AgentInfo, records: Sequence[Record]) -> None:
        """As always."""
        await super().ship(lease, info, records)
        now = time.perf_counter()
        self.lags += [now - self._times[info.session, record.seq] for record in records]


async def _measure_worker(url: str, seconds: float, agents: int, rate: int) -> Table:
    """One worker, one connection, many agents; and a task whose worker is gone."""
    async with PoolDatabase.open(PoolAddress(url)) as database:
        speaker = _Speaker(agents, rate)
        store = _TimedStore(database, speaker)
        lease = await store.claim(WorkerInfo(id="w0", name="w"), [], 600)
        assert lease is not None
        shipment = EventShipment(cast("HostClient", speaker), store)
        for session in speaker.sessions:
            await shipment.watch(lease, session)
        began = time.perf_counter()
        async with run_beside(shipment.run(), name="bench: shipment"):
            await speaker.speak(seconds)
            await shipment.flush(lease)
        took = time.perf_counter() - began
        await shipment.close()
        takeover = await _measure_takeover(store, lease)
    lags = sorted(store.lags)
    middle, slow = lags[len(lags) // 2], lags[int(len(lags) * 0.95)]
    return Table(
        f"A worker of a pool: {agents} agents with {rate} messages a second each, one connection",
        [
            Row("records shipped", f"{len(lags) / took:,.0f}/s of {agents * rate:,}/s"),
            Row("lag of a record, median", f"{middle * 1e3:,.0f} ms"),
            Row("lag of a record, 95 of 100", f"{slow * 1e3:,.0f} ms"),
            Row("a task of a dead worker, after the end of its lease", f"{takeover * 1e3:,.0f} ms"),
        ],
        notes=("A worker asks for tasks twice a second. Then come git, and the agent's start.",),
    )


async def _measure_takeover(store: PoolStore, lease: Lease) -> float:
    """From the end of a lease until another worker has the task and its steps."""
    worker = WorkerInfo(id="w0", name="w")
    held = await store.renew(worker, [lease], 0.3)
    assert held
    began, other = time.perf_counter(), WorkerInfo(id="heir", name="heir")
    taken = None
    while taken is None:
        taken = await store.claim(other, [], 600)
        await asyncio.sleep(0.0 if taken else 0.5)
    await store.read_steps(taken)
    await store.read_progress(taken.run)
    return max(0.0, time.perf_counter() - began - 0.3)


async def _claim(store: PoolStore, number: int) -> Lease:
    lease = await store.claim(WorkerInfo(id=f"w{number}", name="w"), [], 600)
    assert lease is not None
    return lease


def _store_steps(store: PoolStore, lease: Lease) -> Callable[[int], Awaitable[int]]:
    async def write(number: int) -> int:
        await store.store_step(lease, "path", f"step-{number}", {"stop": "end_turn"})
        return 1

    return write


def _ship(
    store: PoolStore, lease: Lease, session: str, batch: int
) -> Callable[[int], Awaitable[int]]:
    info = AgentInfo(session=SessionId(session), name="a", agent="codex", cwd="/", state="running")

    async def write(number: int) -> int:
        records = [
            Record(
                seq=number * batch + place + 1, time=1, session=SessionId(session),
                event=MessageChunk(content=text("x" * 200)),
            )
            for place in range(batch)
        ]  # fmt: skip
        await store.ship(lease, info, records)
        return batch

    return write


async def _count(seconds: float, writers: list[Callable[[int], Awaitable[int]]]) -> float:
    """How much all of them write in a second."""

    async def work(write: Callable[[int], Awaitable[int]]) -> int:
        end, number, done = time.perf_counter() + seconds, 0, 0
        while time.perf_counter() < end:
            done += await write(number)
            number += 1
        return done

    began = time.perf_counter()
    done = sum(await asyncio.gather(*(work(write) for write in writers)))
    return done / (time.perf_counter() - began)


async def _measure_files(folder: Path, files: int, turns: int) -> Table:
    remote, work = folder / "remote.git", folder / "work"
    git(folder, "init", "-q", "--bare", str(remote))
    names = {f"d{number % 50}/f{number}.txt": "line\n" * 50 for number in range(files)}
    new_repository(work, names)
    base = git(work, "rev-parse", "HEAD").strip()
    git(work, "push", "-q", str(remote), f"HEAD:{name_reference('r', 'base')}", "HEAD:main")
    places = Places.find({"QUARTERDECK_HOME": str(folder / "home")})
    transport = PoolTransport(places, "r", str(remote), base)
    began = time.perf_counter()
    await transport.prepare()
    prepared = time.perf_counter() - began
    reference, commit, before = name_reference("r", "t", "codex", "1"), base, base
    began = time.perf_counter()
    for turn in range(turns):
        (transport.checkout / "d0" / "f0.txt").write_text("line\n" * 49 + f"{turn}\n")
        before, commit = (
            commit,
            await transport.push_tree(str(transport.checkout), "ses_1", reference),
        )
    pushed = (time.perf_counter() - began) / turns
    used = git(remote, "rev-list", "--objects", "--disk-usage", commit, f"^{before}").strip()
    return Table(
        f"Files of a pool: {files:,} in the repository, one changed in a turn; a remote on disk",
        [
            Row("mirror and checkout for a run", f"{prepared:.2f} s"),
            Row("written down and pushed after a turn", f"{pushed:.2f} s"),
            Row("new objects of a turn", f"{int(used):,} bytes"),
        ],
    )
