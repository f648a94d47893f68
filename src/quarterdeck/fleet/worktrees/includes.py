"""Ignored files that a new worktree needs: listed by ``.worktreeinclude``, copied from a checkout.

The file has the syntax of ``.gitignore`` and is used by other tools too. Only files that git
ignores are ever copied. Everything here blocks.
"""

import os
import tempfile
import unicodedata
from collections.abc import Callable, Sequence

from msgspec import Struct

from quarterdeck.system.file_copy import CopiedFile, TreeCopier
from quarterdeck.system.git.repository import GitRepository, read_whole

from .record import IncludedFile

__all__ = [
    "INCLUDE_FILE",
    "IncludedCopy",
    "IncludedFiles",
    "copy_included",
    "list_included",
    "read_patterns",
]

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
    # None of them is tracked: git need not look for each in its index, except for lists of
    # ignored files that a sparse checkout left there.
    is_sparse = repository.settings.get("core.sparsecheckout", "false") != "false"
    words = ("check-ignore", "-z", "--stdin", *(() if is_sparse else ("--no-index",)))
    asked = b"".join(name + b"\0" for name in names)
    ignored = repository.ask(words, given=asked, seconds=_SECONDS, accepted=(0, 1)).data
    return [name for name in ignored.split(b"\0") if name]


def read_patterns(top: str) -> list[str]:
    """The lines of a checkout's list; none where there is no list. Raises GitUnsafeError."""
    data = read_whole(f"{top}/{INCLUDE_FILE}", _MOST) or b""
    return [line for line in os.fsdecode(data).splitlines() if line.strip()]


class IncludedCopy:
    """Copies the listed files of a checkout to the same places of a worktree.

    What is there already stays.
    """

    def __init__(
        self, repository: GitRepository, target: str, patterns: Sequence[str] = ()
    ) -> None:
        """Find the files. Raises GitError."""
        self._repository = repository
        self._copier = TreeCopier(repository.top, target)
        self._names = list_included(repository, patterns)
        self._copied: list[CopiedFile] = []

    def copy_apart(self, tree: str) -> Callable[[], None] | None:
        """What copies those that cannot meet a file of ``tree`` while git writes it; None: none.

        They are in no directory of the tree, whichever way names are compared. Raises GitError.
        """
        if not self._names:
            return None
        words = ("ls-tree", "-z", "--name-only", tree)
        listed = self._repository.ask(words, seconds=_SECONDS).data.split(b"\0")
        taken = {_folded(name) for name in listed}
        apart = [name for name in self._names if _folded(name.partition(b"/")[0]) not in taken]
        self._names = sorted(set(self._names).difference(apart))
        return (lambda: self._copy(apart)) if apart else None

    def finish(self) -> IncludedFiles:
        """Copy the others; tell about all. Raises OSError for a full disk."""
        self._copy(self._names)
        self._names = []
        skipped = (f"{os.fsdecode(name)}: {why}" for name, why in self._copier.skipped.items())
        files = sorted(self._copied, key=lambda one: one.path)
        return IncludedFiles(
            files=tuple(IncludedFile(one.path, one.size, one.modified_ns) for one in files),
            skipped=tuple(sorted(skipped)),
        )

    def _copy(self, names: list[bytes]) -> None:
        if names:
            self._copied += self._copier.copy(names)


def copy_included(
    repository: GitRepository, target: str, patterns: Sequence[str] = ()
) -> IncludedFiles:
    """Copy the listed files of a checkout to the same places of a worktree.

    What is there already stays. Raises GitError, and OSError for a full disk.
    """
    return IncludedCopy(repository, target, patterns).finish()


def _folded(name: bytes) -> str:
    """A name as file systems may compare it: without case, composed."""
    return unicodedata.normalize("NFKC", os.fsdecode(name)).casefold()
