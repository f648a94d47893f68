"""A work tree written down as a tree object, as git would commit it: committed, uncommitted and
untracked files alike.

Neither index nor references, stash or hooks of the repository are used or changed: the index is a
private copy, which stays warm, so that a second snapshot costs little more than a look at the
files' times. Line ends are converted as the repository's attributes say; filters such as LFS's are
programs and never run, so that a file behind one goes in as it is. Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH114

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from quarterdeck.wire.private_files import make_private_directory

from ..errors import GitError, GitUnavailableError
from .repository import GitRepository, copy_whole

__all__ = ["ChangedNames", "TreeRecorder"]

_SETTINGS = (
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.bigFileThreshold=64m",
    "pack.compression=1",
    "core.fsync=none",
    "index.threads=true",
)
_SECONDS = 60.0
_BYTES_PER_SECOND = 10_000_000
"""What git hashes and compresses at least, on a slow and busy machine."""
_THOROUGH = 10
"""Of so many looks at the files one names those too whose times alone are others."""


class ChangedNames:
    """Names the files of a work tree that differ from an index, and those that are not in it.

    One command of git says both, for less than two would. But it reads files whose times alone are
    others without naming them, so that they would be read each time, and it looks through links in
    place of directories. So now and then, and where there is such a link, two commands answer.

    Args:
        run: runs a command of git on the index; returns what it prints.
        top: of the work tree.
    """

    def __init__(self, run: Callable[..., bytes], top: bytes) -> None:
        self._run = run
        self._top = top.rstrip(b"/")
        self._looks = 0
        self._directories: set[bytes] = set()
        """Those that files of the index are in, or were."""

    def find(self) -> set[bytes]:
        """Look at the files; what is ignored and not in the index is left out. Raises as ``run``.

        The names of repositories within end with a slash.
        """
        if not self._looks:
            self.learn(self._run("ls-files", "-z").split(b"\0"))
        is_thorough = self._looks % _THOROUGH == 0 or any(map(self._is_link, self._directories))
        self._looks += 1
        words = ("ls-files", "-z", "--others", "--exclude-standard")
        if is_thorough:
            found = self._run("diff-files", "-z", "--name-only") + self._run(*words)
        else:
            found = self._run(*words, "--modified")
        return set(found.split(b"\0")) - {b""}

    def learn(self, names: Iterable[bytes]) -> None:
        """These are in the index now."""
        waiting = {name.rpartition(b"/")[0] for name in names} - {b""}
        while waiting := waiting - self._directories - {b""}:
            self._directories |= waiting
            waiting = {name.rpartition(b"/")[0] for name in waiting}

    def forget(self) -> None:
        """The index is another one."""
        self._looks = 0

    def _is_link(self, directory: bytes) -> bool:
        return os.path.islink(self._top + b"/" + directory)


class TreeRecorder:
    """Takes snapshots of one work tree.

    Args:
        repository: the one with the work tree.
        directory: of ours, for the private index and, with ``borrows``, the new objects.
        borrows: keep new objects in ``directory``, where nothing but ``objects`` reaches them;
            else they go into the repository, where a commit can have them.
        seconds: how long one command of git may take; large files are given more.
    """

    def __init__(
        self,
        repository: GitRepository,
        directory: Path,
        *,
        borrows: bool = True,
        seconds: float = _SECONDS,
    ) -> None:
        self.repository = repository
        self.objects = str(directory / "objects") if borrows else None
        """Where the objects of snapshots are, if not in the repository."""
        self.repositories: tuple[bytes, ...] = ()
        """Repositories within that are no submodules: the last snapshot has nothing of them."""
        self._directory = directory
        self._index = directory / "index"
        self._seconds = seconds
        self._tree: str | None = None
        """What the index holds, if that is known."""
        self._changed = ChangedNames(self.run, os.fsencode(repository.top))

    def take(self, forced: Sequence[bytes] = ()) -> str:
        """Write the work tree down as it is now and return the tree's id.

        ``forced``: files relative to the top that go in although they are ignored.

        Raises:
            GitError: it cannot be read, or not in time.
        """
        self._prepare()
        try:
            return self._take(forced)
        except GitUnavailableError:
            raise  # it would take as long once more
        except GitError:
            # A process that was killed may have left an index that is no good.
            self._index.unlink(missing_ok=True)
            self._prepare()
            return self._take(forced)

    def empty(self) -> None:
        """Forget what is known of the files: the next snapshot reads each of them. Raises GitError.

        Files that are ignored go in then only if they are forced, tracked ones too.
        """
        self._make_directories()
        self.run("read-tree", "--empty")
        self._tree = None
        self._changed.forget()

    def run(self, *words: str, given: bytes = b"", more: float = 0.0) -> bytes:
        """Run a command of git on the private index; return what it prints. Raises GitError.

        ``more``: seconds that it may take besides the usual ones.
        """
        return self.repository.change(
            words,
            index=str(self._index),
            objects=self.objects,
            settings=_SETTINGS,
            given=given,
            seconds=self._seconds + more,
            literal=True,
        ).data

    def _take(self, forced: Sequence[bytes]) -> str:
        found = self._changed.find() | set(forced)
        self.repositories = tuple(sorted(name[:-1] for name in found if name.endswith(b"/")))
        wanted, unwanted, size = self._sort(found)
        if unwanted:
            words = ("update-index", "--force-remove", "-z", "--stdin")
            self.run(*words, given=b"\0".join(unwanted))
        if wanted:
            words = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
            more = size / _BYTES_PER_SECOND
            self.run(*words, given=b"\0".join(wanted), more=more)
            self._changed.learn(wanted)
        if wanted or unwanted or self._tree is None:
            self._tree = self.run("write-tree").decode().strip()
        return self._tree

    def _sort(self, names: set[bytes]) -> tuple[list[bytes], list[bytes], int]:
        """What goes into the index as it is, what leaves it, and the bytes of what goes in."""
        top = os.fsencode(self.repository.top).rstrip(b"/")
        real: dict[bytes, bool] = {b"": True}
        wanted: list[bytes] = []
        unwanted: list[bytes] = []
        size = 0
        for name in sorted(names):
            if name.endswith(b"/"):
                continue  # a repository within, whose files are its own
            if not _is_real(top, name.rpartition(b"/")[0], real):
                unwanted.append(name)  # what a link leads to is not what was here
                continue
            try:
                status = os.lstat(top + b"/" + name)
            except (FileNotFoundError, NotADirectoryError):
                wanted.append(name)
                continue
            mode = status.st_mode
            if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                wanted.append(name)
                size += status.st_size
            elif not stat.S_ISDIR(mode) or not os.access(top + b"/" + name + b"/.git", os.F_OK):
                unwanted.append(name)  # neither a file nor a submodule
            else:
                wanted.append(name)
        return wanted, unwanted, size

    def _make_directories(self) -> None:
        make_private_directory(self._directory)
        if self.objects is not None:
            make_private_directory(Path(self.objects))

    def _prepare(self) -> None:
        self._make_directories()
        # Only this process uses this index: a lock is of one that was killed.
        self._index.with_name("index.lock").unlink(missing_ok=True)
        if self._index.exists():
            return
        self._tree = None
        self._changed.forget()
        if not copy_whole(self.repository.index, self._index):
            return  # nothing was ever added; git makes one
        self._look_at_all()

    def _look_at_all(self) -> None:
        """Let no mark of the person's hide a change: *assume unchanged* is a promise of theirs."""
        listed = self.run("ls-files", "-z", "-v").split(b"\0")
        marked = [line[2:] for line in listed if line[:1].islower()]
        if marked:
            words = ("update-index", "--no-assume-unchanged", "-z", "--stdin")
            self.run(*words, given=b"\0".join(marked))


def _is_real(top: bytes, directory: bytes, known: dict[bytes, bool]) -> bool:
    """Whether no symlink leads to a directory of the work tree."""
    found = known.get(directory)
    if found is None:
        above = _is_real(top, directory.rpartition(b"/")[0], known)
        found = above and not os.path.islink(top + b"/" + directory)
        known[directory] = found
    return found
