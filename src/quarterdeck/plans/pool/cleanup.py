"""What is left of a run when it has ended, removed by policy: references at the git remote, and the
session files of vendors in the pool. Transcripts, progress and results stay.

``keep_days`` of the plan says when. Any worker does it, and doing it twice does no harm.
"""

import logging

from msgspec import Struct

from quarterdeck.config.places import Places
from quarterdeck.wire.errors import NewerVersionError

from .database import Connection, PoolDatabase
from .errors import PoolError, PoolUnreachableError
from .submission import RunDefinition, read_definition
from .transport import PoolTransport

__all__ = ["CleanedRun", "PoolCleanUp"]

_log = logging.getLogger(__name__)
_DAY = 86_400.0
_LIST = """
    SELECT definition, extract(epoch FROM now() - ended)::float8 FROM quarterdeck.runs
    WHERE state IN ('done', 'failed') AND ended IS NOT NULL AND cleaned IS NULL ORDER BY ended
"""


class CleanedRun(Struct, frozen=True, kw_only=True):
    """A run of which nothing is left at the remote."""

    name: str
    references: int
    """How many were removed."""


class PoolCleanUp:
    """Removes what runs leave behind.

    Args:
        database: of the pool.
        places: of this program, whose git mirrors are used.
    """

    def __init__(self, database: PoolDatabase, places: Places) -> None:
        self._database = database
        self._places = places
        self._failed: dict[str, str] = {}
        """Why runs could not be cleaned, each logged once."""

    async def clean_due(self) -> list[CleanedRun]:
        """Clean the runs whose time has come; one that cannot be cleaned is tried again later.

        Raises:
            PoolUnreachableError: the database does not answer.
        """
        done: list[CleanedRun] = []
        for definition, seconds in await self._list():
            if seconds < definition.fields.keep_days * _DAY:
                continue
            try:
                done.append(await self.clean(definition))
            except PoolUnreachableError:
                raise
            except PoolError as error:
                if self._failed.get(definition.info.id) != str(error):
                    self._failed[definition.info.id] = str(error)
                    _log.warning("%s is not cleaned up: %s", definition.info.name, error)
        return done

    async def clean_named(self, name: str) -> CleanedRun:
        """Clean a run that has ended, whatever its plan says.

        Raises:
            PoolError: there is none of this name that has ended, or its references cannot go.
        """
        for definition, _ in await self._list():
            if definition.info.name == name:
                return await self.clean(definition)
        raise PoolError(
            f"no run {name!r} has ended with something left; see `quarterdeck plan status`"
        )

    async def clean(self, definition: RunDefinition) -> CleanedRun:
        """Remove what is left of a run. Raises TransportError, PoolError."""
        run = definition.info.id
        transport = PoolTransport(self._places, run, definition.remote, definition.base)
        count = await transport.remove_references()

        async def write(connection: Connection) -> None:
            for table in ("session_files", "carried", "trees"):
                words = f"DELETE FROM quarterdeck.{table} WHERE run = %s"
                await connection.execute(words.encode(), (run,))
            await connection.execute(
                "UPDATE quarterdeck.runs SET cleaned = now() WHERE id = %s", (run,)
            )

        await self._database.run(write)
        return CleanedRun(name=definition.info.name, references=count)

    async def _list(self) -> list[tuple[RunDefinition, float]]:
        async def read(connection: Connection) -> list[tuple[str, float]]:
            return [(row[0], row[1]) async for row in await connection.execute(_LIST)]

        found: list[tuple[RunDefinition, float]] = []
        for text, seconds in await self._database.run(read):
            try:
                found.append((read_definition(text), seconds))
            except (NewerVersionError, PoolError) as error:
                _log.info("a run is left to other workers: %s", error)
        return found
