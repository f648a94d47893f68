"""A store of git's objects that we own: a private git directory, written without running git.

For trees and contents that exist in no repository, such as a file at the moment at which it was
read. Git compares them with those of repositories (``alternates``) and reads nothing but
what we wrote: no settings, no attributes of a work tree, so that no file can hide itself from a
comparison by calling itself binary. Everything here blocks.
"""

import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from quarterdeck.wire.private_files import make_private_directory

from ..errors import GitError
from .command import GitIdentity, GitOutput, GitPlaces, run_git

__all__ = ["GitEntry", "ObjectStore"]

_TREE = "40000"
_ATTRIBUTES = "".join(
    f"*.{ending} diff={language}\n"
    for language, endings in {
        "bash": "sh bash",
        "cpp": "c h cc cpp cxx hh hpp",
        "csharp": "cs",
        "css": "css",
        "elixir": "ex exs",
        "golang": "go",
        "html": "html",
        "java": "java",
        "kotlin": "kt kts",
        "markdown": "md",
        "perl": "pl pm",
        "php": "php",
        "python": "py pyi",
        "ruby": "rb",
        "rust": "rs",
        "tex": "tex",
    }.items()
    for ending in endings.split()
)
"""How git finds the function that a change is in; all of these are built into it."""


class GitEntry(Struct, frozen=True):
    """A file in a tree."""

    mode: str
    """As git writes modes."""
    id: str
    """Of the content, or of a submodule's commit."""


class ObjectStore:
    """Objects below a directory of ours.

    Args:
        directory: becomes a git directory when something is first written or asked.
        object_format: ``sha1`` or ``sha256``, as the repositories that it is compared with.
    """

    def __init__(self, directory: Path, object_format: str = "sha1") -> None:
        self.object_format = object_format
        self._directory = directory
        self._hash = hashlib.sha256 if object_format == "sha256" else hashlib.sha1
        self._is_made = False

    @property
    def null(self) -> str:
        """The id of no object."""
        return "0" * (64 if self.object_format == "sha256" else 40)

    def put_blob(self, data: bytes) -> str:
        """Keep a content; returns its id. Raises OSError."""
        return self._put(b"blob", data)

    def put_tree(self, entries: Mapping[bytes, GitEntry]) -> str:
        """Keep a tree of files, by their paths; returns its id. Raises OSError.

        A path must not be both a file and a directory.
        """
        below: dict[bytes, dict[bytes, GitEntry]] = {}
        lines: list[tuple[bytes, bytes]] = []
        for path, entry in entries.items():
            name, has_more, rest = path.partition(b"/")
            if has_more:
                below.setdefault(name, {})[rest] = entry
            else:
                lines.append((name, _line(name, entry)))
        for name, inside in below.items():
            entry = GitEntry(_TREE, self.put_tree(inside))
            lines.append((name + b"/", _line(name, entry)))  # as git sorts directories
        return self._put(b"tree", b"".join(line for _, line in sorted(lines)))

    def put_commit(
        self, tree: str, parents: Sequence[str], *, identity: GitIdentity, message: str
    ) -> str:
        """Keep a commit; returns its id. Raises OSError.

        ``identity``: its date is seconds since the epoch and the offset of a time zone; name and
        e-mail address are in one line.
        """
        who = f"{identity.name} <{identity.email}> {identity.date}"
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {who}", f"committer {who}", "", message]
        return self._put(b"commit", "\n".join(lines).encode() + b"\n")

    def has(self, id: str) -> bool:
        """Whether an object was put here."""
        return self._path(id).exists()

    def ask(
        self,
        words: Sequence[str],
        *,
        alternates: Sequence[str] = (),
        project: str | None = None,
        given: bytes = b"",
        most: int | None = None,
        seconds: float = 60.0,
        accepted: Sequence[int] = (0,),
    ) -> GitOutput:
        """Run a command of git that reads objects; names of files are no patterns.

        ``alternates``: directories of objects that are read as well. ``project``: no program in
        there is run. Raises GitError.
        """
        try:
            self._make()
        except OSError as error:
            raise GitError(f"cannot write {str(self._directory)!r}: {error}") from error
        places = GitPlaces(
            git_dir=str(self._directory),
            alternates=tuple(alternates),
            cwd=str(self._directory),
            project=project,
        )
        return run_git(
            places, words, given=given, most=most, seconds=seconds, accepted=accepted, literal=True
        )

    def _put(self, kind: bytes, data: bytes) -> str:
        whole = b"%s %d\0%s" % (kind, len(data), data)
        id_ = self._hash(whole).hexdigest()
        path = self._path(id_)
        if not path.exists():
            self._make()
            path.parent.mkdir(mode=0o700, exist_ok=True)
            beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            beside.write_bytes(zlib.compress(whole, 1))
            beside.replace(path)
        return id_

    def _path(self, id_: str) -> Path:
        return self._directory / "objects" / id_[:2] / id_[2:]

    def _make(self) -> None:
        if self._is_made:
            return
        make_private_directory(self._directory)
        for name in ("objects", "refs", "info"):
            (self._directory / name).mkdir(mode=0o700, exist_ok=True)
        (self._directory / "info" / "attributes").write_text(_ATTRIBUTES)
        (self._directory / "HEAD").write_text("ref: refs/heads/none\n")
        is_sha1 = self.object_format == "sha1"
        config = f"[core]\n\trepositoryFormatVersion = {0 if is_sha1 else 1}\n\tbare = true\n"
        config += "" if is_sha1 else f"[extensions]\n\tobjectFormat = {self.object_format}\n"
        (self._directory / "config").write_text(config)
        self._is_made = True


def _line(name: bytes, entry: GitEntry) -> bytes:
    return entry.mode.encode() + b" " + name + b"\0" + bytes.fromhex(entry.id)
