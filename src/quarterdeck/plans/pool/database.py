"""The database of a pool: one connection that comes back, and the version of the tables."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from .address import PoolAddress
from .errors import PoolError, PoolUnreachableError, PoolVersionError

__all__ = [
    "TABLES_VERSION",
    "Connection",
    "PoolDatabase",
    "check_server",
    "check_tables",
    "create_tables",
]

T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_log = logging.getLogger(__name__)

TABLES_VERSION = 1
_TABLES = Path(__file__).with_name("tables.sql")
_CONNECT_SECONDS = 10
_STATEMENT_SECONDS = 60
_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_GONE = (
    psycopg.OperationalError,  # also: the disk is full, too many connections, shutting down
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,  # what a standby says, and a service that is full
    OSError,
)
OLDEST_SERVER = 130_000
_FIND_VERSION = """
    SELECT CASE WHEN to_regclass('quarterdeck.pool') IS NULL THEN NULL
    ELSE (xpath('/row/version/text()',
        query_to_xml('SELECT version FROM quarterdeck.pool', false, true, '')))[1]::text::int END
"""


class PoolDatabase:
    """One connection to the database of a pool, made anew when it breaks.

    One transaction at a time; others wait.
    """

    def __init__(self, address: PoolAddress, name: str = "quarterdeck") -> None:
        self.address = address
        self._name = name
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, address: PoolAddress, name: str = "quarterdeck"
    ) -> "AsyncGenerator[PoolDatabase]":
        """Connect, and see that the tables are those of this program.

        Raises:
            PoolUnreachableError: it does not answer.
            PoolVersionError: the tables are not there, or of another version.
        """
        database = cls(address, name)
        try:
            await check_version(database)
            yield database
        finally:
            await database.close()

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do some work in a transaction.

        Raises:
            PoolUnreachableError: the database went away; whether it was done is not known.
            PoolError: the database refuses it.
        """
        async with self._lock:
            try:
                connection = await self._connect()
                async with connection.transaction():
                    return await work(connection)
            except _GONE as error:
                await self._drop()
                raise PoolUnreachableError(
                    f"the pool {self.address} does not answer: {_in_a_line(error)}"
                ) from error
            except psycopg.Error as error:
                raise PoolError(f"the pool refuses this: {_in_a_line(error)}") from error
            except BaseException:
                await self._drop()  # cancelled within a statement
                raise

    async def close(self) -> None:
        """Leave; may be called again."""
        await self._drop()

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(
                self.address.url,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                application_name=self._name,
                options=f"-c statement_timeout={_STATEMENT_SECONDS}s -c timezone=UTC",
                **_KEEPALIVE,  # type: ignore[arg-type]
            )
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()


async def check_version(database: PoolDatabase) -> None:
    """See that server and tables are such as this program uses. Raises PoolVersionError."""

    async def find(connection: Connection) -> tuple[int, int | None]:
        server = connection.info.server_version
        if server < OLDEST_SERVER:
            return server, None
        row = await (await connection.execute(_FIND_VERSION)).fetchone()
        return server, None if row is None else row[0]

    server, version = await database.run(find)
    check_server(database.address, server)
    if version is None:
        raise PoolVersionError(
            f"{database.address} has no tables of a pool; create them with `quarterdeck pool init`"
        )
    if version != TABLES_VERSION:
        what = "update this program" if version > TABLES_VERSION else "update the pool"
        raise PoolVersionError(
            f"{database.address} has version {version} of the tables, and this program knows "
            f"{TABLES_VERSION}; {what}"
        )


def check_server(address: PoolAddress, server: int) -> None:
    """See that a Postgres is not too old; ``server``: 150004 for 15.4. Raises PoolVersionError."""
    if server < OLDEST_SERVER:
        raise PoolVersionError(
            f"{address} is Postgres {server // 10_000}; a pool needs {OLDEST_SERVER // 10_000} or "
            "later"
        )


async def check_tables(connection: Connection) -> None:
    """See within a transaction that the tables are still those of this program.

    Raises:
        PoolVersionError: someone has updated the pool.
    """
    row = await (await connection.execute("SELECT version FROM quarterdeck.pool")).fetchone()
    if row is None or row[0] != TABLES_VERSION:
        found = "no version" if row is None else f"version {row[0]}"
        raise PoolVersionError(
            f"the tables of the pool have {found} by now, and this program knows {TABLES_VERSION}; "
            "update this program and start it again"
        )


async def create_tables(address: PoolAddress) -> bool:
    """Create the tables of a pool, all or none; False: they are there already.

    Raises:
        PoolVersionError: there are tables of another version.
    """
    database = PoolDatabase(address)
    text = await asyncio.to_thread(_TABLES.read_bytes)

    async def create(connection: Connection) -> bool:
        check_server(address, connection.info.server_version)
        await connection.execute("SELECT pg_advisory_xact_lock(7311)")
        row = await (await connection.execute(_FIND_VERSION)).fetchone()
        if row is not None and row[0] is not None:
            return False
        await connection.execute(text)
        return True

    try:
        if await database.run(create):
            return True
        await check_version(database)
        return False
    finally:
        await database.close()


def _in_a_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
