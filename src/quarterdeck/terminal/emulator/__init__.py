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

_LARGEST = 1000
_SCROLLBACK = 20_000


def open_emulator(
    columns: int = 120,
    rows: int = 40,
    *,
    scrollback: int = _SCROLLBACK,
    backend: EmulatorBackend | None = None,
) -> Emulator:
    """An empty screen; without ``backend`` ghostty's, or avt's where there is no build of that.

    ``scrollback`` is the most rows that are kept above the screen. ``close`` what you open.

    Raises:
        ImportError: the backend that was asked for by name cannot be loaded here.
    """
    columns, rows = min(max(columns, 1), _LARGEST), min(max(rows, 1), _LARGEST)
    if backend != "avt":
        try:
            from .ghostty import GhosttyEmulator, warm_up

            warm_up()
            return GhosttyEmulator(columns, rows, scrollback)
        except (ImportError, OSError):  # no wheel for this machine, or its library does not load
            if backend is not None:
                raise
    from .avt import AvtEmulator

    return AvtEmulator(columns, rows, scrollback)
