"""Snapshots of a work tree as git tree objects, in a store that borrows the user's objects.

Index, refs, stash, settings and hooks of the user's repository are neither used nor changed: git
runs with a directory of ours. Its first index is a copy of the user's, without the entries whose
content in the repository may differ from the file. Everything here blocks.
"""

import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from quarterdeck.config.places import make_private
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitPlaces, run_git
from quarterdeck.system.git.repository import GitRepository, copy_whole, read_whole
from quarterdeck.system.git.tree_snapshot import ChangedNames

from .errors import SnapshotError
from .file_state import LARGEST, BlobStore, FileChange, FileState, fingerprint, is_within

__all__ = [
    "Deadline",
    "IgnoredFiles",
    "ShadowRepository",
    "StoreGit",
    "TreeSnapshot",
    "describe_plain_directory",
    "seed_index",
]

_SETTINGS = (
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.fileMode=true",
    "core.bigFileThreshold=1g",
    "core.fsync=none",
    "index.threads=true",
)


class Deadline:
    """A moment by which everything has to be done."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then. Raises SnapshotError when it is over."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.over()
        return left

    def over(self) -> SnapshotError:
        """What is raised when it is over."""
        return SnapshotError(f"it took longer than {self.seconds:g} s")


class StoreGit:
    """Runs commands on one store; names of files are no patterns there."""

    def __init__(self, places: GitPlaces, *, settings: tuple[str, ...] = ()) -> None:
        self._places = places
        self._settings = (*_SETTINGS, *settings)

    def run(self, *words: str, deadline: Deadline, given: bytes = b"") -> bytes:
        """Run a command and give what it prints; blocks. Raises SnapshotError."""
        seconds = deadline.left()
        try:
            return run_git(
                self._places,
                words,
                settings=self._settings,
                given=given,
                seconds=seconds,
                literal=True,
            ).data
        except GitError as error:
            deadline.left()
            raise SnapshotError(str(error)) from error


_FILTERED = (b"filter", b"working-tree-encoding")
_RESIZED = (b"text", b"crlf", b"eol", b"ident")
"""Attributes by which a content gets another size on its way."""


def seed_index(
    git: StoreGit, repository: GitRepository, index: Path, store: Path, deadline: Deadline
) -> None:
    """Make the first index; ``git`` works on it. Raises SnapshotError."""
    beside = index.with_name(index.name + ".tmp")
    try:
        if not copy_whole(repository.index, beside):
            return  # nothing was ever added; git makes one
        for shared in repository.shared_indexes():
            copy_whole(str(shared), store / shared.name)
    except GitError as error:
        raise SnapshotError(str(error)) from error
    beside.replace(index)
    names, marked = _listed(git, deadline)
    filtered, resized = _converted(repository, index, names, deadline)
    autocrlf = repository.settings.get("core.autocrlf", "false").lower()
    is_converted = autocrlf not in ("false", "no", "off", "0", "")
    other: set[bytes] = set()
    if filtered or resized or is_converted:
        entries = _entries(git, deadline)
        doubtful = entries if is_converted else {n: entries[n] for n in resized & entries.keys()}
        other = filtered & entries.keys()
        other |= _of_other_size(git, os.fsencode(repository.top), doubtful, deadline)
    if other:
        given = b"\0".join(sorted(other))
        words = ("update-index", "--force-remove", "-z", "--stdin")
        git.run(*words, deadline=deadline, given=given)
    if marked := sorted(marked - other):
        words = ("update-index", "--no-assume-unchanged", "-z", "--stdin")
        git.run(*words, deadline=deadline, given=b"\0".join(marked))


_TAG = re.compile(rb"(?<![^\0])[A-Za-z?] ")
"""What stands before each name in a list with marks."""
_MARKED = re.compile(rb"(?<![^\0])[a-z] ([^\0]*)")


def _listed(git: StoreGit, deadline: Deadline) -> tuple[bytes, set[bytes]]:
    """The names of the index, and those that the person has marked: *assume unchanged* is a promise
    of theirs, which may hide no change.
    """
    listed = git.run("ls-files", "-z", "-v", deadline=deadline)
    return _TAG.sub(b"", listed), set(_MARKED.findall(listed))


def _entries(git: StoreGit, deadline: Deadline) -> dict[bytes, str]:
    """The files of the index, and the object of each; submodules are left out."""
    found: dict[bytes, str] = {}
    for line in git.run("ls-files", "-z", "--stage", deadline=deadline).split(b"\0"):
        head, _, name = line.partition(b"\t")
        if name and not head.startswith(b"160000"):
            found[name] = head.split(b" ")[1].decode()
    return found


def _converted(
    repository: GitRepository, index: Path, names: bytes, deadline: Deadline
) -> tuple[set[bytes], set[bytes]]:
    """By the person's attributes: files that a filter stands before, and that may be resized."""
    words = ("check-attr", "-z", "--stdin", "--all")
    try:
        answer = repository.ask(words, index=str(index), given=names, seconds=deadline.left())
    except GitError as error:
        raise SnapshotError(str(error)) from error
    output = answer.data.split(b"\0")
    filtered: set[bytes] = set()
    resized: set[bytes] = set()
    for name, attribute, value in zip(output[0::3], output[1::3], output[2::3], strict=False):
        if value not in (b"unspecified", b"unset"):
            if attribute in _FILTERED:
                filtered.add(name)
            elif attribute in _RESIZED:
                resized.add(name)
    return filtered, resized


