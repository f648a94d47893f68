"""Choosing the emulator: the better one where it has a build for this machine."""

from typing import Literal, TypeAlias

from .port import Screen

__all__ = ["Backend", "open_screen"]

Backend: TypeAlias = Literal["ghostty", "avt"]

_SCROLLBACK = 20_000
_LARGEST = 1000


def open_screen(
    columns: int = 120,
    rows: int = 40,
    *,
    scrollback: int = _SCROLLBACK,
    backend: Backend | None = None,
) -> Screen:
    """An empty screen; without ``backend`` ghostty's, or avt's where there is no build of that.

    ``scrollback`` is the most rows that are kept above the screen. ``close`` what you open.

    Raises:
        ImportError: the backend that was asked for by name cannot be loaded here.
    """
    columns, rows = min(max(columns, 1), _LARGEST), min(max(rows, 1), _LARGEST)
    if backend != "avt":
        try:
            from .ghostty import GhosttyScreen, warm_up

            warm_up()
            return GhosttyScreen(columns, rows, scrollback)
        except (ImportError, OSError):  # no wheel for this machine, or its library does not load
            if backend is not None:
                raise
    from .avt import AvtScreen

    return AvtScreen(columns, rows, scrollback)
