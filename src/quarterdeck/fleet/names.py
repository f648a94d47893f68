"""What agents are called.

A name is shown in lists, typed in commands and may become part of a path or of a branch, so it
holds letters, digits and three marks alone: nothing that leads out of a directory, hides, or turns
the direction of writing. Names that differ in case alone are one name, as on some disks.
"""

import re
import unicodedata
from collections.abc import Container
from itertools import count

from .errors import BadName, NameTaken

__all__ = ["check_name", "free_name", "key_of", "looks_like_id"]

_MARKS = frozenset("-_.")
_LONGEST = 40
_ID = re.compile(r"ses_[0-9a-z]{26}")


def check_name(name: str) -> str:
    """The name as it is kept.

    Raises:
        BadName: it cannot be one.
    """
    kept = unicodedata.normalize("NFC", name)
    if not 1 <= len(kept) <= _LONGEST or not kept[0].isalnum() or looks_like_id(kept):
        raise BadName(name)
    if not all(letter.isalnum() or letter in _MARKS for letter in kept):
        raise BadName(name)
    return kept


def key_of(name: str) -> str:
    """What two names share if they are one name."""
    return unicodedata.normalize("NFC", name).casefold()


def looks_like_id(name: str) -> bool:
    """Whether this could be the id of a session, so that it can be no name."""
    return _ID.fullmatch(name) is not None


def free_name(wanted: str | None, agent: str, taken: Container[str]) -> str:
    """A name that nobody has: the wanted one, else ``agent-1``, ``agent-2`` and so on.

    ``taken`` holds keys.

    Raises:
        BadName, NameTaken: the wanted one cannot be had.
    """
    if wanted is not None:
        name = check_name(wanted)
        if key_of(name) in taken:
            raise NameTaken(name)
        return name
    stem = "".join(letter for letter in agent if letter.isalnum() or letter in _MARKS)
    stem = stem.lstrip("-_.")[: _LONGEST - 8] or "agent"
    return next(name for n in count(1) if key_of(name := f"{stem}-{n}") not in taken)
