"""Bubblewrap: a command in namespaces of its own, as the words of a ``bwrap`` call."""

from collections.abc import Iterable, Sequence

__all__ = ["wrapped"]

_NEEDED_OF_RUN = ("/run/current-system", "/run/systemd/resolve", "/run/resolvconf")
"""What programs need of ``/run``; all else there are doors to daemons."""


def wrapped(
    program: str,
    argv: Sequence[str],
    *,
    cwd: str,
    scratch: str,
    writable: Iterable[str],
    read_only: Iterable[str] = (),
    readable: Iterable[str] = (),
    network: bool,
) -> list[str]:
    """The words of a command that runs ``argv`` by ``program`` (the path of bwrap).

    The whole file system is there to read. ``/tmp`` is ``scratch``; ``writable`` directories
    can be changed, except for ``read_only`` paths in them; ``readable`` directories are shown
    though they lie below ``/tmp``. Paths are real ones.
    """
    words = [program, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
    if not network:
        words.append("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += ["--tmpfs", "/run"]
    for path in _NEEDED_OF_RUN:
        words += ["--ro-bind-try", path, path]
    words += ["--bind", scratch, "/tmp"]
    for path in readable:
        words += ["--ro-bind-try", path, path]
    for path in writable:
        words += ["--bind-try", path, path]
    for path in read_only:
        words += ["--ro-bind-try", path, path]
    return [*words, "--setenv", "TMPDIR", "/tmp", "--chdir", cwd, "--", *argv]
