"""The files below a directory, without those that .gitignore files exclude.

Characters are compared where git compares bytes; that differs only for ``?`` and ``[…]`` against
letters outside of ASCII.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from quarterdeck.system.api import DirectoryEntry, Files
from quarterdeck.system.errors import NoSuchPathError, PathError, PathRefusedError, SpecialFileError

from .globs import wild_regex

__all__ = [
    "ENTRY_LIMIT",
    "DirectoryTree",
    "GitignoreRules",
    "IgnoreScope",
    "ignores_above",
    "list_tree",
    "parse_rules",
    "read_rules",
]

_FILE_BYTES = 524_288
_REPOSITORY_NAMES = frozenset((".git", ".hg", ".svn"))
_NEVER = re.compile("(?!)")


@dataclass(frozen=True, slots=True)
class _Rule:
    regex: re.Pattern[str]
    is_negated: bool
    directories_only: bool
    names_only: bool
    """Compare the last name only, at any depth."""


class GitignoreRules:
    """The rules of one file, for paths relative to the directory that they are for."""

    __slots__ = ("_names", "_paths", "_rules")

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._rules = tuple(reversed(list(rules)))
        self._names = _any(rule.regex for rule in self._rules if rule.names_only)
        self._paths = _any(rule.regex for rule in self._rules if not rule.names_only)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Whether the path is to be left out; None if no rule is about it."""
        name = path.rpartition("/")[2]
        # Nearly every path is matched by none, and one expression says so at once.
        if not self._names.fullmatch(name) and not self._paths.fullmatch(path):
            return None
        for rule in self._rules:
            if rule.directories_only and not is_directory:
                continue
            if rule.regex.fullmatch(name if rule.names_only else path):
                return not rule.is_negated
        return None


@dataclass(frozen=True, slots=True)
class IgnoreScope:
    """The rules that hold in a directory: its own and those of the directories above."""

    base: str
    """The directory of ``rules``, absolute."""
    rules: GitignoreRules
    above: "IgnoreScope | None" = None

    def holds_for(self, path: str, is_directory: bool) -> bool:
        """Whether an absolute path in this directory is to be left out."""
        if path.rpartition("/")[2] in _REPOSITORY_NAMES:
            return True
        level: IgnoreScope | None = self
        while level is not None:
            below = path[len(level.base.rstrip("/")) + 1 :]
            decided = level.rules.decide(below, is_directory)
            if decided is not None:
                return decided
            level = level.above
        return False


def parse_rules(text: str) -> GitignoreRules:
    """Read the text of a .gitignore file; a line that is no valid pattern matches nothing."""
    lines = text.removeprefix("\ufeff").split("\n")
    return GitignoreRules(rule for line in lines if (rule := _rule(line)) is not None)


async def read_rules(files: Files, path: str) -> GitignoreRules:
    """Read a file of rules; one that is not there or cannot be read has none."""
    try:
        content = await files.read(path, limit=_FILE_BYTES)
    except (NoSuchPathError, PathRefusedError, SpecialFileError):
        return GitignoreRules(())
    return parse_rules(content.data.decode("utf-8", "replace"))


async def ignores_above(files: Files, top: str) -> IgnoreScope | None:
    """The rules of the directories above ``top``, up to its repository's or the workspace's root.

    None when they would leave out ``top`` itself: who names a directory wants to look into it.
    """
    directories = await _directories_above(files, top)
    ignore: IgnoreScope | None = None
    for index, directory in enumerate(directories):
        if index == 0:
            exclude = await read_rules(files, f"{directory}/.git/info/exclude")
            ignore = IgnoreScope(directory, exclude) if exclude else None
        if directory == top:
            break
        rules = await read_rules(files, f"{directory}/.gitignore")
        ignore = IgnoreScope(directory, rules, ignore) if rules else ignore
        if ignore is not None and ignore.holds_for(directories[index + 1], True):
            return None
    return ignore


async def _directories_above(files: Files, top: str) -> list[str]:
    """From the repository's or workspace's root to ``top`` itself."""
    directories: list[str] = []
    current = top
    while current:
        directories.insert(0, current)
        try:
            await files.stat(f"{current}/.git", follow=False)
            break
        except NoSuchPathError:
            current = current.rpartition("/")[0]
        except PathError:  # above the workspace
            return directories[1:] or [top]
    return directories


def _rule(line: str) -> _Rule | None:
    line = _trimmed(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    pattern = line[1:] if is_negated else line
    directories_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    names_only = "/" not in pattern
    regex = _name_regex(pattern) if names_only else _path_regex(pattern.removeprefix("/"))
    if regex is None:
        return None
    return _Rule(re.compile(regex, re.DOTALL), is_negated, directories_only, names_only)


def _name_regex(pattern: str) -> str | None:
    return wild_regex(pattern) if pattern else None


def _path_regex(pattern: str) -> str | None:
    # git compares the part before the first wildcard literally and looks at the rest alone, so
    # that "**" counts as a whole name at the beginning of the rest too.
    match = re.match(r"[^*?\[\\]*", pattern)
    fixed = match.group() if match else ""
    rest = wild_regex(pattern[len(fixed) :])
    return None if rest is None else re.escape(fixed) + rest


def _trimmed(line: str) -> str:
    """The line without blanks at its end, except those after a backslash."""
    end = position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 1
            if position == len(line):
                return line
            end = position + 1
        elif line[position] != " ":
            end = position + 1
        position += 1
    return line[:end]


def _any(patterns: Iterable[re.Pattern[str]]) -> re.Pattern[str]:
    sources = [f"(?:{pattern.pattern})" for pattern in patterns]
    return re.compile("|".join(sources), re.DOTALL) if sources else _NEVER


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
