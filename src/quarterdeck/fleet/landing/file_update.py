"""Files and index of a checkout, moved from one commit to another, or back after a crash.

While it happens, the index is locked as git locks it, so that no other git can change it. The new
index is prepared beside the old one and replaces it at the end. A file is put back only if it has
the old or the new content, or a beginning of the new one: what a person wrote meanwhile stays.
Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH105, PTH106, PTH108, PTH114, PTH123

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from quarterdeck.system.errors import GitError
from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.system.git.repository import GitRepository, copy_whole
from quarterdeck.wire.clock import read_wall_seconds

from ..errors import LandingRefusedError
from .tree_change import GITLINK, TreeChange, diff_trees, read_mode

__all__ = ["IndexLock", "restore_files", "write_files"]

_SETTINGS = ("core.splitIndex=false", "core.untrackedCache=false")
_SECONDS = 300.0
_UNSEEN = 10.0
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
        if os.path.islink(self.repository.index):
            raise LandingRefusedError(
                f"{self.repository.index!r} is a symbolic link; replace it by what it links to"
            )
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

    def wait_for_orphan(self) -> None:
        """Wait for a git that a killed process had started on the private index. Blocks."""
        end = time.monotonic() + _SECONDS
        while _is_used(self.private) and time.monotonic() < end:
            time.sleep(0.05)

    def copy(self) -> None:
        """Begin again with what the index is now. Raises GitError, OSError."""
        Path(f"{self.private}.lock").unlink(missing_ok=True)
        Path(self.private).unlink(missing_ok=True)
        copy_whole(self.repository.index, Path(self.private))

    def adopt(self, commit: str) -> None:
        """Let the private index be that of a commit; files are not touched. Raises GitError."""
        self.run("read-tree", "--reset", commit)
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


def _is_used(index: str) -> bool:
    """Whether a process works on an index; where that cannot be seen, whether one may."""
    lock = Path(f"{index}.lock")
    if not lock.exists():
        return False
    if not Path("/proc/self/environ").exists():
        with suppress(OSError):
            return read_wall_seconds() - lock.stat().st_mtime < _UNSEEN
        return False
    wanted = b"GIT_INDEX_FILE=" + os.fsencode(index)
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                return True
    return False


def write_files(lock: IndexLock, old: str, new: str) -> None:
    """Bring files and the private index from one commit to another, by git itself.

    Raises:
        GitError: a file could not be written; some may be.
    """
    lock.run("update-index", "-q", "--refresh", accepted=(0, 1))
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
        not_old = self._list_differing("old", old)
        not_new = self._list_differing("new", new)
        left: list[bytes] = []
        wanted: list[bytes] = []
        # What came is removed first: a directory may be where a file was.
        for one in sorted(self._changes, key=lambda one: (not one.is_added, one.path)):
            if self._is_as_before(one, not_old):
                continue
            if not self._is_reached(one.path):
                if not one.is_added:
                    left.append(one.path)
            elif not self._is_ours(one, one.path in not_new):
                left.append(one.path)
            elif one.is_added:
                self._remove(one.path)
            else:
                wanted.append(one.path)
        self._check_out(wanted)
        return left

    def _is_as_before(self, change: TreeChange, not_old: set[bytes]) -> bool:
        if not change.is_added:
            return change.path not in not_old
        mode = read_mode(self._top + b"/" + change.path)
        return mode is None or stat.S_ISDIR(mode)

    def _list_differing(self, name: str, commit: str) -> set[bytes]:
        """Files of a commit that are not so on disk, line ends converted as git does."""
        index = str(self._folder / name)
        run = self._repository.change
        run(("read-tree", commit), index=index, settings=_SETTINGS, seconds=_SECONDS)
        run(
            ("update-index", "-q", "--refresh"),
            index=index,
            settings=_SETTINGS,
            seconds=_SECONDS,
            accepted=(0, 1),
        )
        words = ("diff-files", "-z", "--name-only")
        return set(run(words, index=index, seconds=_SECONDS).data.split(b"\0")) - {b""}

    def _is_reached(self, path: bytes) -> bool:
        """Whether everything above it is a directory, or nothing yet."""
        parts = path.split(b"/")[:-1]
        for count in range(1, len(parts) + 1):
            mode = read_mode(b"/".join((self._top, *parts[:count])))
            if mode is None:
                return True
            if not stat.S_ISDIR(mode):
                return False
        return True

    def _is_ours(self, change: TreeChange, is_not_new: bool) -> bool:
        """Whether what is there was written by the landing, in whole or in part."""
        path = self._top + b"/" + change.path
        mode = read_mode(path)
        if mode is None:
            return True  # git removes a file before it writes it again
        if stat.S_ISDIR(mode) or change.is_removed:
            return False
        if not is_not_new:
            return True
        if not stat.S_ISREG(mode):
            return False
        words = ("cat-file", "blob", change.new_blob)
        whole = self._repository.ask(words, seconds=_SECONDS).data
        with open(path, "rb") as file:
            begun = file.read()
        plain = (whole, whole.replace(b"\r\n", b"\n"))
        return any(one.startswith(two) for one in plain for two in (begun, _without_returns(begun)))

    def _remove(self, path: bytes) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._top + b"/" + path)
        while path := path.rpartition(b"/")[0]:
            try:
                os.rmdir(self._top + b"/" + path)
            except OSError:
                return

    def _check_out(self, paths: Sequence[bytes]) -> None:
        if paths:
            self._repository.change(
                ("checkout-index", "-f", "-q", "-z", "--stdin"),
                index=str(self._folder / "old"),
                settings=_SETTINGS,
                given=b"".join(path + b"\0" for path in paths),
                seconds=_SECONDS,
            )


def _without_returns(data: bytes) -> bytes:
    """With line ends as in the repository; a file that was cut may end within one."""
    return data.removesuffix(b"\r").replace(b"\r\n", b"\n")
