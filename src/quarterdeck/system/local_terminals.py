"""Commands of this machine that are watched, not talked with: output kept, both streams merged.

These are plain pipes. A pseudo-terminal would be another source of the same bytes.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from quarterdeck.system.api import (
    CommandSpec,
    EndingDeadlines,
    OutputView,
    PathLike,
    ProcessExit,
    Terminal,
    Terminals,
)
from quarterdeck.system.errors import NoSuchTerminalError
from quarterdeck.system.output import OutputFile, OutputRing, Utf8Decoder
from quarterdeck.system.paths import Roots
from quarterdeck.system.process import LocalProcess, spawn, wait_for_endings
from quarterdeck.system.process_guard import ProcessGuard
from quarterdeck.system.spawn import Confinement
from quarterdeck.wire.tasks import start_task

__all__ = ["LocalTerminal", "LocalTerminals"]

_ENDING = EndingDeadlines(ask=0, terminate=0.3, kill=5)


class LocalTerminal:
    """The ``Terminal`` port on this machine. Made by ``LocalTerminals.create``."""

    def __init__(
        self,
        process: LocalProcess,
        ring: OutputRing,
        spill: OutputFile | None,
        owner: "LocalTerminals",
    ) -> None:
        self.id = f"term-{secrets.token_hex(8)}"
        self._process = process
        self._ring = ring
        self._spill = spill
        self._owner = owner
        self._changed = asyncio.Event()
        self._has_settled = False
        self._pump = start_task(self._collect(), name=f"output of {id}")

    def __repr__(self) -> str:
        return f"<LocalTerminal {self.id} {self._process!r}>"

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._process.pid

    @property
    def spill_problem(self) -> str:
        """Why the spill file does not hold everything; empty if it does, or there is none."""
        return self._spill.problem if self._spill is not None else ""

    async def output(self) -> OutputView:
        """What was printed so far."""
        if self._spill is not None:
            await self._spill.flush()
        kept = self._ring.kept().at_characters()
        if kept.dropped:
            head, tail = _text(kept.head), _text(kept.tail)
        else:  # decoded as one: a character may lie across the border
            head, tail = _text(kept.head + kept.tail), ""
        return OutputView(
            head=head,
            dropped=kept.dropped,
            tail=tail,
            total=self._ring.total,
            exit=self._process.exit if self._has_settled else None,
        )

    def follow(self) -> AsyncIterator[str]:
        """The text from now on, until the command has left."""
        return self._follow(self._ring.total)  # "now" is the call, not the first step

    async def _follow(self, seen: int) -> AsyncIterator[str]:
        decoder = Utf8Decoder()
        while True:
            changed = self._changed
            missing, data = self._ring.since(seen)
            seen = self._ring.total
            if missing:
                yield decoder.decode(b"", final=True) + f"[… {missing} bytes …]"
            is_last = self._has_settled or self._pump.done()
            if text := decoder.decode(data, final=is_last):
                yield text
            if is_last:
                return
            await changed.wait()

    async def wait(self) -> ProcessExit:
        """Wait until the command has left and its output is here."""
        left = await self._process.wait()
        await self._process.caught_up()
        if not self._has_settled:
            self._has_settled = True
            self._announce()
        return left

    async def kill(self) -> None:
        """End the command and everything it started."""
        await self._process.end(_ENDING)
        await asyncio.shield(self._pump)
        await self.wait()

    async def release(self) -> None:
        """End everything, close the spill file and forget the terminal; may be called again."""
        self._owner.forget(self)
        await self.kill()
        if self._spill is not None:
            await self._spill.close()

    async def _collect(self) -> None:
        """Take in all that is printed, also by what the command left running, to the end."""
        settle = start_task(self.wait(), name=f"exit of {self.id}")
        try:
            while data := await self._process.receive():
                self._ring.write(data)
                self._announce()
                if self._spill is not None:
                    self._spill.append(data)
                    if self._spill.is_full:
                        await self._spill.flush()
        finally:
            self._announce()
        await settle

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class LocalTerminals:
    """The ``Terminals`` port on this machine."""

    def __init__(self, roots: Roots | None = None, *, guard: ProcessGuard | None = None) -> None:
        self._roots = roots
        self._guard = guard
        self._open: dict[str, LocalTerminal] = {}

    async def create(
        self,
        command: CommandSpec,
        *,
        head: int = 0,
        tail: int = 1_048_576,
        spill: PathLike | None = None,
        confinement: Confinement | None = None,
    ) -> LocalTerminal:
        """Start a command and keep what it prints."""
        ring = OutputRing(head=head, tail=tail)
        file = await OutputFile.open(spill) if spill is not None else None
        try:
            process = await spawn(
                command,
                roots=self._roots,
                guard=self._guard,
                stdin="nothing",
                merged=True,
                ends_with_child=False,
                confinement=confinement,
            )
        except BaseException:
            if file is not None:
                await file.close()
            raise
        terminal = LocalTerminal(process, ring, file, self)
        self._open[terminal.id] = terminal
        return terminal

    def get(self, terminal_id: str) -> LocalTerminal:
        """The terminal of this id."""
        try:
            return self._open[terminal_id]
        except KeyError:
            raise NoSuchTerminalError(terminal_id) from None

    def forget(self, terminal: LocalTerminal) -> None:
        """Take a terminal off the list; ``release`` does this."""
        self._open.pop(terminal.id, None)

    async def close(self) -> None:
        """Release every terminal, all at once. Raises StillRunningError."""
        await wait_for_endings([terminal.release() for terminal in self._open.values()])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


if TYPE_CHECKING:

    async def _check(terminals: LocalTerminals) -> tuple[Terminals, Terminal]:
        return terminals, await terminals.create(CommandSpec(argv=()))

    _checked = _check
