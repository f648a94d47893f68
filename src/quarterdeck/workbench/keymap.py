"""The keys of a person: a file that binds keys to commands, or to nothing.

``keys.toml`` in the user's settings holds a line for each key::

    "ctrl+x" = "mode plan"
    "j" = { command = "end", when = "transcript" }
    "ctrl+t" = ""

What is bound here goes before every key of our own; a key that is bound to nothing does nothing.
"""

import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["BadKey", "Bound", "Keymap", "load_keymap", "normal_key", "save_key", "why_unusable"]

MAIN = "main"
"""Where a key counts unless its line says otherwise: on the main screen, wherever the focus is."""

_TWINS = {"h": "backspace", "i": "tab", "m": "enter", "left_square_bracket": "escape"}
_SIGNS = {"at", "backslash", "right_square_bracket", "circumflex_accent", "underscore"}
_MOVES = {"up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete"}
_FUNCTIONS = {f"f{number}" for number in range(1, 25)}
_ALONE = {
    "enter": {"alt"},
    "tab": {"shift"},
    "escape": set[str](),
    "backspace": {"alt"},
    "space": {"ctrl"},
}
_NEEDED = {"enter", "escape", "tab", "backspace", "space"}
"""What an input cannot do without."""


class BadKey(QuarterdeckError):
    """A key, or the file of keys, that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A key and the command that it does."""

    key: str
    """As Textual names it."""
    command: str
    """Empty: the key does nothing."""
    words: str = ""
    when: str = MAIN
    """Where: ``main``, or the name of what has the focus, such as ``chat`` or ``transcript``."""

    @property
    def shown(self) -> str:
        """What it does, as a person would type it."""
        return f"/{self.command} {self.words}".rstrip() if self.command else "nothing"


class Keymap:
    """The keys that a person has bound; one line for each key."""

    def __init__(self, bound: Collection[Bound] = ()) -> None:
        self._bound = {one.key: one for one in bound}

    def __iter__(self) -> Iterator[Bound]:
        return iter(self._bound.values())

    def find(self, key: str, places: Collection[str] = (MAIN,)) -> Bound | None:
        """What a key does, if the person has bound it for one of these places."""
        found = self._bound.get(key)
        return found if found is not None and found.when in places else None

    def put(self, bound: Bound) -> None:
        """Bind a key from now on."""
        self._bound[bound.key] = bound

    def drop(self, key: str) -> None:
        """Give a key back what it does without the person's file."""
        self._bound.pop(key, None)


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: str
    words: str = ""
    when: str = MAIN


def load_keymap(path: Path, commands: Collection[str], places: Collection[str]) -> "_Loaded":
    """Read the file of keys; never raises for what is in it. Blocks.

    Returns:
        The keys, and what is wrong with the file: each names its line. A line that is wrong does
        not count; a file that cannot be read counts as empty.
    """
    try:
        text = path.read_text("utf-8")
        raw = tomllib.loads(text)
    except FileNotFoundError:
        return Keymap(), []
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Keymap(), [f"{path}: {error}; the keys are those that are built in"]
    keymap, problems = Keymap(), list[str]()
    for name, value in raw.items():
        try:
            keymap.put(_bound(name, value, commands, places))
        except BadKey as error:
            problems.append(f"{path}, line {_line_of(text, name)}: {error}")
    return keymap, problems


_Loaded = tuple[Keymap, list[str]]


def save_key(path: Path, bound: Bound | None, key: str) -> None:
    """Write a key's line, or take it out; all other lines stay as they are. Blocks.

    Raises:
        BadKey: the file cannot be read or changed; it is as it was.
    """
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        before = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadKey(f"{str(path)!r} cannot be changed, mend it first: {error}") from error
    wanted = {name: value for name, value in before.items() if normal_key(name) != key}
    old = text.splitlines()
    lines = [line for line in old if not _names(line, key)]
    if bound is not None:
        wanted[key] = _value(bound)
        ends = (n for n, line in enumerate(old) if _names(line, key) or line.lstrip()[:1] == "[")
        at = next(ends, len(lines))
        lines.insert(at, f"{_quoted(key)} = {_written(wanted[key])}")
    after = "\n".join(lines) + "\n" if lines else ""
    try:
        is_right = tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise BadKey(
            f"the line of {key!r} in {str(path)!r} is not a single line; change it by hand"
        )
    _replace(path, after)


