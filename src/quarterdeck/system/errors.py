"""What can go wrong with files, processes and terminals.

::

    SystemFault
    ├── PathError                a path cannot be used
    │   ├── OutsideRootsError        it leads out of the directories that are allowed
    │   ├── NoSuchPathError          nothing is there
    │   ├── SpecialFileError         a pipe, a device, a socket: reading it could block for ever
    │   ├── FileChangedError         the file is not the one that was read
    │   └── PathRefusedError         everything else that the operating system says about a path
    ├── SpawnError               a command could not be started
    │   ├── CommandNotFoundError     no such program
    │   ├── NotExecutableError       the file is there but cannot be run
    │   └── NoSuchDirectoryError     the directory to run it in does not exist
    ├── GitError                 git is missing, failed, or took too long
    │   ├── NotARepositoryError      a directory is in no work tree of git
    │   └── GitUnsafeError           a repository that cannot be understood whole; git was not run
    ├── StillRunningError        processes survived SIGKILL until the deadline
    └── NoSuchTerminalError      an id that was never given, or was released
"""

from collections.abc import Iterable

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "CommandNotFoundError",
    "FileChangedError",
    "GitError",
    "GitUnavailableError",
    "GitUnsafeError",
    "NoSuchDirectoryError",
    "NoSuchPathError",
    "NoSuchTerminalError",
    "NotARepositoryError",
    "NotExecutableError",
    "OperatingSystemError",
    "OutsideRootsError",
    "PathError",
    "PathRefusedError",
    "SpawnError",
    "SpecialFileError",
    "StillRunningError",
]


class OperatingSystemError(QuarterdeckError):
    """Base of every error of this room."""


class PathError(OperatingSystemError):
    """A path cannot be used; ``path`` is how the caller spelled it."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class OutsideRootsError(PathError):
    """The path leads out of the roots: by ``..``, by a symlink, or because it begins elsewhere."""

    def __init__(self, path: str, roots: Iterable[str]) -> None:
        self.roots = tuple(roots)
        allowed = ", ".join(repr(root) for root in self.roots)
        super().__init__(
            path, f"{path!r} is outside the allowed directories ({allowed}). Use a path inside."
        )


class NoSuchPathError(PathError):
    """Nothing is at the path."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path!r} does not exist. Check the spelling, or list its parent.")


class SpecialFileError(PathError):
    """The path names a pipe, a device or a socket; only regular files are read and written."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(path, f"{path!r} is a {kind}; only regular files can be read or written.")
        self.kind = kind


class FileChangedError(PathError):
    """The file is not the one that was read: it was changed, replaced, removed or created."""

    def __init__(self, path: str, how: str) -> None:
        super().__init__(path, f"{path!r} {how} since it was read. Read it again, then retry.")
        self.how = how


class PathRefusedError(PathError):
    """The operating system, or the form of the path, forbids it; ``reason`` says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, f"{path!r} cannot be used: {reason}.")
        self.reason = reason


class SpawnError(OperatingSystemError):
    """A command could not be started; ``command`` is its first word."""

    def __init__(self, command: str, message: str) -> None:
        super().__init__(message)
        self.command = command


class CommandNotFoundError(SpawnError):
    """No such program in the directories of the child's ``PATH``."""

    def __init__(self, command: str, searched: str) -> None:
        where = f"PATH searched: {searched!r}" if "/" not in command else "the path does not exist"
        super().__init__(
            command, f"Command {command!r} was not found ({where}). Install it or correct its name."
        )
        self.searched = searched


class NotExecutableError(SpawnError):
    """The file exists but the system cannot run it; ``reason`` says why."""

    def __init__(self, command: str, file: str, reason: str) -> None:
        super().__init__(command, f"Command {command!r} ({file!r}) cannot be run: {reason}.")
        self.file = file
        self.reason = reason


class NoSuchDirectoryError(SpawnError):
    """The working directory of a command does not exist or is no directory."""

    def __init__(self, command: str, directory: str) -> None:
        super().__init__(
            command,
            f"Command {command!r} cannot run in {directory!r}: no such directory. Create it first.",
        )
        self.directory = directory


class StillRunningError(OperatingSystemError):
    """Processes of a tree survived SIGKILL until the deadline (uninterruptible, or not ours)."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.pids = tuple(pids)
        listed = ", ".join(map(str, self.pids))
        super().__init__(f"Processes {listed} did not end after SIGKILL. Inspect them with ps.")


class NoSuchTerminalError(OperatingSystemError):
    """The id was never given out, or its terminal was released."""

    def __init__(self, terminal_id: str) -> None:
        super().__init__(f"There is no terminal {terminal_id!r}: unknown, or already released.")
        self.terminal_id = terminal_id


class GitError(OperatingSystemError):
    """Git is missing, took too long or failed; the message has its words."""


class GitUnavailableError(GitError):
    """Git did not run to its end: it is not installed, could not be started or took too long."""


class NotARepositoryError(GitError):
    """A directory is in no work tree of git."""

    def __init__(self, directory: str) -> None:
        super().__init__(f"{directory!r} is not in a git repository.")
        self.directory = directory


class GitUnsafeError(GitError):
    """A repository's settings or files are not what we understand whole, so git was not run."""
