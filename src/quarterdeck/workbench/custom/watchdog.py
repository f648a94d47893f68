"""Watches that custom code comes to an end: what holds up the loop for too long is broken off.

A thread asks the loop for an answer once a second while a custom widget is shown. Where none comes
and custom code is what runs, a signal makes that code raise. Code that does not return from C
(a long regular expression, say) cannot be reached; it ends when it ends.
"""

import asyncio
import signal
import sys
import threading
import time
from types import FrameType

from .loading import MARK, WidgetBlocked

__all__ = ["LIMIT", "Watchdog"]

LIMIT = 2.0
"""Seconds for which custom code may hold up everything."""
_PERIOD = 1.0
_AGAIN = 0.25
_SIGNAL = signal.SIGURG
"""Ignored by default, so that one that comes late harms nobody."""


class Watchdog:
    """Begins with the first widget and ends with the last; does nothing outside the main thread."""

    def __init__(self) -> None:
        self._users = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: object = None

    def begin(self) -> None:
        """Somebody runs custom code from now on."""
        self._users += 1
        if self._users > 1 or threading.current_thread() is not threading.main_thread():
            return
        self._before = signal.signal(_SIGNAL, _break_off)
        self._end = threading.Event()
        self._thread = threading.Thread(
            target=_watch, args=(asyncio.get_running_loop(), self._end), daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Somebody does so no more."""
        self._users -= 1
        if self._users or self._thread is None:
            return
        self._end.set()  # the thread ends by itself; waiting for it would hold up the loop
        self._thread = None
        signal.signal(_SIGNAL, self._before)  # pyright: ignore[reportArgumentType] - as it was


def _watch(loop: asyncio.AbstractEventLoop, end: threading.Event) -> None:
    main = threading.main_thread().ident
    assert main is not None
    while not end.wait(_PERIOD):
        answered = threading.Event()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed
            return
        asked = time.monotonic()
        while not answered.wait(_AGAIN) and not end.is_set():
            frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - documented
            if time.monotonic() - asked >= LIMIT and _owner(frames.get(main)):
                signal.pthread_kill(main, _SIGNAL)


def _break_off(_: int, frame: FrameType | None) -> None:
    # Whatever runs by now: only custom code is broken off.
    if _owner(frame) is not None:
        raise WidgetBlocked(f"it held up everything for more than {LIMIT:g} s and was broken off")


def _owner(frame: FrameType | None) -> str | None:
    while frame is not None:
        if frame.f_code.co_filename.startswith(MARK):
            return frame.f_code.co_filename
        frame = frame.f_back
    return None
