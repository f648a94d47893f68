"""Loads a custom widget's source, and guards each call into its code.

A widget that is in a custom panel, no matter who wrote its class, has its ways in covered when it
is put into the tree. What comes out of them that is no result goes to the panel, which then shows a
box instead; Textual is given something harmless.
"""

import asyncio
import inspect
import linecache
import sys
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

from textual.css.errors import StylesheetError
from textual.css.tokenizer import TokenError
from textual.strip import Strip
from textual.widget import Widget

from ..panels.panel import Panel
from ..sanitize import sanitize_line
from .library import CustomWidgetError, WidgetSource

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode
    from textual.geometry import Region

__all__ = [
    "MARK",
    "WidgetBlockedError",
    "blame_panel",
    "describe_error",
    "guard_children",
    "guard_widget",
    "load_widget",
    "locate_error",
    "register_panel",
    "unregister_panel",
]

MARK = "<widget "
"""What the file names of custom code begin with."""


class WidgetBlockedError(BaseException):
    """Thrown into custom code that does not come to an end.

    No ``Exception``: code that catches those must not catch this.
    """


def load_widget(source: WidgetSource, app: "App[Any]") -> type[Panel]:
    """Run a source and give the panel that it defines.

    Raises:
        CustomWidgetError: it does not run, defines no panel, or its style sheet is wrong.
        WidgetBlockedError: it did not come to an end.
    """
    module = ModuleType(f"quarterdeck_widgets.{source.name.replace('-', '_')}")
    file = f"{MARK}{source.name}>"
    linecache.cache[file] = (len(source.text), None, source.text.splitlines(True), file)
    try:
        code = compile(source.text, file, "exec", dont_inherit=True)
        sys.modules[module.__name__] = module  # dataclasses and the like look it up
        exec(code, module.__dict__)
    except WidgetBlockedError:
        raise
    except BaseException as error:
        raise CustomWidgetError(f"cannot load it: {describe_error(error)}") from error
    mine = [one for one in vars(module).values() if _is_panel(one, module.__name__)]
    if len(mine) != 1:
        raise CustomWidgetError(f"it defines {len(mine)} subclasses of Panel; define exactly one")
    _check_css(module, app)
    return mine[0]


def describe_error(error: BaseException) -> str:
    """An error in a line: what it says, and where in the widget's file."""
    if isinstance(error, SystemExit):
        words = f"it called sys.exit({error.code!r})"
    elif isinstance(error, WidgetBlockedError):
        words = str(error)
    elif isinstance(error, SyntaxError):
        return sanitize_line(f"SyntaxError: {error.msg}, line {error.lineno}", 400)
    else:
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    line = locate_error(error.__traceback__)
    return sanitize_line(words, 400) + (f" (line {line})" if line else "")


