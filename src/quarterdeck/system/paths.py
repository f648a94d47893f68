"""Paths that cannot leave their roots, also when a directory is swapped during the call.

A check of the text followed by a use of the text can be raced. So a path is walked here name by
name from an open root, each directory opened by its parent's descriptor and never through a
symlink; symlinks are read and resolved by us. What comes out is a ``ConfinedPath``: an open
directory and one name in it. Callers use the descriptor, and a later swap changes
nothing.

``..`` goes back along the directories that were opened, as in POSIX: after a symlink it is the
parent of the target. Where the walk leaves a root (by ``..`` or by a symlink) the rest of the path
has to begin inside a root again, or ``OutsideRootsError`` is raised.

Everything here blocks; callers are in a thread.
"""
# pathlib knows no directory descriptors, and they are the whole point.
# ruff: noqa: PTH118, PTH120

import errno
import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress

from quarterdeck.system.errors import (
    NoSuchPathError,
    OutsideRootsError,
    PathError,
    PathRefusedError,
)

__all__ = ["ConfinedPath", "Roots", "path_error", "real_directory"]

_HOPS = 40  # symlinks in one path, as in Linux
_DIRECTORY = (
    getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
)  # O_PATH passes directories that may be entered but not listed


class ConfinedPath:
    """An open directory and a name in it: where a path led to. Close it, or use ``with``.

    ``name`` is ``"."`` when the path led to a root itself. ``path`` is the real path, for
    messages; it is not used to reach anything.
    """

    __slots__ = ("directory", "name", "path")

    def __init__(self, directory: int, name: str, path: str) -> None:
        self.directory = directory
        self.name = name
        self.path = path

    def __enter__(self) -> "ConfinedPath":
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.directory)

    def stat(self) -> os.stat_result:
        """What is there now, not following a symlink. Raises OSError."""
        return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)

    def open(self, flags: int, mode: int = 0o600) -> int:
        """Open what is there; a symlink is refused with ELOOP. Raises OSError."""
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
        return os.open(self.name, flags, mode, dir_fd=self.directory)


@contextmanager
def real_directory(path: bytes, *, make: bool = False) -> Generator[int, None, None]:
    """Open a directory by its real, absolute path, and keep it open meanwhile.

    No symlink is passed on the way, so that what is done by the descriptor is done where the path
    says, even if directories are swapped at the same time. ``make``: missing ones are made.

    Raises:
        OSError: it is not there, or a symlink or something else is in the way.
    """
    opened = os.open(os.sep, _DIRECTORY)
    try:
        for name in path.split(b"/"):
            if name in (b"", b"."):
                continue
            if name == b"..":
                raise OSError(errno.EINVAL, "a resolved path cannot contain '..'", path)
            try:
                below = os.open(name, _DIRECTORY, dir_fd=opened)
            except FileNotFoundError:
                if not make:
                    raise
                with suppress(FileExistsError):  # another process made it: as good
                    os.mkdir(name, dir_fd=opened)
                below = os.open(name, _DIRECTORY, dir_fd=opened)
            os.close(opened)
            opened = below
        yield opened
    finally:
        os.close(opened)


def path_error(path: str, error: OSError | ValueError) -> PathError:
    """The error of this room for an error of the operating system about ``path``."""
    if isinstance(error, ValueError):
        return PathRefusedError(path, f"it is not a valid path ({error})")
    if error.errno == errno.ENOENT:
        return NoSuchPathError(path)
    return PathRefusedError(path, (error.strerror or str(error)).lower())


