"""Files and index of a checkout, moved from one commit to another, or back after a crash.

While it happens, the index is locked as git locks it, so that no other git can change it. The new
index is prepared beside the old one and replaces it at the end. A file is put back only if it has
the old or the new content, or a beginning of the new one: what a person wrote meanwhile stays.
Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH105, PTH106, PTH108, PTH114, PTH115, PTH123, PTH211

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from quarterdeck.system.errors import GitError
from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.system.git.repository import GitRepository, copy_whole

from ..errors import LandingRefusedError
from .tree_change import GITLINK, TreeChange, diff_trees

__all__ = ["IndexLock", "restore_files", "write_files"]

_SETTINGS = ("core.splitIndex=false", "core.untrackedCache=false")
_SECONDS = 300.0
_MARK = b"quarterdeck landing "


class IndexLock:
    """The lock of a work tree's index, and the index that replaces it.

    Args:
        repository: the work tree.
        key: names the landing; a lock that a killed process left is known by it.
    """

    def __init__(self, repository: GitRepository, key: str) -> None:
        self.repository = repository
        self.private = f"{repository.git_dir}/quarterdeck-index-{key}"
        """A copy of the index for our use; it becomes the index with ``replace``."""
        self._lock = f"{repository.index}.lock"
        self._words = _MARK + key.encode() + b"\n"

    def take(self) -> None:
        """Lock the index and copy it.

        Raises:
            LandingRefusedError: another git uses it.
            GitError: it cannot be written.
        """
        try:
            self._make_lock()
        except FileExistsError:
            raise LandingRefusedError(
                f"{self._lock!r} exists: another git works in {self.repository.top!r}. Wait for it "
                "to end; if none is running, delete that file"
            ) from None
        except OSError as error:
            raise GitError(f"cannot lock the index of {self.repository.top!r}: {error}") from error
        try:
            self.copy()
        except OSError as error:
            self.release()
            raise GitError(f"cannot copy the index of {self.repository.top!r}: {error}") from error
        except GitError:
            self.release()
            raise

    def _make_lock(self) -> None:
        """Create it with its words in it: one without could be another git's."""
        named = f"{self.private}.name"
        Path(named).write_bytes(self._words)
        try:
            os.link(named, self._lock, follow_symlinks=False)
        finally:
            os.unlink(named)

    @property
    def is_held(self) -> bool:
        """Whether the lock is there and is this one."""
        with suppress(OSError):
            return read_regular_file(self._lock, 1000) == self._words
        return False

    def copy(self) -> None:
        """Begin again with what the index is now. Raises GitError, OSError."""
        Path(f"{self.private}.lock").unlink(missing_ok=True)
        Path(self.private).unlink(missing_ok=True)
        copy_whole(self.repository.index, Path(self.private))

    def adopt(self, commit: str) -> None:
        """Let the private index be that of a commit; files are not touched. Raises GitError."""
        self.run("read-tree", "-m", commit)
        self.run("update-index", "-q", "--refresh", accepted=(0, 1))

    def run(self, *words: str, accepted: Sequence[int] = (0,)) -> bytes:
        """Run a command of git on the private index. Raises GitError."""
        return self.repository.change(
            words, index=self.private, settings=_SETTINGS, seconds=_SECONDS, accepted=accepted
        ).data

    def replace(self) -> None:
        """Make the private index the index. Raises GitError."""
        try:
            descriptor = os.open(self.private, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fchmod(descriptor, 0o644)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(self.private, self.repository.index)
        except OSError as error:
            raise GitError(f"cannot write the index of {self.repository.top!r}: {error}") from error

    def release(self) -> None:
        """Give the lock back, if it is this one, and forget the private index."""
        for path in (f"{self.private}.name", f"{self.private}.lock", self.private):
            with suppress(OSError):
                os.unlink(path)
        if self.is_held:
            with suppress(OSError):
                os.unlink(self._lock)


def write_files(lock: IndexLock, old: str, new: str) -> None:
    """Bring files and the private index from one commit to another, by git itself.

    Raises:
        GitError: a file could not be written; some may be.
    """
    lock.run("read-tree", "-m", "-u", old, new)


def restore_files(repository: GitRepository, old: str, new: str) -> list[bytes]:
    """Put files that were to become those of ``new`` back to what they are in ``old``.

    Returns the paths that were left alone because they are neither.

    Raises:
        GitError: one cannot be written.
    """
    changes = [
        one
        for one in diff_trees(repository, old, new)
        if GITLINK not in (one.old_mode, one.new_mode)
    ]
    folder = tempfile.mkdtemp(prefix="quarterdeck-restore-")
    try:
        return _Restore(repository, Path(folder), changes).run(old, new)
    except OSError as error:
        raise GitError(f"cannot restore files in {repository.top!r}: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Restore:
    """One return."""

    def __init__(
        self, repository: GitRepository, folder: Path, changes: Sequence[TreeChange]
    ) -> None:
        self._repository = repository
        self._folder = folder
        self._changes = changes
        self._top = os.fsencode(repository.top)

    def run(self, old: str, new: str) -> list[bytes]:
        before = self._write_out("old", old, [c.path for c in self._changes if not c.is_added])
        after = self._write_out("new", new, [c.path for c in self._changes if not c.is_removed])
        left: list[bytes] = []
        # What came is removed first: a directory may be where a file was.
        ordered = sorted(self._changes, key=lambda one: (not one.is_added, one.path))
        for one in ordered:
            target = self._top + b"/" + one.path
            is_ours = _may_replace(target, before + b"/" + one.path, after + b"/" + one.path)
            if is_ours is None:
                continue  # it is as it was
            if not is_ours or not self._is_reached(one.path):
                left.append(one.path)
                continue
            self._put_back(one, target, before + b"/" + one.path)
        return left

    def _write_out(self, name: str, commit: str, paths: Sequence[bytes]) -> bytes:
        """The files of a commit as a checkout has them, in a directory of ours."""
        place = self._folder / name
        place.mkdir()
        index = str(self._folder / f"index-{name}")
        run = self._repository.change
        run(("read-tree", commit), index=index, settings=_SETTINGS, seconds=_SECONDS)
        if paths:
            run(
                ("checkout-index", "-f", "-q", f"--prefix={place}/", "-z", "--stdin"),
                index=index,
                settings=_SETTINGS,
                given=b"".join(path + b"\0" for path in paths),
                seconds=_SECONDS,
            )
        return os.fsencode(place)

    def _is_reached(self, path: bytes) -> bool:
        """Whether no link leads to it."""
        parts = path.split(b"/")[:-1]
        return not any(
            os.path.islink(b"/".join((self._top, *parts[: n + 1]))) for n in range(len(parts))
        )

    def _put_back(self, change: TreeChange, target: bytes, source: bytes) -> None:
        if change.is_added:
            with suppress(FileNotFoundError):
                os.unlink(target)
            self._remove_empty(change.path)
            return
        Path(os.fsdecode(target)).parent.mkdir(parents=True, exist_ok=True)
        temporary = target + b".quarterdeck-restore"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        if os.path.islink(source):
            os.symlink(os.readlink(source), temporary)
        else:
            shutil.copy(source, temporary)
        os.replace(temporary, target)

    def _remove_empty(self, path: bytes) -> None:
        while path := path.rpartition(b"/")[0]:
            try:
                os.rmdir(self._top + b"/" + path)
            except OSError:
                return


def _may_replace(target: bytes, before: bytes, after: bytes) -> bool | None:
    """Whether a file is one that a landing wrote, in whole or in part; None: it is as before."""
    now, old, new = (_content(path) for path in (target, before, after))
    if now == old:
        return None
    if now is None:
        return True  # git removes a file before it writes it again
    if new is None:
        return False
    return now[0] == new[0] and new[1].startswith(now[1])


def _content(path: bytes) -> tuple[str, bytes] | None:
    """The kind of a file with its content; None: there is none."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        return "link", os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return "other", b""
    kind = "program" if status.st_mode & stat.S_IXUSR else "file"
    with open(path, "rb") as file:
        return kind, file.read()
