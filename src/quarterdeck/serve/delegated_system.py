"""The client's files and terminals as the system that tools work on.

Files are the client's when it both reads and writes them, so that what stands unsaved in an
editor counts; commands are the client's when it has terminals. Everything else is this machine.
The tools do not know which.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from quarterdeck.agent.session_system import SessionSystem
from quarterdeck.policy.modes import Containment, SandboxState
from quarterdeck.system.api import (
    CommandSpec,
    Files,
    OutputView,
    PathLike,
    ProcessExit,
    Terminal,
    Terminals,
)
from quarterdeck.system.errors import (
    NoSuchDirectoryError,
    NoSuchPathError,
    NoSuchTerminalError,
    OperatingSystemError,
    SpawnError,
)
from quarterdeck.system.output import OutputFile, OutputRing, Utf8Decoder
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.errors import MalformedAnswerError
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.errors import QuarterdeckError, RpcError
from quarterdeck.wire.tasks import BackgroundTasks, start_task

from .delegated_files import DelegatedFiles, DelegationClient
from .handshake import EditorClient

__all__ = ["DelegatedSystem", "DelegatedTerminal", "DelegatedTerminals"]

_log = logging.getLogger(__name__)
_KEPT = 1_048_576
"""Bytes of output that the client is asked to keep; what is printed between two looks."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two looks at the output: few at the beginning, more for long commands."""
_PATIENCE = 0.4
"""Seconds to wait for a client that is asked to end a command."""
_PROBE, _TRIES, _FEWEST = 64, 1000, 4
"""Characters that are looked for, how often, and how few still count as the same output."""
_GAP = "\n[… some output is missing here …]\n"


