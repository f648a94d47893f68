"""How large a terminal is, said by who looks at it."""

from typing import TYPE_CHECKING, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.fleet.terminal_port import Terminals

__all__ = ["Cells", "Sizing"]

Cells: TypeAlias = tuple[int, int]
"""Columns and rows."""


class Sizing:
    """Asks for a size once: somebody else may have asked for another since, and is right then.

    Args:
        fleet: who has the terminal.
        terminal: its id.
    """

    def __init__(self, fleet: "Terminals", terminal: str) -> None:
        self._fleet = fleet
        self._terminal = terminal
        self._asked: Cells | None = None

    def wants(self, size: Cells, now: Cells, *, insists: bool) -> bool:
        """Whether to ask; ``insists``: also for what was asked before, as somebody is at work."""
        return min(size) >= 1 and size != now and (insists or size != self._asked)

    async def ask(self, size: Cells) -> None:
        """Ask for a size; that a terminal has left or is out of reach is told elsewhere."""
        self._asked = size
        try:
            await self._fleet.resize_terminal(self._terminal, *size)
        except QuarterdeckError:
            self._asked = None