def _of_other_size(
    git: StoreGit, top: bytes, entries: dict[bytes, str], deadline: Deadline
) -> set[bytes]:
    """Files whose size is not that of their object: changed, or with other line ends."""
    if not entries:
        return set()
    given = "".join(f"{one}\n" for one in sorted(set(entries.values()))).encode()
    words = ("cat-file", "--buffer", "--batch-check=%(objectname) %(objectsize)")
    sizes: dict[str, int] = {}
    for line in git.run(*words, deadline=deadline, given=given).splitlines():
        name, _, size = line.partition(b" ")
        if size.isdigit():
            sizes[name.decode()] = int(size)
    found: set[bytes] = set()
    for name, object_ in entries.items():
        try:
            status = os.lstat(top.rstrip(b"/") + b"/" + name)
        except OSError:
            continue
        if sizes.get(object_) != status.st_size:
            found.add(name)
    return found


_ATTRIBUTES = b"* -text -filter -ident !eol !working-tree-encoding\n"
"""Outranks every file of attributes in the work tree."""
_TOGETHER = 500
"""Contents that are taken from git at once."""
_MOST_CHANGES = 20_000
_MOST_EXCLUDES = 10_000_000


class TreeSnapshot(Struct, frozen=True, kw_only=True):
    """A work tree at one moment."""

    tree: str
    """The tree object."""
    large: dict[bytes, FileState]
    """Files that are not in it because they are too large or cannot be read; by absolute path."""


class IgnoredFiles(Struct, frozen=True, kw_only=True):
    """Ignored files that are part of a snapshot all the same."""

    patterns: tuple[str, ...] = ()
    """As lines of ``.gitignore``; empty: none are."""
    most: int = 1_000
    """More files than this are none of it."""
    most_bytes: int = 50_000_000


def describe_plain_directory(top: str, trees: Path) -> GitRepository:
    """A directory that is no repository, as one without settings, commits and objects."""
    nowhere = str(trees / "none")
    return GitRepository(top=top, git_dir=nowhere, common_dir=nowhere, head="ref: refs/heads/none")


