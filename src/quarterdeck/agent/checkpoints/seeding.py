"""The first index of a session: what git knows already need not be read again. Blocks.

A copy of the person's index says which files are unchanged since they were checked out, and names
contents that their repository has. That holds only where the content in the repository is the
content in the work tree: files that pass through a filter, or whose line ends are changed on the
way, are left out and read.
"""

import os
from pathlib import Path

from quarterdeck.system.errors import GitError
from quarterdeck.system.git_repository import GitRepository, copy_whole

from .errors import SnapshotFailed
from .git import Deadline, StoreGit

__all__ = ["seed"]

_FILTERED = (b"filter", b"working-tree-encoding")
_RESIZED = (b"text", b"crlf", b"eol", b"ident")
"""Attributes by which a content gets another size on its way."""


def seed(
    git: StoreGit, repository: GitRepository, index: Path, store: Path, deadline: Deadline
) -> None:
    """Make the first index; ``git`` works on it. Raises SnapshotFailed."""
    beside = index.with_name(index.name + ".tmp")
    try:
        if not copy_whole(repository.index, beside):
            return  # nothing was ever added; git makes one
        for shared in repository.shared_indexes():
            copy_whole(str(shared), store / shared.name)
    except GitError as error:
        raise SnapshotFailed(str(error)) from error
    beside.replace(index)
    entries = _entries(git, deadline)
    other, resized = _converted(repository, index, list(entries), deadline)
    autocrlf = repository.settings.get("core.autocrlf", "false").lower()
    is_converted = autocrlf not in ("false", "no", "off", "0", "")
    doubtful = entries if is_converted else {name: entries[name] for name in resized}
    other |= _of_other_size(git, os.fsencode(repository.top), doubtful, deadline)
    if other:
        given = b"\0".join(sorted(other))
        words = ("update-index", "--force-remove", "-z", "--stdin")
        git.run(*words, deadline=deadline, given=given)
    _look_at_all(git, deadline)


def _entries(git: StoreGit, deadline: Deadline) -> dict[bytes, str]:
    """The files of the index, and the object of each; submodules are left out."""
    found: dict[bytes, str] = {}
    for line in git.run("ls-files", "-z", "--stage", deadline=deadline).split(b"\0"):
        head, _, name = line.partition(b"\t")
        if name and not head.startswith(b"160000"):
            found[name] = head.split(b" ")[1].decode()
    return found


def _converted(
    repository: GitRepository, index: Path, names: list[bytes], deadline: Deadline
) -> tuple[set[bytes], set[bytes]]:
    """By the person's attributes: files that a filter stands before, and that may be resized."""
    asked = [name.decode() for name in (*_FILTERED, *_RESIZED)]
    words = ("check-attr", "-z", "--stdin", *asked)
    given, seconds = b"\0".join(names), deadline.left()
    try:
        answer = repository.ask(words, index=str(index), given=given, seconds=seconds)
    except GitError as error:
        raise SnapshotFailed(str(error)) from error
    said = answer.data.split(b"\0")
    filtered: set[bytes] = set()
    resized: set[bytes] = set()
    for name, attribute, value in zip(said[0::3], said[1::3], said[2::3], strict=False):
        if value not in (b"unspecified", b"unset"):
            (filtered if attribute in _FILTERED else resized).add(name)
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


def _look_at_all(git: StoreGit, deadline: Deadline) -> None:
    """Let no mark of the person's hide a change: *assume unchanged* is a promise of theirs."""
    marked = [
        line[2:]
        for line in git.run("ls-files", "-z", "-v", deadline=deadline).split(b"\0")
        if line[:1].islower()
    ]
    if marked:
        words = ("update-index", "--no-assume-unchanged", "-z", "--stdin")
        git.run(*words, deadline=deadline, given=b"\0".join(marked))
