"""One agent's turns through its screen: prompts go in, events come out, requests are answered.

Each is asked once for each time that it is shown. Keys are pressed only into the dialog that they
are meant for, as long as it is there: a person may have answered it on the screen meanwhile.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from quarterdeck.policy.foreign_calls import UNSEEN
from quarterdeck.terminal.emulator import Color, RowMark
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.events import Event, NoticePosted, PermissionAsked
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.tasks import start_task

from ..link import LinkHost, PermissionVerdict, TurnOutcome
from .events import TextBeforeTurn, TurnEvents, TurnText, TurnTextFinder
from .patterns import RequestPatterns, TerminalPatterns
from .reader import RequestChoice, TerminalReading, TerminalRequest, TerminalWatcher

__all__ = ["PtyConversation", "PtyRequestHandler"]

_log = logging.getLogger(__name__)

_CONFIRM_LIMIT = 2.0
"""Seconds within which a dialog must be gone after it was answered."""
_REQUEST_CALM = 0.4
_DRAWN_CALM = 0.15
"""Seconds without a change after which a dialog counts as drawn: half a command is another one."""
_ATTEMPTS = 3
_GONE = 0.4
"""Seconds that a screen must show something else before someone counts as having answered."""
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
        """What was decided; None when someone has answered it on the screen before."""
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
        """Wait until a dialog has left the screen; a screen that no one can read is no sign."""
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

        Dialogs do not take keys that come as they appear, so that no one answers by accident.
        """
        for _ in range(_ATTEMPTS):
            await self._watch.settled(_REQUEST_CALM, within=_CONFIRM_LIMIT)
            await self._watch.until(lambda one: one.state != "unknown", within=_CONFIRM_LIMIT)
            if self._watch.now.request != request:
                # Someone else has answered it, or the turn was stopped; or no one can tell.
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
    """Cancel it and wait for its end; what went wrong in it has been reported, or no one waits."""
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


_PASTED = 0.08
"""Seconds that the screen must not change before a paste counts as taken."""
_PASTE_LIMIT = 20.0
_SHOWN_LIMIT = 10.0
"""Seconds within which a paste is to be seen; a screen that shows none is used all the same."""
_TAKEN_LIMIT = 3.0
"""Seconds after which a prompt that was not taken is sent once more."""
_REFUSED_LIMIT = 30.0
"""Seconds after that until the turn fails: what an agent takes later it does unwatched."""
_LAGS = 20
"""How much longer than for showing a paste an agent may need for beginning with a prompt."""
_LONGEST_LAG = 60.0
_MUCH = 1 << 17
"""Bytes that an agent writes only when it does something; the prompt may have left by then."""
_TELL_PAUSE = 0.05
_CALM_LINE = 0.25
"""Seconds without a change after which a line counts as written."""
_DIALOG_CALM = 1.0
"""Seconds that a dialog which is no request must be there before it is dealt with."""
_SLOW = 12.0
"""Seconds without a change after which a turn is over that the agent has not been seen to begin."""
_DIALOGS = ("trust", "update", "login", "notice")


