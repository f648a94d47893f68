"""A terminal's screen in memory: what a program in a terminal shows, and answers to its queries.

The port is in ``port``; ``open_screen`` makes one of the two that are behind it. Importing this
loads neither.
"""

from .opening import Backend, open_screen
from .port import Change, Color, Cursor, CursorShape, Mark, Modes, Mouse, Row, Screen, Span, Style

__all__ = [
    "Backend",
    "Change",
    "Color",
    "Cursor",
    "CursorShape",
    "Mark",
    "Modes",
    "Mouse",
    "Row",
    "Screen",
    "Span",
    "Style",
    "open_screen",
]
