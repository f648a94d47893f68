"""The paths that the words of a command name, as text: nothing here touches a disk.

A path keeps each ``..`` that was written until it is looked up: after a link it leads to the parent
of the link's target, which its text does not show.
"""

import glob
import posixpath
from collections.abc import Iterable

from .call import Access, Call, PathUse
from .paths import absolute
from .shell.line import Line
from .shell.words import Word

__all__ = [
    "before_pattern",
    "directories_of",
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


def directories_of(call: Call, line: Line, moves: tuple[str | None, ...]) -> tuple[str, ...] | None:
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


def word_use(call: Call, word: Word, cwd: str, access: Access) -> PathUse:
    """Return the path that a word names."""
    return path_use_of(call, joined_path(call, written_path(word), cwd), access)


def path_use_of(call: Call, joined: str, access: Access) -> PathUse:
    """Return the use of an absolute path, with the place where it was found to lead."""
    path = absolute(joined, cwd="/")
    return PathUse(path=path, resolved=call.links.get(joined, path), access=access)


def written_path(word: Word) -> str:
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


def pattern_key(call: Call, word: Word, cwd: str) -> str:
    """Return the absolute form of a file pattern, by which ``Call.matches`` knows it."""
    value = written_path(word)
    if word.tilde:
        home, _, value = value.partition("/")
        cwd = absolute(home, cwd=cwd, home=call.home)
    return posixpath.join(glob.escape(cwd), value)


def path_texts(word: Word) -> Iterable[str]:
    """Return every text in a word that may name a path."""
    value = written_path(word)
    if not value or len(value) > _LONGEST_PATH:
        return ()
    # "--file=x", "-fx" and "if=x" name x as well.
    texts = [value[2:]] if value.startswith("-") else [value]
    texts.append(value.partition("=")[2])
    return filter(None, texts)


def read_use(call: Call, word: Word, cwd: str) -> tuple[PathUse, ...] | None:
    """Return the path that a word names, to be read; None when it is not certain."""
    joined = joined_path(call, written_path(word), cwd)
    # Where ".." leads depends on links, and nobody has looked.
    if "/.." in joined and joined not in call.links:
        return None
    return (path_use_of(call, joined, "read"),)


def matched_uses(call: Call, word: Word, cwd: str) -> tuple[PathUse, ...] | None:
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


def before_pattern(word: Word) -> Word:
    """Return the directory before the first part of a word that is a pattern."""
    kept: list[str] = []
    for part in (word.value or "").split("/"):
        if any(sign in part for sign in "*?["):
            break
        kept.append(part)
    text = "/".join(kept) or ("/" if (word.value or "").startswith("/") else ".")
    return Word(word.raw, text, tilde=word.tilde)
