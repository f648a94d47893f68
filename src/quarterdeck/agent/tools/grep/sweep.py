"""Reading many files for a search, in batches of bounded size."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Literal, TypeAlias

from quarterdeck.system.errors import PathFault
from quarterdeck.system.port import Entry, Files

from .engines import Engine
from .search import NOTHING, FileMatches
from .sieve import Sieve

__all__ = ["FILE_BYTES", "Skipped", "sweep"]

FILE_BYTES = 16 * 1_048_576
"""Larger files are not searched."""
_BATCH_FILES = 64
_BATCH_BYTES = 16 * 1_048_576

Skipped: TypeAlias = Literal["large", "unreadable"]


async def sweep(
    files: Files, top: str, entries: Sequence[Entry], engine: Engine, sieve: Sieve | None = None
) -> AsyncIterator[tuple[str, FileMatches | Skipped]]:
    """Search the entries below ``top``, in their order; symlinks are not followed.

    What does not pass the ``sieve`` does not get to the engine.
    """
    regular = [entry for entry in entries if entry.kind == "file"]
    for batch in _batches(regular):
        read: list[bytes | FileMatches | Skipped] = list(
            await asyncio.gather(*(_read(files, top, entry) for entry in batch))
        )
        if sieve is not None:
            read = await asyncio.to_thread(_sifted, read, sieve)
        found = iter(await engine.search([data for data in read if isinstance(data, bytes)]))
        for entry, data in zip(batch, read, strict=True):
            yield entry.path, next(found) if isinstance(data, bytes) else data


def _sifted(
    read: Sequence[bytes | FileMatches | Skipped], sieve: Sieve
) -> list[bytes | FileMatches | Skipped]:
    return [
        NOTHING if isinstance(data, bytes) and not sieve.passes(data) else data for data in read
    ]


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) >= _BATCH_FILES or size + (entry.size or 0) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += min(entry.size or 0, FILE_BYTES)
    if batch:
        yield batch


async def _read(files: Files, top: str, entry: Entry) -> bytes | Skipped:
    if (entry.size or 0) > FILE_BYTES:
        return "large"
    try:
        path = f"{top.rstrip('/')}/{entry.path}" if entry.path else top
        content = await files.read(path, limit=FILE_BYTES)
    except PathFault:
        return "unreadable"
    return content.data if content.at_end else "large"
