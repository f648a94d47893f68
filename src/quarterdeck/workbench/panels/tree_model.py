"""A file tree that is read directory by directory, with git's status letters.

Everything that asks git blocks; callers use a thread.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from quarterdeck.system.git.repository import expect_repository

from ..rendering.glyphs import CUT, FAILED, POINT, TO
from ..sanitize import sanitize_text

__all__ = [
    "MOST",
    "FileTree",
    "FoundPaths",
    "TreeEntry",
    "TreeRow",
    "find_paths",
    "parse_status",
    "read_directory",
    "read_status_marks",
]

_MOST_MARKS = 20_000
_MOST_BYTES = 4_000_000


def read_status_marks(cwd: str) -> dict[str, str]:
    """A letter for each changed path, absolute: M A D R U (conflict), ``?`` new to git.

    Directories are there where git names a whole one. At most some thousands.

    Raises:
        GitError: it is no work tree, or git cannot tell.
    """
    repository = expect_repository(cwd)
    words = ["status", "--porcelain=v1", "-z", "--", "."]
    answer = repository.ask(words, cwd=cwd, most=_MOST_BYTES)
    return parse_status(answer.data, repository.top)


def parse_status(data: bytes, top: str) -> dict[str, str]:
    """The letters of ``git status --porcelain=v1 -z``; half an entry at the end is left out."""
    marks: dict[str, str] = {}
    entries = iter(data.split(b"\0")[:-1])
    for entry in entries:
        if len(entry) < 4 or len(marks) >= _MOST_MARKS:
            continue
        staged, unstaged = chr(entry[0]), chr(entry[1])
        path = f"{top.rstrip('/')}/{os.fsdecode(entry[3:]).rstrip('/')}"
        if "R" in (staged, unstaged) or "C" in (staged, unstaged):
            next(entries, None)  # where it came from
        marks[path] = _letter(staged, unstaged)
    return marks


def _letter(staged: str, unstaged: str) -> str:
    pair = staged + unstaged
    if "U" in pair or pair in ("AA", "DD"):
        return "U"
    letter = unstaged if unstaged != " " else staged
    return letter if letter in "MADRCT?" else "M"


MOST = 1_000
"""Entries of one directory that are shown until someone asks for more."""
_MOST_FOUND = 50_000
_DEEPEST = 40
_PASSED_OVER = frozenset({".git", "node_modules", "__pycache__", ".venv", ".hg", ".svn"})

EntryKind: TypeAlias = Literal["directory", "file", "other"]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A name in a directory."""

    name: str
    kind: EntryKind
    link: str | None = None
    """Where it points to if it is a symbolic link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """A line of the tree."""

    key: str
    """The path, absolute; of a line that is no file: the directory's with ``/…`` behind it."""
    depth: int
    name: str
    """As it may be shown."""
    kind: Literal["directory", "file", "other", "note", "more"]
    is_open: bool = False
    mark: str = " "
    path: str = ""
    """The file or directory it belongs to."""


@dataclass(slots=True)
class _Directory:
    entries: list[TreeEntry] = field(default_factory=list["TreeEntry"])
    problem: str | None = None
    shown: int = MOST


