"""What the fake draws: what was said, and below it the prompt."""

import os
import termios
import tty
from collections.abc import Sequence
from typing import Any

__all__ = ["Drawing"]


class Drawing:
    """A terminal in raw mode; ``chrome`` is what stands below everything that was said."""

    def __init__(self) -> None:
        self._before: list[Any] = termios.tcgetattr(0)
        self._drawn = 0
        self._chrome: tuple[str, ...] = ()

    def __enter__(self) -> "Drawing":
        tty.setraw(0)
        self._write("\x1b[?2004h\x1b[?25l")
        return self

    def __exit__(self, *_: object) -> None:
        self._write("\x1b[?2004l\x1b[?25h\r\n")
        termios.tcsetattr(0, termios.TCSANOW, self._before)

    @property
    def columns(self) -> int:
        """How wide it is."""
        return max(os.get_terminal_size(1).columns, 20)

    def say(self, lines: Sequence[str]) -> None:
        """Print lines above the chrome; long ones are wrapped by the terminal."""
        self._write(self._erased() + "".join(f"{line}\r\n" for line in lines) + self._below())

    def show(self, chrome: Sequence[str]) -> None:
        """Draw this below everything from now on; lines that are too long are cut."""
        width = self.columns - 1
        erased = self._erased()
        self._chrome = tuple(line[:width] for line in chrome)
        self._write(erased + self._below())

    def raw(self, data: bytes) -> None:
        """Write bytes as they are; may be interrupted by a signal that draws."""
        while data:
            data = data[os.write(1, data) :]

    def anew(self) -> None:
        """Draw on an empty terminal, as after its size has changed or what is on it is unknown."""
        self._drawn = 0
        self.raw(b"\x1b[?2004h\x1b[2J\x1b[H")
        self._write(self._below())

    def lost(self) -> None:
        """Something else has written to the terminal: draw below it."""
        self._drawn = 0
        self._write("\r\n" + self._below())

    def _erased(self) -> str:
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        return f"\r{up}\x1b[J" if self._drawn else ""

    def _below(self) -> str:
        self._drawn = len(self._chrome)
        return "\r\n".join(self._chrome)

    def _write(self, text: str) -> None:
        # In one piece, so that nobody sees the half of it.
        text = f"\x1b[?2026h{text}\x1b[?2026l"
        self.raw(text.encode("utf-8", "surrogateescape"))
