"""Text that comes from models, for a terminal: nothing in it can move a cursor or hide a word."""

import unicodedata

__all__ = [
    "count",
    "count_columns",
    "count_noun",
    "cut_to_width",
    "escape_controls",
    "escape_json",
    "escape_to_line",
    "format_age",
]

# Used within emoji and scripts, and without any power over the rest of the line.
_HARMLESS = frozenset("\u200c\u200d")
_MICROSECONDS = 1_000_000


def escape_controls(text: str, *, keep: str = "\n") -> str:
    """Show control characters, marks of direction and invisible ones as escapes.

    ``keep`` are those that stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character in keep or _is_plain(character) else _escaped(character)
        for character in text
    )


def escape_json(json: str) -> str:
    """The same in JSON, whose own escapes are used, so that it still means the same."""
    if json.isascii() and "\x7f" not in json:  # the other control characters are escaped already
        return json
    return "".join(
        character if character == "\n" or _is_plain(character) else _json_escaped(character)
        for character in json
    )


def escape_to_line(text: str) -> str:
    """The same in one line: white space becomes one space."""
    return escape_controls(" ".join(text.split()), keep="")


def count_columns(text: str) -> int:
    """How many columns a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def cut_to_width(text: str, width: int) -> str:
    """The text within so many columns; the last is … where something is left out."""
    if count_columns(text) <= width:
        return text
    kept: list[str] = []
    room = width - 1
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "…" if width > 0 else ""


def format_age(then: int, now: int) -> str:
    """How long ago, in one unit; both in microseconds."""
    seconds = max(0, now - then) // _MICROSECONDS
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def count_noun(number: int, noun: str) -> str:
    """A number with its noun: 1 line, 2 lines."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def count(number: int) -> str:
    """A number in three digits: 950, 1.5k, 23k, 4.1M."""
    if number < 1_000:
        return str(number)
    for unit, size in (("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)):
        value = number / size
        if value < 999.5:
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return f"{number / 1_000_000_000:.0f}G"


def _is_plain(character: str) -> bool:
    if character.isprintable() or character in _HARMLESS:
        return True
    return unicodedata.category(character) == "Zs"  # a space, whatever its width


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _width(character: str) -> int:
    if unicodedata.combining(character) or character in _HARMLESS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