class ShadowRepository:
    """Our own view of one work tree.

    Args:
        repository: the person's.
        trees: where stores of work trees are; shared by all sessions.
        session: the session's own directory, for its index.
        hidden: a directory that is never part of a snapshot: our own.
        ignored: which ignored files belong to it.
    """

    def __init__(
        self,
        repository: GitRepository,
        trees: Path,
        session: Path,
        hidden: bytes = b"",
        ignored: IgnoredFiles | None = None,
    ) -> None:
        self._ignored = ignored or IgnoredFiles()
        self.top = os.fsencode(repository.top)
        self.key = self.key_of(self.top)
        # Worktrees of agents are in our own directory: there it hides nothing.
        self.hidden = hidden if not is_within(os.fsencode(repository.top), hidden) else b""
        self._repository = repository
        self._store = trees / self.key
        self._index = session / f"index-{self.key}"
        self._tree: str | None = None
        """What the index holds, if that is known."""
        self._deadline = Deadline(0)
        """Of the snapshot that is being taken."""
        self._changed = ChangedNames(
            lambda *words: self._git.run(*words, deadline=self._deadline), self.top
        )
        excludes = repository.settings.get("core.excludesfile")
        settings = (f"core.excludesFile={excludes}",) if excludes else ()
        places = GitPlaces(
            git_dir=str(self._store), work_tree=repository.top, index=str(self._index)
        )
        self._git = StoreGit(places, settings=settings)

    @staticmethod
    def key_of(top: bytes) -> str:
        """The name of the store of a work tree."""
        return hashlib.blake2b(top, digest_size=12).hexdigest()

    def take(self, deadline: Deadline) -> TreeSnapshot:
        """Write down the work tree as it is now. Raises SnapshotError."""
        self._prepare(deadline)
        try:
            return self._take(deadline)
        except SnapshotError:
            # A process that was killed may have left an index that is no good.
            deadline.left()
            self._index.unlink(missing_ok=True)
            self._tree = None
            self._prepare(deadline)
            return self._take(deadline)

    def changes(
        self, before: TreeSnapshot, after: TreeSnapshot, blobs: BlobStore
    ) -> list[FileChange]:
        """What differs, with every content kept in ``blobs``. Raises SnapshotError."""
        if before == after:
            return []
        deadline = Deadline(60)
        words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
        output = self._git.run(*words, before.tree, after.tree, deadline=deadline).split(b"\0")
        raw = list(zip(output[0:-1:2], output[1::2], strict=True))
        if len(raw) > _MOST_CHANGES:
            raise SnapshotError(f"more than {_MOST_CHANGES} files changed")
        kept = self._keep({object_ for head, _ in raw for object_ in _objects(head)}, blobs)
        found = {self._absolute(name): _pair(head, kept) for head, name in raw}
        for path in before.large.keys() | after.large.keys():
            old, new = found.get(path, (None, None))
            found[path] = (before.large.get(path, old), after.large.get(path, new))
        return [
            FileChange(path=path, before=old, after=new)
            for path, (old, new) in sorted(found.items())
            if old != new
        ]

    def _take(self, deadline: Deadline) -> TreeSnapshot:
        self._deadline = deadline
        names = self._changed.find() | set(self._find_ignored(deadline))
        sorting = _Sorting(self.top, self.hidden)
        for name in sorted(names):
            sorting.take(name)
        if sorting.unwanted:
            self._index_names(("--force-remove",), sorting.unwanted, deadline)
        if sorting.wanted:
            self._index_names(("--add", "--remove", "--replace"), sorting.wanted, deadline)
            self._changed.learn(sorting.wanted)
        if sorting.wanted or sorting.unwanted or self._tree is None:
            written = self._git.run("write-tree", "--missing-ok", deadline=deadline)
            self._tree = written.decode().strip()
        return TreeSnapshot(tree=self._tree, large=sorting.large)

    def _find_ignored(self, deadline: Deadline) -> list[bytes]:
        """Ignored files that belong to the snapshot and are not in the index yet."""
        if not self._ignored.patterns:
            return []
        patterns = [f"--exclude={pattern}" for pattern in self._ignored.patterns]
        words = ("ls-files", "-z", "--others", "--ignored", *patterns)
        found = [name for name in self._git.run(*words, deadline=deadline).split(b"\0") if name]
        total = 0
        for name in found:
            with suppress(OSError):
                total += os.lstat(self._absolute(name)).st_size
        if len(found) > self._ignored.most or total > self._ignored.most_bytes:
            raise SnapshotError(
                f"checkpoints.ignored matches {len(found):,} files with {total:,} bytes in "
                f"{os.fsdecode(self.top)!r}; at most {self._ignored.most:,} files with "
                f"{self._ignored.most_bytes:,} bytes are covered. Write narrower patterns"
            )
        return found

    def _index_names(self, words: tuple[str, ...], names: list[bytes], deadline: Deadline) -> None:
        self._git.run(
            "update-index", *words, "-z", "--stdin", deadline=deadline, given=b"\0".join(names)
        )

    def _prepare(self, deadline: Deadline) -> None:
        if not (self._store / "HEAD").exists():
            self._make_store()
            self._tree = None  # what it named may be gone
        # Written each time: what is in there decides what git does.
        _write_if_other(self._store / "config", self._repository.config.encode())
        _write_if_other(self._store / "info" / "attributes", _ATTRIBUTES)
        _write_if_other(self._store / "info" / "exclude", self._excludes())
        # Only this process uses this index: a lock is of one that was killed.
        self._index.with_name(self._index.name + ".lock").unlink(missing_ok=True)
        if not self._index.exists():
            self._tree = None
            self._changed.forget()
            make_private(self._index.parent)
            seed_index(self._git, self._repository, self._index, self._store, deadline)

    def _make_store(self) -> None:
        repository, beside = self._repository, self._store.with_name(f"{self.key}.{os.getpid()}")
        shutil.rmtree(beside, ignore_errors=True)
        for part in ("objects/info", "refs", "info"):
            make_private(beside / part)
        (beside / "config").write_text(repository.config)
        if os.path.isdir(repository.objects):  # noqa: PTH112
            (beside / "objects" / "info" / "alternates").write_bytes(
                os.fsencode(repository.objects) + b"\n"
            )
        (beside / "HEAD").write_text("ref: refs/heads/none\n")
        with suppress(OSError):  # another session may have been faster
            beside.rename(self._store)
        shutil.rmtree(beside, ignore_errors=True)

    def _excludes(self) -> bytes:
        path = f"{self._repository.common_dir}/info/exclude"
        try:
            theirs = read_whole(path, _MOST_EXCLUDES) or b""
        except GitError:
            theirs = b""
        if self.hidden and is_within(self.hidden, self.top) and self.hidden != self.top:
            theirs += b"\n/" + self.hidden[len(self.top.rstrip(b"/")) + 1 :] + b"/\n"
        return theirs

    def _absolute(self, name: bytes) -> bytes:
        return self.top.rstrip(b"/") + b"/" + name

    def _keep(self, objects: Iterable[str], blobs: BlobStore) -> dict[str, str]:
        """Copy contents into our own store, so that no clean-up of git's can take them away."""
        kept: dict[str, str] = {}
        wanted = sorted(objects)
        deadline = Deadline(60)
        for start in range(0, len(wanted), _TOGETHER):
            some = wanted[start : start + _TOGETHER]
            given = "".join(f"{one}\n" for one in some).encode()
            output = self._git.run("cat-file", "--batch", deadline=deadline, given=given)
            for name, data in _batch(output):
                kept[name] = blobs.put(data)
        return kept


