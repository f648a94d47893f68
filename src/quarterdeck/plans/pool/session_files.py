"""Sessions of vendors on their way to another worker: the files in which an agent keeps a session.

After every whole turn the pool gets what the files have grown by, secrets masked. A worker that
takes the task over writes them where the vendor looks for them, and the agent resumes its own
session. Only vendors whose files mean something by themselves are carried; see ``fleet.capsule``.
"""

import asyncio
import io
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, cast

from msgspec import Struct

from quarterdeck.drivers.history.files import open_plain
from quarterdeck.drivers.history.history import AgentHistory, AgentHomes
from quarterdeck.drivers.history.session import HistoryError, HistorySession
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.capsule.errors import CapsuleError
from quarterdeck.fleet.capsule.secrets_mask import LongLineError, MaskReport, mask_file_lines
from quarterdeck.fleet.capsule.vendor_files import CARRIED, VendorFilesError, VendorHomes
from quarterdeck.wire.private_files import make_private_directory, write_private

from .database import Connection, PoolDatabase
from .store import Lease, fence

__all__ = ["CarriedSession", "VendorSessionFiles"]

_log = logging.getLogger(__name__)
_MOST = 64 << 20
"""Bytes of a session that are carried; a longer one is handed over as a summary."""
_GUARD = 4_096
"""Bytes before a position that must be as they were: else the file was written anew."""


class CarriedSession(Struct, frozen=True, kw_only=True):
    """A session of a vendor as the pool has it."""

    agent: str
    agent_session: str
    """The vendor's id of it."""
    token: int


class _Growth(Struct, kw_only=True):
    """How far a file has been stored."""

    position: int = 0
    guard: bytes = b""


class _Piece(Struct, frozen=True, kw_only=True):
    name: str
    position: int
    data: bytes


class VendorSessionFiles:
    """The session files of one task on this worker.

    Args:
        database: of the pool.
        environ: says where vendors keep their files, and whose secrets are masked.
    """

    def __init__(self, database: PoolDatabase, environ: Mapping[str, str] = os.environ) -> None:
        self._database = database
        self._environ = environ
        self._found: dict[str, HistorySession] = {}
        """By the vendor's id."""
        self._grown: dict[tuple[str, str], _Growth] = {}
        """By the vendor's id and the name of the file."""

    async def store(self, lease: Lease, contender: str, info: AgentInfo) -> bool:
        """Store what the files of an agent's session have grown by; False: they are not carried.

        Raises:
            LeaseLostError, PoolUnreachableError: as the pool does; may be repeated.
        """
        if info.agent not in CARRIED or not info.agent_session:
            return False
        try:
            past = await self._find(info.agent, info.agent_session, info.cwd)
            grown = {key: growth for key, growth in self._grown.items() if key[0] == past.id}
            pieces, after = await asyncio.to_thread(self._read, past, grown)
        except (CapsuleError, HistoryError, LongLineError, OSError) as error:
            _log.info("the files of %s stay here: %s", info.session, error)
            return False
        await self._database.run(
            lambda connection: _write(connection, lease, contender, info, pieces)
        )
        self._grown.update(after)
        return True

    async def find(self, lease: Lease, contender: str) -> CarriedSession | None:
        """The latest session of a contender, from whichever worker."""

        async def read(connection: Connection) -> CarriedSession | None:
            rows = await connection.execute(
                "SELECT agent, agent_session, token FROM quarterdeck.carried WHERE run = %s "
                "AND task = %s AND contender = %s ORDER BY token DESC LIMIT 1",
                (lease.run, lease.key, contender),
            )
            row = await rows.fetchone()
            if row is None:
                return None
            return CarriedSession(agent=row[0], agent_session=row[1], token=row[2])

        return await self._database.run(read)

    async def place(
        self, lease: Lease, contender: str, carried: CarriedSession, cwd: str
    ) -> list[Path]:
        """Write the files of a session where its vendor looks for them, for work in a directory.

        Raises:
            VendorFilesError: one has no place here, or another session's is there.
        """

        async def read(connection: Connection) -> dict[str, list[bytes]]:
            found: dict[str, list[bytes]] = {}
            rows = await connection.execute(
                "SELECT name, data FROM quarterdeck.session_files WHERE run = %s AND task = %s "
                "AND contender = %s AND token = %s ORDER BY name, position",
                (lease.run, lease.key, contender, carried.token),
            )
            async for name, data in rows:
                found.setdefault(name, []).append(bytes(data))
            return found

        files = await self._database.run(read)
        try:
            return await asyncio.to_thread(self._place, carried.agent, files, cwd)
        except OSError as error:
            raise VendorFilesError(f"they cannot be written here: {error}") from error

    def _place(self, agent: str, files: Mapping[str, list[bytes]], cwd: str) -> list[Path]:
        if not files:
            raise VendorFilesError("the pool has no files of it")
        homes = VendorHomes(AgentHomes.find(self._environ))
        wanted = {homes.place(agent, name, cwd): b"".join(data) for name, data in files.items()}
        for path, data in wanted.items():
            # This worker may have had the session before: then its file is a beginning of this one.
            if path.exists() and not data.startswith(self._mask(path.read_bytes(), path.name)):
                raise VendorFilesError(f"{str(path)!r} is there already, with another content")
        for path, data in wanted.items():
            make_private_directory(path.parent, is_ours=False)
            write_private(path, data)
        return list(wanted)

    async def _find(self, agent: str, id_: str, cwd: str) -> HistorySession:
        known = self._found.get(id_)
        if known is not None and await asyncio.to_thread(Path(known.path).is_file):
            return known
        history = AgentHistory.of(self._environ)
        found = self._found[id_] = await history.find(id_, agent=agent, near=Path(cwd))
        return found

    def _read(
        self, past: HistorySession, grown: Mapping[tuple[str, str], _Growth]
    ) -> tuple[list[_Piece], dict[tuple[str, str], _Growth]]:
        """What is new in the files of a session. Blocks."""
        pieces: list[_Piece] = []
        after: dict[tuple[str, str], _Growth] = {}
        total = 0
        for file in VendorHomes(AgentHomes.find(self._environ)).find_files(past):
            if file.path.suffix == ".zst":
                raise VendorFilesError("they are compressed, so nothing in them can be masked")
            key = (past.id, file.name)
            is_log = file.path.suffix == ".jsonl"
            growth = grown.get(key, _Growth()) if is_log else _Growth()
            with open_plain(file.path) as opened:
                growth, data = _read_new(opened, growth, whole=not is_log)
            total += growth.position + len(data)
            if total > _MOST:
                raise VendorFilesError(f"they have more than {_MOST >> 20} MB")
            if data:
                masked = self._mask(data, file.name)
                pieces.append(_Piece(name=file.name, position=growth.position, data=masked))
            end = growth.position + len(data)
            guard = data[-_GUARD:] if len(data) >= _GUARD else growth.guard + data
            after[key] = _Growth(position=end, guard=guard[-_GUARD:])
        return pieces, after

    def _mask(self, data: bytes, name: str) -> bytes:
        source = cast("IO[bytes]", io.BytesIO(data))
        return b"".join(mask_file_lines(source, self._environ, MaskReport(), name))


