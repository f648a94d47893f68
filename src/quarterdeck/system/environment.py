"""What a child gets to see of our environment, and where its program is.

An allow-list: keys and tokens of ours reach no child unless they are named.
"""

import os
from collections.abc import Iterable, Mapping

from quarterdeck.system.errors import CommandNotFoundError, NoSuchDirectoryError, NotExecutableError

__all__ = ["PASSED_ON", "child_environment", "find_own_program", "find_program", "search_folders"]

PASSED_ON = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "NODE_EXTRA_CA_CERTS",
        "PATH",
        "REQUESTS_CA_BUNDLE",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
    }
)
"""Variables that every child gets if we have them, with those named ``LC_…`` and ``XDG_…``."""
_PREFIXES = ("LC_", "XDG_")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def child_environment(
    extra: Mapping[str, str] | None = None,
    inherit: Iterable[str] = (),
    *,
    source: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of a child: the allow-list, the names in ``inherit``, then ``extra``.

    ``source`` is the environment to take from: ours, if not given.
    """
    ours = os.environ if source is None else source
    named = PASSED_ON.union(inherit)
    environment = {
        name: value for name, value in ours.items() if name in named or name.startswith(_PREFIXES)
    }
    environment.update(extra or {})
    return environment


def find_program(command: str, environment: Mapping[str, str], cwd: str) -> str:
    """The file that ``command`` names for a child with this environment and directory. Blocks.

    Raises:
        CommandNotFoundError: There is no such file, in the child's own ``PATH`` if it is a bare
            name.
        NotExecutableError: There is one, but it is a directory or lacks the permission.
        NoSuchDirectoryError: ``cwd`` does not exist.
    """
    if not _is_directory(cwd):
        raise NoSuchDirectoryError(command, cwd)
    searched = environment.get("PATH", _DEFAULT_PATH)
    if not command:
        raise CommandNotFoundError(command, searched)
    found = ""
    for file in _candidates(command, searched, cwd):
        if os.access(file, os.X_OK) and not _is_directory(file):
            return file
        if os.access(file, os.F_OK):
            found = found or file
    if found:
        is_directory = _is_directory(found)
        reason = "it is a directory" if is_directory else "permission denied; chmod +x may help"
        raise NotExecutableError(command, found, reason)
    raise CommandNotFoundError(command, searched)


def search_folders(projects: Iterable[str], path: str | None = None) -> list[str]:
    """The folders of ``path`` (ours, if not given) for programs that the user did not ask for.

    None that depends on where we are, and none in a project: what lies there may come from
    anyone with write access, agents among them. Blocks.
    """
    tops = [f"{top.rstrip('/')}/" for top in map(os.path.realpath, projects) if top != os.sep]
    folders = (os.environ.get("PATH", _DEFAULT_PATH) if path is None else path).split(os.pathsep)
    return [
        folder
        for folder in folders
        if folder.startswith(os.sep)
        and not any(f"{os.path.realpath(folder)}/".startswith(top) for top in tops)
    ]


def find_own_program(name: str, projects: Iterable[str]) -> str | None:
    """Where a program is that we run of our own accord; none in a project counts. Blocks."""
    for folder in search_folders(projects):
        file = f"{folder.rstrip('/')}/{name}"
        if os.access(file, os.X_OK) and not _is_directory(file):
            return file
    return None


def _candidates(command: str, searched: str, cwd: str) -> list[str]:
    if command.startswith("/"):
        return [command]
    if "/" in command:
        return [f"{cwd}/{command}"]
    # An empty or relative folder in PATH begins at the child's directory, as in a shell.
    folders = (
        folder if folder.startswith("/") else f"{cwd}/{folder}".rstrip("/")
        for folder in searched.split(os.pathsep)
    )
    return [f"{folder}/{command}" for folder in folders]


def _is_directory(path: str) -> bool:
    return os.access(f"{path}/.", os.F_OK)
