"""Letting ripgrep, where it is installed, say which files need not be read.

It gets the very files that we would read and looks for plain pieces of text only; what it finds
is then read and searched as without it. So the answer is the same, sooner.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence

from quarterdeck.system.environment import find_own_program
from quarterdeck.system.errors import SpawnFault
from quarterdeck.system.port import Command, Ending, Entry, Process, System
from quarterdeck.wire.errors import LinkError

from .sieve import Sieve

__all__ = ["WORTH", "without_hopeless"]

WORTH = 4_000_000
"""Bytes of files below which reading them is quicker than starting a program."""
_ARGUMENT_BYTES = 500_000
"""Systems allow one to two million for arguments and environment together."""
_OPTIONS = (
    "--no-config",
    "--files-with-matches",
    "--fixed-strings",
    "--null",
    "--text",
    "--no-messages",
    "--color=never",
    "--encoding=none",
)
_AT_ONCE = Ending(ask=0, terminate=0)


async def without_hopeless(
    system: System, top: str, entries: Sequence[Entry], sieve: Sieve
) -> frozenset[str] | None:
    """The paths of those entries that may match; None where ripgrep cannot tell.

    It cannot where it is not installed, where any file could not be read (somebody has to count
    those), and where what we read is not what is on the disk.
    """
    if not system.files.is_disk:
        return None
    found: set[str] = set()
    for paths in _portions([f"{top.rstrip('/')}/{entry.path}" for entry in entries]):
        portion = await _search(system, paths, sieve)
        if portion is None:
            return None
        found |= portion
    start = len(top.rstrip("/")) + 1
    return frozenset(path[start:] for path in found)


async def _search(system: System, paths: Sequence[str], sieve: Sieve) -> set[str] | None:
    case = ("--ignore-case",) if sieve.ignore_case else ("--case-sensitive",)
    pieces = (word for piece in sieve.pieces for word in ("-e", piece.decode()))
    program = await asyncio.to_thread(find_own_program, "rg", system.roots)
    if program is None:
        return None
    command = Command(argv=(program, *_OPTIONS, *case, *pieces, "--", *paths))
    try:
        process = await system.processes.spawn(command)
    except SpawnFault:
        return None
    try:
        printed = await _printed(process)
        code = (await process.wait()).code
    except LinkError:
        return None
    finally:
        await process.end(_AT_ONCE)
    if code not in (0, 1):  # 2: something could not be read
        return None
    return {os.fsdecode(name) for name in printed.split(b"\0") if name}


async def _printed(process: Process) -> bytes:
    printed = bytearray()
    while piece := await process.receive():
        printed += piece
    return bytes(printed)


def _portions(paths: Sequence[str]) -> Iterator[list[str]]:
    """The paths in lists that a command line has room for."""
    portion: list[str] = []
    size = 0
    for path in paths:
        length = len(os.fsencode(path)) + 9
        if portion and size + length > _ARGUMENT_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(path)
        size += length
    if portion:
        yield portion
