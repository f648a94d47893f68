"""What a terminal sends for the mouse, as the program in it has asked to have it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from quarterdeck.drivers.screen.port import Modes

__all__ = ["MouseDeed", "MouseKind", "mouse_bytes"]

MouseKind: TypeAlias = Literal["press", "release", "move", "up", "down", "left", "right"]
"""A button, a move, or a turn of a wheel."""

_WHEEL = {"up": 64, "down": 65, "left": 66, "right": 67}
_FARTHEST = 222
"""The last cell that the old form can name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MouseDeed:
    """Something that was done with the mouse over a cell."""

    kind: MouseKind
    column: int
    """From 0, like the row."""
    row: int
    button: int = 0
    """1 left, 2 middle, 3 right; 0: none is held."""
    shift: bool = False
    alt: bool = False
    ctrl: bool = False


def mouse_bytes(deed: MouseDeed, modes: Modes) -> bytes:
    """The bytes of it; empty where the program does not want to hear of it."""
    if not modes.mouse or (deed.kind == "move" and not _wants_move(deed, modes)):
        return b""
    code = _WHEEL.get(deed.kind, (deed.button - 1) & 3)
    code += 4 * deed.shift + 8 * deed.alt + 16 * deed.ctrl + 32 * (deed.kind == "move")
    if modes.mouse_sgr:
        end = "m" if deed.kind == "release" else "M"
        return f"\x1b[<{code};{deed.column + 1};{deed.row + 1}{end}".encode()
    if deed.kind == "release":
        code |= 3
    if max(deed.column, deed.row) > _FARTHEST:
        return b""
    return b"\x1b[M" + bytes([code + 32, deed.column + 33, deed.row + 33])


def _wants_move(deed: MouseDeed, modes: Modes) -> bool:
    return modes.mouse == "any" or (modes.mouse == "drag" and deed.button > 0)