class FileTree:
    """Directories that were opened, their entries as last read, and git's letters.

    It reads nothing itself: ``wanted`` says which directories are open and not known, and
    ``take`` brings what was read.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") or "/"
        self.opened: set[str] = {self.root}
        self.marks: dict[str, str] = {}
        self._marked_above: dict[str, str] = {}
        self._known: dict[str, _Directory] = {}

    def wanted(self) -> list[str]:
        """Directories that are open and were never read."""
        return [path for path in sorted(self.opened) if path not in self._known]

    def known(self) -> list[str]:
        """Directories that are open and were read; what a refresh reads again."""
        return [path for path in sorted(self.opened) if path in self._known]

    def take(self, path: str, entries: list[TreeEntry], problem: str | None = None) -> None:
        """What a directory holds now, or why it cannot be read."""
        old = self._known.get(path)
        shown = old.shown if old is not None else MOST
        self._known[path] = _Directory(entries, problem, shown)

    def take_marks(self, marks: dict[str, str]) -> None:
        """What git says; directories get a dot where something inside is marked."""
        self.marks = marks
        above: dict[str, str] = {}
        for path in marks:
            parent = os.path.dirname(path)  # noqa: PTH120 - a name may be no valid text
            while len(parent) >= len(self.root) and parent not in above and parent != "/":
                above[parent] = POINT
                parent = os.path.dirname(parent)  # noqa: PTH120
        self._marked_above = above

    def toggle(self, path: str) -> bool:
        """Open a directory or close it; whether it is open now."""
        if path in self.opened:
            self.opened.discard(path)
            return False
        self.opened.add(path)
        return True

    def more(self, path: str) -> None:
        """Show more entries of a directory."""
        if path in self._known:
            self._known[path].shown += MOST

    def rows(self) -> list[TreeRow]:
        """Every line, in order."""
        return list(self._rows(self.root, 0))

    def _rows(self, path: str, depth: int) -> Iterator[TreeRow]:
        found = self._known.get(path)
        if found is None:
            yield _note(path, depth, f"loading {CUT}")
            return
        if found.problem is not None:
            yield _note(path, depth, f"{FAILED} {sanitize_text(found.problem)}")
            return
        if not found.entries:
            yield _note(path, depth, "(empty)")
        for entry in found.entries[: found.shown]:
            child = f"{path.rstrip('/')}/{entry.name}"
            is_open = entry.kind == "directory" and child in self.opened and depth < _DEEPEST
            yield TreeRow(
                key=child,
                path=child,
                depth=depth,
                name=_shown(entry),
                kind=entry.kind,
                is_open=is_open,
                mark=self._mark(child),
            )
            if is_open:
                yield from self._rows(child, depth + 1)
        if len(found.entries) > found.shown:
            left = len(found.entries) - found.shown
            name = f"… {left:,} more (enter shows them)"
            yield TreeRow(key=f"{path}/…", path=path, depth=depth, name=name, kind="more")

    def _mark(self, path: str) -> str:
        mark = self.marks.get(path) or self._marked_above.get(path)
        if mark is None:
            parent = os.path.dirname(path)  # noqa: PTH120
            while len(parent) > len(self.root):
                if self.marks.get(parent) == "?":  # git names a new directory once
                    return "?"
                parent = os.path.dirname(parent)  # noqa: PTH120
        return mark or " "


def _note(path: str, depth: int, text: str) -> TreeRow:
    return TreeRow(key=f"{path}/…", path=path, depth=depth, name=text, kind="note")


def _shown(entry: TreeEntry) -> str:
    name = sanitize_text(entry.name).replace("\n", "\\n")
    if entry.link is not None:
        name += f" {TO} " + sanitize_text(entry.link).replace("\n", "\\n")
    return name


def read_directory(path: str, most: int = 200_000) -> tuple[list[TreeEntry], str | None]:
    """Directories first, then files, each by name; or why it cannot be read. Blocks."""
    entries: list[TreeEntry] = []
    try:
        with os.scandir(path) as found:
            for item in found:
                if item.name != ".git":  # no one reads it, and git speaks for it
                    entries.append(_entry(item))
                if len(entries) >= most:
                    break
    except OSError as error:
        return [], error.strerror or str(error)
    entries.sort(key=lambda entry: (entry.kind != "directory", entry.name.casefold(), entry.name))
    return entries, None


def _entry(item: "os.DirEntry[str]") -> TreeEntry:
    link: str | None = None
    try:
        if item.is_symlink():
            link = os.readlink(item.path)  # noqa: PTH115
        if item.is_dir():
            return TreeEntry(item.name, "directory", link)
        is_file = item.is_file()
    except OSError:  # a loop of links, or it is gone
        return TreeEntry(item.name, "other", link)
    return TreeEntry(item.name, "file" if is_file else "other", link)


@dataclass(frozen=True, slots=True)
class FoundPaths:
    """Paths below a root, relative, for filtering."""

    paths: list[str]
    is_cut: bool

    def matching(self, words: str, most: int = 500) -> tuple[list[str], int]:
        """Paths that hold every word, without regard to case, short ones first; how many more."""
        wanted = words.casefold().split()
        hits = [path for path in self.paths if _holds(path.casefold(), wanted)]
        hits.sort(key=lambda path: (_rank(path.casefold(), wanted), len(path), path))
        return hits[:most], max(0, len(hits) - most)


def _holds(path: str, words: list[str]) -> bool:
    return all(word in path for word in words)


def _rank(path: str, words: list[str]) -> int:
    """A match in the name itself counts more than one in a directory above."""
    name = path.rpartition("/")[2]
    return 0 if all(word in name for word in words) else 1


def find_paths(
    root: str, listed: Callable[[], list[str] | None], most: int = _MOST_FOUND
) -> FoundPaths:
    """Files below a root: what ``listed`` tells, or else a walk. Blocks, within bounds.

    The walk follows no link and passes over directories that tools fill.
    """
    tracked = listed()
    if tracked is not None:
        return FoundPaths(tracked[:most], len(tracked) > most)
    paths: list[str] = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        entries, _ = read_directory(f"{root}/{below}", most)
        for entry in entries:
            path = f"{below}{entry.name}"
            if entry.kind == "directory":
                if entry.link is None and entry.name not in _PASSED_OVER:
                    waiting.append(path + "/")
                continue
            paths.append(path)
            if len(paths) >= most:
                return FoundPaths(paths, True)
    return FoundPaths(paths, False)