def _read_new(file: IO[bytes], growth: _Growth, *, whole: bool) -> tuple[_Growth, bytes]:
    """Whole lines after a position; from the start, if the file is another one by now."""
    if growth.position:
        file.seek(growth.position - len(growth.guard))
        if file.read(len(growth.guard)) != growth.guard:
            growth = _Growth()
            file.seek(0)
    pieces: list[bytes] = []
    size = growth.position
    while size <= _MOST and (data := file.read(1 << 20)):
        pieces.append(data)
        size += len(data)
    data = b"".join(pieces)
    return growth, data if whole else data[: data.rfind(b"\n") + 1]


async def _write(
    connection: Connection, lease: Lease, contender: str, info: AgentInfo, pieces: list[_Piece]
) -> None:
    """One transaction: the files are those of one moment, and no other token's are left."""
    await fence(connection, lease)
    about = (lease.run, lease.key, contender)
    anew = [piece.name for piece in pieces if not piece.position]
    await connection.execute(
        "DELETE FROM quarterdeck.session_files WHERE run = %s AND task = %s AND contender = %s "
        "AND (token < %s OR name = ANY (%s))",
        (*about, lease.token, anew),
    )
    rows = [(*about, lease.token, one.name, one.position, one.data) for one in pieces]
    async with connection.cursor() as cursor:
        await cursor.executemany(
            "INSERT INTO quarterdeck.session_files "
            "(run, task, contender, token, name, position, data) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (run, task, contender, token, name, position) "
            "DO UPDATE SET data = EXCLUDED.data",
            rows,
        )
    await connection.execute(
        "INSERT INTO quarterdeck.carried (run, task, contender, token, agent, agent_session) "
        "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (run, task, contender, token) "
        "DO UPDATE SET agent = EXCLUDED.agent, agent_session = EXCLUDED.agent_session",
        (*about, lease.token, info.agent, info.agent_session),
    )
