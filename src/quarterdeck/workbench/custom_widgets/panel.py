"""The panel that holds a custom widget, or says why it is not there; a watchdog stops custom
code that blocks.
"""

import asyncio
import signal
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec
from textual.widgets import Static

from quarterdeck.wire.decoders import convert, decode_json

from ..panels.panel import Panel, PanelOptions
from ..rendering import glyphs
from ..sanitize import sanitize_text
from . import loader
from .library import CustomWidgetError, WidgetSource
from .loader import MARK, WidgetBlockedError, describe_error, load_widget

if TYPE_CHECKING:
    from ..context import WorkbenchContext
    from .library import WidgetLibrary

__all__ = ["LIMIT", "CustomPanel", "Watchdog"]

LIMIT = 2.0
"""Seconds for which custom code may hold up everything."""
_PERIOD = 1.0
_AGAIN = 0.25
_SIGNAL = signal.SIGURG
"""Ignored by default, so that one that comes late harms no one."""


class Watchdog:
    """Begins with the first widget and ends with the last; does nothing outside the main thread."""

    def __init__(self) -> None:
        self._users = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: object = None

    def begin(self) -> None:
        """Someone runs custom code from now on."""
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
        """Someone does so no more."""
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
        raise WidgetBlockedError(
            f"it blocked the workbench for more than {LIMIT:g} s and was stopped"
        )


def _owner(frame: FrameType | None) -> str | None:
    while frame is not None:
        if frame.f_code.co_filename.startswith(MARK):
            return frame.f_code.co_filename
        frame = frame.f_back
    return None


_watchdog = Watchdog()


class CustomPanel(Panel):
    """Holds one custom widget; a subclass says which.

    Whatever the widget does, this one works as a panel.
    """

    options_type: ClassVar[type[PanelOptions]] = cast("type[PanelOptions]", dict[str, Any])
    """Anything; the widget's own are checked when it is loaded, which is when it is shown."""
    widget_name: ClassVar[str] = ""

    def __init__(self, context: "WorkbenchContext", options: Any, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self._inner: Panel | None = None
        self._source: WidgetSource | None = None
        self._state: dict[str, Any] = {}
        self._is_failing = False

    def on_mount(self) -> None:
        """Run the widget, if it may be."""
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        loader.register_panel(self)
        _watchdog.begin()
        library = self._library
        self._unwatch = library.watch(self._look_again) if library is not None else lambda: None
        self._show()

    def on_unmount(self) -> None:
        """Let go."""
        self._unwatch()
        loader.unregister_panel(self)
        _watchdog.end()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return sanitize_text(str(self._ask("title", self.widget_name)))

    @property
    def unsaved(self) -> str | None:
        """See ``Panel``."""
        words = self._ask("unsaved", None)
        return None if words is None else sanitize_text(str(words))

    def change(self, options: Any) -> bool:
        """See ``Panel``: made anew unless nothing changed."""
        return options == self.options

    def remember(self) -> dict[str, Any]:
        """See ``Panel``; what is no JSON is not kept."""
        if self._inner is None:
            return self._state
        try:
            state = self._inner.remember()
            return decode_json(msgspec.json.encode(state), dict[str, Any])
        except Exception as error:
            self.fail(error)
            return {}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``: given to the widget once it is there."""
        self._state = state

    def fail(self, error: BaseException) -> None:
        """Show a box instead of the widget; from any thread."""
        if self._is_failing:
            return
        self._is_failing = True
        if threading.get_ident() == self._thread:
            self.call_later(self._replace, error)
        else:
            self._loop.call_soon_threadsafe(self.call_later, self._replace, error)

    @property
    def _library(self) -> "WidgetLibrary | None":
        return self.context.preferences.library

    def _ask(self, name: str, instead: Any) -> Any:
        if self._inner is None:
            return instead
        try:
            return getattr(self._inner, name)
        except BaseException as error:
            self.fail(error)
            return instead

    def _show(self) -> None:
        library = self._library
        try:
            if library is None:
                raise CustomWidgetError("custom widgets are not available here")
            self._source = library.usable(self.widget_name)
            self._inner = self._made(self._source)
        except CustomWidgetError as error:
            self._put_box(str(error))
        except BaseException as error:
            self._note(error)
            self._put_box(describe_error(error))
            if isinstance(error, WidgetBlockedError):
                self.call_later(self._disable, describe_error(error))
        else:
            library.loaded.add(self._source.digest)
            loader.guard_widget(self._inner, self)
            self.mount(self._inner)

    def _made(self, source: WidgetSource) -> Panel:
        kind = load_widget(source, cast("Any", super()).app)
        try:
            options = convert(self.options or {}, kind.options_type)
        except msgspec.ValidationError as error:
            raise CustomWidgetError(f"invalid options in the layout: {error}") from error
        made = kind(self.context, options)
        if self._state:
            made.recall(self._state)
        return made

    async def _replace(self, error: BaseException) -> None:
        self._inner = None
        self._note(error)
        await self.remove_children()
        self._put_box(describe_error(error))
        self._is_failing = False
        if isinstance(error, WidgetBlockedError):
            await self._disable(describe_error(error))

    def _put_box(self, why: str) -> None:
        words = f"widget {self.widget_name}\n{glyphs.FAILED} {why}\n\n/widgets lists all widgets"
        self.mount(Static(sanitize_text(words), markup=False, classes="widget-failed"))

    def _note(self, error: BaseException) -> None:
        if self._library is not None and self._source is not None:
            self._library.failures[self._source.digest] = describe_error(error)

    async def _disable(self, why: str) -> None:
        if self._library is not None and self._source is not None:
            try:
                await asyncio.to_thread(self._library.disable, self._source, why)
            except OSError as error:
                self.notify(sanitize_text(f"cannot save this: {error}"), markup=False)

    def _look_again(self) -> None:
        """Something was approved or forgotten; what runs goes on."""
        self.call_later(self._try_again)

    async def _try_again(self) -> None:
        if self._inner is None:
            await self.remove_children()
            self._show()