class DelegatedTerminal:
    """The ``Terminal`` port on a terminal of the client. Made by ``DelegatedTerminals.create``.

    The client has no way to stream output: it is looked at now and then, and kept here.
    """

    def __init__(
        self, link: DelegationClient, id_: str, ring: OutputRing, spill: OutputFile | None
    ) -> None:
        self.id = id_
        self._link = link
        self._ring = ring
        self._spill = spill
        self._seen = ""
        self._exit: ProcessExit | None = None
        self._fault: OperatingSystemError | None = None
        self._is_released = False
        self._is_over = False
        self._changed = asyncio.Event()
        self._watching = start_task(self._watch(), name=f"terminal {id_}")

    async def output(self) -> OutputView:
        """What was printed so far."""
        if not self._is_over:
            with suppress(OperatingSystemError):
                await self._look()
        if self._spill is not None:
            await self._spill.flush()
        kept = self._ring.kept().at_characters()
        head, tail = kept.head, kept.tail
        if not kept.dropped:  # decoded as one: a character may lie across the border
            head, tail = head + tail, b""
        return OutputView(
            head=head.decode("utf-8", "replace"),
            dropped=kept.dropped,
            tail=tail.decode("utf-8", "replace"),
            total=self._ring.total,
            exit=self._exit,
        )

    def follow(self) -> AsyncIterator[str]:
        """The text from now on, until the command has left."""
        return self._follow(self._ring.total)

    async def wait(self) -> ProcessExit:
        """Wait until the command has left and its output is here.

        Raises:
            OperatingSystemError: the client does not know.
        """
        await asyncio.wait([self._watching])
        if self._exit is None:
            raise self._fault or OperatingSystemError(
                f"the exit status of terminal {self.id!r} is unknown"
            )
        return self._exit

    async def kill(self) -> None:
        """End the command; its output stays readable."""
        if self._is_over:
            return
        await self._tell(acp.TERMINAL_KILL, acp.KillTerminalRequest(**self._address))
        await asyncio.wait([self._watching], timeout=_PATIENCE)
        if not self._watching.done():
            self._exit = ProcessExit(signal="SIGKILL")
            await self._stop_watching()

    async def release(self) -> None:
        """End the command and let the client forget the terminal; may be called again."""
        if not self._is_released:
            self._is_released = True
            await self._stop_watching()
            await self._tell(acp.TERMINAL_RELEASE, acp.ReleaseTerminalRequest(**self._address))
        if self._spill is not None:
            await self._spill.close()

    @property
    def _address(self) -> dict[str, Any]:
        return {"session_id": self._link.session_id, "terminal_id": self.id}

    async def _follow(self, seen: int) -> AsyncIterator[str]:
        decoder = Utf8Decoder()
        while True:
            changed, is_last = self._changed, self._is_over
            missing, data = self._ring.since(seen)
            seen = self._ring.total
            mark = f"[… {missing} bytes …]" if missing else ""
            if text := mark + decoder.decode(data, final=is_last):
                yield text
            if is_last:
                return
            await changed.wait()

    async def _watch(self) -> None:
        request = acp.WaitForTerminalExitRequest(**self._address)
        ended = start_task(
            self._link.call(acp.TERMINAL_WAIT_FOR_EXIT, request), name=f"exit of {self.id}"
        )
        try:
            pause = _FIRST_PAUSE
            while not ended.done():
                await self._look()
                await asyncio.wait([ended], timeout=pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE)
            exit_ = _exit_of(ended.result())
            await self._look()
            self._exit = exit_
        except OperatingSystemError as error:
            self._fault = error
        except (RpcError, MalformedAnswerError) as error:
            self._fault = OperatingSystemError(
                f"the editor did not report how {self.id!r} ended: {error}"
            )
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
            self._is_over = True
            self._announce()

    async def _look(self) -> None:
        """Take in what is new of the output. Raises OperatingSystemError."""
        request = acp.TerminalOutputRequest(**self._address)
        try:
            answer = await self._link.call(acp.TERMINAL_OUTPUT, request)
        except (RpcError, MalformedAnswerError) as error:
            raise OperatingSystemError(
                f"the editor does not show terminal {self.id!r}: {error}"
            ) from error
        fresh = _fresh(self._seen, answer.output)
        self._seen = answer.output
        if fresh:
            data = fresh.encode("utf-8", "replace")
            self._ring.write(data)
            if self._spill is not None:
                self._spill.append(data)
            self._announce()

    async def _stop_watching(self) -> None:
        self._watching.cancel()
        await asyncio.wait([self._watching])
        self._is_over = True  # also if it was cancelled before it had begun
        self._announce()

    async def _tell(self, method: Method[Any, Any], params: Any) -> None:
        """Ask the client to end something; one that does not obey is let be."""
        try:
            await self._link.call(method, params, timeout=_PATIENCE)
        except (QuarterdeckError, TimeoutError) as error:
            _log.warning("terminal %s: %s failed: %s", self.id, method.name, error)

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class DelegatedTerminals:
    """The ``Terminals`` port on the client's terminals; ``files`` decides where one may run."""

    def __init__(self, link: DelegationClient, files: Files) -> None:
        self._link = link
        self._files = files
        self._open: dict[str, DelegatedTerminal] = {}
        self._given: set[str] = set()
        self._late = BackgroundTasks()
        """Tasks that clear away what a client makes too late."""

    def has_given(self, terminal_id: str) -> bool:
        """Whether the client made a terminal of this id, released or not."""
        return terminal_id in self._given

    async def create(
        self,
        command: CommandSpec,
        *,
        head: int = 0,
        tail: int = 1_048_576,
        spill: PathLike | None = None,
    ) -> DelegatedTerminal:
        """Start a command in a terminal of the client.

        Cancelled while the client has not answered: what it makes then is released.
        """
        program, *arguments = command.argv
        cwd = await self._directory(command)
        environment = {name: os.environ[name] for name in command.inherit if name in os.environ}
        request = acp.CreateTerminalRequest(
            session_id=self._link.session_id,
            command=program,
            args=tuple(arguments),
            env=tuple(
                acp.EnvVariable(name=name, value=value)
                for name, value in (environment | dict(command.env)).items()
            ),
            cwd=cwd,
            output_byte_limit=max(_KEPT, head + tail),
        )
        file = await OutputFile.open(spill) if spill is not None else None
        try:
            answer = await self._created(request)
        except BaseException as error:
            if file is not None:
                await file.close()
            if isinstance(error, (RpcError, MalformedAnswerError)):
                raise SpawnError(
                    program, f"The editor could not start {program!r}: {error}"
                ) from error
            raise
        ring = OutputRing(head=head, tail=tail)
        terminal = DelegatedTerminal(self._link, answer.terminal_id, ring, file)
        self._open[terminal.id] = terminal
        self._given.add(terminal.id)
        return terminal

    async def _created(self, request: acp.CreateTerminalRequest) -> acp.CreateTerminalResponse:
        asking = start_task(self._link.call(acp.TERMINAL_CREATE, request), name="a terminal")
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._late.start(self._clear(asking), name="a late terminal")
            raise

    async def _clear(self, asking: "asyncio.Future[acp.CreateTerminalResponse]") -> None:
        """Release a terminal that comes too late: else its command runs on without an owner."""
        try:
            answer = await asking
            request = acp.ReleaseTerminalRequest(
                session_id=self._link.session_id, terminal_id=answer.terminal_id
            )
            await self._link.call(acp.TERMINAL_RELEASE, request, timeout=_PATIENCE)
        except (QuarterdeckError, TimeoutError) as error:
            _log.warning("a terminal opened too late: %s", error)

    def get(self, terminal_id: str) -> DelegatedTerminal:
        """The terminal of this id."""
        try:
            return self._open[terminal_id]
        except KeyError:
            raise NoSuchTerminalError(terminal_id) from None

    async def close(self) -> None:
        """Release every terminal, all at once."""
        terminals, self._open = self._open, {}
        await asyncio.gather(*(terminal.release() for terminal in terminals.values()))
        await self._late.close(_PATIENCE)

    async def _directory(self, command: CommandSpec) -> str:
        """Where the command runs. Raises OutsideRootsError, NoSuchDirectoryError."""
        place = "." if command.cwd is None else os.fspath(command.cwd)
        try:
            found = await self._files.stat(place)
        except NoSuchPathError as error:
            raise NoSuchDirectoryError(command.argv[0], place) from error
        if found.kind != "directory":
            raise NoSuchDirectoryError(command.argv[0], place)
        return found.path