class _Walk:
    """The directories opened so far below one root, and the names still to go."""

    def __init__(self, root: str, names: Iterable[str]) -> None:
        self.root = root
        self.names = list(reversed(list(names)))
        self.passed: list[str] = []
        self.opened = [os.open(root, _DIRECTORY)]

    def close(self) -> None:
        for descriptor in self.opened:
            os.close(descriptor)
        self.opened.clear()

    def path(self, *more: str) -> str:
        """The real path of the current directory, with ``more`` names below it."""
        return os.path.join(self.root, *self.passed, *more)

    def rest(self) -> list[str]:
        """The names still to go, first one first."""
        return list(reversed(self.names))

    def enter(self, name: str) -> None:
        """Open a directory below the current one. Raises OSError, also for a symlink."""
        self.opened.append(os.open(name, _DIRECTORY, dir_fd=self.opened[-1]))
        self.passed.append(name)

    def up(self) -> bool:
        """Go to the parent; False when that leaves the root."""
        if not self.passed:
            return self.root == "/"
        os.close(self.opened.pop())
        self.passed.pop()
        return True

    def place(self, name: str) -> ConfinedPath:
        """Hand out the current directory with ``name``; the walk keeps the others."""
        return ConfinedPath(
            self.opened.pop(), name, self.path(name) if name != "." else self.path()
        )

    def link(self, name: str) -> str | None:
        """The target of the symlink ``name``, or None when it is no symlink. Raises OSError."""
        try:
            return os.readlink(name, dir_fd=self.opened[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise


class Roots:
    """One or more directories, and the only way to reach what is inside them.

    The first root is where relative paths begin. ``~`` is an ordinary name. A root may itself be
    given through symlinks; its real path is looked up once, at first use. Making one touches no
    disk.

    Raises:
        ValueError: No root, or one that is not absolute.
    """

    def __init__(self, directories: Sequence[str | os.PathLike[str]]) -> None:
        given = [os.fspath(directory) for directory in directories]
        if not given:
            raise ValueError("Roots need at least one directory.")
        for root in given:
            if not root.startswith("/") or ".." in _names(root):
                raise ValueError(f"Root {root!r} is not absolute or has '..'. Give the full path.")
        self.directories = tuple("/" + "/".join(_names(root)) for root in given)
        self._known: Sequence[tuple[str, str]] | None = None

    def __repr__(self) -> str:
        return f"Roots({list(self.directories)!r})"

    @contextmanager
    def place(
        self, path: str | os.PathLike[str], *, follow: bool = True, parents: bool = False
    ) -> Generator[ConfinedPath, None, None]:
        """Find ``path`` inside the roots and keep its directory open meanwhile.

        ``follow`` resolves a symlink in the last name too (its target may not exist yet);
        ``parents`` makes missing directories on the way. OSErrors inside the ``with`` block are
        turned into errors of this room.

        Raises:
            OutsideRootsError: The path leads out of the roots.
            NoSuchPathError: A directory on the way does not exist.
            PathRefusedError: A loop of symlinks, NUL bytes, names too long, missing permission …
        """
        text = os.fspath(path)
        try:
            with self._find(text, follow, parents) as place:
                yield place
        except (OSError, UnicodeError) as error:
            raise path_error(text, error) from error

    def real(self, path: str | os.PathLike[str]) -> str:
        """The real path of an existing directory or file inside the roots. Raises as ``place``."""
        with self.place(path) as place:
            place.stat()
            return place.path

    def _find(self, text: str, follow: bool, parents: bool) -> ConfinedPath:
        if not text or "\0" in text:
            raise PathRefusedError(text, "it is empty" if not text else "it contains a NUL byte")
        target = os.path.join(self.directories[0], text)
        for _ in range(_HOPS):
            root, names = self._anchor(text, target, follow)
            walk = _Walk(root, names)
            try:
                found = self._step_through(walk, follow, parents)
            finally:
                walk.close()
            if isinstance(found, ConfinedPath):
                return found
            target = found
        raise PathRefusedError(text, "it contains a symlink loop")

    def _anchor(self, text: str, target: str, follow: bool) -> tuple[str, list[str]]:
        """The root where ``target`` begins and the names below it.

        The text decides only where to start: the walk from there is what confines, so that a
        stale answer of ``realpath`` can lead to a wrong place inside a root but never outside.
        """
        found = self._below(_names(target)) or self._below(_names(_spelled_really(target, follow)))
        if found is None:
            raise OutsideRootsError(text, self.directories)
        return found

    def _below(self, names: list[str]) -> tuple[str, list[str]] | None:
        """The innermost root that a path of these names begins with, and the names below it."""
        best: tuple[int, str] | None = None
        for spelling, real in self._spellings():
            depth = len(start := _names(spelling))
            if names[:depth] == start and (best is None or depth > best[0]):
                best = depth, real
        return best and (best[1], names[best[0] :])

    def _spellings(self) -> Sequence[tuple[str, str]]:
        """Each root as it was given and as it really is, with its real path."""
        if self._known is not None:
            return self._known
        real = [os.path.realpath(root) for root in self.directories]
        known = (*zip(self.directories, real, strict=True), *zip(real, real, strict=True))
        if all(map(os.path.isdir, real)):  # a root that is not there yet may become a symlink
            self._known = known
        return known

    def _step_through(self, walk: _Walk, follow: bool, parents: bool) -> ConfinedPath | str:
        """Walk to the end: the place, or the absolute path to go on with from another root."""
        links = 0
        while walk.names:
            name = walk.names.pop()
            if name == "..":
                if not walk.up():
                    return os.path.join(os.path.dirname(walk.root), *walk.rest())
                continue
            last = not walk.names
            target = None if last and not follow else self._pass(walk, name, last, parents)
            if target is None:
                if last:
                    return walk.place(name)
                continue
            links += 1
            if links > _HOPS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if target.startswith("/"):
                return os.path.join(target, *walk.rest())
            walk.names.extend(reversed(_names(target)))
        return walk.place(".")

    def _pass(self, walk: _Walk, name: str, last: bool, parents: bool) -> str | None:
        """Enter directory ``name`` (unless it is the last); give the target if it is a symlink."""
        if last:
            return walk.link(name)
        try:
            walk.enter(name)
        except OSError as error:
            if error.errno == errno.ENOENT and parents:
                _make_directory(name, walk.opened[-1])
                walk.enter(name)
                return None
            # What a symlink answers to O_NOFOLLOW differs between systems.
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                raise
            target = walk.link(name)
            if target is None:
                raise
            return target
        return None


def _make_directory(name: str, parent: int) -> None:
    with suppress(FileExistsError):  # another process made it: as good
        os.mkdir(name, dir_fd=parent)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _spelled_really(path: str, follow: bool) -> str:
    """``path`` without symlinks and ``..``; the last name is kept when it is not to be followed."""
    if follow:
        return os.path.realpath(path)
    parent, name = os.path.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(parent), name)
