"""What differs between two trees: exactly for programs, counted for people. Everything blocks."""

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct

from quarterdeck.system.git.repository import GitRepository

__all__ = [
    "GITLINK",
    "FileCount",
    "TreeChange",
    "count_changes",
    "diff_trees",
    "list_filtered",
    "measure_blobs",
    "read_mode",
]

GITLINK = "160000"
"""The mode of a submodule."""
_SECONDS = 60.0
_NOT_SET = (b"unspecified", b"unset", b"")


class TreeChange(Struct, frozen=True, kw_only=True):
    """A path that is not the same in two trees; renames count as two."""

    path: bytes
    old_mode: str
    """All zeros: it is not in the old tree."""
    new_mode: str
    old_blob: str
    new_blob: str

    @property
    def is_added(self) -> bool:
        """Whether the old tree does not have it."""
        return not self.old_mode.strip("0")

    @property
    def is_removed(self) -> bool:
        """Whether the new tree does not have it."""
        return not self.new_mode.strip("0")


class FileCount(Struct, frozen=True, kw_only=True):
    """How many lines of a file changed."""

    path: bytes
    added: int | None
    """None: it is binary."""
    removed: int | None
    old_path: bytes | None = None
    """Where it was before, if it was renamed."""


def diff_trees(repository: GitRepository, old: str, new: str) -> list[TreeChange]:
    """Every path that differs. Raises GitError."""
    words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old, new)
    fields = repository.ask(words, seconds=_SECONDS).data.split(b"\0")
    found: list[TreeChange] = []
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old_blob, new_blob, _ = facts.decode().lstrip(":").split(" ")
        found.append(
            TreeChange(
                path=path,
                old_mode=old_mode,
                new_mode=new_mode,
                old_blob=old_blob,
                new_blob=new_blob,
            )
        )
    return found


def count_changes(repository: GitRepository, old: str, new: str) -> list[FileCount]:
    """The lines that changed, by file; renamed files are followed. Raises GitError."""
    words = ("diff-tree", "-r", "-z", "--numstat", "-M", old, new)
    fields = iter(repository.ask(words, seconds=_SECONDS).data.split(b"\0"))
    found: list[FileCount] = []
    for field in fields:
        if not field:
            continue
        added, removed, path = field.split(b"\t", 2)
        old_path = None
        if not path:  # a rename: both names follow
            old_path, path = next(fields), next(fields)
        found.append(
            FileCount(path=path, added=_number(added), removed=_number(removed), old_path=old_path)
        )
    return found


def _number(field: bytes) -> int | None:
    return int(field) if field.isdigit() else None


def list_filtered(repository: GitRepository, paths: Sequence[bytes]) -> list[bytes]:
    """Those of the paths whose attributes name a filter, such as LFS's. Raises GitError."""
    if not paths:
        return []
    words = ("check-attr", "--stdin", "-z", "filter")
    given = b"".join(path + b"\0" for path in paths)
    fields = repository.ask(words, given=given, seconds=_SECONDS).data.split(b"\0")
    triples = zip(fields[::3], fields[2::3], strict=False)
    return [path for path, value in triples if value not in _NOT_SET]


def measure_blobs(repository: GitRepository, blobs: Iterable[str]) -> int:
    """How many bytes these contents have together. Raises GitError."""
    given = "".join(f"{blob}\n" for blob in blobs).encode()
    if not given:
        return 0
    words = ("cat-file", "--batch-check=%(objectsize)")
    sizes = repository.ask(words, given=given, seconds=_SECONDS).data.split(b"\n")
    return sum(int(size) for size in sizes if size.isdigit())


def read_mode(path: bytes) -> int | None:
    """The mode of a path on disk, not of what a link names; None: there is nothing."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
