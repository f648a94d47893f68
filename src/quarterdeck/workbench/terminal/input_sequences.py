"""The bytes that a terminal sends for a key or the mouse, in the modes that the program has set."""

import unicodedata
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from quarterdeck.terminal.emulator.api import TerminalModes

__all__ = ["MouseAction", "MouseKind", "encode_key", "encode_mouse"]

_DISAMBIGUATE, _ALL, _TEXT = 1, 8, 16
"""Flags of kitty's keyboard protocol."""
_MODIFIERS: Final = {"shift": 1, "alt": 2, "ctrl": 4, "super": 8, "hyper": 16, "meta": 32}
_SHIFT, _ALT, _CTRL = 1, 2, 4

_LETTERED: Final = {
    "up": "A", "down": "B", "right": "C", "left": "D", "kp_begin": "E", "end": "F", "home": "H",
    "f1": "P", "f2": "Q", "f3": "R", "f4": "S",
}  # fmt: skip
"""Keys that end with a letter: ``CSI A``, or ``SS3 A`` where that is asked for."""
_NUMBERED: Final = {
    "insert": 2, "delete": 3, "pageup": 5, "pagedown": 6, "f5": 15, "f6": 17, "f7": 18, "f8": 19,
    "f9": 20, "f10": 21, "f11": 23, "f12": 24, "f13": 25, "f14": 26, "f15": 28, "f16": 29,
    "f17": 31, "f18": 32, "f19": 33, "f20": 34,
}  # fmt: skip
"""Keys that end with a tilde: ``CSI 5 ~``."""
_OWN: Final = {"enter": 13, "tab": 9, "escape": 27, "backspace": 127}
_OTHERS: Final = {
    "caps_lock": 57358, "scroll_lock": 57359, "num_lock": 57360, "print_screen": 57361,
    "pause": 57362, "menu": 57363, **{f"f{n}": 57363 + n for n in range(13, 36)},
}  # fmt: skip
"""Keys that only kitty's protocol knows."""
_SIGNS: Final = {
    "space": " ", "at": "@", "slash": "/", "backslash": "\\", "minus": "-", "plus": "+",
    "underscore": "_", "hyphen": "-", "period": ".", "decimal": ".", "divide": "/",
    "multiply": "*", "subtract": "-", "add": "+", "equal": "=", "separator": ",",
}  # fmt: skip
_CONTROLS: Final = {
    " ": 0, "@": 0, "2": 0, "3": 27, "[": 27, "4": 28, "\\": 28, "5": 29, "]": 29, "6": 30,
    "^": 30, "~": 30, "7": 31, "_": 31, "/": 31, "8": 127, "?": 127,
}  # fmt: skip
"""What a terminal sends for a sign with ctrl."""


def encode_key(key: str, character: str | None, modes: TerminalModes) -> bytes:
    """The bytes of a key; empty for one that a program cannot be sent.

    Args:
        key: its name, such as ``ctrl+a``, ``shift+f5``, ``full_stop`` or ``x``.
        character: what it types, or the control character that stands for it; may be None.
        modes: what the program has asked for.
    """
    held, base = _parted(key)
    flags = modes.kitty_keyboard
    if base in _LETTERED or base in _NUMBERED:
        return _special(base, held, modes)
    if base in _OWN:
        return _own(base, held, character, flags)
    if base in _OTHERS:
        return _u(_OTHERS[base], held) if flags else b""
    typed = _typed(base, character)
    if not typed:
        return b""
    return _character(typed, held, flags)


def _parted(key: str) -> tuple[int, str]:
    """The modifiers that are held, and the key."""
    *names, base = key.split("+") if key != "+" else ["+"]
    return sum({_MODIFIERS.get(name, 0) for name in names}), base


