"""The files below a directory, without those that the project ignores."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quarterdeck.system.api import DirectoryEntry, Files
from quarterdeck.system.errors import NoSuchPathError, PathError

from .gitignore import GitignoreRules, IgnoreScope, ignores_above, read_rules

__all__ = ["ENTRY_LIMIT", "DirectoryTree", "list_tree"]

ENTRY_LIMIT = 200_000
"""Entries after which a survey stops."""
_AT_ONCE = 16
_MANY = 500
"""Entries of one directory that are looked at in a thread, for the loop's sake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTree:
    """What is below a directory."""

    files: tuple[DirectoryEntry, ...]
    """Files and symlinks (not followed), paths relative to the top, sorted by path."""
    unreadable: int = 0
    """Directories that could not be looked into."""
    is_cut: bool = False
    """There is more: ``ENTRY_LIMIT`` was reached."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the model has to know about what is missing."""
        notes: list[str] = []
        if self.is_cut:
            notes.append(
                f"(the tree has more than {ENTRY_LIMIT} entries; the rest was not searched: give "
                "a narrower path)"
            )
        if self.unreadable:
            notes.append(f"({self.unreadable} directories could not be read)")
        return tuple(notes)


@dataclass(frozen=True, slots=True)
class _Directory:
    path: str
    """Absolute."""
    ignore: IgnoreScope | None


@dataclass(frozen=True, slots=True)
class _Level:
    files: list[DirectoryEntry]
    below: list[_Directory]


async def list_tree(
    files: Files,
    top: str,
    *,
    limit: int = ENTRY_LIMIT,
    may_read: Callable[[str], bool] | None = None,
) -> DirectoryTree:
    """List everything below the directory ``top`` (a real path) that is not ignored.

    A file for which ``may_read`` is false is left out; it is called in another thread.

    Hidden files count, ``.git`` does not. Deterministic, also where it stops at the limit. A
    directory that cannot be read, be it ``top`` itself, is counted.
    """
    start = top.rstrip("/")
    waiting = [_Directory(start, await ignores_above(files, start))]
    found: list[DirectoryEntry] = []
    entries = unreadable = 0
    while waiting and entries < limit:
        now, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        for level in await asyncio.gather(*(_list(files, directory, start) for directory in now)):
            if level is None:
                unreadable += 1
                continue
            entries += len(level.files) + len(level.below)
            found += level.files
            waiting += level.below
    if may_read is not None:
        found = await asyncio.to_thread(_readable, found, start, may_read)
    found.sort(key=lambda entry: entry.path)
    return DirectoryTree(files=tuple(found), unreadable=unreadable, is_cut=bool(waiting))


def _readable(
    entries: list[DirectoryEntry], top: str, may_read: Callable[[str], bool]
) -> list[DirectoryEntry]:
    return [entry for entry in entries if may_read(f"{top}/{entry.path}")]


async def _list(files: Files, directory: _Directory, top: str) -> _Level | None:
    try:
        entries = await files.list(directory.path or "/")
    except NoSuchPathError:  # removed meanwhile
        return _Level([], [])
    except PathError:
        return None
    ignore = directory.ignore or IgnoreScope(directory.path, GitignoreRules(()))
    if any(entry.path == ".gitignore" for entry in entries):
        rules = await read_rules(files, f"{directory.path}/.gitignore")
        ignore = IgnoreScope(directory.path, rules, directory.ignore) if rules else ignore
    if len(entries) > _MANY:
        return await asyncio.to_thread(_sort_out, entries, directory.path, top, ignore)
    return _sort_out(entries, directory.path, top, ignore)


def _sort_out(
    entries: Sequence[DirectoryEntry], directory: str, top: str, ignore: IgnoreScope
) -> _Level:
    level = _Level([], [])
    for entry in entries:
        path = f"{directory}/{entry.path}"
        is_directory = entry.kind == "directory"
        if ignore.holds_for(path, is_directory):
            continue
        if is_directory:
            level.below.append(_Directory(path, ignore))
        elif entry.kind in ("file", "symlink"):
            level.files.append(
                DirectoryEntry(
                    path=path[len(top) + 1 :],
                    kind=entry.kind,
                    size=entry.size,
                    modified_ns=entry.modified_ns,
                )
            )
    return level
