"""The layouts that are always there."""

from .spec import Horizontal, Layout, Node, PanelNode, Tab, TabsNode, Vertical

__all__ = ["BUILTIN", "builtin_layout"]


def _panel(
    name: str, widget: str = "", size: str = "1fr", *, title: str | None = None, **options: object
) -> PanelNode:
    return PanelNode(id=name, widget=widget or name, options=dict(options), size=size, title=title)


def _side(size: str = "38%") -> Node:
    return Vertical(
        size=size,
        stacked_size="auto",
        children=(_panel("agents", size="auto"), _panel("inbox", size="auto")),
    )


def _default() -> Node:
    return Horizontal(stack_below=110, children=(_side(), _panel("chat")))


def _review() -> Node:
    chat = Vertical(size="45%", children=(_panel("inbox", size="auto"), _panel("chat")))
    return Horizontal(stack_below=110, children=(chat, _panel("diff")))


def _grid() -> Node:
    def row(*names: str) -> Node:
        return Horizontal(stack_below=60, children=tuple(_panel(name, "chat") for name in names))

    chats = Vertical(children=(row("chat", "chat-2"), row("chat-3", "chat-4")))
    return Vertical(children=(_panel("inbox", size="auto"), chats))


def _wide() -> Node:
    looks = TabsNode(
        size="30%",
        children=(
            _panel("tree", title="files"),
            _panel("diff", title="changes"),
            _panel("feed", title="feed"),
        ),
    )
    return Horizontal(stack_below=150, children=(_side("30%"), _panel("chat"), looks))


BUILTIN = {
    "default": ("agents, and one of them", _default),
    "review": ("a chat, and what its agent changed", _review),
    "grid": ("four chats at once", _grid),
    "wide": ("agents, a chat, files and changes side by side", _wide),
}
"""By name: what it is for, and the root of its only tab."""


def builtin_layout(name: str = "default") -> Layout:
    """A built-in layout by its name.

    Raises:
        KeyError: there is none of this name.
    """
    return Layout(tabs=(Tab(title="main", root=BUILTIN[name][1]()),))
