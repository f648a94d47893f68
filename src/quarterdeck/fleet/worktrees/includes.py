"""Ignored files that a new worktree needs: listed by ``.worktreeinclude``, copied from a checkout.

The file has the syntax of ``.gitignore`` and is used by other tools too. Only files that git
ignores are ever copied. Everything here blocks.
"""

import os
import tempfile
from collections.abc import Sequence

from msgspec import Struct

from quarterdeck.system.file_copy import TreeCopier
from quarterdeck.system.git.repository import GitRepository, read_whole

from .record import IncludedFile

__all__ = ["INCLUDE_FILE", "IncludedFiles", "copy_included", "list_included", "read_patterns"]

INCLUDE_FILE = ".worktreeinclude"
_MOST = 1_000_000
_SECONDS = 120.0


class IncludedFiles(Struct, frozen=True, kw_only=True):
    """What was copied, and what could not be."""

    files: tuple[IncludedFile, ...] = ()
    skipped: tuple[str, ...] = ()
    """For people: the name and the reason."""


def list_included(repository: GitRepository, patterns: Sequence[str] = ()) -> list[bytes]:
    """The ignored files of a checkout that match its list or these patterns.

    Raises:
        GitError: git failed.
    """
    lines = [os.fsencode(line) for line in (*read_patterns(repository.top), *patterns)]
    if not lines:
        return []
    with tempfile.NamedTemporaryFile(prefix="quarterdeck-include-") as file:
        file.write(b"\n".join(lines) + b"\n")
        file.flush()
        words = ("ls-files", "-z", "--others", "--ignored", f"--exclude-from={file.name}")
        found = repository.ask(words, seconds=_SECONDS).data
    # Repositories within end with a slash: their files are their own.
    names = [name for name in found.split(b"\0") if name and not name.endswith(b"/")]
    if not names:
        return []
    words = ("check-ignore", "-z", "--stdin")
    asked = b"".join(name + b"\0" for name in names)
    ignored = repository.ask(words, given=asked, seconds=_SECONDS, accepted=(0, 1)).data
    return [name for name in ignored.split(b"\0") if name]


def read_patterns(top: str) -> list[str]:
    """The lines of a checkout's list; none where there is no list. Raises GitUnsafeError."""
    data = read_whole(f"{top}/{INCLUDE_FILE}", _MOST) or b""
    return [line for line in os.fsdecode(data).splitlines() if line.strip()]


def copy_included(
    repository: GitRepository, target: str, patterns: Sequence[str] = ()
) -> IncludedFiles:
    """Copy the listed files of a checkout to the same places of a worktree.

    What is there already stays. Raises GitError, and OSError for a full disk.
    """
    copier = TreeCopier(repository.top, target)
    names = list_included(repository, patterns)
    copied = copier.copy(names) if names else []
    skipped = (f"{os.fsdecode(name)}: {why}" for name, why in copier.skipped.items())
    return IncludedFiles(
        files=tuple(IncludedFile(one.path, one.size, one.modified_ns) for one in copied),
        skipped=tuple(sorted(skipped)),
    )
