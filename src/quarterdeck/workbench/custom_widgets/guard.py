"""What stands between Textual and a custom widget: each way into its code, and into what it shows.

A widget that is in a custom panel, whoever wrote its class, has its ways in covered when it is
put into the tree. What comes out of them that is no result goes to the panel, which then shows a
box instead; Textual is given something harmless.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

from textual.strip import Strip
from textual.widget import Widget

from .loader import MARK

if TYPE_CHECKING:
    from types import TracebackType

    from textual.dom import DOMNode
    from textual.geometry import Region

__all__ = ["blame_panel", "guard_children", "guard_widget", "register_panel", "unregister_panel"]

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
