"""Custom widgets as kinds of panels, beside those that are built in, and the guard around them once
one is loaded.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..panels.kinds import KINDS, PanelKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.dom import DOMNode
    from textual.widget import Widget

    from ..context import WorkbenchContext
    from ..panels.panel import Panel

__all__ = [
    "PREFIX",
    "CustomKind",
    "all_kinds",
    "blame_custom_widget",
    "guard_custom_widgets",
    "offer_widget",
]

PREFIX = "custom/"
"""What the names of custom kinds begin with in a layout."""


class CustomKind(PanelKind, frozen=True, kw_only=True):
    """A custom widget, loaded or not; its panel says which."""

    def load(self) -> "type[Panel]":
        """A panel for this widget; runs nothing of it."""
        from .panel import CustomPanel

        name = self.name.removeprefix(PREFIX)
        return type(f"Custom_{name}", (CustomPanel,), {"widget_name": name})


class _Kinds(Mapping[str, PanelKind]):
    """Also finds custom widgets that are gone: a layout that names one stays, and says why."""

    def __init__(self, context: "WorkbenchContext") -> None:
        self._app_context = context

    def __getitem__(self, name: str) -> PanelKind:
        if name.startswith(PREFIX):
            return _custom(name.removeprefix(PREFIX))
        return KINDS[name]

    def __iter__(self) -> Iterator[str]:
        yield from KINDS
        library = self._app_context.preferences.library
        yield from (PREFIX + name for name in (library.names if library is not None else ()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def all_kinds(context: "WorkbenchContext") -> Mapping[str, PanelKind]:
    """What a layout may name here: built in, and ``custom/NAME``; always as it is by now."""
    return _Kinds(context)


def offer_widget(
    context: "WorkbenchContext", name: str, source: str, *, by: str | None = None
) -> str:
    """Keep a widget's source from an agent until the person approves it. Blocks; runs nothing.

    Returns:
        What the person has to do, for the agent.

    Raises:
        CustomWidgetError: the name or the source cannot be taken.
    """
    from .library import CustomWidgetError

    library = context.preferences.library
    if library is None:
        raise CustomWidgetError("custom widgets are not available here")
    library.offer(name, source, by=by)
    return f"the user must approve it first: /widget approve {name}; then use {PREFIX}{name}"


def _custom(name: str) -> CustomKind:
    return CustomKind(name=PREFIX + name, help="a custom widget", target="")


def guard_custom_widgets(parent: "DOMNode", widgets: "Iterable[Widget]") -> None:
    """Guard widgets that were just mounted in a custom widget; an application calls it."""
    # Not imported: where no custom widget was loaded there is nothing to guard.
    guard = sys.modules.get(f"{__package__}.loader")
    if guard is not None:
        guard.guard_children(parent, widgets)


def blame_custom_widget(error: Exception) -> bool:
    """Whether an error came from a custom widget, which is replaced by a box that shows it."""
    guard = sys.modules.get(f"{__package__}.loader")
    return guard is not None and guard.blame_panel(error)
