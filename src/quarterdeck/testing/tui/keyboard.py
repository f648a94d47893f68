"""What is typed: keys, and pastes in brackets."""

import os
import select
from dataclasses import dataclass

__all__ = ["Keyboard", "Pressed"]

_BEGIN, _END = b"\x1b[200~", b"\x1b[201~"


@dataclass(frozen=True, slots=True)
class Pressed:
    """One key, or a whole paste."""

    key: str
    """Its name, a character, or ``paste``."""
    text: str = ""


class Keyboard:
    """Reads standard input."""

    def __init__(self) -> None:
        self._waiting: bytes = b""

    def read(self, seconds: float | None = None) -> Pressed | None:
        """The next key, within so many seconds; None if there was none. EOFError at the end."""
        while True:
            pressed = self._next(is_late=False)
            if pressed is not None:
                return pressed
            # A lone escape may be the beginning of more.
            limit = 0.05 if self._waiting.startswith(b"\x1b") and not self._in_paste else seconds
            ready, _, _ = select.select([0], [], [], limit)
            if not ready:
                return self._next(is_late=True)
            data = os.read(0, 1 << 16)
            if not data:
                raise EOFError
            self._waiting += data

    @property
    def _in_paste(self) -> bool:
        return self._waiting.startswith(_BEGIN)

    def _next(self, *, is_late: bool) -> Pressed | None:
        data = self._waiting
        if not data:
            return None
        if data.startswith(_BEGIN):
            text, end, rest = data[len(_BEGIN) :].partition(_END)
            if not end:
                return None
            self._waiting = rest
            return Pressed("paste", text.decode("utf-8", "replace").replace("\r", "\n"))
        if data[:1] == b"\x1b":
            if len(data) == 1 and not is_late:
                return None
            if _BEGIN.startswith(data) and not is_late:
                return None
            self._waiting = data[3:] if data[1:2] == b"[" else data[1:]
            return Pressed("escape" if data[1:2] != b"[" else data[1:3].decode())
        self._waiting = data[1:]
        return Pressed({13: "enter", 3: "ctrl+c", 127: "backspace"}.get(data[0], chr(data[0])))