class _Sorting:
    """How paths that differ from the index are handled."""

    def __init__(self, top: bytes, hidden: bytes) -> None:
        self.wanted: list[bytes] = []
        self.unwanted: list[bytes] = []
        self.large: dict[bytes, FileState] = {}
        self._top = top.rstrip(b"/")
        self._hidden = hidden
        self._real: dict[bytes, bool] = {b"": True}
        """By directory: whether no symlink leads to it."""

    def take(self, name: bytes) -> None:
        """Decide about one path."""
        path = self._top + b"/" + name
        if name.endswith(b"/"):  # a repository within, or one without a commit
            self.large[path.rstrip(b"/")] = FileState(kind="repository", digest="")
            return
        if self._hidden and is_within(path, self._hidden):
            return
        if not self._is_real(name.rpartition(b"/")[0]):
            self.unwanted.append(name)  # what the link leads to is not what was here
            return
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            self.wanted.append(name)
            return
        if stat.S_ISREG(status.st_mode) and not _is_readable(path, status):
            self.large[path] = fingerprint(status)
            self.unwanted.append(name)
        elif not stat.S_ISDIR(status.st_mode):
            self.wanted.append(name)
        elif not os.access(path + b"/.git", os.F_OK):
            self.unwanted.append(name)  # what was a file; else a submodule, whose files are its own

    def _is_real(self, directory: bytes) -> bool:
        known = self._real.get(directory)
        if known is None:
            above = self._is_real(directory.rpartition(b"/")[0])
            known = above and not os.path.islink(self._top + b"/" + directory)  # noqa: PTH114
            self._real[directory] = known
        return known


def _is_readable(path: bytes, status: os.stat_result) -> bool:
    return status.st_size <= LARGEST and os.access(path, os.R_OK)


def _objects(head: bytes) -> Iterator[str]:
    """The blobs that a line of differences names."""
    old_mode, new_mode, old, new = head.removeprefix(b":").split(b" ")[:4]
    for mode, object_ in ((old_mode, old), (new_mode, new)):
        if mode in (b"100644", b"100755", b"120000"):
            yield object_.decode()


def _pair(head: bytes, kept: dict[str, str]) -> tuple[FileState | None, FileState | None]:
    old_mode, new_mode, old, new = head.removeprefix(b":").split(b" ")[:4]
    return _entry(old_mode, old.decode(), kept), _entry(new_mode, new.decode(), kept)


def _entry(mode: bytes, object_: str, kept: dict[str, str]) -> FileState | None:
    match mode:
        case b"000000":
            return None
        case b"160000":
            return FileState(kind="repository", digest=object_)
        case _ if object_ not in kept:  # the repository has lost it
            return FileState(kind="large", digest=object_)
        case b"120000":
            return FileState(kind="link", digest=kept[object_])
        case _:
            return FileState(kind="file", digest=kept[object_], executable=mode == b"100755")


def _batch(output: bytes) -> Iterator[tuple[str, bytes]]:
    """What ``cat-file --batch`` says: a line with name, kind and size, then so many bytes."""
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        words = output[at:end].split(b" ")
        if words[-1] == b"missing":
            at = end + 1
            continue
        size = int(words[2])
        yield words[0].decode(), output[end + 1 : end + 1 + size]
        at = end + 2 + size


def _write_if_other(path: Path, data: bytes) -> None:
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    make_private(path.parent)
    path.write_bytes(data)
