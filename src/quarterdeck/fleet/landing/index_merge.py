"""A three-way merge of trees in a private index, for a git older than 2.38.

Renames are not followed: a file that one side renamed and the other changed is a conflict. Files
that both sides changed are merged line by line with ``git merge-file``. Everything here blocks.
"""

import shutil
import tempfile
from pathlib import Path

from msgspec import Struct

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import GitRepository

__all__ = ["MergeConflict", "MergedTree", "merge_in_index"]

_SETTINGS = ("core.splitIndex=false", "core.untrackedCache=false")
_CONFLICTS = range(128)
"""What ``git merge-file`` exits with: the number of conflicts; above that it failed."""
_FILES = ("100644", "100755")


class MergeConflict(Struct, frozen=True, kw_only=True):
    """A file that cannot be merged."""

    path: bytes
    kind: str
    """In git's words: ``contents``, ``modify/delete``, ``binary`` …"""
    message: str = ""
    """Git's sentence about it."""


class MergedTree(Struct, frozen=True, kw_only=True):
    """What a merge comes to."""

    tree: str
    """The result; where there are conflicts, with conflict markers in the files."""
    conflicts: tuple[MergeConflict, ...] = ()


class _Stage(Struct, frozen=True):
    mode: str
    blob: str


def merge_in_index(repository: GitRepository, base: str, ours: str, theirs: str) -> MergedTree:
    """Merge two trees that come from a third. Raises GitError."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="quarterdeck-merge-"))
    except OSError as error:
        raise GitError(f"cannot create a temporary directory: {error}") from error
    try:
        return _IndexMerge(repository, folder).merge(base, ours, theirs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _IndexMerge:
    """One merge."""

    def __init__(self, repository: GitRepository, folder: Path) -> None:
        self._repository = repository
        self._folder = folder

    def merge(self, base: str, ours: str, theirs: str) -> MergedTree:
        self._run("read-tree", "-i", "-m", "--aggressive", base, ours, theirs)
        conflicts: list[MergeConflict] = []
        for path, stages in self._unmerged().items():
            found, kind = self._merge_file(stages)
            if kind:
                conflicts.append(MergeConflict(path=path, kind=kind))
            self._settle(path, found)
        tree = self._run("write-tree").decode().strip()
        return MergedTree(tree=tree, conflicts=tuple(conflicts))

    def _run(self, *words: str, given: bytes = b"") -> bytes:
        return self._repository.change(
            words,
            index=str(self._folder / "index"),
            settings=_SETTINGS,
            given=given,
            literal=True,
            seconds=60.0,
        ).data

    def _unmerged(self) -> dict[bytes, dict[str, _Stage]]:
        found: dict[bytes, dict[str, _Stage]] = {}
        for entry in self._run("ls-files", "-z", "--unmerged").split(b"\0"):
            if entry:
                facts, _, path = entry.partition(b"\t")
                mode, blob, stage = facts.decode().split(" ")
                found.setdefault(path, {})[stage] = _Stage(mode, blob)
        return found

    def _merge_file(self, stages: dict[str, _Stage]) -> tuple[_Stage, str]:
        """What the file becomes, and why that is a conflict, if it is one."""
        base, ours, theirs = (stages.get(name) for name in "123")
        if ours is None or theirs is None:
            kept = ours or theirs
            assert kept is not None
            return kept, "modify/delete"
        modes = {one.mode for one in (base, ours, theirs) if one is not None}
        if not modes <= set(_FILES):
            return ours, "distinct types" if len(modes) > 1 else "contents"
        blob, kind = self._merge_lines(base, ours, theirs)
        mode = theirs.mode if base is not None and ours.mode == base.mode else ours.mode
        if base is None and ours.mode != theirs.mode:
            kind = kind or "distinct modes"
        return _Stage(mode, blob), kind

    def _merge_lines(self, base: _Stage | None, ours: _Stage, theirs: _Stage) -> tuple[str, str]:
        if ours.blob == theirs.blob:
            return ours.blob, ""
        names: list[str] = []
        for name, stage in (("ours", ours), ("base", base), ("theirs", theirs)):
            data = self._run("cat-file", "blob", stage.blob) if stage is not None else b""
            (self._folder / name).write_bytes(data)
            names.append(str(self._folder / name))
        labels = [word for label in ("ours", "base", "theirs") for word in ("-L", label)]
        answer = self._repository.change(
            ("merge-file", "-p", *labels, *names), accepted=(*_CONFLICTS, 255), seconds=60.0
        )
        if answer.code not in _CONFLICTS:
            return ours.blob, "binary"
        blob = self._run("hash-object", "-w", "--stdin", given=answer.data).decode().strip()
        return blob, "contents" if answer.code else ""

    def _settle(self, path: bytes, stage: _Stage) -> None:
        zero = "0" * len(stage.blob)
        lines = [b"0 " + zero.encode() + b"\t" + path]
        lines.append(f"{stage.mode} {stage.blob} 0\t".encode() + path)
        given = b"".join(line + b"\0" for line in lines)
        self._run("update-index", "-z", "--index-info", given=given)