def _fresh(seen: str, output: str) -> str:
    """What was printed after ``seen``; the client drops the beginning of a long output."""
    if output.startswith(seen):
        return output[len(seen) :]
    shared = _overlap(seen, output)
    return output[shared:] if shared else _GAP + output


def _overlap(seen: str, output: str) -> int:
    """How many characters the end of ``seen`` and the beginning of ``output`` have in common."""
    probe = output[:_PROBE]
    at = seen.find(probe)
    for _ in range(_TRIES):
        if at < 0:
            break
        if output.startswith(seen[at:]):
            return len(seen) - at
        at = seen.find(probe, at + 1)
    few = range(min(len(seen), _PROBE), _FEWEST - 1, -1)
    return next((count for count in few if output.startswith(seen[-count:])), 0)


def _exit_of(answer: acp.WaitForTerminalExitResponse) -> ProcessExit:
    if answer.signal is not None:
        return ProcessExit(signal=answer.signal)
    if answer.exit_code is not None:
        return ProcessExit(code=answer.exit_code)
    return ProcessExit(signal="SIGTERM")  # a client that names neither has ended it


class DelegatedSystem:
    """A system whose files, terminals or both are the client's.

    A sandbox of ours cannot hold what the client runs: a command that has to be contained runs
    here.
    """

    def __init__(self, link: DelegationClient, inner: SessionSystem, client: EditorClient) -> None:
        self.roots = inner.roots
        self.processes = inner.processes
        self._inner = inner
        self._theirs = DelegatedTerminals(link, inner.files) if client.has_terminals else None
        self.files: Files = DelegatedFiles(link, inner) if client.edits_files else inner.files

    @property
    def terminals(self) -> Terminals:
        """Where commands run that nothing contains."""
        return self._inner.terminals if self._theirs is None else self._theirs

    def terminals_for(self, containment: Containment) -> Terminals:
        """Where a command runs that was permitted so; the client's terminals contain nothing."""
        return self.terminals if containment == "none" else self._inner.terminals_for(containment)

    def runs(self, terminal_id: str) -> bool:
        """Whether this is a terminal of the client."""
        return self._theirs is not None and self._theirs.has_given(terminal_id)

    async def sandbox(self) -> SandboxState:
        """What can contain the commands that run here."""
        return await self._inner.sandbox()

    async def close(self) -> None:
        """End everything that runs, there and here."""
        try:
            if self._theirs is not None:
                await self._theirs.close()
        finally:
            await self._inner.close()


if TYPE_CHECKING:

    def _check(
        system: DelegatedSystem, terminals: DelegatedTerminals
    ) -> tuple[SessionSystem, Terminals]:
        return system, terminals

    async def _check_terminal(
        terminals: DelegatedTerminals, command: CommandSpec, spill: PathLike
    ) -> Terminal:
        return await terminals.create(command, spill=spill)

    _checked = (_check, _check_terminal)