def locate_error(traceback: TracebackType | None) -> int | None:
    """The line of custom code that an error came from."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(MARK):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _is_panel(value: object, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, Panel) and value.__module__ == module


def _check_css(module: ModuleType, app: "App[Any]") -> None:
    """A rule that cannot be read would fail much later, in the style sheet of everything."""
    from textual.css.stylesheet import Stylesheet, StylesheetParseError

    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, Widget) and "DEFAULT_CSS" in vars(value):
            trial = Stylesheet(variables=app.get_css_variables())
            trial.add_source(value.DEFAULT_CSS, read_from=(name, "DEFAULT_CSS"))
            try:
                trial.parse()
            except (StylesheetError, StylesheetParseError, TokenError) as error:
                raise CustomWidgetError(f"the DEFAULT_CSS of {name} is invalid") from error


Call: TypeAlias = Callable[..., Any]


class GuardedPanel(Protocol):
    """The panel that a custom widget is in."""

    widget_name: ClassVar[str]

    def fail(self, error: BaseException) -> None:
        """Show a box instead of the widget, and say why."""
        ...


_owners: "WeakKeyDictionary[Widget, GuardedPanel]" = WeakKeyDictionary()
_live: "WeakSet[GuardedPanel]" = WeakSet()


def register_panel(panel: "GuardedPanel") -> None:
    """A custom panel is on the screen."""
    _live.add(panel)


def unregister_panel(panel: "GuardedPanel") -> None:
    """It is no more."""
    _live.discard(panel)


def guard_children(parent: "DOMNode", widgets: "Iterable[Widget]") -> None:
    """Guard what was put into a widget that is guarded."""
    owner = _owners.get(parent) if isinstance(parent, Widget) else None
    if owner is not None:
        for widget in widgets:
            guard_widget(widget, owner)


def guard_widget(widget: Widget, owner: "GuardedPanel") -> None:
    """Cover every way into a widget and into what is in it."""
    if widget in _owners:
        return
    _owners[widget] = owner
    covered: dict[str, Call] = {
        "render_lines": partial(_drawn, owner, widget.render_lines),
        "get_content_width": partial(_or(0), owner, widget.get_content_width),
        "get_content_height": partial(_or(1), owner, widget.get_content_height),
        "set_timer": partial(_timed, owner, widget.set_timer),
        "set_interval": partial(_timed, owner, widget.set_interval),
        "call_later": partial(_called, owner, widget.call_later),
        "call_next": partial(_called, owner, widget.call_next),
        "call_after_refresh": partial(_called, owner, widget.call_after_refresh),
        "run_worker": partial(_worked, owner, widget.run_worker),
    }
    # Watchers of reactive values are first called here.
    covered["_post_mount"] = partial(_or(None), owner, getattr(widget, "_post_mount"))  # noqa: B009
    for name in ("_dispatch_message", "_flush_next_callbacks", "_process_messages_loop"):
        covered[name] = partial(_awaited, owner, getattr(widget, name))
    for name, call in covered.items():
        setattr(widget, name, call)
    for child in widget.children:
        guard_widget(child, owner)


def blame_panel(error: BaseException) -> bool:
    """Give an error to the custom panel whose code it went through; False: there is none."""
    inner = getattr(error, "error", None)  # a worker's failure wraps what was raised
    if isinstance(inner, BaseException):
        error = inner
    found = _panel_in(error.__traceback__)
    if found is None:
        return False
    found.fail(error)
    return True


def _panel_in(traceback: "TracebackType | None") -> "GuardedPanel | None":
    found: GuardedPanel | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        this = frame.f_locals.get("self")
        if isinstance(this, Widget) and this in _owners:
            found = _owners[this]
        file = frame.f_code.co_filename
        if file.startswith(MARK):
            named = (one for one in _live if file == f"{MARK}{one.widget_name}>")
            found = next(named, found)
        traceback = traceback.tb_next
    return found


def _is_ours_to_pass(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit)


def _drawn(owner: "GuardedPanel", draw: Call, crop: "Region") -> list[Strip]:
    try:
        return draw(crop)
    except BaseException as error:
        if _is_ours_to_pass(error):
            raise
        owner.fail(error)
        return [Strip.blank(crop.width)] * crop.height


def _or(instead: Any) -> Call:
    def ask(owner: "GuardedPanel", call: Call, *given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except BaseException as error:
            if _is_ours_to_pass(error):
                raise
            owner.fail(error)
            return instead

    return ask


async def _awaited(owner: "GuardedPanel", call: Call, *given: Any) -> None:
    try:
        await call(*given)
    except BaseException as error:
        if _is_ours_to_pass(error):
            raise
        owner.fail(error)


async def _invoked(owner: "GuardedPanel", call: Call) -> None:
    try:
        done = call()
        if inspect.isawaitable(done):
            await done
    except BaseException as error:
        if _is_ours_to_pass(error):
            raise
        owner.fail(error)


def _timed(
    owner: "GuardedPanel", start: Call, delay: float, callback: Call | None = None, **named: Any
) -> Any:
    if callback is not None:
        callback = partial(_invoked, owner, callback)
    return start(delay, callback, **named)


def _called(owner: "GuardedPanel", start: Call, call: Call, *given: Any, **named: Any) -> Any:
    return start(partial(_invoked, owner, partial(call, *given, **named)))


def _worked(owner: "GuardedPanel", start: Call, work: Any, *given: Any, **named: Any) -> Any:
    if named.get("thread"):
        return start(partial(_or(None), owner, work), *given, **named)

    async def guarded() -> None:
        await _invoked(owner, work if callable(work) else partial(_given, work))

    return start(guarded, *given, **named)


def _given(work: Awaitable[object]) -> Awaitable[object]:
    return work
