"""One agent's turns through its screen: a prompt goes in, events come out."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import uuid4

from quarterdeck.terminal.emulator import Color, RowMark
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.events import Event

from ..link import LinkHost, TurnOutcome
from .events import TurnEvents
from .patterns import TerminalPatterns
from .reader import TerminalReading, TerminalWatcher
from .requests import PtyRequestHandler
from .turn_text import TextBeforeTurn, TurnText, TurnTextFinder

__all__ = ["PtyConversation"]

_PASTED = 0.08
"""Seconds that the screen must not change before a paste counts as taken."""
_PASTE_LIMIT = 20.0
_TAKEN_LIMIT = 3.0
"""Seconds after which a prompt that was not taken is sent once more."""
_MUCH = 1 << 17
"""Bytes that an agent writes only when it does something; the prompt may have left by then."""
_TELL_PAUSE = 0.05
_CALM_LINE = 0.25
"""Seconds without a change after which a line counts as written."""
_DIALOG_CALM = 1.0
"""Seconds that a dialog which is no request must be there before it is dealt with."""
_SLOW = 4.0
"""Seconds without a change after which a turn is over that the agent has not been seen to begin."""
_DIALOGS = ("trust", "update", "login", "notice")


class PtyConversation:
    """Turns, one after another.

    Args:
        pass_dialog: answers a dialog that is no request for leave as policy says, or raises.
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
        self._color: Color = None
        self._telling = asyncio.Lock()
        self._questions = PtyRequestHandler(host, knowledge.asking, watch, self._tell)

    async def turn(self, prompt: str) -> TurnOutcome:
        """Run a turn to its end, once what somebody does there by hand has come to its own.

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
        terminal = self._watch.terminal
        await terminal.paste(prompt)
        await self._watch.settled(_PASTED, within=_PASTE_LIMIT)
        for _ in range(2):
            self._is_sent = True
            await self._press(self._knowledge.submit)
            if await self._has_begun(mark, before):
                return True
        return False

    async def _has_begun(self, mark: RowMark | None, before: TextBeforeTurn) -> bool:
        deadline = time.monotonic() + _TAKEN_LIMIT
        enough = self._watch.terminal.written + _MUCH
        while time.monotonic() < deadline:
            state = self._watch.now.state
            if state in ("busy", "asking") or self._watch.terminal.written > enough:
                return True
            # Of a screen that nobody can read, what is at the prompt may look like what was sent.
            if state != "unknown" and self._said(mark, before).began:
                return True
            await self._watch.step(0.1)
        return False

    # Listening

    async def _listen(
        self, events: TurnEvents, mark: RowMark | None, before: TextBeforeTurn
    ) -> TurnOutcome:
        told: tuple[int, bool] | None = None
        has_begun = False
        while True:
            reading, calm = self._watch.now, self._watch.calm
            has_begun = has_begun or reading.state in ("busy", "asking")
            is_over = self._is_over(reading, calm) and (has_begun or calm >= _SLOW)
            seen = self._watch.changes, calm >= _CALM_LINE
            if is_over or (seen != told and not self._watch.is_drawing):
                told = seen
                said = self._said(mark, before)
                has_begun = has_begun or bool(said.items)
                await self._tell(events.news(said, is_last=is_over, is_calm=seen[1]))
                if is_over:
                    return await self._end(events, said)
            await self._deal(events, reading)
            await asyncio.sleep(_TELL_PAUSE)
            await self._watch.step(_TELL_PAUSE)

    def _is_over(self, reading: TerminalReading, calm: float) -> bool:
        if reading.state != "ready" or self._questions.is_open:
            return False
        return calm >= self._knowledge.calm

    async def _end(self, events: TurnEvents, said: TurnText) -> TurnOutcome:
        await self._tell(events.last())
        if self._interrupted:
            return TurnOutcome(stop="cancelled")
        if said.failure:
            return TurnOutcome(stop="failed", reason=said.failure)
        return TurnOutcome(stop="end_turn")

    def _said(self, mark: RowMark | None, before: TextBeforeTurn) -> TurnText:
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
