"""A fleet's terminals under the names of its port."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from quarterdeck.drivers.pty.seen import Seen

from .terminal_port import TerminalInfo, TerminalWish
from .terminals import OwnTerminals

__all__ = ["TerminalCalls"]


class TerminalCalls:
    """The part of a fleet that is about terminals; see ``terminal_port.Terminals``."""

    _terminals: OwnTerminals

    async def open_terminal(self, wish: TerminalWish) -> TerminalInfo:
        """Start a program in a terminal."""
        return await self._terminals.open(wish)

    async def terminals(self) -> list[TerminalInfo]:
        """All that run, and those that ended and are not closed yet; oldest first."""
        return self._terminals.all()

    def watch_terminal(self, terminal: str) -> AsyncGenerator[Seen]:
        """The screen with what is above it, then everything that follows."""
        return self._terminals.watch(terminal)

    async def write_terminal(self, terminal: str, data: bytes) -> None:
        """Type bytes as they are."""
        await self._terminals.write(terminal, data)

    async def paste_terminal(self, terminal: str, text: str) -> None:
        """Paste text: nothing in it can press a key."""
        await self._terminals.paste(terminal, text)

    async def resize_terminal(self, terminal: str, columns: int, rows: int) -> None:
        """Change the size for everybody who looks."""
        await self._terminals.resize(terminal, columns, rows)

    async def close_terminal(self, terminal: str) -> None:
        """End the program with all that it started, and forget the terminal."""
        await self._terminals.close(terminal)


if TYPE_CHECKING:
    from typing import cast

    from .terminal_port import Terminals

    _: Terminals = cast("TerminalCalls", None)
