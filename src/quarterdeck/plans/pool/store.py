"""What workers read and write in a pool: leases, steps, progress, events, answers.

Everything that a worker writes about a task is fenced: in the same transaction the row of the task
is locked and must still have the worker's token. A worker that was taken for dead, and comes back,
writes nothing.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct, field

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.version import __version__
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.events import MessageChunk, Prompted
from quarterdeck.wire.record import Record, encode_record, event_type

from ..progress import ProgressEntry
from ..workflow import Plain
from .database import Connection, PoolDatabase, check_tables
from .errors import LeaseLostError
from .limits import SATURATED

__all__ = ["Lease", "PendingAnswer", "PoolStore", "PushedTree", "WorkerInfo", "fence"]

_CLAIM_LOCK = "SELECT pg_advisory_xact_lock(7310)"
"""Claims are one after the other, so that what is leased can be counted."""
_CLAIM = f"""
    WITH saturated AS MATERIALIZED ({SATURATED}),
    free AS (
        SELECT t.run, t.key FROM quarterdeck.tasks t
        JOIN quarterdeck.runs r ON r.id = t.run
        CROSS JOIN saturated
        WHERE r.state = 'running' AND t.labels <@ %(labels)s
        AND t.state IN ('ready', 'leased') AND t.not_before <= now()
        AND (t.state = 'ready' OR t.lease_until < now()
            OR (t.worker = %(worker)s AND (t.run || '/' || t.key) <> ALL (%(held)s)))
        AND r.at_once > (
            SELECT count(*) FROM quarterdeck.tasks o WHERE o.run = t.run AND o.key <> t.key
            AND o.state = 'leased' AND o.lease_until >= now()
        )
        AND (t.state = 'leased' AND t.lease_until >= now()
            OR NOT (t.agents && saturated.agents OR t.labels && saturated.labels
                OR saturated.is_spent AND t.token = 0))
        ORDER BY (t.worker IS NOT DISTINCT FROM %(worker)s) DESC, r.created, t.place
        LIMIT 1 FOR UPDATE OF t SKIP LOCKED
    )
    UPDATE quarterdeck.tasks t
    SET state = 'leased', worker = %(worker)s, token = token + 1,
        lease_until = now() + make_interval(secs => %(seconds)s)
    FROM free, quarterdeck.runs r
    WHERE t.run = free.run AND t.key = free.key AND r.id = t.run
    RETURNING t.run, t.key, t.token, t.failures, r.definition
"""
_RENEW = """
    UPDATE quarterdeck.tasks t
    SET lease_until = now() + make_interval(secs => %(seconds)s)
    FROM quarterdeck.runs r, unnest(%(runs)s::text[], %(keys)s::text[], %(tokens)s::bigint[])
        AS held(run, key, token)
    WHERE t.run = held.run AND t.key = held.key AND t.token = held.token
    AND t.worker = %(worker)s AND t.state = 'leased' AND r.id = t.run AND r.state = 'running'
    RETURNING t.run, t.key, t.token
"""
_FENCE = """
    SELECT 1 FROM quarterdeck.tasks WHERE run = %s AND key = %s AND token = %s
    AND worker = %s AND state = 'leased' FOR SHARE
"""
_PROMOTE = """
    UPDATE quarterdeck.tasks t SET state = 'ready'
    WHERE t.run = %s AND t.state = 'waiting' AND NOT EXISTS (
        SELECT 1 FROM quarterdeck.tasks n
        WHERE n.run = t.run AND n.key = ANY (t.needs) AND n.state <> 'ended'
    )
"""
_EVENT = """
    INSERT INTO quarterdeck.events
        (worker, session, seq, kind, request, token, time, message, spoken, record)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_SESSION = """
    INSERT INTO quarterdeck.sessions
        (session, run, task, worker, token, name, info, cost, tokens)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (session) DO UPDATE
    SET token = EXCLUDED.token, info = EXCLUDED.info, name = EXCLUDED.name, updated = now(),
        cost = EXCLUDED.cost, tokens = EXCLUDED.tokens
"""
MOST_FAILURES = 5
"""How often workers may give a task back because of an error of theirs."""


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """A worker as the pool knows it."""

    id: str
    name: str
    labels: tuple[str, ...] = ()
    slots: int = 1
    program: str = __version__
    state: str = "active"
    seconds: float = 0.0
    """Since it was last seen, by the clock of the database."""


