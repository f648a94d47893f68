"""The beginning of a sequence of which the rest has not come yet, for who has to repeat it."""

import re

__all__ = ["Unfinished"]

_LONGEST = 4096
"""Characters that are kept; of a longer string the beginning, which is enough to be in one."""
_BEGINNINGS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
_CSI = r"(?:\x1b\[|\x9b)[\x00-?\x7f]*[@-~]"
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x9c]*[\x07\x18\x1a\x9c]"
_OTHER = r"\x1b[\x00-/\x7f]*[0-OQ-WYZ\\`-~]"
_WHOLE = re.compile(f"{_CSI}|{_STRING}|{_OTHER}|[^\x07]*[\x18\x1a]")
_IN_A_STRING = re.compile(r"\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]")
_OBEYED = re.compile(r"[\x00-\x17\x19\x1c-\x1f]")


class Unfinished:
    """Follows what a program writes, as characters."""

    def __init__(self) -> None:
        self._tail = ""

    def take(self, text: str) -> None:
        """What the program has written next."""
        if not self._tail and not any(one in text for one in _BEGINNINGS):
            return
        text = self._tail + text
        begun = _last(text, len(text))
        if begun == len(text) - 1 and text[begun] == "\x1b":  # perhaps half the end of a string
            before = _last(text, begun)
            if before >= 0 and _IN_A_STRING.match(text, before) and not _WHOLE.match(text, before):
                begun = before
        self._tail = "" if _WHOLE.match(text, begun) else _short(text[begun:])

    @property
    def text(self) -> str:
        """What brings a terminal into the middle of the sequence; nothing outside one.

        Within one, controls are obeyed at once, and so not repeated.
        """
        if _IN_A_STRING.match(self._tail):
            return self._tail
        return _OBEYED.sub("", self._tail)


def _last(text: str, end: int) -> int:
    return max(text.rfind(one, 0, end) for one in _BEGINNINGS)


def _short(tail: str) -> str:
    """Not too much of it, but its end where that is half of the end of a string."""
    if len(tail) <= _LONGEST:
        return tail
    return tail[:_LONGEST] + ("\x1b" if tail.endswith("\x1b") else "")