def normal_key(key: str) -> str:
    """A key by the name that Textual has for it: ``?`` is ``question_mark``."""
    from textual.binding import Binding

    *modifiers, base = key.strip().split("+") if key.strip() != "+" else ["+"]
    if len(base) != 1 or (modifiers and base.isalpha()):
        base = base.lower()
    elif not base.isalnum():
        base = next(iter(Binding.make_bindings([Binding(base, "x")]))).key
    ordered = [one for one in ("alt", "ctrl", "shift") if one in {m.lower() for m in modifiers}]
    others = [one.lower() for one in modifiers if one.lower() not in ("alt", "ctrl", "shift")]
    return "+".join([*others, *ordered, base])


def why_unusable(key: str) -> str | None:
    """Why a plain terminal cannot send a key; None: it can."""
    *modifiers, base = key.split("+")
    given = set(modifiers)
    if given - {"ctrl", "alt", "shift"}:
        return "a plain terminal knows ctrl, alt and shift only"
    if base in _MOVES or base in _FUNCTIONS:
        return None
    if base in _ALONE:
        is_plain = given <= _ALONE[base] and len(given) <= 1
        return None if is_plain else f"a plain terminal sends {base!r} without these"
    if "ctrl" in given:
        return _why_no_control(base, given)
    if "shift" in given:
        return "a plain terminal sends a capital letter instead"
    if len(base) == 1 or base.replace("_", "").isalpha():
        return None
    return "there is no such key"


def _why_no_control(base: str, given: set[str]) -> str | None:
    if base in _TWINS:
        return f"a plain terminal sends the same for {_TWINS[base]}"
    if "shift" in given or "alt" in given:
        return "a plain terminal sends ctrl with a letter alone"
    if (len(base) == 1 and base.isascii() and base.isalpha()) or base in _SIGNS:
        return None
    return "a plain terminal sends ctrl with letters only"


def check_key(key: str, when: str, places: Collection[str]) -> None:
    """Raises BadKey: it cannot be bound there."""
    if when not in places:
        raise BadKey(f"{key!r}: there is no {when!r}; one of {', '.join(sorted(places))}")
    if (why := why_unusable(key)) is not None:
        raise BadKey(f"{key!r} cannot be bound: {why}")
    is_typed = "+" not in key and (len(key) == 1 or key not in _MOVES | _FUNCTIONS | _NEEDED)
    if when in (MAIN, "chat") and (is_typed or key in _NEEDED):
        raise BadKey(f"{key!r} is needed for typing; bind it with when, such as 'transcript'")


def _bound(name: str, value: Any, commands: Collection[str], places: Collection[str]) -> Bound:
    key = normal_key(name)
    if isinstance(value, str):
        command, _, words = value.strip().removeprefix("/").partition(" ")
        line = _Line(command=command, words=words.strip())
    else:
        try:
            line = msgspec.convert(value, _Line)
        except msgspec.ValidationError as error:
            raise BadKey(f"{name!r}: {error}") from error
    check_key(key, line.when, places)
    if line.command and line.command not in commands:
        raise BadKey(f"{name!r}: there is no command {line.command!r}; f1 lists them")
    return Bound(key=key, command=line.command, words=line.words, when=line.when)


def _value(bound: Bound) -> str | dict[str, str]:
    said = f"{bound.command} {bound.words}".strip()
    if bound.when == MAIN:
        return said
    return {"command": bound.command, "words": bound.words, "when": bound.when}


def _written(value: str | dict[str, str]) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return "{ " + ", ".join(f"{name} = {_quoted(one)}" for name, one in value.items()) + " }"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()  # a JSON string is a TOML string


_NAME = re.compile(r"""\s*(?:"([^"\\]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*=""")


def _names(line: str, key: str) -> bool:
    found = _NAME.match(line)
    return found is not None and normal_key(next(g for g in found.groups() if g is not None)) == key


def _line_of(text: str, name: str) -> int:
    key = normal_key(name)
    lines = enumerate(text.splitlines(), 1)
    return next((n for n, line in lines if _names(line, key) or name in line), 1)


def _replace(path: Path, text: str) -> None:
    from .kept import write_private

    try:
        write_private(path, text)
    except OSError as error:
        raise BadKey(f"{str(path)!r} cannot be written: {error}") from error
