"""The port to the operating system: what tools and drivers may use and what they may rely on.

``System`` groups three small ports: ``Files``, ``Processes``, ``Terminals``. This machine is one
implementation (``quarterdeck.system.local``); the file system and the terminals of an editor, or a
sandbox, are others. Who uses the port contains no branch on which one it got.

What holds for every method of every implementation:

- *Blocking*: none blocks the event loop.
- *Errors*: only those of ``quarterdeck.system.errors`` (and ``quarterdeck.wire.errors.LinkError``
  for the byte streams of a process).
- *Cancellation*: a cancelled call leaves nothing half done. A write has happened or has not; a
  process whose spawning was cancelled is gone; an ending that was begun goes on by itself.
- *Confinement*: a path, also the working directory of a command, lies inside ``System.roots``
  after all symlinks are resolved, or the call raises ``OutsideRootsError`` before anything happens.
  Relative paths begin at the first root.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

__all__ = [
    "CommandSpec",
    "DirectoryEntry",
    "EndingDeadlines",
    "FileContent",
    "FileIdentity",
    "FileKind",
    "FileLines",
    "FileStat",
    "Files",
    "OutputView",
    "PathLike",
    "Process",
    "ProcessExit",
    "Processes",
    "System",
    "Terminal",
    "Terminals",
]

PathLike: TypeAlias = str | os.PathLike[str]
FileKind: TypeAlias = Literal["file", "directory", "symlink", "pipe", "socket", "device"]


class FileIdentity(Struct, frozen=True, kw_only=True):
    """Which content a file had when we saw it. Equal identities mean an unchanged file.

    ``digest`` (BLAKE2b of the whole content) is there when the whole file was read and is not
    large; then it alone decides, because two changes within one tick of the file system's clock
    can leave the same size and time.
    """

    device: int
    inode: int
    size: int
    modified_ns: int
    digest: str = ""


class FileStat(Struct, frozen=True, kw_only=True):
    """What is known about a file without reading it. Sizes in bytes."""

    path: str
    """The real path, all symlinks resolved."""
    kind: FileKind
    mode: int
    """Permission bits only."""
    identity: FileIdentity

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.identity.size


class FileContent(Struct, frozen=True, kw_only=True):
    """Bytes of a file and the identity of the file they came from."""

    data: bytes
    identity: FileIdentity
    at_end: bool
    """Nothing follows these bytes in the file."""


class FileLines(Struct, frozen=True, kw_only=True):
    """A window of whole lines of a file, line ends as they are in the file."""

    data: bytes
    identity: FileIdentity
    first: int
    """Number of the first line, counted from 1."""
    count: int
    """How many lines ``data`` holds; a last line without line end counts."""
    total: int | None
    """How many lines the file has; None when it was too large to count."""
    is_cut: bool = False
    """The only line of the window is longer than the window may be; its rest is missing."""

    @property
    def text(self) -> str:
        """The lines as text; bytes that are no UTF-8 become replacement characters."""
        return self.data.decode("utf-8", "replace")

    @property
    def next(self) -> int | None:
        """The line to go on with, or None at the end of the file."""
        following = self.first + self.count
        return following if self.total is None or following <= self.total else None


class DirectoryEntry(Struct, frozen=True, kw_only=True):
    """One name in a directory."""

    path: str
    """Relative to the directory that was listed or walked, ``/`` between names."""
    kind: FileKind
    size: int | None = None
    """In bytes; None where it was not asked for (walking)."""
    modified_ns: int | None = None
    problem: str = ""
    """Why this directory could not be walked into; empty otherwise."""


class Files(Protocol):
    """Files inside the roots."""

    @property
    def is_disk(self) -> bool:
        """Whether what is read here is what programs read, and not, say, an editor's buffers."""
        ...

    async def stat(self, path: PathLike, *, follow: bool = True) -> FileStat:
        """Look at a path; ``follow=False`` looks at a symlink itself.

        Raises:
            NoSuchPathError: Nothing is there.
        """
        ...

    async def read(
        self, path: PathLike, *, offset: int = 0, limit: int | None = None
    ) -> FileContent:
        """Read up to ``limit`` bytes from ``offset``; the whole file when no limit is given.

        Raises:
            SpecialFileError: A pipe, a device or a socket; it is not even opened.
            PathRefusedError: A directory, a missing permission.
        """
        ...

    async def read_lines(
        self,
        path: PathLike,
        *,
        line: int = 1,
        limit: int | None = None,
        max_bytes: int = 1_048_576,
    ) -> FileLines:
        """Read ``limit`` lines from ``line`` on, at most ``max_bytes``, in constant memory.

        A window that would be larger than ``max_bytes`` ends at the last whole line that fits. A
        ``line`` after the end gives an empty window. Raises as ``read``.
        """
        ...

    async def write(
        self,
        path: PathLike,
        data: bytes,
        *,
        expected: FileIdentity | None = None,
        create: bool | None = None,
    ) -> FileIdentity:
        """Replace the content of a file in one step, or create it with its parent directories.

        A reader, and a crash at any moment, sees the old or the new content and nothing between.
        Permission bits stay; through a symlink the target is written. ``expected`` refuses a file
        that is not the one read before; ``create=True`` refuses an existing file,
        ``create=False`` a missing one.

        Raises:
            FileChangedError: The file is not as ``expected``, or there against ``create``.
            NoSuchPathError: ``create`` is False and there is no file.
        """
        ...

    async def list(self, path: PathLike = ".") -> tuple[DirectoryEntry, ...]:
        """The entries of a directory, sorted by name, with size and time."""
        ...

    def walk(
        self,
        path: PathLike = ".",
        *,
        limit: int = 100_000,
        prune: Callable[[DirectoryEntry], bool] | None = None,
    ) -> AsyncIterator[DirectoryEntry]:
        """Everything below a directory, depth first, sorted; symlinks are named, not followed.

        Ends after ``limit`` entries. ``prune`` is called in another thread; an entry for which it
        is true is left out, a directory with all it holds.
        """
        ...

    async def make_directory(self, path: PathLike) -> None:
        """Make a directory and its parents; nothing happens when it is there."""
        ...

    async def remove(self, path: PathLike) -> None:
        """Remove a file, a symlink (not its target) or an empty directory."""
        ...

    async def rename(self, source: PathLike, target: PathLike) -> None:
        """Move within the roots, replacing a file at ``target``; symlinks are moved themselves."""
        ...


