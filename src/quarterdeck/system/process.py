"""Commands of this machine with byte streams, and nothing of them left behind.

The pipes of a child are read and written straight from the event loop. Nothing is buffered here:
the pipe of the operating system is the buffer, so that a child is held back when no task receives
and we are when it does not read. No thread is needed.
"""

import array
import asyncio
import fcntl
import logging
import os
import termios
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from quarterdeck.system.api import CommandSpec, EndingDeadlines, Process, Processes, ProcessExit
from quarterdeck.system.errors import StillRunningError
from quarterdeck.system.output import OutputRing, Utf8Decoder
from quarterdeck.system.paths import Roots
from quarterdeck.system.process_exit import ExitWatch, end_tree, kill_group, reap_child
from quarterdeck.system.process_guard import ProcessGuard, shared_guard
from quarterdeck.system.process_tree import ProcessTree
from quarterdeck.system.spawn import Confinement, Input, StartedChild, start_child
from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError, LinkClosedError
from quarterdeck.wire.tasks import BackgroundTasks, start_task

__all__ = [
    "CHUNK",
    "LocalProcess",
    "LocalProcesses",
    "PipeReader",
    "PipeWriter",
    "spawn",
    "start_in_thread",
    "wait_for_endings",
]

CHUNK = 262_144
"""Most bytes that are taken from or given to a pipe at once."""


class _Pipe:
    """One end of a pipe and the one task that may wait for it."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._is_watched = False

    @property
    def is_open(self) -> bool:
        """We hold our end."""
        return self._descriptor >= 0

    async def _ready(self, add: Callable[..., object], remove: Callable[[int], object]) -> None:
        """Wait until the pipe is ready, or someone calls ``_wake``."""
        waiter = self._waiter = self._loop.create_future()
        if not self._is_watched:
            self._is_watched = True
            add(self._descriptor, self._notice, remove)
        try:
            await waiter
        finally:
            self._waiter = None

    def _notice(self, remove: Callable[[int], object]) -> None:
        """The pipe is ready. It stays watched as long as someone waits each time it is."""
        if self._waiter is None or self._waiter.done():
            self._is_watched = False
            if self._descriptor >= 0:
                remove(self._descriptor)
        else:
            self._waiter.set_result(None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _release(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
            os.close(descriptor)
        self._wake()


class PipeReader(_Pipe):
    """What a child prints.

    The child's own last bytes are never lost, and never waited for in vain: when it leaves,
    ``child_left`` notes how much is in the pipe. With ``ends_with_child`` the stream ends after
    that much even if a grandchild still holds the other end; without, it goes on until all have
    closed it, and ``caught_up`` tells when that much has been consumed.
    """

    def __init__(self, descriptor: int, *, ends_with_child: bool) -> None:
        super().__init__(descriptor)
        self._ends_with_child = ends_with_child
        self._received = 0
        self._due: int | None = None
        self._rest = b""
        self._is_closed = False
        self._has_caught_up = asyncio.Event()

    async def receive(self) -> bytes:
        """The next bytes; ``b""`` at the end, and again after it.

        Raises:
            LinkClosedError: ``close`` was called.
            LinkBusyError: Another task is receiving.
        """
        if self._waiter is not None:
            raise LinkBusyError("Two tasks receive from the same process. Use only one.")
        while True:
            if self._is_closed:
                raise LinkClosedError("The output of the process is already closed.")
            if self._due is not None and self._received >= self._due:
                self._has_caught_up.set()
                if self._ends_with_child:
                    self._release()
            if self._descriptor < 0:
                rest, self._rest = self._rest, b""
                return rest
            data = self._read()
            if data is not None:
                return data
            await self._ready(self._loop.add_reader, self._loop.remove_reader)

    def _read(self) -> bytes | None:
        """Bytes, nothing at the end, None when there are none yet."""
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._release()
            self._has_caught_up.set()
        self._received += len(data)
        return data

    def child_left(self) -> None:
        """The child is gone: what it wrote is in the pipe, all of it."""
        if self._descriptor < 0:
            self._has_caught_up.set()
            return
        waiting = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, waiting)
        self._due = self._received + waiting[0]
        self._wake()

    async def caught_up(self) -> None:
        """Wait until all that the child wrote before it left was received and dealt with."""
        await self._has_caught_up.wait()

    def absorb(self) -> None:
        """Take what is left in the pipe into memory and close our end; it stays receivable."""
        pieces = [self._rest]
        while self._descriptor >= 0 and (piece := self._read()):
            pieces.append(piece)
        self._rest = b"".join(pieces)
        self._release()

    def close(self) -> None:
        """Close our end; what is in the pipe is dropped."""
        self._is_closed = True
        self._has_caught_up.set()
        self._release()


class PipeWriter(_Pipe):
    """What a child reads."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._is_sending = False
        self._broken = ""

    async def send(self, data: bytes) -> None:
        """Write all of ``data``; waits while the child does not read.

        Raises:
            LinkClosedError: We closed our end, before or meanwhile.
            LinkBrokenError: The child closed its end or left, or an earlier send was cancelled half
                way.
            LinkBusyError: Another task is sending.
        """
        if self._is_sending:
            raise LinkBusyError("Two tasks send to the same process. Use only one.")
        self._is_sending = True
        left = memoryview(data)
        try:
            while left:
                left = left[await self._write(left) :]
        except asyncio.CancelledError:
            if len(left) < len(data):
                self._broken = "an earlier message was cut off half way"
            raise
        finally:
            self._is_sending = False

    async def _write(self, data: memoryview) -> int:
        while True:
            if self._broken:
                raise LinkBrokenError(f"Cannot write to the process: {self._broken}.")
            if self._descriptor < 0:
                raise LinkClosedError("The input of the process is already closed.")
            try:
                return os.write(self._descriptor, data[:CHUNK])
            except BlockingIOError:
                await self._ready(self._loop.add_writer, self._loop.remove_writer)
            except OSError:
                self._broken = "it closed its input"

    def child_left(self) -> None:
        """The child is gone: no one is waited for any more."""
        self._broken = self._broken or "it has exited"
        self._wake()

    def close(self) -> None:
        """Close our end; what a waiting ``send`` still held is dropped."""
        self._release()


