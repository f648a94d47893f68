"""What agents are called.

A name is shown in lists, typed in commands and may become part of a path or of a branch, so it
holds letters, digits and three marks alone: nothing that leads out of a directory, hides, or turns
the direction of writing. Names that differ in case alone are one name, as on some disks.
"""

import re
import unicodedata
from collections.abc import Container
from itertools import count

from .errors import InvalidAgentNameError, NameTakenError

__all__ = ["check_name", "choose_free_name", "looks_like_id", "normalize_name"]

_MARKS = frozenset("-_.")
_LONGEST = 40
_ID = re.compile(r"ses_[0-9a-z]{26}")


def check_name(name: str) -> str:
    """The name as it is kept.

    Raises:
        InvalidAgentNameError: it cannot be one.
    """
    kept = unicodedata.normalize("NFC", name)
    if not 1 <= len(kept) <= _LONGEST or not kept[0].isalnum() or looks_like_id(kept):
        raise InvalidAgentNameError(name)
    if not all(letter.isalnum() or letter in _MARKS for letter in kept):
        raise InvalidAgentNameError(name)
    return kept


def normalize_name(name: str) -> str:
    """What two names share if they are one name."""
    return unicodedata.normalize("NFC", name).casefold()


def looks_like_id(name: str) -> bool:
    """Whether this could be the id of a session, so that it can be no name."""
    return _ID.fullmatch(name) is not None


def choose_free_name(wanted: str | None, agent: str, taken: Container[str]) -> str:
    """A name that no one has: the wanted one, else ``agent-1``, ``agent-2`` and so on.

    ``taken`` holds keys.

    Raises:
        InvalidAgentNameError, NameTakenError: the wanted one cannot be had.
    """
    if wanted is not None:
        name = check_name(wanted)
        if normalize_name(name) in taken:
            raise NameTakenError(name)
        return name
    stem = "".join(letter for letter in agent if letter.isalnum() or letter in _MARKS)
    stem = stem.lstrip("-_.")[: _LONGEST - 8] or "agent"
    return next(name for n in count(1) if normalize_name(name := f"{stem}-{n}") not in taken)
