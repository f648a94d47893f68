"""A terminal's screen in memory: what a program in a terminal shows, and answers to its queries.

The port is in ``api``; ``open_emulator`` makes one of the two that are behind it. Importing this
loads neither.
"""

from .api import (
    Color,
    CursorShape,
    Emulator,
    EmulatorBackend,
    GridChange,
    GridCursor,
    GridRow,
    GridSpan,
    Mouse,
    RowMark,
    Style,
    TerminalModes,
)
from .factory import open_emulator

__all__ = [
    "Color",
    "CursorShape",
    "Emulator",
    "EmulatorBackend",
    "GridChange",
    "GridCursor",
    "GridRow",
    "GridSpan",
    "Mouse",
    "RowMark",
    "Style",
    "TerminalModes",
    "open_emulator",
]
