"""Screens: workbenches that are open now, and calls that one of them carries out.

A screen is attached for as long as someone sits before it. Nothing of it is in the log: what a
person sees is no part of what happened.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import PurePath
from time import monotonic
from typing import Any

import msgspec

from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.tasks import start_task

from .api import WorkbenchHandler
from .errors import (
    FleetLimitError,
    NoWorkbenchError,
    WorkbenchCallError,
    WorkbenchGoneError,
    WorkbenchRefusedError,
    WorkbenchTimeoutError,
)

__all__ = [
    "MOST_BYTES",
    "MOST_SCREENS",
    "MOST_WAITING",
    "SECONDS",
    "AttachedWorkbench",
    "AttachedWorkbenches",
]

log = logging.getLogger(__name__)

SECONDS = 10.0
"""How long a screen may take; what needs a person answers at once that it waits for one."""
MOST_BYTES = 512 * 1024
"""The arguments of a call, and its result, as JSON."""
MOST_WAITING = 16
"""Calls that one screen may have under way."""
MOST_SCREENS = 64
_SHOWN = 2_000


class AttachedWorkbench:
    """One that is attached; what its client holds."""

    def __init__(self, handler: WorkbenchHandler, cwd: str, used: float) -> None:
        self.cwd = cwd
        """Without links."""
        self.used = used
        """When a person last did something there."""
        self.is_gone = False
        """No one is behind it any more, though it is not taken away yet."""
        self._handler = handler
        self._calls: set[asyncio.Future[Any]] = set()

    async def active(self, cwd: str | None = None) -> None:
        """A person has just done something; ``cwd``: the screen is about another directory now."""
        self.used = monotonic()
        if cwd is not None:
            self.cwd = await asyncio.to_thread(os.path.realpath, cwd)

    async def call(self, name: str, arguments: dict[str, Any], by: str, seconds: float) -> Any:
        """Let the screen do something.

        Raises:
            WorkbenchGoneError, WorkbenchTimeoutError, WorkbenchRefusedError, WorkbenchCallError: it
                did not.
        """
        if len(self._calls) >= MOST_WAITING:
            raise WorkbenchCallError(
                f"{MOST_WAITING} calls are waiting for the workbench; wait for some"
            )
        calling = start_task(self._call(name, arguments, by), name=f"workbench: {name}")
        self._calls.add(calling)
        calling.add_done_callback(self._done)
        try:
            done, _ = await asyncio.wait((calling,), timeout=seconds)
        finally:
            calling.cancel()
        if not done:
            raise WorkbenchTimeoutError(name, seconds)
        self.is_gone |= calling.cancelled() or isinstance(calling.exception(), LinkError)
        if self.is_gone:
            raise WorkbenchGoneError(name)
        return _result(name, calling)

    async def _call(self, name: str, arguments: dict[str, Any], by: str) -> Any:
        return await self._handler(name, arguments, by)

    def detach(self) -> None:
        """Give up what is under way: the screen is gone."""
        for calling in self._calls:
            calling.cancel()

    def _done(self, calling: asyncio.Future[Any]) -> None:
        self._calls.discard(calling)
        # Looked at here, because its caller may be gone: it would be reported as lost otherwise.
        if not calling.cancelled():
            calling.exception()


class AttachedWorkbenches:
    """Every screen of a fleet, and the choice between them."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._attached: list[AttachedWorkbench] = []

    def __len__(self) -> int:
        """How many are attached."""
        return sum(not one.is_gone for one in self._attached)

    @asynccontextmanager
    async def attach(
        self, handler: WorkbenchHandler, *, cwd: str, idle: float = 0.0
    ) -> AsyncGenerator[AttachedWorkbench]:
        """Have a screen until the end of the block; see ``Fleet.attach_screen``."""
        if len(self._attached) >= MOST_SCREENS:
            raise FleetLimitError(f"{MOST_SCREENS} workbenches are already attached; close some")
        real = await asyncio.to_thread(os.path.realpath, cwd)
        screen = AttachedWorkbench(handler, real, monotonic() - max(0.0, idle))
        self._attached.append(screen)
        try:
            yield screen
        finally:
            self._attached.remove(screen)
            screen.detach()

    async def call(
        self, name: str, arguments: dict[str, Any], *, by: str, cwd: str | None = None
    ) -> Any:
        """Let one screen do something; see ``Fleet.call_screen``.

        ``cwd``: where the caller works. A screen about that directory, or one above it, comes
        first; among equals the one that was used last.
        """
        _encoded(f"the arguments of {name!r}", arguments)
        real = await asyncio.to_thread(os.path.realpath, cwd) if cwd is not None else None
        there = [one for one in self._attached if not one.is_gone]
        if not there:
            raise NoWorkbenchError
        screen = max(there, key=lambda one: (_is_about(one, real), one.used))
        return await screen.call(name, arguments, by, self._seconds)


def _is_about(screen: AttachedWorkbench, cwd: str | None) -> bool:
    return cwd is not None and PurePath(cwd).is_relative_to(screen.cwd)


def _result(name: str, calling: asyncio.Future[Any]) -> Any:
    try:
        result = calling.result()
    except WorkbenchCallError:
        raise
    except (QuarterdeckError, ValueError) as error:
        raise WorkbenchRefusedError(str(error)[:_SHOWN]) from error
    except Exception as error:
        log.exception("a workbench failed at %r", name)
        raise WorkbenchCallError(
            f"the workbench failed at {name!r}: {str(error)[:_SHOWN]}"
        ) from error
    data = _encoded(f"what the workbench answers to {name!r}", result)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise WorkbenchCallError(
            f"what the workbench answers to {name!r} is not JSON: {error}"
        ) from error


def _encoded(what: str, value: object) -> bytes:
    try:
        data = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise WorkbenchCallError(f"{what} cannot be written as JSON: {error}") from error
    if len(data) > MOST_BYTES:
        raise WorkbenchCallError(f"{what} has {len(data)} bytes; the limit is {MOST_BYTES}")
    return data
