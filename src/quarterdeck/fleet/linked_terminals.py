"""The terminals of a host, over its socket."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import msgspec

from quarterdeck.drivers.pty.seen import Left, Seen

from .host import terminal_methods as methods
from .host.methods import Nothing
from .linked import Linked
from .terminal_port import TerminalInfo, TerminalWish

__all__ = ["LinkedTerminals"]

_SEEN: msgspec.json.Decoder[Seen] = msgspec.json.Decoder(Seen)


class LinkedTerminals(Linked):
    """The part of a client that is about terminals; see ``terminal_port.Terminals``.

    Raises ``HostError`` where the host is older than terminals.
    """

    async def open_terminal(self, wish: TerminalWish) -> TerminalInfo:
        """See ``Terminals``."""
        return await self._ask(methods.OPEN_TERMINAL, methods.OpenTerminalParams(wish=wish))

    async def terminals(self) -> list[TerminalInfo]:
        """See ``Terminals``."""
        return await self._ask(methods.TERMINALS, Nothing())

    async def watch_terminal(self, terminal: str) -> AsyncGenerator[Seen]:
        """See ``Terminals``. When the host goes away so does the terminal: raises ``Broken``."""
        link = await self._linked()
        method, wanted = methods.WATCH_TERMINAL, methods.TerminalParams(terminal=terminal)
        _, feed = await self._reached(link.follow(method, wanted, _SEEN.decode), method)
        try:
            while True:
                seen = await self._reached(feed.take(), method)
                yield seen
                if isinstance(seen, Left):
                    return
        finally:
            await link.unfollow(feed)

    async def write_terminal(self, terminal: str, data: bytes) -> None:
        """See ``Terminals``."""
        params = methods.WriteTerminalParams(terminal=terminal, data=data)
        await self._ask(methods.WRITE_TERMINAL, params)

    async def paste_terminal(self, terminal: str, text: str) -> None:
        """See ``Terminals``."""
        params = methods.PasteTerminalParams(terminal=terminal, text=text)
        await self._ask(methods.PASTE_TERMINAL, params)

    async def resize_terminal(self, terminal: str, columns: int, rows: int) -> None:
        """See ``Terminals``."""
        params = methods.ResizeTerminalParams(terminal=terminal, columns=columns, rows=rows)
        await self._ask(methods.RESIZE_TERMINAL, params)

    async def close_terminal(self, terminal: str) -> None:
        """See ``Terminals``."""
        await self._ask(methods.CLOSE_TERMINAL, methods.TerminalParams(terminal=terminal))


if TYPE_CHECKING:
    from .terminal_port import Terminals

    _: type[Terminals] = LinkedTerminals