class CommandSpec(Struct, frozen=True, kw_only=True):
    """A program to run. The words go to the program as they are: there is no shell."""

    argv: Sequence[str]
    cwd: PathLike | None = None
    """None: the first root."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Set on top of the few variables that every child gets."""
    inherit: Sequence[str] = ()
    """Further variables of our own environment to pass on, if set."""


class ProcessExit(Struct, frozen=True, kw_only=True):
    """How a process ended: with a code, or by a signal (``"SIGKILL"``); one of them is None."""

    code: int | None = None
    signal: str | None = None

    @property
    def is_success(self) -> bool:
        """The process exited with success."""
        return self.code == 0

    def __str__(self) -> str:
        return f"exit code {self.code}" if self.signal is None else f"signal {self.signal}"


class EndingDeadlines(Struct, frozen=True, kw_only=True):
    """How long each stage of an ending may last, in seconds; 0 skips the stage."""

    ask: float = 1.0
    """Standard input is closed; well-behaved programs leave."""
    terminate: float = 2.0
    """SIGTERM to the whole tree."""
    kill: float = 5.0
    """SIGKILL to the whole tree, again and again until nothing is left."""


class Process(Protocol):
    """A running command with its byte streams.

    ``receive``, ``send`` and ``close`` make it a byte stream: what the child prints on standard
    output comes in, what is sent goes to its standard input. Standard error is read from the
    first byte on, with or without a reader; its end is kept.

    Every process has to be ended (``end``, or ``async with``), also one that left by itself: only
    then is its whole tree known to be gone.
    """

    @property
    def pid(self) -> int:
        """The process id of the child, which is also its process group and session."""
        ...

    @property
    def exit(self) -> ProcessExit | None:
        """How the child ended; None while it runs."""
        ...

    async def receive(self) -> bytes:
        """The next bytes of standard output; ``b""`` at the end.

        The child is held back until its output is received. The stream ends when the child has left
        and everything it wrote before was delivered, even if a grandchild still holds the pipe.

        Raises:
            LinkBusyError: Another task is receiving.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Write all of ``data`` to standard input; waits while the child does not read.

        Raises:
            LinkClosedError: We closed standard input.
            LinkBrokenError: The child closed it or is gone, or an earlier send was cancelled half
                way.
            LinkBusyError: Another task is sending.
        """
        ...

    def close_input(self) -> None:
        """Close standard input now; what a blocked ``send`` still held is dropped."""
        ...

    async def close(self) -> None:
        """Close standard input and output; the child runs on. ``receive`` raises LinkClosedError
        then.
        """
        ...

    def stderr(self) -> str:
        """The last part of standard error so far."""
        ...

    async def wait(self) -> ProcessExit:
        """Wait until the child has left and its standard error is read."""
        ...

    async def end(self, ending: EndingDeadlines | None = None) -> ProcessExit:
        """End the child and everything that it started, in stages. May be called repeatedly.

        The ending goes on when the caller is cancelled. Bytes that the child wrote stay
        receivable.

        Raises:
            StillRunningError: Something survived SIGKILL until the deadline.
        """
        ...


