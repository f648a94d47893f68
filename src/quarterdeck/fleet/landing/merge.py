"""Three-way merges of commits and trees, computed in the object store without a checkout.

``git merge-tree`` computes what ``git merge`` would, with the same rename detection; it needs git
2.38. With an older git the files are merged one by one, see ``index_merge``. The repository's merge
drivers are programs and do not run: such a file is merged as text. Everything here blocks.
"""

import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.repository import GitRepository

from .commit import read_tree, write_commit
from .index_merge import MergeConflict, MergedTree, merge_in_index

__all__ = [
    "MERGE_TREE_VERSION",
    "empty_tree",
    "git_version",
    "has_merge_tree",
    "merge_commits",
    "merge_with_base",
]

MERGE_TREE_VERSION = (2, 38)
"""The first git that merges without a checkout."""
_SCRATCH = GitIdentity(name="Quarterdeck", email="quarterdeck@localhost")
_SECONDS = 120.0
_MOST = 64_000_000


def git_version(repository: GitRepository) -> tuple[int, int]:
    """Major and minor version of git. Raises GitError."""
    output = repository.ask(("version",)).data.decode("utf-8", "replace")
    found = re.search(r"(\d+)\.(\d+)", output)
    if found is None:
        raise GitError(f"git reports no version that can be read: {output.strip()!r}")
    return int(found[1]), int(found[2])


def has_merge_tree(repository: GitRepository) -> bool:
    """Whether git can merge without a checkout."""
    return git_version(repository) >= MERGE_TREE_VERSION


def empty_tree(repository: GitRepository) -> str:
    """The id of the tree without files."""
    words = ("hash-object", "-t", "tree", "-w", "--stdin")
    return repository.change(words, given=b"").data.decode().strip()


def merge_commits(repository: GitRepository, ours: str, theirs: str) -> MergedTree:
    """Merge two commits from where they parted. Raises GitError."""
    if not has_merge_tree(repository):
        base = _merge_base(repository, ours, theirs)
        return merge_in_index(
            repository, base, read_tree(repository, ours), read_tree(repository, theirs)
        )
    return _merge_tree(repository, ours, theirs, ())


def merge_with_base(repository: GitRepository, base: str, ours: str, theirs: str) -> MergedTree:
    """Merge two trees that come from a third. Raises GitError."""
    if not has_merge_tree(repository):
        return merge_in_index(repository, base, ours, theirs)
    with _scratch_objects() as scratch:

        def commit(tree: str, *parents: str) -> str:
            return write_commit(
                repository, tree, parents, b"synthetic\n", identity=_SCRATCH, objects=scratch
            )

        start = commit(base)
        sides = (commit(ours, start), commit(theirs, start))
        return _merge_tree(repository, *sides, (scratch,))


@contextmanager
def _scratch_objects() -> Generator[str, None, None]:
    """A directory for commits that nothing refers to."""
    try:
        scratch = tempfile.mkdtemp(prefix="quarterdeck-merge-")
    except OSError as error:
        raise GitError(f"cannot create a temporary directory: {error}") from error
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _merge_base(repository: GitRepository, ours: str, theirs: str) -> str:
    answer = repository.ask(("merge-base", ours, theirs), accepted=(0, 1))
    if answer.code:
        return empty_tree(repository)
    return read_tree(repository, answer.data.decode().split()[0])


def _merge_tree(
    repository: GitRepository, ours: str, theirs: str, alternates: tuple[str, ...]
) -> MergedTree:
    words = ("merge-tree", "--write-tree", "-z", "--messages", "--allow-unrelated-histories")
    answer = repository.change(
        (*words, ours, theirs),
        alternates=alternates,
        seconds=_SECONDS,
        most=_MOST,
        accepted=(0, 1),
    )
    head, _, rest = answer.data.partition(b"\0")
    tree = head.decode("ascii", "replace").strip()
    if len(tree) not in (40, 64):
        raise GitError(f"git merge-tree: {tree or 'it failed'}")
    if answer.code == 0:
        return MergedTree(tree=tree)
    return MergedTree(tree=tree, conflicts=_conflicts(rest))


def _conflicts(data: bytes) -> tuple[MergeConflict, ...]:
    """The list of stages up to an empty entry, then messages, each with its paths."""
    listed, _, messages = data.partition(b"\0\0")
    paths = dict.fromkeys(
        entry.partition(b"\t")[2] for entry in listed.split(b"\0") if b"\t" in entry
    )
    known: dict[bytes, tuple[str, str]] = {}
    fields = iter(messages.split(b"\0"))
    for count in fields:
        if not count.strip().isdigit():
            break
        named = [next(fields, b"") for _ in range(int(count))]
        kind = next(fields, b"").decode("utf-8", "replace")
        words = next(fields, b"").decode("utf-8", "backslashreplace").strip()
        if kind.startswith("CONFLICT"):
            short = kind.removeprefix("CONFLICT").strip(" ()")
            for path in named:
                known.setdefault(path, (short, words))
                paths.setdefault(path)
    return tuple(
        MergeConflict(
            path=path, kind=known.get(path, ("", ""))[0], message=known.get(path, ("", ""))[1]
        )
        for path in paths
        if path
    )