class Lease(Struct, frozen=True, kw_only=True):
    """A task that a worker may work on, as long as its token is the task's."""

    run: str
    key: str
    token: int
    worker: str
    failures: int = 0
    definition: str = ""
    """Of the run, as JSON."""

    @property
    def path(self) -> str:
        """The task in the pool."""
        return f"{self.run}/{self.key}"


class PushedTree(Struct, frozen=True, kw_only=True):
    """The files of a contender at the git remote."""

    contender: str
    token: int
    reference: str
    commit: str
    session: str = ""
    """Whose files they are."""
    included: str = ""
    """The commit with the ignored files that travel; empty: none."""


class PendingAnswer(Struct, frozen=True, kw_only=True):
    """An answer of a person that the agent does not have yet."""

    request: str
    session: str
    answer: dict[str, Plain] = field(default_factory=dict[str, Plain])
    by: str = ""


class PoolStore:
    """The statements of workers."""

    def __init__(self, database: PoolDatabase) -> None:
        self.database = self._database = database

    # Workers and leases

    async def register(self, worker: WorkerInfo) -> None:
        """Make a worker known, or say that it is still there."""
        words = (worker.id, worker.name, list(worker.labels), worker.slots, worker.program)

        async def write(connection: Connection) -> None:
            await connection.execute(
                "INSERT INTO quarterdeck.workers (id, name, labels, slots, program, state) "
                "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET "
                "name = EXCLUDED.name, labels = EXCLUDED.labels, slots = EXCLUDED.slots, "
                "program = EXCLUDED.program, state = EXCLUDED.state, seen = now()",
                (*words, worker.state),
            )

        await self._database.run(write)

    async def claim(
        self, worker: WorkerInfo, held: Iterable[Lease], seconds: float
    ) -> Lease | None:
        """Take a task that is ready, whose worker is dead, or that this worker had before."""
        values = {
            "worker": worker.id,
            "labels": list(worker.labels),
            "held": [lease.path for lease in held],
            "seconds": seconds,
        }

        async def write(connection: Connection) -> Lease | None:
            await connection.execute(_CLAIM_LOCK)
            row = await (await connection.execute(_CLAIM, values)).fetchone()
            if row is None:
                return None
            run, key, token, failures, definition = row
            return Lease(
                run=run, key=key, token=token, worker=worker.id, failures=failures,
                definition=definition,
            )  # fmt: skip

        return await self._database.run(write)

    async def renew(
        self, worker: WorkerInfo, leases: Sequence[Lease], seconds: float
    ) -> set[tuple[str, str, int]]:
        """Go on holding leases; those that are still held, as run, key and token.

        Raises:
            PoolVersionError: the tables are of another version by now; nothing is renewed.
        """
        values = {
            "worker": worker.id,
            "seconds": seconds,
            "runs": [lease.run for lease in leases],
            "keys": [lease.key for lease in leases],
            "tokens": [lease.token for lease in leases],
        }

        async def write(connection: Connection) -> set[tuple[str, str, int]]:
            await check_tables(connection)
            await connection.execute(
                "UPDATE quarterdeck.workers SET seen = now(), state = %s WHERE id = %s",
                (worker.state, worker.id),
            )
            if not leases:
                return set()
            rows = await (await connection.execute(_RENEW, values)).fetchall()
            return {(run, key, token) for run, key, token in rows}

        return await self._database.run(write)

    async def release(self, lease: Lease, *, failed: bool = False, pause: float = 0.0) -> None:
        """Give a task back; another worker may take it after the pause. Raises LeaseLostError."""

        async def write(connection: Connection) -> None:
            await fence(connection, lease)
            await connection.execute(
                "UPDATE quarterdeck.tasks SET state = 'ready', worker = NULL, failures = "
                "failures + %s, not_before = now() + make_interval(secs => %s) "
                "WHERE run = %s AND key = %s",
                (int(failed), pause, lease.run, lease.key),
            )

        await self._database.run(write)

    async def finish(self, lease: Lease, outcome: str, ended: ProgressEntry) -> None:
        """End a task; what needs it can begin then. Raises LeaseLostError.

        ``ended``: what is noted if it was the last one of its run.
        """

        async def write(connection: Connection) -> None:
            await fence(connection, lease)
            # Ends of one run are one after the other, so that the last one is seen as such.
            words = "SELECT 1 FROM quarterdeck.runs WHERE id = %s FOR UPDATE"
            await connection.execute(words, (lease.run,))
            await connection.execute(
                "UPDATE quarterdeck.tasks SET state = 'ended', outcome = %s "
                "WHERE run = %s AND key = %s",
                (outcome, lease.run, lease.key),
            )
            await connection.execute(_PROMOTE, (lease.run,))
            rows = await connection.execute(
                "SELECT count(*) FILTER (WHERE state <> 'ended'), "
                "count(*) FILTER (WHERE outcome <> 'done') FROM quarterdeck.tasks WHERE run = %s",
                (lease.run,),
            )
            row = await rows.fetchone()
            if row is not None and row[0] == 0:
                state = "failed" if row[1] else "done"
                words = "UPDATE quarterdeck.runs SET state = %s, ended = now() WHERE id = %s"
                await connection.execute(words, (state, lease.run))
                await _note(connection, lease.run, ended)

        await self._database.run(write)

    async def check(self, lease: Lease) -> None:
        """See that a lease is still held. Raises LeaseLostError."""
        await self._database.run(lambda connection: fence(connection, lease))

    # Steps and progress

    async def read_steps(self, lease: Lease) -> dict[tuple[str, str], Plain]:
        """The results that a task has so far, by path and name."""

        async def read(connection: Connection) -> dict[tuple[str, str], Plain]:
            words = "SELECT path, name, result FROM quarterdeck.steps WHERE run = %s AND task = %s"
            rows = await connection.execute(words, (lease.run, lease.key))
            return {(path, name): decode(result) async for path, name, result in rows}

        return await self._database.run(read)

    async def store_step(self, lease: Lease, path: str, name: str, result: Plain) -> None:
        """Store the result of a step. Raises LeaseLostError."""
        data = msgspec.json.encode(result).decode()

        async def write(connection: Connection) -> None:
            await fence(connection, lease)
            await connection.execute(
                "INSERT INTO quarterdeck.steps (run, task, path, name, result, token, worker) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (lease.run, lease.key, path, name, data, lease.token, lease.worker),
            )

        await self._database.run(write)

    async def read_progress(self, run: str, after: int = 0) -> list[tuple[int, ProgressEntry]]:
        """The entries of a run with their numbers, in order."""

        async def read(connection: Connection) -> list[tuple[int, ProgressEntry]]:
            rows = await connection.execute(
                "SELECT id, entry FROM quarterdeck.progress WHERE run = %s AND id > %s ORDER BY id",
                (run, after),
            )
            return [
                (number, decode_json(entry.encode(), ProgressEntry)) async for number, entry in rows
            ]

        return await self._database.run(read)

    async def note(self, lease: Lease, entry: ProgressEntry) -> None:
        """Append to the progress, once for each key. Raises LeaseLostError."""

        async def write(connection: Connection) -> None:
            await fence(connection, lease)
            await _note(connection, lease.run, entry)

        await self._database.run(write)

    # Sessions, events, files, answers

    async def ship(self, lease: Lease, info: AgentInfo, records: Sequence[Record]) -> None:
        """Add records of a session, each once, and what is known of it. Raises LeaseLostError."""
        session = info.session
        rows = [
            (
                *(lease.worker, session, record.seq, event_type(record.event)),
                getattr(record.event, "request", None),
                *(lease.token, record.time, *_read_words(record), encode_record(record).decode()),
            )
            for record in records
        ]
        spent = info.cost.amount if info.cost and info.cost.currency == "USD" else 0.0
        about = (
            *(session, lease.run, lease.key, lease.worker, lease.token, info.name),
            *(msgspec.json.encode(info).decode(), spent, info.usage.total),
        )

        async def write(connection: Connection) -> None:
            await fence(connection, lease)
            await connection.execute(_SESSION, about)
            if rows:
                async with connection.cursor() as cursor:
                    await cursor.executemany(_EVENT, rows)

        await self._database.run(write)

    async def find_last(self, worker: str, session: str) -> int:
        """The last record of a session that the pool has."""

        async def read(connection: Connection) -> int:
            row = await (
                await connection.execute(
                    "SELECT max(seq) FROM quarterdeck.events WHERE worker = %s AND session = %s",
                    (worker, session),
                )
            ).fetchone()
            return (row[0] if row is not None else None) or 0

        return await self._database.run(read)

    async def add_tree(self, lease: Lease, tree: PushedTree) -> None:
        """The files of a contender are at the remote. Raises LeaseLostError."""

        async def write(connection: Connection) -> None:
            await fence(connection, lease)
            await connection.execute(
                "INSERT INTO quarterdeck.trees "
                "(run, task, contender, token, reference, commit_id, session, included) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) "
                "ON CONFLICT (run, task, contender, token) DO UPDATE SET commit_id = "
                "EXCLUDED.commit_id, session = EXCLUDED.session, included = EXCLUDED.included",
                (
                    *(lease.run, lease.key, tree.contender, lease.token),
                    *(tree.reference, tree.commit, tree.session, tree.included),
                ),
            )

        await self._database.run(write)

    async def find_tree(self, lease: Lease, contender: str) -> PushedTree | None:
        """The latest files of a contender."""

        async def read(connection: Connection) -> PushedTree | None:
            rows = await connection.execute(
                "SELECT token, reference, commit_id, included FROM quarterdeck.trees "
                "WHERE run = %s AND task = %s AND contender = %s ORDER BY token DESC LIMIT 1",
                (lease.run, lease.key, contender),
            )
            row = await rows.fetchone()
            if row is None:
                return None
            token, reference, commit, included = row
            return PushedTree(
                contender=contender, token=token, reference=reference, commit=commit,
                included=included,
            )  # fmt: skip

        return await self._database.run(read)

    async def list_answers(self, worker: str) -> list[PendingAnswer]:
        """Answers to requests of this worker's agents that it has not taken yet."""

        async def read(connection: Connection) -> list[PendingAnswer]:
            rows = await connection.execute(
                "SELECT a.request, a.session, a.answer, a.given_by FROM quarterdeck.answers a "
                "JOIN quarterdeck.sessions s ON s.session = a.session JOIN quarterdeck.tasks t "
                "ON t.run = s.run AND t.key = s.task AND t.token = s.token "
                "WHERE s.worker = %s AND a.taken IS NULL ORDER BY a.created",
                (worker,),
            )
            return [
                PendingAnswer(request=request, session=session, answer=decode(answer), by=by)
                async for request, session, answer, by in rows
            ]

        return await self._database.run(read)

    async def take_answer(self, request: str, refused: str = "") -> None:
        """An answer has reached its agent, or the agent's host refuses it."""

        async def write(connection: Connection) -> None:
            words = "UPDATE quarterdeck.answers SET taken = now(), refused = %s WHERE request = %s"
            await connection.execute(words, (refused, request))

        await self._database.run(write)

    async def list_strays(self, worker: str) -> list[str]:
        """Sessions of this worker whose task it does not hold any more."""

        async def read(connection: Connection) -> list[str]:
            rows = await connection.execute(
                "SELECT s.session FROM quarterdeck.sessions s JOIN quarterdeck.tasks t "
                "ON t.run = s.run AND t.key = s.task WHERE s.worker = %s "
                "AND (t.state <> 'leased' OR t.worker <> s.worker)",
                (worker,),
            )
            return [session async for (session,) in rows]

        return await self._database.run(read)


async def fence(connection: Connection, lease: Lease) -> None:
    """Hold the row of the task until the end of the transaction. Raises LeaseLostError."""
    words = (lease.run, lease.key, lease.token, lease.worker)
    row = await (await connection.execute(_FENCE, words)).fetchone()
    if row is None:
        raise LeaseLostError(lease.run, lease.key, "another worker has it, or the run was stopped")


def _read_words(record: Record) -> tuple[str | None, str | None]:
    """Which message a record belongs to, and its words; none for what is not searched."""
    match record.event:
        case Prompted(content=content, message=message):
            spoken = "\n".join(one.text for one in content if isinstance(one, TextContent))
        case MessageChunk(content=TextContent(text=spoken), message=message):
            message = message or record.turn
        case _:
            return None, None
    return message, spoken.replace("\0", "")


async def _note(connection: Connection, run: str, entry: ProgressEntry) -> None:
    await connection.execute(
        "INSERT INTO quarterdeck.progress (run, key, entry) VALUES (%s, %s, %s) "
        "ON CONFLICT DO NOTHING",
        (run, entry.key, msgspec.json.encode(entry).decode()),
    )


def decode(text: str) -> Plain:
    """JSON that the pool holds."""
    return msgspec.json.decode(text)
