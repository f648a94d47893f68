"""Two trees compared by git: which files differ, and how. Everything here blocks."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.agent.checkpoints.file_state import path_text
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.object_store import GitEntry, ObjectStore
from quarterdeck.system.git.repository import GitRepository

from .patch import SUBMODULE, ChangeKind, PatchFile, PatchHunk, PatchLine, parse_patch

__all__ = ["Comparison", "FileDifference", "file_id_of", "format_content", "parse_content"]

MOST_PATCH = 40_000_000
"""Bytes of a patch that are read."""
_MOST_LISTED = 200_000_000
_RENAMES = ("--find-renames", "-l1000")
_KINDS: Mapping[str, ChangeKind] = {
    "A": "new",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
}


def file_id_of(path: bytes) -> str:
    """The name of a path that is always text."""
    return hashlib.blake2b(path, digest_size=12).hexdigest()


def format_content(file: str, entry: GitEntry | None) -> str:
    """Names what a file is: the file, its mode, its content; the file alone where there is none."""
    return f"{file}:" if entry is None else f"{file}:{entry.mode}:{entry.id}"


def parse_content(content: str) -> tuple[str, GitEntry | None]:
    """The file and what it was, from such a name; leniently."""
    file, _, rest = content.partition(":")
    mode, _, id_ = rest.partition(":")
    return file, GitEntry(mode, id_) if mode and id_ else None


class FileDifference(Struct, frozen=True, kw_only=True):
    """A file that differs between the two trees."""

    path: bytes
    old_path: bytes
    """Where it was; the same, unless it was renamed or copied."""
    kind: ChangeKind
    old: GitEntry | None
    new: GitEntry | None
    added: int = 0
    removed: int = 0
    is_binary: bool = False

    @property
    def id(self) -> str:
        """Of the file where it is now, or was."""
        return file_id_of(self.path)

    @property
    def content(self) -> str:
        """Names what it is now."""
        return format_content(self.id, self.new)

    @property
    def is_submodule(self) -> bool:
        """Whether it is, or was, a submodule."""
        return any(one is not None and one.mode == SUBMODULE for one in (self.old, self.new))

    @property
    def has_lines(self) -> bool:
        """Whether lines of it can be chosen: it is text on both sides, and no link."""
        kinds = {one.mode[:3] for one in (self.old, self.new) if one is not None}
        return not self.is_binary and kinds == {"100"}


class Comparison(Struct, frozen=True, kw_only=True):
    """Two trees, and where their objects are."""

    store: ObjectStore
    alternates: tuple[str, ...]
    old: str
    new: str
    root: bytes
    """The directory that the paths are in."""
    against: str
    """What it is compared with, in words."""
    outside: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    """Paths in the trees that are not below ``root``, and where they are."""
    shared: Mapping[bytes, tuple[str, ...]] = field(default_factory=dict[bytes, tuple[str, ...]])
    """By path: who else may have changed it."""
    notes: tuple[str, ...] = ()
    repository: GitRepository | None = None
    """Whose index what is accepted goes into; None: ``root`` is in none."""
    is_normalized: bool = False
    """Line ends in the trees are git's, and may be others in the files."""

    def place(self, path: bytes) -> bytes:
        """Where a file of the trees is on the disk."""
        return self.outside.get(path) or self.root.rstrip(b"/") + b"/" + path

    def name(self, path: bytes) -> str:
        """A path for people."""
        return path_text(self.outside.get(path, path))

    def list_files(self) -> tuple[FileDifference, ...]:
        """The files that differ, by path. Raises GitError."""
        if self.old == self.new:
            return ()
        words = ("diff-tree", "-r", "-z", "--raw", "--numstat", "--no-abbrev", *_RENAMES)
        answer = self.ask((*words, self.old, self.new), most=_MOST_LISTED)
        if answer[1]:
            raise GitError("too many files differ")
        return _parse_listing(answer[0])

    def read_patch(
        self, file: FileDifference, *, context: int = 3, ignore_space: bool = False
    ) -> tuple[PatchFile, bool]:
        """The change of one file, and whether its end is missing; paths and lines are text.

        Raises:
            GitError: git cannot compare them.
        """
        if file.is_binary:  # git would read all of it only to say so
            return self._make_patch(file, []), False
        data, is_cut = self.read_patch_text(
            [file], context=context, ignore_space=ignore_space, most=MOST_PATCH
        )
        found = parse_patch(data.decode("utf-8", "surrogateescape"))
        # A file that became a link, and a directory in a file's place, are two files in a patch.
        mine = [one for one in found if os.fsencode(one.path) == file.path] or found[:1]
        hunks = [hunk for one in mine for hunk in one.hunks]
        if not _is_text(data):
            hunks = [_printable(hunk) for hunk in hunks]
        return self._make_patch(file, hunks), is_cut

    def read_patch_text(
        self,
        files: Sequence[FileDifference],
        *,
        context: int = 3,
        ignore_space: bool = False,
        binary: bool = False,
        most: int = MOST_PATCH,
    ) -> tuple[bytes, bool]:
        """The changes of these files as git writes them. Raises GitError."""
        words = ["diff-tree", "-p", "-r", "--full-index", f"-U{max(0, min(context, 100_000))}"]
        words += ["--src-prefix=a/", "--dst-prefix=b/", *_RENAMES]
        words += ["-w"] if ignore_space else []
        words += ["--binary"] if binary else []
        paths = dict.fromkeys(path for one in files for path in (one.old_path, one.path))
        names = [os.fsdecode(path) for path in paths]
        return self.ask((*words, self.old, self.new, "--", *names), most=most)

    def compare_contents(self, old: str, new: str) -> list[PatchHunk]:
        """How one content becomes the other, without context; as text. Raises GitError."""
        if old == new:
            return []
        words = ("diff", "-U0", "-a", "--full-index", "--no-renames", old, new)
        data, is_cut = self.ask(words, most=MOST_PATCH)
        if is_cut:
            raise GitError("the change is too large")
        files = parse_patch(data.decode("latin-1"))
        return files[0].hunks if files else []

    def read_content(self, entry: GitEntry | None) -> bytes:
        """What is in a file of one of the trees; nothing where there is none. Raises GitError."""
        if entry is None or entry.mode == SUBMODULE:
            return b""
        return self.ask(("cat-file", "blob", entry.id))[0]

    def find_entry(self, path: bytes, *, old: bool = False) -> GitEntry | None:
        """A file of the new tree, or of the old one; changed or not. Raises GitError."""
        tree = self.old if old else self.new
        data, _ = self.ask(("ls-tree", "-z", tree, "--", os.fsdecode(path)))
        for line in data.split(b"\0"):
            head, _, name = line.partition(b"\t")
            if name == path:
                mode, kind, id_ = head.decode().split()
                return GitEntry(mode, id_) if kind != "tree" else None
        return None

    def ask(self, words: Sequence[str], *, most: int | None = None) -> tuple[bytes, bool]:
        """Run git on the trees; what it says, and whether there was more. Raises GitError."""
        project = os.fsdecode(self.root)
        answer = self.store.ask(words, alternates=self.alternates, project=project, most=most)
        return answer.data, answer.is_cut

    def _make_patch(self, file: FileDifference, hunks: list[PatchHunk]) -> PatchFile:
        old, new = file.old, file.new
        patch = PatchFile(
            path=self.name(file.path),
            kind=file.kind,
            old_path=self.name(file.old_path) if file.old_path != file.path else None,
            old_mode=old.mode if old is not None else None,
            new_mode=new.mode if new is not None else None,
            old_blob=old.id if old is not None else self.store.null,
            new_blob=new.id if new is not None else self.store.null,
            is_binary=file.is_binary,
            hunks=hunks,
        )
        if file.is_binary:
            patch.notes.append("binary; content not shown")
        if file.is_submodule:
            patch.notes.append("a submodule")
        if old is not None and new is not None and old.mode != new.mode:
            patch.notes.append(f"mode changed from {old.mode} to {new.mode}")
        return patch


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _printable(hunk: PatchHunk) -> PatchHunk:
    """A hunk that JSON can hold: bytes that are no text are escaped."""
    lines = [PatchLine(sign, path_text(os.fsencode(text))) for sign, text in hunk.lines]
    return replace(hunk, where=path_text(os.fsencode(hunk.where)), lines=lines)