_log = logging.getLogger(__name__)
_STDERR_KEPT = 65_536


class LocalProcess:
    """The ``Process`` port on this machine. Made by ``spawn``; end it, or use ``async with``."""

    def __init__(
        self,
        started: StartedChild,
        guard: ProcessGuard,
        *,
        ends_with_child: bool = True,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> None:
        self._tree = started.tree
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._stdin = PipeWriter(started.stdin) if started.stdin >= 0 else None
        self._stdout = PipeReader(started.stdout, ends_with_child=ends_with_child)
        self._stderr_ring = OutputRing(tail=_STDERR_KEPT)
        self._stderr: PipeReader | None = None
        self._drain: asyncio.Task[None] | None = None
        if started.stderr >= 0:
            self._stderr = PipeReader(started.stderr, ends_with_child=False)
            draining = self._drain_stderr(self._stderr, on_stderr)
            self._drain = start_task(draining, name=f"stderr of {self.pid}")
        self._left: asyncio.Future[ProcessExit] = self._loop.create_future()
        self._ending: asyncio.Task[ProcessExit] | None = None
        self._watch = ExitWatch(self._tree.pid, self._child_left)

    def __repr__(self) -> str:
        return f"<LocalProcess {self.pid} {self.exit or 'running'}>"

    async def __aenter__(self) -> "LocalProcess":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.end()

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._tree.pid

    @property
    def tree(self) -> ProcessTree:
        """What the child and its descendants are recognised by."""
        return self._tree

    @property
    def exit(self) -> ProcessExit | None:
        """How the child ended; None while it runs."""
        return self._left.result() if self._left.done() else None

    @property
    def has_ended(self) -> bool:
        """Nothing of the tree is left, and everything of ours is released."""
        return (
            self._ending is not None and self._ending.done() and not self._has_failed(self._ending)
        )

    async def receive(self) -> bytes:
        """The next bytes of standard output."""
        return await self._stdout.receive()

    async def send(self, data: bytes) -> None:
        """Write to standard input."""
        if self._stdin is None:
            raise LinkClosedError("The process was started without an input.")
        try:
            await self._stdin.send(data)
        except LinkBrokenError as error:
            raise self._with_exit(error) from error

    def close_input(self) -> None:
        """Close standard input."""
        if self._stdin is not None:
            self._stdin.close()

    async def close(self) -> None:
        """Close standard input and output; the child runs on."""
        self.close_input()
        self._stdout.close()

    def stderr(self) -> str:
        """The last part of standard error so far."""
        return Utf8Decoder().decode(self._stderr_ring.kept().at_characters().tail, final=True)

    @property
    def stderr_total(self) -> int:
        """Bytes written to standard error so far."""
        return self._stderr_ring.total

    async def wait(self) -> ProcessExit:
        """Wait until the child has left and its standard error is read."""
        left = await asyncio.shield(self._left)
        if self._stderr is not None:
            await self._stderr.caught_up()
        return left

    async def caught_up(self) -> None:
        """Wait until what the child wrote to standard output before it left was received."""
        await self._stdout.caught_up()

    async def end(self, ending: EndingDeadlines | None = None) -> ProcessExit:
        """End the child and everything that it started."""
        if self._ending is None or (self._ending.done() and self._has_failed(self._ending)):
            work = self._end(ending or EndingDeadlines())
            self._ending = start_task(work, name=f"end of {self.pid}")
        return await asyncio.shield(self._ending)

    async def _end(self, ending: EndingDeadlines) -> ProcessExit:
        try:
            await end_tree(self._tree, ending, self.close_input, self.wait)
            left = await self.wait()
        except asyncio.CancelledError:
            kill_group(self.pid)  # the loop is closing; the watchdog sees to the rest
            self._release()
            raise
        self._release()
        reap_child(self.pid)  # only now: its group was its own until nothing was left
        await asyncio.to_thread(self._guard.gone, self._tree.mark)
        return left

    def _release(self) -> None:
        self._watch.stop()
        self.close_input()
        self._stdout.absorb()
        if self._stderr is not None and self._drain is not None:
            self._drain.cancel()
            self._stderr.close()

    def _child_left(self, how: ProcessExit) -> None:
        self._left.set_result(how)
        for pipe in (self._stdin, self._stdout, self._stderr):
            if pipe is not None:
                pipe.child_left()

    async def _drain_stderr(
        self, pipe: PipeReader, on_stderr: Callable[[bytes], None] | None
    ) -> None:
        while data := await pipe.receive():
            self._stderr_ring.write(data)
            try:
                if on_stderr is not None:
                    on_stderr(data)
            except Exception:  # an observer's fault must not block the child on a full pipe
                _log.exception("An observer of %r failed and is not called again.", self)
                on_stderr = None

    def _with_exit(self, error: LinkBrokenError) -> LinkBrokenError:
        left = self.exit or ProcessExit()
        return LinkBrokenError(
            error.reason, exit_code=left.code, signal=left.signal, stderr=self.stderr()
        )

    @staticmethod
    def _has_failed(task: asyncio.Task[ProcessExit]) -> bool:
        return task.cancelled() or task.exception() is not None


async def spawn(
    command: CommandSpec,
    *,
    roots: Roots | None = None,
    guard: ProcessGuard | None = None,
    stdin: Input = "pipe",
    merged: bool = False,
    ends_with_child: bool = True,
    on_stderr: Callable[[bytes], None] | None = None,
    confinement: Confinement | None = None,
) -> LocalProcess:
    """Start a command; without ``roots`` its working directory can be anywhere.

    ``merged`` puts standard error into standard output. ``on_stderr`` gets each piece of standard
    error as it comes, in the loop; it must not block or raise.

    Raises:
        SpawnError, PathError: As the port says. Nothing is left behind, also when cancelled.
    """
    guard = guard or shared_guard()
    starting = partial(
        start_child, command, roots, guard, stdin=stdin, merged=merged, confinement=confinement
    )
    started = await start_in_thread(starting, guard)
    return LocalProcess(started, guard, ends_with_child=ends_with_child, on_stderr=on_stderr)


async def start_in_thread(
    start_it: Callable[[], StartedChild], guard: ProcessGuard
) -> StartedChild:
    """Start a child in a thread; when cancelled meanwhile, nothing is left behind."""
    starting = start_task(asyncio.to_thread(start_it), name="start a process")
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _undoings.finish(_undo(starting, guard), name="end a process that is not wanted")
        raise


_undoings = BackgroundTasks()
"""Held here because a caller that is cancelled a second time does not hold them."""


async def _undo(starting: asyncio.Future[StartedChild], guard: ProcessGuard) -> None:
    """End a child whose start was cancelled; its thread cannot be stopped."""
    await asyncio.wait([starting])
    if not starting.cancelled() and starting.exception() is None:
        await LocalProcess(starting.result(), guard).end(EndingDeadlines(ask=0, terminate=0))


async def wait_for_endings(endings: Iterable[Awaitable[object]]) -> None:
    """Wait for every ending, whatever happens to the others; then raise what survived.

    Raises:
        StillRunningError: With the ids of all processes that are left.
    """
    results = await asyncio.gather(*endings, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    survivors = [
        pid for error in failed if isinstance(error, StillRunningError) for pid in error.pids
    ]
    for error in failed:
        if not isinstance(error, StillRunningError):
            raise error
    if survivors:
        raise StillRunningError(survivors)


class LocalProcesses:
    """The ``Processes`` port on this machine; knows its processes and can end them all."""

    def __init__(self, roots: Roots | None = None, *, guard: ProcessGuard | None = None) -> None:
        self._roots = roots
        self._guard = guard
        self._started: set[LocalProcess] = set()

    async def spawn(self, command: CommandSpec) -> LocalProcess:
        """Start a command."""
        process = await spawn(command, roots=self._roots, guard=self._guard)
        self._started = {one for one in self._started if not one.has_ended}
        self._started.add(process)
        return process

    async def close(self) -> None:
        """End every process that was started here, all at once. Raises StillRunningError."""
        await wait_for_endings([process.end() for process in self._started])
        self._started.clear()


if TYPE_CHECKING:
    _processes: Processes = LocalProcesses()
    _process: Process = LocalProcess(
        StartedChild(tree=ProcessTree(""), stdin=0, stdout=0, stderr=0), ProcessGuard()
    )