class PtyConversation:
    """Turns, one after another.

    Args:
        pass_dialog: answers a dialog that is no request for permission as policy says, or raises.
    """

    def __init__(
        self,
        host: LinkHost,
        knowledge: TerminalPatterns,
        watch: TerminalWatcher,
        lines: TurnTextFinder,
        pass_dialog: Callable[[TerminalReading], Awaitable[None]],
    ) -> None:
        self._host = host
        self._knowledge = knowledge
        self._watch = watch
        self._lines = lines
        self._pass_dialog = pass_dialog
        self._interrupted = False
        self._is_running = False
        self._is_sent = False
        self._lag = 0.0
        """Seconds that the agent may need, as slow as it is now, to begin with a prompt."""
        self._color: Color = None
        self._telling = asyncio.Lock()
        self._questions = PtyRequestHandler(host, knowledge.asking, watch, self._tell)

    async def turn(self, prompt: str) -> TurnOutcome:
        """Run a turn to its end, once what someone does there by hand has come to its own.

        Raises:
            LinkError: the agent is gone.
            OpenFailedError, LoginNeededError: it shows a dialog into which nothing is typed
                unasked.
        """
        self._interrupted, self._is_running, self._is_sent = False, True, False
        events = TurnEvents(uuid4().hex[:12])
        try:
            if not await self._is_ready(events):
                return TurnOutcome(stop="cancelled")
            return await self._run(events, prompt)
        finally:
            self._is_running = False
            await self._questions.drop()

    async def interrupt(self) -> None:
        """Press what stops a turn, until it has stopped; one that waits for its start just ends."""
        self._interrupted = True
        knowledge = self._knowledge
        while self._is_running:
            if self._is_sent:
                if self._watch.now.state == "asking":
                    await self._press(knowledge.asking.cancel if knowledge.asking else ())
                elif self._watch.now.state != "ready":
                    await self._press(knowledge.interrupt)
                with suppress(LinkError):
                    within = knowledge.patience
                    await self._watch.until(lambda one: one.state == "ready", within=within)
            await asyncio.sleep(0.05)

    # Sending

    async def _is_ready(self, events: TurnEvents) -> bool:
        """Wait until the agent takes a prompt; False: interrupted before."""
        while not self._interrupted:
            reading = self._watch.now
            if self._is_over(reading, self._watch.calm):
                return True
            await self._deal(events, reading)
            await self._watch.step(_TELL_PAUSE)
        return False

    async def _run(self, events: TurnEvents, prompt: str) -> TurnOutcome:
        screen = self._watch.terminal.screen
        mark = None if screen.modes.alternate_screen else screen.mark()
        self._color = self._prompt_color()
        try:
            before = self._lines.before(self._text(mark), is_window=mark is None)
            if not await self._send(prompt, mark, before):
                if self._interrupted:
                    return TurnOutcome(stop="cancelled")
                return TurnOutcome(stop="failed", reason="the agent did not accept the prompt")
            return await self._listen(events, mark, before)
        finally:
            if mark is not None:
                mark.release()

    async def _send(self, prompt: str, mark: RowMark | None, before: TextBeforeTurn) -> bool:
        """Paste and submit; whether the agent has begun.

        What was pasted is submitted although the turn was interrupted meanwhile, and then stopped:
        else it would stand before the next prompt.
        """
        await self._paste(prompt)
        for limit in (_TAKEN_LIMIT, _REFUSED_LIMIT):
            self._is_sent = True
            await self._press(self._knowledge.submit)
            if await self._has_begun(mark, before, max(limit, self._lag)):
                return True
        return False

    async def _paste(self, prompt: str) -> None:
        """Paste, and see how long it takes until it is shown: so slow is the agent now."""
        began, changes = time.monotonic(), self._watch.changes
        await self._watch.terminal.paste(prompt)
        shown = await self._watch.until(
            lambda _: self._watch.changes != changes or self._interrupted, within=_SHOWN_LIMIT
        )
        taken = time.monotonic() - began
        self._lag = min(_LAGS * taken, _LONGEST_LAG) if shown is not None else taken
        await self._watch.settled(_PASTED, within=_PASTE_LIMIT)

    async def _has_begun(self, mark: RowMark | None, before: TextBeforeTurn, within: float) -> bool:
        """Whether it begins in time; once the turn is interrupted, that is short."""
        deadline, soon = time.monotonic() + within, time.monotonic() + _TAKEN_LIMIT
        enough = self._watch.terminal.written + _MUCH
        while time.monotonic() < (soon if self._interrupted else deadline):
            state = self._watch.now.state
            if state in ("busy", "asking") or self._watch.terminal.written > enough:
                return True
            # Of a screen that no one can read, what is at the prompt may look like what was sent.
            if state != "unknown" and self._turn_text(mark, before).began:
                return True
            await self._watch.step(0.1)
        return False

    # Listening

    async def _listen(
        self, events: TurnEvents, mark: RowMark | None, before: TextBeforeTurn
    ) -> TurnOutcome:
        reported: tuple[int, bool] | None = None
        has_begun, slow = False, max(_SLOW, self._lag)
        while True:
            reading, calm = self._watch.now, self._watch.calm
            has_begun = has_begun or reading.state in ("busy", "asking")
            is_over = self._is_over(reading, calm) and (has_begun or calm >= slow)
            seen = self._watch.changes, calm >= _CALM_LINE
            if is_over or (seen != reported and not self._watch.is_drawing):
                reported = seen
                turn_text = self._turn_text(mark, before)
                has_begun = has_begun or bool(turn_text.items)
                await self._tell(events.news(turn_text, is_last=is_over, is_calm=seen[1]))
                if is_over:
                    return await self._end(events, turn_text)
            await self._deal(events, reading)
            await asyncio.sleep(_TELL_PAUSE)
            await self._watch.step(_TELL_PAUSE)

    def _is_over(self, reading: TerminalReading, calm: float) -> bool:
        if reading.state != "ready" or self._questions.is_open:
            return False
        return calm >= self._knowledge.calm

    async def _end(self, events: TurnEvents, turn_text: TurnText) -> TurnOutcome:
        await self._tell(events.last())
        if self._interrupted:
            return TurnOutcome(stop="cancelled")
        if turn_text.failure:
            return TurnOutcome(stop="failed", reason=turn_text.failure)
        return TurnOutcome(stop="end_turn")

    def _turn_text(self, mark: RowMark | None, before: TextBeforeTurn) -> TurnText:
        return self._lines.read(self._text(mark), before)

    def _text(self, mark: RowMark | None) -> list[str]:
        """The lines since the mark, without what the agent draws around its prompt."""
        screen = self._watch.terminal.screen
        if mark is None:
            lines = [self._lines.plain(row, self._color) for row in screen.rows()]
        else:
            lines = screen.text(mark)
        while lines and not lines[-1]:
            lines.pop()
        chrome = self._watch.now.chrome
        return lines[: len(lines) - chrome] if chrome else lines

    def _prompt_color(self) -> Color:
        """The colour of what begins the agent's prompt."""
        rows = list(self._watch.terminal.screen.rows())
        while rows and not rows[-1].text:
            rows.pop()
        chrome = self._watch.now.chrome
        return self._lines.color(rows[-chrome]) if 0 < chrome <= len(rows) else None

    async def _tell(self, events: list[Event]) -> None:
        async with self._telling:
            for event in events:
                await self._host.emit(event)

    async def _deal(self, events: TurnEvents, reading: TerminalReading) -> None:
        """Have what the screen asks decided, whatever it is."""
        self._questions.consider(events, reading)
        if reading.state in _DIALOGS and self._watch.calm >= _DIALOG_CALM:
            await self._pass_dialog(reading)
            await self._watch.until(lambda one: one.shown != reading.shown, within=_DIALOG_CALM)

    async def _press(self, keys: tuple[str, ...]) -> None:
        """Press keys one after another; programs take what comes at once for a paste."""
        for number, key in enumerate(keys):
            if number:
                await asyncio.sleep(0.12)
            await self._watch.terminal.press(key)
