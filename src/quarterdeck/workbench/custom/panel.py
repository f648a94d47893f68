"""Where a custom widget stands: itself, or a box that says why it is not there."""

import asyncio
import threading
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec
from textual.widgets import Static

from ..literal import literal
from ..panels.panel import Panel, PanelOptions
from . import guarding
from .library import BadWidget, Source
from .loading import WidgetBlocked, load, told
from .watchdog import Watchdog

if TYPE_CHECKING:
    from ..desk import Desk
    from .library import Library

__all__ = ["CustomPanel"]

_watchdog = Watchdog()


class CustomPanel(Panel):
    """Holds one custom widget; a subclass says which.

    Whatever the widget does, this one works as a panel.
    """

    options_type: ClassVar[type[PanelOptions]] = cast("type[PanelOptions]", dict[str, Any])
    """Anything; the widget's own are checked when it is loaded, which is when it is shown."""
    widget_name: ClassVar[str] = ""

    def __init__(self, desk: "Desk", options: Any, *, id: str | None = None) -> None:
        super().__init__(desk, options, id=id)
        self._inner: Panel | None = None
        self._source: Source | None = None
        self._state: dict[str, Any] = {}
        self._is_failing = False

    def on_mount(self) -> None:
        """Run the widget, if it may be."""
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        guarding.enter(self)
        _watchdog.begin()
        library = self._library
        self._unwatch = library.watch(self._look_again) if library is not None else lambda: None
        self._show()

    def on_unmount(self) -> None:
        """Let go."""
        self._unwatch()
        guarding.leave(self)
        _watchdog.end()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return literal(str(self._ask("title", self.widget_name)))

    @property
    def unsaved(self) -> str | None:
        """See ``Panel``."""
        words = self._ask("unsaved", None)
        return None if words is None else literal(str(words))

    def change(self, options: Any) -> bool:
        """See ``Panel``: made anew unless nothing changed."""
        return options == self.options

    def remember(self) -> dict[str, Any]:
        """See ``Panel``; what is no JSON is not kept."""
        if self._inner is None:
            return self._state
        try:
            state = self._inner.remember()
            return msgspec.json.decode(msgspec.json.encode(state), type=dict[str, Any])
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
    def _library(self) -> "Library | None":
        return self.desk.looks.library

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
                raise BadWidget("there is no folder for custom widgets here")
            self._source = library.usable(self.widget_name)
            self._inner = self._made(self._source)
        except BadWidget as error:
            self._put_box(str(error))
        except BaseException as error:
            self._note(error)
            self._put_box(told(error))
            if isinstance(error, WidgetBlocked):
                self.call_later(self._disable, told(error))
        else:
            library.loaded.add(self._source.digest)
            guarding.guard(self._inner, self)
            self.mount(self._inner)

    def _made(self, source: Source) -> Panel:
        kind = load(source, cast("Any", super()).app)
        try:
            options = msgspec.convert(self.options or {}, kind.options_type)
        except msgspec.ValidationError as error:
            raise BadWidget(f"its options in the layout are wrong: {error}") from error
        made = kind(self.desk, options)
        if self._state:
            made.recall(self._state)
        return made

    async def _replace(self, error: BaseException) -> None:
        self._inner = None
        self._note(error)
        await self.remove_children()
        self._put_box(told(error))
        self._is_failing = False
        if isinstance(error, WidgetBlocked):
            await self._disable(told(error))

    def _put_box(self, why: str) -> None:
        words = f"widget {self.widget_name}\n✗ {why}\n\n/widgets tells of all"
        self.mount(Static(literal(words), markup=False, classes="widget-failed"))

    def _note(self, error: BaseException) -> None:
        if self._library is not None and self._source is not None:
            self._library.failures[self._source.digest] = told(error)

    async def _disable(self, why: str) -> None:
        if self._library is not None and self._source is not None:
            try:
                await asyncio.to_thread(self._library.disable, self._source, why)
            except OSError as error:
                self.notify(literal(f"that cannot be kept: {error}"), markup=False)

    def _look_again(self) -> None:
        """Something was approved or forgotten; what runs goes on."""
        self.call_later(self._try_again)

    async def _try_again(self) -> None:
        if self._inner is None:
            await self.remove_children()
            self._show()
