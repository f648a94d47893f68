"""Where the focus is, by the names that a person's keys use."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.widget import Widget

__all__ = ["PLACES", "places_of"]

_WIDGETS = {
    "AgentTable": "agents",
    "ChatInput": "chat",
    "InboxPanel": "inbox",
    "TranscriptView": "transcript",
}
PLACES = frozenset(_WIDGETS.values())
"""Where a key can count besides ``main``; the kinds of panels are added when one is focused."""


def places_of(focused: "Widget | None") -> set[str]:
    """The names of what has the focus, and of what that is in."""
    found = {"main"}
    node: DOMNode | None = focused
    while node is not None:
        for kind in type(node).__mro__:
            if (name := _WIDGETS.get(kind.__name__)) is not None:
                found.add(name)
        node = node.parent
    return found
