"""What git says about a directory, for panels. Everything here blocks; callers are in a thread."""

import os

from quarterdeck.system.git_repository import expect_repository

__all__ = ["parse_status", "status_marks"]

_MOST_MARKS = 20_000
_MOST_BYTES = 4_000_000


def status_marks(cwd: str) -> dict[str, str]:
    """A letter for each changed path, absolute: M A D R U (conflict), ``?`` new to git.

    Directories are there where git names a whole one. At most some thousands.

    Raises:
        GitError: it is no work tree, or git cannot tell.
    """
    repository = expect_repository(cwd)
    words = ["status", "--porcelain=v1", "-z", "--", "."]
    answer = repository.ask(words, cwd=cwd, most=_MOST_BYTES)
    return parse_status(answer.data, repository.top)


def parse_status(data: bytes, top: str) -> dict[str, str]:
    """The letters of ``git status --porcelain=v1 -z``; half an entry at the end is left out."""
    marks: dict[str, str] = {}
    entries = iter(data.split(b"\0")[:-1])
    for entry in entries:
        if len(entry) < 4 or len(marks) >= _MOST_MARKS:
            continue
        staged, unstaged = chr(entry[0]), chr(entry[1])
        path = f"{top.rstrip('/')}/{os.fsdecode(entry[3:]).rstrip('/')}"
        if "R" in (staged, unstaged) or "C" in (staged, unstaged):
            next(entries, None)  # where it came from
        marks[path] = _letter(staged, unstaged)
    return marks


def _letter(staged: str, unstaged: str) -> str:
    pair = staged + unstaged
    if "U" in pair or pair in ("AA", "DD"):
        return "U"
    letter = unstaged if unstaged != " " else staged
    return letter if letter in "MADRCT?" else "M"
