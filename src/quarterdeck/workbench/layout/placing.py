"""How Textual is told where panels are: by the plan of a layout, not by containers.

All panels are children of one widget, wherever the layout puts them: Textual forgets the state of
a widget that gets another parent, and a running terminal would end.
"""

from typing import TYPE_CHECKING

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region
from textual.layout import Layout as TextualLayout
from textual.layout import WidgetPlacement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.geometry import Size
    from textual.widget import Widget

    from .geometry import Rect

__all__ = ["PlanLayout"]


class PlanLayout(TextualLayout):
    """Puts each child where a function says; a child without a place is not shown."""

    name = "plan"

    def __init__(self, plan: "Callable[[Size], dict[Widget, Rect]]") -> None:
        self._plan = plan

    def arrange(
        self, parent: "Widget", children: "Sequence[Widget]", size: "Size", greedy: bool = True
    ) -> list[WidgetPlacement]:
        """See Textual's ``Layout``."""
        places = self._plan(size)
        return [
            WidgetPlacement(Region(*places[child]), NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child in places
        ]
