"""Requests for leave that an agent's screen shows: put to the gate, answered by keys.

Each is asked once for each time that it is shown. Keys are pressed only into the dialog that they
are meant for, as long as it is there: a person may have answered it on the screen meanwhile.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import uuid4

from quarterdeck.policy.foreign_calls import UNSEEN
from quarterdeck.wire.events import Event, NoticePosted, PermissionAsked
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.tasks import start_task

from ..link import LinkHost, PermissionVerdict
from .events import TurnEvents
from .patterns import RequestPatterns
from .reader import RequestChoice, TerminalReading, TerminalRequest, TerminalWatcher

__all__ = ["PtyRequestHandler"]

_log = logging.getLogger(__name__)

_CONFIRM_LIMIT = 2.0
"""Seconds within which a dialog must be gone after it was answered."""
_DIALOG_CALM = 0.4
_DRAWN_CALM = 0.15
"""Seconds without a change after which a dialog counts as drawn: half a command is another one."""
_ATTEMPTS = 3
_GONE = 0.4
"""Seconds that a screen must show something else before somebody counts as having answered."""
_KEY_PAUSE = 0.12
"""Seconds between two keys: programs take what comes at once for a paste."""
_LONGEST_TITLE = 300
_UNSEEN = "the screen leaves a part out, or may have broken a line in two"


class PtyRequestHandler:
    """The requests of one agent, at most one at a time."""

    def __init__(
        self,
        host: LinkHost,
        asking: RequestPatterns | None,
        watch: TerminalWatcher,
        tell: Callable[[list[Event]], Awaitable[None]],
    ) -> None:
        self._host = host
        self._asking = asking
        self._watch = watch
        self._tell = tell
        self._asked: TerminalRequest | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether one is being decided or answered."""
        return self._task is not None

    def consider(self, events: TurnEvents, reading: TerminalReading) -> None:
        """Have what is asked decided, once for each time that it is shown.

        Raises:
            LinkError: the agent has left while it was.
        """
        if self._task is not None and self._task.done():
            done, self._task = self._task, None
            done.result()
        if reading.state != "asking" or reading.request is None:
            if self._task is None and reading.state != "unknown":
                self._asked = None
            return
        if self._task is None and reading.request != self._asked:
            self._asked = reading.request
            self._task = start_task(self._ask(events), name="pty: permission request")

    async def drop(self) -> None:
        """Take back what is open."""
        task, self._task, self._asked = self._task, None, None
        if task is not None:
            await _ended(task)

    async def _drawn(self) -> TerminalRequest | None:
        """The request once its dialog is drawn to the end; None: it has left again."""
        request, since = self._watch.now.request, time.monotonic()
        deadline = since + _CONFIRM_LIMIT
        while request is not None and (now := time.monotonic()) < deadline:
            if now - since >= _DRAWN_CALM and _is_whole(request):
                break
            await self._watch.step(_DRAWN_CALM)
            if (shown := self._watch.now.request) != request:
                request, since = shown, time.monotonic()
        return request

    async def _ask(self, events: TurnEvents) -> None:
        request = self._asked = await self._drawn()
        if request is None:
            return
        call, asked = events.asked(request)
        await self._tell(asked)
        verdict = await self._verdict(request, call)
        if verdict is None:
            self._asked = None
            title = "It was answered in the agent's terminal."
            await self._tell(
                [NoticePosted(title=title, severity="info", description=request.title)]
            )
            return
        await self._tell(events.decided(call, verdict.allowed))
        is_taken = await self._confirmed(request, _chosen(request, verdict))
        self._asked = None  # what is shown from now on is another one, although it looks the same
        if not is_taken:
            title = "The agent's terminal did not accept the answer; its dialog is shown again."
            await self._tell(
                [NoticePosted(title=title, severity="warning", description=request.title)]
            )

    async def _verdict(
        self, request: TerminalRequest, call: ToolCallId
    ) -> PermissionVerdict | None:
        """What was decided; None when somebody has answered it on the screen before."""
        permitting = self._host.permit(_question(request, call))
        deciding = start_task(permitting, name="pty: decision")
        leaving = start_task(self._left(request), name="pty: dialog")
        try:
            await asyncio.wait([deciding, leaving], return_when=asyncio.FIRST_COMPLETED)
            if deciding.done():
                return deciding.result()
            leaving.result()
            return None
        finally:
            await _ended(leaving)
            await _ended(deciding)

    async def _left(self, request: TerminalRequest) -> None:
        """Wait until a dialog has left the screen; a screen that nobody can read is no sign."""
        since: float | None = None
        while since is None or time.monotonic() - since < _GONE:
            reading = self._watch.now
            if reading.state == "unknown" or reading.request == request:
                since = None
            elif since is None:
                since = time.monotonic()
            await self._watch.step(0.1)

    async def _confirmed(self, request: TerminalRequest, choice: RequestChoice | None) -> bool:
        """Press what answers a request until the screen shows that it was taken.

        Dialogs do not take keys that come as they appear, so that nobody answers by accident.
        """
        for _ in range(_ATTEMPTS):
            await self._watch.settled(_DIALOG_CALM, within=_CONFIRM_LIMIT)
            await self._watch.until(lambda one: one.state != "unknown", within=_CONFIRM_LIMIT)
            if self._watch.now.request != request:
                # Somebody else has answered it, or the turn was stopped; or nobody can tell.
                return self._watch.now.state != "unknown"
            above = self._above()
            await self._press(request, choice)
            if await self._watch.until(partial(self._is_taken, request, above), _CONFIRM_LIMIT):
                return True
        return False

    def _is_taken(
        self, request: TerminalRequest, above: list[str], reading: TerminalReading
    ) -> bool:
        """Something else is shown; or the same is asked again, below more than before."""
        if reading.state == "unknown":
            return False
        return reading.request != request or self._above() != above

    async def _press(self, request: TerminalRequest, choice: RequestChoice | None) -> None:
        """Press the keys of a choice, as they are now, as long as the dialog is there."""
        now = self._watch.now.request
        if now != request or now is None:
            return
        keys = self._asking.cancel if self._asking else ()
        if choice is not None:
            keys = next(one.keys for one in now.choices if one == choice)
        for number, key in enumerate(keys):
            if number:
                await asyncio.sleep(_KEY_PAUSE)
                if self._watch.now.state != "asking":
                    return
            await self._watch.terminal.press(key)

    def _above(self) -> list[str]:
        """What is on the screen above the dialog."""
        rows = [row.text for row in self._watch.terminal.screen.rows()]
        while rows and not rows[-1]:
            rows.pop()
        return [row for row in rows[: len(rows) - self._watch.now.chrome] if row]


