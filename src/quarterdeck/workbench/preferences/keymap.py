"""The key bindings of a person: a file that binds keys to commands or to nothing, and the places
where a binding counts.
"""

import re
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError

from ..panels.kinds import KINDS

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.widget import Widget

__all__ = [
    "KEY_PLACES",
    "KeyBinding",
    "KeyBindingError",
    "Keymap",
    "explain_unusable_key",
    "find_key_places",
    "load_keymap",
    "normalize_key",
    "save_key",
]

_PANELS = {
    kind.target.partition(":")[2]: kind.name
    for kind in KINDS.values()
    if kind.name != "chat"  # its transcript is not where one types
}
_WIDGETS = {
    "AgentTable": "agents",
    "ChatInput": "chat",
    "TranscriptView": "transcript",
    "PermissionCard": "permission",
}
"""Both by the names of classes, so that none has to be imported."""
KEY_PLACES = frozenset({*_PANELS.values(), *_WIDGETS.values()})
"""Where a key can count besides ``main``."""


def find_key_places(focused: "Widget | None") -> set[str]:
    """The names of what has the focus, and of what that is in."""
    found = {"main"}
    node: DOMNode | None = focused
    while node is not None:
        # Panels exactly: a chat is a kind of transcript too, and keys for that are letters.
        names = [_PANELS.get(type(node).__name__)]
        names += [_WIDGETS.get(kind.__name__) for kind in type(node).__mro__]
        found.update(name for name in names if name is not None)
        node = node.parent
    return found


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


class KeyBindingError(QuarterdeckError):
    """A key, or the file of keys, that cannot be used; the message says why."""


class KeyBinding(Struct, frozen=True, kw_only=True):
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

    def __init__(self, bound: Collection[KeyBinding] = ()) -> None:
        self._bound = {one.key: one for one in bound}

    def __iter__(self) -> Iterator[KeyBinding]:
        return iter(self._bound.values())

    def find(self, key: str, places: Collection[str] = (MAIN,)) -> KeyBinding | None:
        """What a key does, if the person has bound it for one of these places."""
        found = self._bound.get(key)
        return found if found is not None and found.when in places else None

    def put(self, bound: KeyBinding) -> None:
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
        return Keymap(), [f"{path}: {error}; using the default keys"]
    keymap, problems = Keymap(), list[str]()
    for name, value in raw.items():
        try:
            keymap.put(_bound(name, value, commands, places))
        except KeyBindingError as error:
            problems.append(f"{path}, line {_line_of(text, name)}: {error}")
    return keymap, problems


_Loaded = tuple[Keymap, list[str]]


def save_key(path: Path, bound: KeyBinding | None, key: str) -> None:
    """Write a key's line, or take it out; all other lines stay as they are. Blocks.

    Raises:
        KeyBindingError: the file cannot be read or changed; it is as it was.
    """
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        before = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise KeyBindingError(f"cannot change {str(path)!r}, fix it first: {error}") from error
    wanted = {name: value for name, value in before.items() if normalize_key(name) != key}
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
        raise KeyBindingError(f"{key!r} in {str(path)!r} spans several lines; edit it by hand")
    _replace(path, after)


def normalize_key(key: str) -> str:
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


def explain_unusable_key(key: str) -> str | None:
    """Why a plain terminal cannot send a key; None: it can."""
    *modifiers, base = key.split("+")
    given = set(modifiers)
    if given - {"ctrl", "alt", "shift"}:
        return "terminals only report ctrl, alt and shift"
    if base in _MOVES or base in _FUNCTIONS:
        return None
    if base in _ALONE:
        is_plain = given <= _ALONE[base] and len(given) <= 1
        return None if is_plain else f"terminals send {base!r} without these modifiers"
    if "ctrl" in given:
        return _why_no_control(base, given)
    if "shift" in given:
        return "terminals send an upper-case letter instead"
    if len(base) == 1 or base.replace("_", "").isalpha():
        return None
    return "unknown key"


def _why_no_control(base: str, given: set[str]) -> str | None:
    if base in _TWINS:
        return f"terminals send the same for {_TWINS[base]}"
    if "shift" in given or "alt" in given:
        return "terminals send ctrl with a letter without other modifiers"
    if (len(base) == 1 and base.isascii() and base.isalpha()) or base in _SIGNS:
        return None
    return "terminals send ctrl with letters only"


def check_key(key: str, when: str, places: Collection[str]) -> None:
    """Raises KeyBindingError: it cannot be bound there."""
    if when not in places:
        raise KeyBindingError(
            f"{key!r}: unknown place {when!r}; choose one of {', '.join(sorted(places))}"
        )
    if (why := explain_unusable_key(key)) is not None:
        raise KeyBindingError(f"cannot bind {key!r}: {why}")
    is_typed = "+" not in key and (len(key) == 1 or key not in _MOVES | _FUNCTIONS | _NEEDED)
    if when in (MAIN, "chat") and (is_typed or key in _NEEDED):
        raise KeyBindingError(
            f"{key!r} is needed for typing; bind it with a place, such as 'transcript'"
        )


def _bound(name: str, value: Any, commands: Collection[str], places: Collection[str]) -> KeyBinding:
    key = normalize_key(name)
    if isinstance(value, str):
        command, _, words = value.strip().removeprefix("/").partition(" ")
        line = _Line(command=command, words=words.strip())
    else:
        try:
            line = convert(value, _Line)
        except msgspec.ValidationError as error:
            raise KeyBindingError(f"{name!r}: {error}") from error
    check_key(key, line.when, places)
    if line.command and line.command not in commands:
        raise KeyBindingError(f"{name!r}: unknown command {line.command!r}; press f1 for the list")
    return KeyBinding(key=key, command=line.command, words=line.words, when=line.when)


def _value(bound: KeyBinding) -> str | dict[str, str]:
    text = f"{bound.command} {bound.words}".strip()
    if bound.when == MAIN:
        return text
    return {"command": bound.command, "words": bound.words, "when": bound.when}


def _written(value: str | dict[str, str]) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return "{ " + ", ".join(f"{name} = {_quoted(one)}" for name, one in value.items()) + " }"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()  # a JSON string is a TOML string


_NAME = r"""\s*(?:"([^"\\]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*="""


def _names(line: str, key: str) -> bool:
    found = re.match(_NAME, line)
    return (
        found is not None and normalize_key(next(g for g in found.groups() if g is not None)) == key
    )


def _line_of(text: str, name: str) -> int:
    key = normalize_key(name)
    lines = enumerate(text.splitlines(), 1)
    return next((n for n, line in lines if _names(line, key) or name in line), 1)


def _replace(path: Path, text: str) -> None:
    from quarterdeck.wire.private_files import write_private

    try:
        write_private(path, text)
    except OSError as error:
        raise KeyBindingError(f"cannot write {str(path)!r}: {error}") from error
