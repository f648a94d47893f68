"""Bubblewrap: a command in name spaces of its own, as the words of a ``bwrap`` call."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

__all__ = ["make_settings_folder", "protected_paths", "wrap_command"]

_NEEDED_OF_RUN = ("/run/current-system", "/run/systemd/resolve", "/run/resolvconf")
"""What programs need of ``/run``; all else there are doors to daemons."""
_KEPT = (
    ".quarterdeck",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".husky",
    ".mcp.json",
    ".opencode",
    ".vscode",
    "opencode.json",
)
"""What programs outside run or believe later, in a workspace; and in its ``.git``:"""
_KEPT_OF_GIT = ("hooks", "config", "config.worktree", "commondir", "modules", "worktrees")


def wrap_command(
    program: str,
    argv: Sequence[str],
    *,
    cwd: str,
    scratch: str,
    writable: Iterable[str] = (),
    read_only: Iterable[str] = (),
    readable: Iterable[str] = (),
    hidden: Iterable[str] = (),
    network: bool = False,
    sealed: bool = False,
) -> list[str]:
    """The words of a command that runs ``argv`` by ``program`` (the path of bwrap).

    The whole file system is there to read, but for ``hidden`` directories, which are empty, and
    ``/run``. ``/tmp`` is ``scratch``; ``writable`` directories can be changed, except for
    ``read_only`` paths in them; ``readable`` directories are shown though they lie below ``/tmp``.
    A ``sealed`` command sees ``/tmp`` as it is, and ``scratch`` is in its own place. What lies
    deeper counts. Paths are real ones; what is not there is left out.
    """
    temporary = scratch if sealed else "/tmp"
    words = [program, "--die-with-parent", "--cap-drop", "ALL"]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not network:
        words.append("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += ["--tmpfs", "/run"]
    for path in _NEEDED_OF_RUN:
        words += ["--ro-bind-try", path, path]
    words += ["--bind", scratch, temporary]
    shown = [*(("--ro-bind-try", path) for path in readable)]
    shown += [("--bind-try", path) for path in writable]
    there = [path for _, path in shown]
    mounts = [
        *shown,
        *(("--ro-bind-try", path) for path in read_only),
        *(("--tmpfs", path) for path in hidden if _is_seen(path, there, sealed=sealed)),
    ]
    for option, path in sorted(mounts, key=lambda mount: len(PurePosixPath(mount[1]).parts)):
        words += [option, path] if option == "--tmpfs" else [option, path, path]
    return [*words, "--setenv", "TMPDIR", temporary, "--chdir", cwd, "--", *argv]


def protected_paths(root: str) -> Iterator[tuple[str, bool]]:
    """What keeps its place in a workspace: the path, and whether its content can be changed.

    Each is mounted upon itself, so that it can be neither renamed nor removed. A repository gets
    the empty ``hooks`` and ``config`` that it lacks: what is not there cannot be held.
    """
    for name in _KEPT:
        if os.path.lexists(path := f"{root}/{name}"):
            yield path, False
    git = f"{root}/.git"
    try:
        kind = os.lstat(git).st_mode
    except OSError:
        return
    if stat.S_ISREG(kind):  # it names the directory of a worktree
        yield git, False
    elif stat.S_ISDIR(kind):
        yield git, True
        if os.path.lexists(f"{git}/HEAD"):
            _complete(git)
        for name in _KEPT_OF_GIT:
            if os.path.lexists(path := f"{git}/{name}"):
                yield path, False


def make_settings_folder(root: str) -> str | None:
    """Make our own settings' directory in a workspace without one, to be kept empty and removed.

    What a command put there would run outside when the next session begins. None: it is there.
    """
    path = f"{root}/.quarterdeck"
    try:
        os.mkdir(path)  # noqa: PTH102
    except OSError:
        return None
    return path


def _complete(git: str) -> None:
    with suppress(OSError):
        os.mkdir(f"{git}/hooks")  # noqa: PTH102
    with suppress(OSError):
        os.close(os.open(f"{git}/config", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def _is_seen(path: str, shown: Sequence[str], *, sealed: bool) -> bool:
    """Whether there is something to hide; of ``/tmp`` and ``/run`` only what is shown is there."""
    if not os.path.isdir(path):  # noqa: PTH112
        return False
    gone = ("/run/",) if sealed else ("/run/", "/tmp/")
    return not path.startswith(gone) or any(path.startswith(f"{place}/") for place in shown)
