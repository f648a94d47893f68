"""What a terminal sends for keys and for pasted text."""

import re

from .emulator.api import TerminalModes

__all__ = ["KEYS", "encode_key", "encode_paste", "neutralize_controls"]

_PLAIN = {
    "enter": "\r",
    "tab": "\t",
    "space": " ",
    "backspace": "\x7f",
    "escape": "\x1b",
    "shift+tab": "\x1b[Z",
    "page-up": "\x1b[5~",
    "page-down": "\x1b[6~",
    "delete": "\x1b[3~",
}
_ARROWS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_CONTROL = re.compile(r"ctrl\+([a-z])")
KEYS = frozenset((*_PLAIN, *_ARROWS))
"""Names of keys, besides ``ctrl+a`` to ``ctrl+z`` and single characters."""

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NEWLINES = re.compile("\r\n?")


def encode_key(key: str, modes: TerminalModes) -> bytes:
    """The bytes of one key, as the program has asked to have them.

    Raises:
        ValueError: there is no such key.
    """
    kitty = modes.kitty_keyboard & 1
    if control := _CONTROL.fullmatch(key):
        letter = control[1]
        return f"\x1b[{ord(letter)};5u".encode() if kitty else bytes([ord(letter) - 96])
    if key == "escape" and kitty:
        return b"\x1b[27u"
    if key in _ARROWS:
        return f"\x1b{'O' if modes.application_cursor else '['}{_ARROWS[key]}".encode()
    if key in _PLAIN:
        return _PLAIN[key].encode()
    if len(key) == 1 and key.isprintable():
        return key.encode()
    known = ", ".join(sorted(KEYS))
    raise ValueError(f"there is no key {key!r}; known are {known}, ctrl+a to ctrl+z, characters")


def neutralize_controls(text: str) -> str:
    """The text with each control character as its picture, so that none of them does anything.

    Line ends and tabs stay; every line end becomes a newline.
    """
    return _CONTROLS.sub(_picture, _NEWLINES.sub("\n", text))


def encode_paste(text: str, modes: TerminalModes) -> bytes:
    """The bytes of pasted text: in brackets where the program knows them, controls neutralised.

    Nothing in the text can end the paste or press a key. A program that knows no brackets gets
    its line ends as the key.
    """
    typed = neutralize_controls(text).replace("\n", "\r")
    if modes.bracketed_paste:
        typed = f"{_BEGIN}{typed}{_END}"
    return typed.encode("utf-8", "replace")


def _picture(found: "re.Match[str]") -> str:
    code = ord(found[0])
    if code == 0x7F:
        return "\u2421"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"
