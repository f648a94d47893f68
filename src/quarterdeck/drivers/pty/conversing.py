"""One agent's turns through its screen: a prompt goes in, events come out."""

import asyncio
import logging
import time
from contextlib import suppress
from uuid import uuid4

from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.events import Event, Notice, PermissionAsked
from quarterdeck.wire.ids import RequestId, ToolCallId

from ..link import Host, Outcome, Verdict
from ..screen import Mark
from .answers import Lines, Said
from .knowledge import Knowledge
from .reading import Choice, Reading, Request
from .telling import Teller
from .watching import Watch

__all__ = ["Conversation"]

_log = logging.getLogger(__name__)

_PASTED = 0.08
"""Seconds that the screen must not change before a paste counts as taken."""
_PASTE_LIMIT = 20.0
_TAKEN_LIMIT = 3.0
"""Seconds after which a prompt that was not taken is sent once more."""
_CONFIRM_LIMIT = 2.0
"""Seconds within which a dialog must be gone after it was answered."""
_DIALOG_CALM = 0.4
_ATTEMPTS = 3
_STOP_PAUSE = 1.2
"""Seconds after which what stops a turn is pressed again."""
_TELL_PAUSE = 0.05
_LONGEST_TITLE = 300
_CALM_LINE = 0.25
"""Seconds without a change after which a line counts as written."""


