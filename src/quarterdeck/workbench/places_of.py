"""Where the focus is, by the names that a person's keys use."""

from typing import TYPE_CHECKING

from .panels.kinds import KINDS

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.widget import Widget

__all__ = ["PLACES", "places_of"]

_PANELS = {
    kind.target.partition(":")[2]: kind.name
    for kind in KINDS.values()
    if kind.name != "chat"  # its transcript is not where one types
}
_WIDGETS = {"AgentTable": "agents", "ChatInput": "chat", "TranscriptView": "transcript"}
"""Both by the names of classes, so that none has to be imported."""
PLACES = frozenset({*_PANELS.values(), *_WIDGETS.values()})
"""Where a key can count besides ``main``."""


def places_of(focused: "Widget | None") -> set[str]:
    """The names of what has the focus, and of what that is in."""
    found = {"main"}
    node: DOMNode | None = focused
    while node is not None:
        # Panels exactly: a chat is a kind of transcript too, and keys for that are letters.
        names = [_PANELS.get(type(node).__name__)]
        names += [_WIDGETS.get(kind.__name__) for kind in type(node).__mro__]
        found.update(name for name in names if name is not None)
        node = node.parent
    return found
