"""What a call names, looked up on a disk: real paths, matches of file patterns, programs.

A decision is pure, and what a command names is not: a path may lead elsewhere, a pattern may match
a link, a name may be a program of the project. Every maker of calls passes them through here, once,
before they are decided. The disk comes from the caller; ``system.local_disk`` has one.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from .call import Call
from .call_parts import CallMentions, find_mentions
from .paths import is_below, is_protected

__all__ = ["Disk", "look_up"]

_MOST_PATHS = 500
_MOST_PATTERNS = 20


class Disk(Protocol):
    """Where the files are that a command will find."""

    def real_path(self, path: str, /) -> str:
        """Return where an absolute path leads by the kernel's rules; ``..`` after a link counts."""
        ...

    def is_directory(self, path: str, /) -> bool:
        """Say whether a path leads to a directory."""
        ...

    def match(self, pattern: str, /) -> Sequence[str] | None:
        """Return the paths that an absolute file pattern matches; None when there are too many."""
        ...

    def names_below(self, path: str, /) -> Sequence[str] | None:
        """Return what is in a directory and all below it, relative to it; None: too many."""
        ...

    def find_program(self, name: str, /) -> str | None:
        """Return the file that ``PATH`` finds for a name; None when nothing certain is found."""
        ...


class _Look(Struct, frozen=True):
    """One look at the disk for one call."""

    call: Call
    disk: Disk

    def _real(self, path: str) -> str:
        """Return where a path leads; below a root that is a link, in the root's own words."""
        real = self.disk.real_path(path)
        for root in self.call.roots:
            real_root = self.disk.real_path(root)
            if real_root != root and is_below(real, (real_root,)):
                return root.rstrip("/") + real[len(real_root) :]
        return real

    def take(self, found: CallMentions) -> Call:
        matches: dict[str, tuple[tuple[str, str], ...] | None] = {}
        for pattern in found.patterns:
            paths = self.disk.match(pattern)
            pairs = None if paths is None else tuple((p, self._real(p)) for p in paths)
            matches[pattern] = pairs
        links: dict[str, str] = {}
        for path in found.paths:
            real = self._real(path)
            if real != path or ".." in path:
                links[path] = real
        directories = frozenset(filter(self.disk.is_directory, found.paths))
        programs: dict[str, str] = {}
        for name in found.names:
            if file := self.disk.find_program(name):
                real = self._real(file)
                programs[name] = real if is_below(real, self.call.roots) else file
        return replace(
            self.call,
            links=links,
            matches=matches,
            directories=directories,
            programs=programs,
            holds_protected=self._holds_protected(found.deleted, matches),
        )

    def _holds_protected(
        self,
        deleted: Sequence[str],
        matches: Mapping[str, tuple[tuple[str, str], ...] | None] | None = None,
    ) -> bool:
        """Say whether a protected file lies below what is deleted or moved."""
        for path in deleted:
            pairs = (matches or {}).get(path, ((path, path),))
            if pairs is None or any(self._is_holder(real) for _, real in pairs):
                return True
        return False

    def _is_holder(self, path: str) -> bool:
        if not self.disk.is_directory(path):
            return False
        names = self.disk.names_below(path)
        return names is None or any(map(is_protected, names))

    def touch(self, found: CallMentions) -> Call:
        """Look at what a call without a command deletes or moves."""
        return replace(self.call, holds_protected=self._holds_protected(found.deleted))


def look_up(call: Call, disk: Disk) -> Call:
    """Return the call with what the disk says about the names in its command. Blocks."""
    found = find_mentions(call)
    if call.command is None:
        return _Look(call, disk).touch(found) if found.deleted else call
    if len(found.paths) > _MOST_PATHS or len(found.patterns) > _MOST_PATTERNS:
        return replace(call, doubts=(*call.doubts, f"it names more than {_MOST_PATHS} paths"))
    return _Look(call, disk).take(found)