def _special(base: str, held: int, modes: TerminalModes) -> bytes:
    flags = modes.kitty_keyboard
    if base in _NUMBERED and not (flags and base in _OTHERS):
        return f"\x1b[{_NUMBERED[base]}{f';{held + 1}' if held else ''}~".encode()
    if base in _OTHERS:
        return _u(_OTHERS[base], held)
    letter = _LETTERED[base]
    if base == "f3" and flags:  # its letter would be an answer to where the cursor is
        return f"\x1b[13{f';{held + 1}' if held else ''}~".encode()
    if held:
        return f"\x1b[1;{held + 1}{letter}".encode()
    is_function = base[0] == "f"
    is_short = is_function or modes.application_cursor
    return f"\x1b{'O' if is_short and not flags else '['}{letter}".encode()


def _own(base: str, held: int, character: str | None, flags: int) -> bytes:
    """Keys that have a control character of their own."""
    is_plain = base != "escape" and not held
    if flags & _ALL or (flags & _DISAMBIGUATE and not is_plain):
        return _u(_OWN[base], held)
    if base == "tab" and held & _SHIFT:
        sent = "\x1b[Z"
    elif base == "backspace" and held & _CTRL:
        sent = "\x08"
    elif base == "backspace" and character == "\x08":
        sent = character  # ctrl+h, which has no other name
    else:
        sent = "\r" if base == "enter" else chr(_OWN[base])
    return ("\x1b" + sent if held & _ALT else sent).encode()


def _character(typed: str, held: int, flags: int) -> bytes:
    others = held & ~_SHIFT
    if flags & _ALL or (flags & _DISAMBIGUATE and others):
        code = ord(typed.lower()) if len(typed.lower()) == 1 else ord(typed[0])
        is_capital = typed != typed.lower()
        text = typed if flags & _TEXT and not others else ""
        return _u(code, held | (_SHIFT if is_capital else 0), text)
    if held & _CTRL:
        typed = _controlled(typed)
    elif held & _SHIFT and len(typed.upper()) == 1:
        typed = typed.upper()
    sent = typed.encode("utf-8", "replace")
    return b"\x1b" + sent if held & _ALT else sent


def _u(code: int, held: int, text: str = "") -> bytes:
    modifiers = f";{held + 1}" if held else ""
    if text:
        points = ":".join(str(ord(one)) for one in text)
        modifiers = f"{modifiers or ';'};{points}"
    return f"\x1b[{code}{modifiers}u".encode()


def _controlled(typed: str) -> str:
    lower = typed.lower()
    if len(lower) == 1 and "a" <= lower <= "z":
        return chr(ord(lower) - 96)
    return chr(_CONTROLS[typed]) if typed in _CONTROLS else typed


def _typed(base: str, character: str | None) -> str:
    """The character that a key stands for; empty: none."""
    if character and character.isprintable():
        return character
    if len(base) == 1:
        return base if base.isprintable() else ""
    if base in _SIGNS:
        return _SIGNS[base]
    try:
        return unicodedata.lookup(base.replace("_", " "))
    except KeyError:
        pass
    try:
        return unicodedata.lookup(base.replace("_", "-"))
    except KeyError:
        return ""


MouseKind: TypeAlias = Literal["press", "release", "move", "up", "down", "left", "right"]
"""A button, a move, or a turn of a wheel."""

_WHEEL = {"up": 64, "down": 65, "left": 66, "right": 67}
_FARTHEST = 222
"""The last cell that the old form can name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MouseAction:
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


def encode_mouse(action: MouseAction, modes: TerminalModes) -> bytes:
    """The bytes of it; empty where the program does not want to hear of it."""
    if not modes.mouse or (action.kind == "move" and not _wants_move(action, modes)):
        return b""
    code = _WHEEL.get(action.kind, (action.button - 1) & 3)
    code += 4 * action.shift + 8 * action.alt + 16 * action.ctrl + 32 * (action.kind == "move")
    if modes.mouse_sgr:
        end = "m" if action.kind == "release" else "M"
        return f"\x1b[<{code};{action.column + 1};{action.row + 1}{end}".encode()
    if action.kind == "release":
        code |= 3
    if max(action.column, action.row) > _FARTHEST:
        return b""
    return b"\x1b[M" + bytes([code + 32, action.column + 33, action.row + 33])


def _wants_move(action: MouseAction, modes: TerminalModes) -> bool:
    return modes.mouse == "any" or (modes.mouse == "drag" and action.button > 0)