class Conversation:
    """Turns, one after another."""

    def __init__(self, host: Host, knowledge: Knowledge, watch: Watch, lines: Lines) -> None:
        self._host = host
        self._knowledge = knowledge
        self._watch = watch
        self._lines = lines
        self._interrupted = False
        self._is_running = False
        self._telling = asyncio.Lock()
        self._asked: Request | None = None
        self._asking: asyncio.Task[None] | None = None

    async def turn(self, prompt: str) -> Outcome:
        """Run a turn to its end. Raises LinkError when the agent is gone."""
        self._interrupted, self._is_running = False, True
        screen = self._watch.terminal.screen
        mark = None if screen.modes.alternate_screen else screen.mark()
        teller = Teller(uuid4().hex[:12])
        try:
            before = self._lines.echoes(self._text(mark))
            if not await self._send(prompt, mark, before):
                return Outcome(stop="failed", reason="the agent did not take the prompt")
            return await self._listen(teller, mark, before)
        finally:
            self._is_running = False
            await self._drop_question()
            if mark is not None:
                mark.release()

    async def interrupt(self) -> None:
        """Press what stops a turn, until it has stopped."""
        self._interrupted = True
        while self._is_running:
            if self._watch.now.state == "asking":
                asking = self._knowledge.asking
                await self._press(asking.cancel if asking else self._knowledge.interrupt)
            elif self._watch.now.state != "ready":
                await self._press(self._knowledge.interrupt)
            with suppress(LinkError):
                await self._watch.until(lambda one: one.state == "ready", within=_STOP_PAUSE)
            await asyncio.sleep(0.05)

    # Sending

    async def _send(self, prompt: str, mark: Mark | None, before: int) -> bool:
        """Paste and submit; whether the agent has begun."""
        terminal = self._watch.terminal
        await terminal.paste(prompt)
        await self._watch.settled(_PASTED, within=_PASTE_LIMIT)
        for _ in range(2):
            if self._interrupted:
                return True
            await self._press(self._knowledge.submit)
            if await self._has_begun(mark, before):
                return True
        return False

    async def _has_begun(self, mark: Mark | None, before: int) -> bool:
        deadline = time.monotonic() + _TAKEN_LIMIT
        while time.monotonic() < deadline:
            if self._watch.now.state in ("busy", "asking"):
                return True
            if self._said(mark, before).began:
                return True
            await self._watch.step(0.1)
        return False

    # Listening

    async def _listen(self, teller: Teller, mark: Mark | None, before: int) -> Outcome:
        told: tuple[int, bool] | None = None
        while True:
            reading, calm = self._watch.now, self._watch.calm
            is_over = self._is_over(reading, calm)
            seen = self._watch.changes, calm >= _CALM_LINE
            if is_over or (seen != told and not self._watch.is_drawing):
                told = seen
                said = self._said(mark, before)
                await self._tell(teller.news(said, is_last=is_over, is_calm=seen[1]))
                if is_over:
                    return await self._end(teller, said)
            self._consider(teller, reading)
            await asyncio.sleep(_TELL_PAUSE)
            await self._watch.step(_TELL_PAUSE)

    def _is_over(self, reading: Reading, calm: float) -> bool:
        if reading.state != "ready" or self._asking is not None:
            return False
        return calm >= self._knowledge.calm

    async def _end(self, teller: Teller, said: Said) -> Outcome:
        await self._tell(teller.last())
        if self._interrupted:
            return Outcome(stop="cancelled")
        if said.failure:
            return Outcome(stop="failed", reason=said.failure)
        return Outcome(stop="end_turn")

    def _said(self, mark: Mark | None, before: int) -> Said:
        return self._lines.read(self._text(mark), before)

    def _text(self, mark: Mark | None) -> list[str]:
        """The lines since the mark, without what the agent draws around its prompt."""
        lines = self._watch.terminal.screen.text(mark)
        while lines and not lines[-1]:
            lines.pop()
        chrome = self._watch.now.chrome
        return lines[: len(lines) - chrome] if chrome else lines

    async def _tell(self, events: list[Event]) -> None:
        async with self._telling:
            for event in events:
                await self._host.emit(event)

    # Asking

    def _consider(self, teller: Teller, reading: Reading) -> None:
        """Have a request decided, once for each time that it is shown."""
        if self._asking is not None and self._asking.done():
            self._asking.result()
            self._asking = None
        if reading.state != "asking" or reading.request is None:
            if self._asking is None:
                self._asked = None
            return
        if self._asking is None and reading.request != self._asked:
            self._asked = reading.request
            self._asking = asyncio.create_task(self._ask(teller, reading.request))

    async def _ask(self, teller: Teller, request: Request) -> None:
        call, events = teller.asked(request)
        await self._tell(events)
        verdict = await self._host.permit(_question(request, call))
        await self._tell(teller.decided(call, verdict.allowed))
        choice = _chosen(request, verdict)
        asking = self._knowledge.asking
        keys = choice.keys if choice else asking.cancel if asking else ()
        if not await self._confirmed(request, keys):
            self._asked = None
            title = "The agent's screen still shows what was answered; it is asked again."
            await self._tell([Notice(title=title, severity="warning", description=request.title)])

    async def _confirmed(self, request: Request, keys: tuple[str, ...]) -> bool:
        """Press what answers a request until the screen shows that it was taken.

        Dialogs do not take keys that come as they appear, so that nobody answers by accident.
        """
        for _ in range(_ATTEMPTS):
            await self._watch.settled(_DIALOG_CALM, within=_CONFIRM_LIMIT)
            if self._watch.now.request != request:
                return True  # somebody else has answered it, or the turn was stopped
            above = self._above()
            await self._press(keys)
            await self._watch.until(
                lambda one, above=above: one.request != request or self._above() != above,
                within=_CONFIRM_LIMIT,
            )
            if self._watch.now.request != request:
                return True
            if self._above() != above:
                self._asked = None  # the same is asked again: nobody has answered that yet
                return True
        return False

    def _above(self) -> list[str]:
        """What is on the screen above the dialog."""
        rows = [row.text for row in self._watch.terminal.screen.rows()]
        while rows and not rows[-1]:
            rows.pop()
        return [row for row in rows[: len(rows) - self._watch.now.chrome] if row]

    async def _drop_question(self) -> None:
        asking, self._asking, self._asked = self._asking, None, None
        if asking is not None:
            asking.cancel()
            await asyncio.wait([asking])
            if not asking.cancelled() and (error := asking.exception()) is not None:
                _log.debug("a request for leave came to nothing: %s", error)

    async def _press(self, keys: tuple[str, ...]) -> None:
        """Press keys one after another; programs take what comes at once for a paste."""
        for number, key in enumerate(keys):
            if number:
                await asyncio.sleep(0.12)
            await self._watch.terminal.press(key)


def _question(request: Request, call: ToolCallId) -> PermissionAsked:
    match request.kind:
        case "execute":
            raw = {"command": request.detail.removeprefix("$ ")}
        case "edit":
            raw = {"file_path": request.subject, "content": request.detail}
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


def _chosen(request: Request, verdict: Verdict) -> Choice | None:
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
