"""What names mean on this machine: where paths lead, what patterns match, which file a program is.

For decisions about commands before they run. Everything here blocks; callers are in a thread.
"""
# pathlib resolves by text where the kernel does not.
# ruff: noqa: PTH207

import glob
import os
import stat
from collections.abc import Mapping, Sequence
from itertools import islice

__all__ = ["LocalDisk"]

_HOPS = 40  # symlinks in one path, as in Linux
_MOST_MATCHES = 300
_MOST_NAMES = 20_000
_MAGIC = ("/proc", "/sys", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr")
"""These, and names below them, mean another thing for every process."""


class LocalDisk:
    """The files of this machine, as a command with this ``PATH`` finds them; ours, if not given."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._searched = environment.get("PATH", "/usr/local/bin:/usr/bin:/bin")

    def real_path(self, path: str) -> str:
        """Return where an absolute path leads, as the kernel walks it: ``..`` after a link is the
        parent of the link's target. What does not exist is kept as it is written.

        A way through ``/proc`` or ``/dev/fd`` ends there. A file that only its owner may read and
        that has another name as well leads to ``/``: where that other name is cannot be known.
        """
        real = _walk(path)
        return "/" if _has_private_names(real) else real

    def is_directory(self, path: str) -> bool:
        """Say whether a path leads to a directory."""
        return os.path.isdir(path)  # noqa: PTH112

    def names_below(self, path: str) -> Sequence[str] | None:
        """Return what is in a directory and all below it, relative to it; None: too many."""
        names: list[str] = []
        for folder, directories, files in os.walk(path):
            within = os.path.relpath(folder, path)
            names.extend(os.path.join(within, name) for name in (*directories, *files))  # noqa: PTH118
            if len(names) > _MOST_NAMES:
                return None
        return names

    def match(self, pattern: str) -> Sequence[str] | None:
        """Return what an absolute file pattern matches, as shells do; None: too many."""
        if pattern.startswith(tuple(f"{place}/" for place in _MAGIC)):
            return None
        try:
            found = list(islice(glob.iglob(pattern), _MOST_MATCHES + 1))
        except ValueError:  # no path can have that in it
            return []
        return None if len(found) > _MOST_MATCHES else found

    def find_program(self, name: str) -> str | None:
        """Return the file that ``PATH`` finds for a bare name.

        None when there is none, when a directory of ``PATH`` that comes before it is relative (it
        is another one after ``cd``), or when others may write the file or its directory.
        """
        for folder in self._searched.split(os.pathsep):
            if not folder.startswith("/"):
                return None
            file = f"{folder.rstrip('/')}/{name}"
            if os.path.isfile(file) and os.access(file, os.X_OK):  # noqa: PTH113
                real = os.path.realpath(file)
                places = (folder, real, os.path.dirname(real))  # noqa: PTH120
                return None if any(map(_others_write, places)) else file
        return None


def _walk(path: str) -> str:
    names = list(reversed(path.split("/")))
    at: list[str] = []
    hops = 0
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = at[:-1]
            continue
        here = "/" + "/".join((*at, name))
        if here in _MAGIC:
            return here
        target = _link_target(here)
        if target is None:
            at.append(name)
            continue
        hops += 1
        if hops > _HOPS:
            return "/"
        if target.startswith("/"):
            at = []
        names.extend(reversed(target.split("/")))
    return "/" + "/".join(at)


def _link_target(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115
    except (OSError, ValueError):
        return None


def _has_private_names(path: str) -> bool:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1 and not found.st_mode & 0o077


def _others_write(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return True
    return bool(mode & stat.S_IWOTH)