def _parse_listing(data: bytes) -> tuple[FileDifference, ...]:
    fields = iter(data.split(b"\0"))
    found: dict[bytes, FileDifference] = {}
    for head in fields:
        if head.startswith(b":"):
            old_mode, new_mode, old, new, letter = head[1:].decode().split()
            path = old_path = next(fields)
            if letter[0] in "RC":
                path = next(fields)
            found[path] = FileDifference(
                path=path,
                old_path=old_path,
                kind=_kind(letter[0], (old_mode, old), (new_mode, new)),
                old=_entry(old_mode, old),
                new=_entry(new_mode, new),
            )
        elif head:
            _count(found, head, fields)
    return tuple(one for _, one in sorted(found.items()))


def _count(found: dict[bytes, FileDifference], head: bytes, fields: Iterator[bytes]) -> None:
    added, removed, path = head.split(b"\t", 2)
    if not path:  # renamed: both paths follow
        next(fields)
        path = next(fields)
    if path not in found:
        return
    if added == b"-":
        found[path] = replace(found[path], is_binary=True)
    else:
        found[path] = replace(found[path], added=int(added), removed=int(removed))


def _kind(letter: str, old: tuple[str, str], new: tuple[str, str]) -> ChangeKind:
    if letter == "M" and old[0] != new[0] and old[1] == new[1]:
        return "mode"
    return _KINDS.get(letter, "changed")


def _entry(mode: str, id_: str) -> GitEntry | None:
    return None if mode == "000000" else GitEntry(mode, id_)
