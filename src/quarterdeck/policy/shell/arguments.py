"""The paths that the arguments of a command may name, wherever in a word they stand.

``--file=x``, ``-fx``, ``if=x``, ``@x``, ``HEAD:x`` and ``a:x`` all name ``x``. Which of them a
program means is not known, so each one counts.
"""

import re

from .words import FED_FILE, Word, read_word

__all__ = ["HARMLESS_DEVICES", "expand_braces", "path_texts"]

HARMLESS_DEVICES = frozenset(
    (
        *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/stdin"),
        *("/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2", FED_FILE),
    )
)
"""Files that hold nothing and keep nothing."""

_LONGEST = 4096
_MOST_WORDS = 64
_URL = re.compile(r"(?<![A-Za-z0-9+.-])(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^\s,;]*")
_FILE_URL = re.compile(r"file:(?://[^/]*)?(?=/)")
_SEPARATORS = re.compile(r"[=:,@;]")
_GLUED = re.compile(r"(?:/|~|\.\.(?:/|$)).*", re.DOTALL)


def path_texts(word: Word) -> tuple[str, ...]:
    """Return every text in a word that may be a path; nothing for a word that is not known.

    An address on the network (``https://…``) is none. A leading ``~`` is kept, also where the
    shell would not expand it.
    """
    value = word.value
    if not value or len(value) > _LONGEST:
        return ()
    value = _FILE_URL.sub("=", _URL.sub("", value))
    found = dict.fromkeys((value, *_SEPARATORS.split(value)))
    if value.startswith("-") and not value.startswith("--"):
        # Where the letters end and a value begins is not known: "-xvf/x", "-I/x".
        found[value[2:]] = None
        if (glued := _GLUED.search(value)) is not None:
            found[glued.group()] = None
    return tuple(text for text in found if text and not text.startswith("-"))


def expand_braces(raw: str) -> tuple[Word, ...]:
    """Return the words that ``a{b,c}`` stands for; nothing when that is not certain."""
    if "{" not in raw or any(sign in raw for sign in "$`\\'\"()<>"):
        return ()
    texts = _expand(raw)
    return tuple(read_word(text) for text in texts) if 1 < len(texts) <= _MOST_WORDS else ()


def _expand(text: str) -> list[str]:
    opened = text.find("{")
    while opened >= 0:
        closed = _closing(text, opened)
        choices = _choices(text[opened + 1 : closed]) if closed > 0 else []
        if len(choices) > 1:
            tails = _expand(text[closed + 1 :])
            heads = [each for choice in choices for each in _expand(choice)]
            if len(heads) * len(tails) > _MOST_WORDS:
                return []
            return [text[:opened] + head + tail for head in heads for tail in tails]
        opened = text.find("{", opened + 1)
    return [text]


def _closing(text: str, opened: int) -> int:
    depth = 0
    for at in range(opened, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return -1


def _choices(body: str) -> list[str]:
    """Split what stands between braces at its own commas, or count from one end to the other."""
    counted = re.fullmatch(r"(-?\d{1,4})\.\.(-?\d{1,4})|([A-Za-z])\.\.([A-Za-z])", body)
    if counted is not None:
        first, last, low, high = counted.groups()
        if first is not None:
            one, other = int(first), int(last)
            step = 1 if other >= one else -1
            return [str(number) for number in range(one, other + step, step)][: _MOST_WORDS + 1]
        one, other = ord(low), ord(high)
        step = 1 if other >= one else -1
        return [chr(code) for code in range(one, other + step, step)]
    found, depth, start = list[str](), 0, 0
    for at, sign in enumerate(body):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            found.append(body[start:at])
            start = at + 1
    return [*found, body[start:]]
