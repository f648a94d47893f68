"""Entries of a repository's own index, read and replaced by git. Everything here blocks."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.object_store import GitEntry
from quarterdeck.system.git.repository import GitRepository

__all__ = ["IndexEntries", "check_out", "merge_contents"]


class IndexEntries:
    """The index of a work tree, by paths relative to its top."""

    def __init__(self, repository: GitRepository) -> None:
        self.repository = repository

    def read(self, paths: Iterable[bytes]) -> dict[bytes, GitEntry]:
        """What is staged at these paths; one with a conflict that is not resolved is refused.

        Raises:
            GitError: the index cannot be read, or has a conflict at one of them.
        """
        wanted = set(paths)
        names = [os.fsdecode(path) for path in sorted(wanted)]
        if not names:
            return {}
        words = ("ls-files", "--stage", "-z", "--full-name", "--", *names)
        found: dict[bytes, GitEntry] = {}
        for line in self.repository.ask(words, literal=True).data.split(b"\0"):
            head, _, path = line.partition(b"\t")
            if path not in wanted:
                continue
            mode, id_, stage = head.decode().split()
            if stage != "0":
                raise GitError(f"{os.fsdecode(path)!r} has a merge conflict; resolve it first")
            found[path] = GitEntry(mode, id_)
        return found

    def read_head(self, paths: Iterable[bytes]) -> dict[bytes, GitEntry]:
        """What is committed at these paths; nothing where there is no commit. Raises GitError."""
        wanted = set(paths)
        names = [os.fsdecode(path) for path in sorted(wanted)]
        words = ("ls-tree", "-z", "--full-tree", "HEAD", "--", *names)
        try:
            answer = self.repository.ask(words, literal=True)
        except GitError:
            return {}  # no commit yet
        found: dict[bytes, GitEntry] = {}
        for line in answer.data.split(b"\0"):
            head, _, path = line.partition(b"\t")
            mode, kind, id_ = head.decode().split() if path in wanted else ("", "tree", "")
            if kind != "tree":
                found[path] = GitEntry(mode, id_)
        return found

    def write(self, entries: Mapping[bytes, GitEntry | None]) -> None:
        """Replace entries, all of them or none; None: it is no longer listed.

        Raises:
            GitError: the index is locked or cannot be written.
        """
        if not entries:
            return
        zero = "0" * (64 if self.repository.object_format == "sha256" else 40)
        lines = [
            f"0 {zero}\t".encode() + path
            if entry is None
            else f"{entry.mode} {entry.id}\t".encode() + path
            for path, entry in entries.items()
        ]
        words = ("update-index", "--add", "--remove", "--replace", "-z", "--index-info")
        self.repository.change(words, given=b"".join(line + b"\0" for line in lines))

    def keep(self, data: bytes) -> str:
        """Put a content into the repository; returns its id. Raises GitError."""
        words = ("hash-object", "-w", "--stdin")
        return self.repository.change(words, given=data).data.decode().strip()

    def ignored(self, paths: Iterable[bytes]) -> set[bytes]:
        """Those that are ignored and not listed. Raises GitError."""
        given = b"".join(path + b"\0" for path in paths)
        if not given:
            return set()
        words = ("check-ignore", "-z", "--stdin")
        return set(self.repository.ask(words, given=given, accepted=(0, 1)).data.split(b"\0"))


def merge_contents(
    repository: GitRepository, current: bytes, base: bytes, other: bytes
) -> bytes | None:
    """A content with what changed from ``base`` to ``other``; None: that cannot be distinguished.

    Raises GitError.
    """
    if current == base:
        return other
    with tempfile.TemporaryDirectory(prefix="quarterdeck-merge-") as directory:
        names: list[str] = []
        for name, data in (("current", current), ("base", base), ("other", other)):
            (Path(directory) / name).write_bytes(data)
            names.append(f"{directory}/{name}")
        words = ("merge-file", "--stdout", "--quiet", *names)
        answer = repository.ask(words, accepted=range(256))
    return answer.data if answer.code == 0 else None


def check_out(repository: GitRepository, path: bytes, data: bytes) -> bytes:
    """What git would write to the disk for a content at a path: line ends as attributes say.

    Raises GitError.
    """
    with tempfile.TemporaryDirectory(prefix="quarterdeck-file-") as directory:
        index, objects = f"{directory}/index", f"{directory}/objects"
        Path(objects).mkdir()
        words = ("hash-object", "-w", "--stdin")
        id_ = repository.change(words, objects=objects, given=data).data.decode().strip()
        line = f"100644 {id_}\t".encode() + path + b"\0"
        words = ("update-index", "--add", "-z", "--index-info")
        repository.change(words, index=index, objects=objects, given=line)
        words = ("checkout-index", "-z", "--stdin", "--force", f"--prefix={directory}/files/")
        repository.change(words, index=index, objects=objects, given=path + b"\0")
        return Path(os.fsdecode(os.fsencode(directory) + b"/files/" + path)).read_bytes()