async def _ended(task: asyncio.Task[Any]) -> None:
    """Cancel it and wait for its end; what went wrong in it has been told, or nobody waits."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.debug("a permission request was not answered: %s", error)


def _is_whole(request: TerminalRequest) -> bool:
    """Whether what it is about can be read: a command that is to run is shown."""
    return request.kind != "execute" or bool(request.detail.removeprefix("$ ").strip())


def _question(request: TerminalRequest, call: ToolCallId) -> PermissionAsked:
    match request.kind:
        case "execute":
            raw: dict[str, Any] = {"command": request.detail.removeprefix("$ ")}
            if not request.is_certain:
                raw[UNSEEN] = _UNSEEN
        case "edit":
            raw = {"content": request.detail}
            if request.files:
                raw["paths"] = list(request.files)
        case _:
            raw = {"detail": request.detail}
    shown = " ".join(f"{request.title} {request.subject} {request.detail}".split())
    return PermissionAsked(
        request=RequestId(uuid4().hex),
        call=call,
        title=shown[:_LONGEST_TITLE],
        options=tuple(choice.option for choice in request.choices),
        kind=request.kind,
        name="bash" if request.kind == "execute" else None,
        raw_input=raw,
    )


def _chosen(request: TerminalRequest, verdict: PermissionVerdict) -> RequestChoice | None:
    """The option that says what was decided; None: cancel, as also when nothing fits."""
    if verdict.cancelled:
        return None
    kinds = ("allow_once", "allow_always") if verdict.allowed else ("reject_once", "reject_always")
    for choice in request.choices:
        if choice.option.option_id == verdict.option:
            return choice
    for kind in kinds[:1] if verdict.allowed else kinds:
        for choice in request.choices:
            if choice.option.kind == kind:
                return choice
    return None
