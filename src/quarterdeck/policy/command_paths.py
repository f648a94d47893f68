"""The paths that the words of a command name, as text: nothing here touches a disk.

``--file=x``, ``-fx``, ``if=x``, ``@x``, ``HEAD:x`` and ``a:x`` all name ``x``. Which of them a
program means is not known, so each one counts. A path keeps each ``..`` that was written until it
is looked up: after a link it leads to the parent of the link's target, which its text does not
show.
"""

import glob
import posixpath
import re
from collections.abc import Iterable

from .call import Access, Call, PathUse
from .paths import absolute
from .shell.command_line import FED_FILE, CommandLine, ShellWord, read_word

__all__ = [
    "HARMLESS_DEVICES",
    "argument_paths",
    "before_pattern",
    "directories_of",
    "expand_braces",
    "joined_path",
    "matched_uses",
    "path_texts",
    "path_use_of",
    "pattern_key",
    "read_use",
    "word_use",
    "written_path",
]

_LONGEST_PATH = 4096


def directories_of(
    call: Call, line: CommandLine, moves: tuple[str | None, ...]
) -> tuple[str, ...] | None:
    """Return every directory that a command may run in; None: any.

    A ``cd`` may have failed or been skipped, so each one adds places and removes none.
    """
    if line.moves_unknown or None in moves or len(moves) > 6:
        return None
    places = [call.cwd]
    for move in moves:
        reached = [absolute(move or "", cwd=place, home=call.home) for place in places]
        places = list(dict.fromkeys((*places, *reached)))
        if len(places) > 16:
            return None
    return tuple(places)


def word_use(call: Call, word: ShellWord, cwd: str, access: Access) -> PathUse:
    """Return the path that a word names."""
    return path_use_of(call, joined_path(call, written_path(word), cwd), access)


def path_use_of(call: Call, joined: str, access: Access) -> PathUse:
    """Return the use of an absolute path, with the place where it was found to lead."""
    path = absolute(joined, cwd="/")
    return PathUse(path=path, resolved=call.links.get(joined, path), access=access)


def written_path(word: ShellWord) -> str:
    """Return the path that a word is; a quoted ``~`` is a file of that name."""
    value = word.value or ""
    return "./" + value if value.startswith("~") and not word.tilde else value


def joined_path(call: Call, text: str, cwd: str) -> str:
    """Make a path absolute and keep its ``..``: after a link, they are the kernel's to resolve."""
    if ".." not in text.split("/"):
        return absolute(text, cwd=cwd, home=call.home)
    if text.startswith("~"):
        home, _, text = text.partition("/")
        cwd = absolute(home, cwd=cwd, home=call.home)
    return posixpath.join(cwd, text)


def pattern_key(call: Call, word: ShellWord, cwd: str) -> str:
    """Return the absolute form of a file pattern, by which ``Call.matches`` knows it."""
    value = written_path(word)
    if word.tilde:
        home, _, value = value.partition("/")
        cwd = absolute(home, cwd=cwd, home=call.home)
    return posixpath.join(glob.escape(cwd), value)


def path_texts(word: ShellWord) -> Iterable[str]:
    """Return every text in a word that may name a path."""
    value = written_path(word)
    if not value or len(value) > _LONGEST_PATH:
        return ()
    # "--file=x", "-fx" and "if=x" name x as well.
    texts = [value[2:]] if value.startswith("-") else [value]
    texts.append(value.partition("=")[2])
    return filter(None, texts)


def read_use(call: Call, word: ShellWord, cwd: str) -> tuple[PathUse, ...] | None:
    """Return the path that a word names, to be read; None when it is not certain."""
    joined = joined_path(call, written_path(word), cwd)
    # Where ".." leads depends on links, which were not looked up.
    if "/.." in joined and joined not in call.links:
        return None
    return (path_use_of(call, joined, "read"),)


def matched_uses(call: Call, word: ShellWord, cwd: str) -> tuple[PathUse, ...] | None:
    """Return what a pattern may match; None when it may match anything."""
    value = word.value or ""
    if not _glob_stays(value) or "[" in value or "**" in value:
        return None
    before = read_use(call, before_pattern(word), cwd)
    found = call.matches.get(pattern_key(call, word, cwd), ())
    if before is None or found is None:
        return None
    # A file's name may look like an option.
    if value[0] in "*?" and any(posixpath.relpath(path, cwd)[0] == "-" for path, _ in found):
        return None
    matched = (PathUse(path=path, resolved=real, access="read") for path, real in found)
    return (*before, *matched)


def _glob_stays(value: str) -> bool:
    """Say whether a pattern cannot match ``..`` and so leave its directory."""
    parts = value.split("/")
    first = next(i for i, part in enumerate(parts) if any(sign in part for sign in "*?["))
    return not any(part.startswith((".", "[")) for part in parts[first:])


def before_pattern(word: ShellWord) -> ShellWord:
    """Return the directory before the first part of a word that is a pattern."""
    kept: list[str] = []
    for part in (word.value or "").split("/"):
        if any(sign in part for sign in "*?["):
            break
        kept.append(part)
    text = "/".join(kept) or ("/" if (word.value or "").startswith("/") else ".")
    return ShellWord(word.raw, text, tilde=word.tilde)


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


def argument_paths(word: ShellWord) -> tuple[str, ...]:
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


def expand_braces(raw: str) -> tuple[ShellWord, ...]:
    """Return the words that ``a{b,c}`` expands to; nothing when that is not certain."""
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
