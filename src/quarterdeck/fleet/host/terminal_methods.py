"""What can be asked of a host about its terminals; see ``methods``."""

from typing import Any

from msgspec import Struct

from quarterdeck.wire.values import Value

from ..terminal_port import TerminalInfo, TerminalWish
from .methods import Method, Nothing

__all__ = [
    "CLOSE_TERMINAL",
    "OPEN_TERMINAL",
    "PASTE_TERMINAL",
    "RESIZE_TERMINAL",
    "TERMINALS",
    "TERMINAL_METHODS",
    "WATCH_TERMINAL",
    "WRITE_TERMINAL",
    "OpenTerminalParams",
    "PasteTerminalParams",
    "ResizeTerminalParams",
    "TerminalParams",
    "Watched",
    "WriteTerminalParams",
]


class OpenTerminalParams(Value, frozen=True, kw_only=True):
    """See ``Terminals.open_terminal``."""

    wish: TerminalWish


class TerminalParams(Value, frozen=True, kw_only=True):
    """A terminal by its id, or an agent whose screen it is."""

    terminal: str


class Watched(Struct, frozen=True, kw_only=True):
    """What is seen will come as ``fleet/records`` under this id; ``fleet/unfollow`` ends it."""

    subscription: int


class WriteTerminalParams(Value, frozen=True, kw_only=True):
    """See ``Terminals.write_terminal``."""

    terminal: str
    data: bytes
    """In JSON as base64."""


class PasteTerminalParams(Value, frozen=True, kw_only=True):
    """See ``Terminals.paste_terminal``."""

    terminal: str
    text: str


class ResizeTerminalParams(Value, frozen=True, kw_only=True):
    """See ``Terminals.resize_terminal``."""

    terminal: str
    columns: int
    rows: int


WATCH_TERMINAL = Method[Watched](name="fleet/watch_terminal", params=TerminalParams, result=Watched)
OPEN_TERMINAL = Method[TerminalInfo](
    name="fleet/open_terminal", params=OpenTerminalParams, result=TerminalInfo, changes=True
)
TERMINALS = Method[list[TerminalInfo]](
    name="fleet/terminals", params=Nothing, result=list[TerminalInfo]
)
# What is typed into a program that does not read waits, and must not hold up the host's end.
WRITE_TERMINAL = Method[None](name="fleet/write_terminal", params=WriteTerminalParams, result=None)
PASTE_TERMINAL = Method[None](name="fleet/paste_terminal", params=PasteTerminalParams, result=None)
RESIZE_TERMINAL = Method[None](
    name="fleet/resize_terminal", params=ResizeTerminalParams, result=None
)
CLOSE_TERMINAL = Method[None](
    name="fleet/close_terminal", params=TerminalParams, result=None, changes=True
)

TERMINAL_METHODS: dict[str, Method[Any]] = {
    method.name: method
    for method in (
        *(OPEN_TERMINAL, TERMINALS, WRITE_TERMINAL, PASTE_TERMINAL, RESIZE_TERMINAL),
        CLOSE_TERMINAL,
    )
}
"""Those that are a call of the fleet and nothing else."""