class Processes(Protocol):
    """Commands with byte streams, for programs that we talk with."""

    async def spawn(self, command: CommandSpec) -> Process:
        """Start a command.

        Raises:
            CommandNotFoundError, NotExecutableError, NoSuchDirectoryError: It could not be started.
        """
        ...


class OutputView(Struct, frozen=True, kw_only=True):
    """What a command has printed: the beginning, how much is missing, the end."""

    head: str
    dropped: int
    """Bytes between head and tail that were not kept; exact."""
    tail: str
    total: int
    """Bytes printed so far."""
    exit: ProcessExit | None = None

    @property
    def is_truncated(self) -> bool:
        """Something was dropped."""
        return self.dropped > 0

    @property
    def text(self) -> str:
        """Head and tail without a mark between them: the whole, when nothing was dropped."""
        return self.head + self.tail


class Terminal(Protocol):
    """A command with its output, both streams merged, for commands that we only watch."""

    @property
    def id(self) -> str:
        """Names the terminal in its ``Terminals``."""
        ...

    async def output(self) -> OutputView:
        """What was printed so far, and the exit status once there is one."""
        ...

    def follow(self) -> AsyncIterator[str]:
        """The text from now on, until the command has left. A slow reader gets larger pieces."""
        ...

    async def wait(self) -> ProcessExit:
        """Wait until the command has left; all that it wrote before is in ``output`` then."""
        ...

    async def kill(self) -> None:
        """End the command and everything it started; the terminal stays readable."""
        ...

    async def release(self) -> None:
        """``kill``, and forget the terminal."""
        ...


class Terminals(Protocol):
    """Commands with their output kept, as the Agent Client Protocol has them."""

    async def create(
        self,
        command: CommandSpec,
        *,
        head: int = 0,
        tail: int = 1_048_576,
        spill: PathLike | None = None,
    ) -> Terminal:
        """Start a command and keep the first ``head`` and the last ``tail`` bytes it prints.

        ``spill`` names a new file, outside of the roots if need be, that gets the whole output.
        Raises as ``Processes.spawn``.
        """
        ...

    def get(self, terminal_id: str) -> Terminal:
        """The terminal of this id.

        Raises:
            NoSuchTerminalError: The id is unknown or released.
        """
        ...


class System(Protocol):
    """The operating system as one session sees it."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that paths are confined to; the first is the working directory."""
        ...

    @property
    def files(self) -> Files:
        """Files inside the roots."""
        ...

    @property
    def processes(self) -> Processes:
        """Programs to talk with."""
        ...

    @property
    def terminals(self) -> Terminals:
        """Commands to watch."""
        ...
