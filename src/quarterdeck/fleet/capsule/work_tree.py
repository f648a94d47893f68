"""A work tree in a git bundle: the commit that was checked out, and every file as it was.

The files are a commit of their own on top: uncommitted and untracked ones as well, ignored ones
not. It is made without touching the repository, its index or its references, and no hook or filter
runs, neither here nor where it is unpacked. Everything here blocks.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitIdentity, GitPlaces, run_git
from quarterdeck.system.git.references import (
    BRANCHES,
    OWN_REFERENCES,
    ReferenceUpdate,
    is_branch_name,
    list_references,
    update_references,
)
from quarterdeck.system.git.repository import GitRepository, expect_repository, find_repository
from quarterdeck.system.git.tree_snapshot import TreeRecorder
from quarterdeck.system.git.worktree import check_out_tree, delete_directory

from .errors import WorkTreeError
from .manifest import CapsuleWorkTree
from .secrets_mask import MaskReport, mask_text

__all__ = ["BundledTree", "RestoredTree", "bundle_work_tree", "place_beside", "restore_work_tree"]

_BASE, _TREE = "refs/quarterdeck/base", "refs/quarterdeck/tree"
_MADE_BY = GitIdentity(name="Quarterdeck", email="quarterdeck@localhost", date="@0 +0000")
"""The same files on the same commit are the same commit."""
_SECONDS = 3_600.0
_MOST_REMOTE = 1_000
_EXAMINED = 8 << 20
"""Bytes of a changed file that is looked through for secrets."""
_BATCH = 100
_MOST_HEADER = 1 << 20
_SETTINGS = ("pack.threads=1", "pack.compression=6")


class BundledTree(Struct, frozen=True, kw_only=True):
    """A bundle on its way into a capsule."""

    path: Path
    base: str | None
    tree: str
    branch: str | None
    object_format: str
    needs: tuple[str, ...]
    unexamined: tuple[str, ...]
    """Changed files that were too large to be looked through for secrets."""
    repositories: tuple[str, ...]
    """Repositories within that are no submodules: nothing of them is in the bundle."""


def bundle_work_tree(
    repository: GitRepository,
    directory: Path,
    *,
    environment: Mapping[str, str] | None,
    report: MaskReport,
    is_thin: bool = False,
) -> BundledTree:
    """Write the bundle of a work tree to a file in ``directory``, which is ours and empty.

    Args:
        repository: the one with the work tree.
        directory: for the bundle and what is needed to make it.
        environment: variables whose values are secret; None: nothing is masked.
        report: gets the places in changed files that were masked.
        is_thin: leave out what branches of remotes have.

    Raises:
        GitError: git failed.
        OSError: the disk did.
    """
    recorder = TreeRecorder(repository, directory / "snapshot", seconds=_SECONDS)
    answer = repository.ask(
        ("rev-parse", "--verify", "--quiet", "HEAD^{commit}"), accepted=(0, 1, 128)
    )
    base = answer.data.decode().strip() if answer.code == 0 else None
    tree = recorder.take()
    unexamined: tuple[str, ...] = ()
    if environment is not None:
        tree, unexamined = _mask_changes(recorder, base, tree, environment, report)
    parents = ("-p", base) if base is not None else ()
    commit = _commit(recorder, ("commit-tree", tree, *parents, "-m", "Work tree of a session"))
    path = directory / "bundle"
    objects = (repository.objects, *((recorder.objects,) if recorder.objects else ()))
    view = _view(directory / "view", repository.object_format, base, commit)
    places = GitPlaces(git_dir=str(view), alternates=objects, project=repository.top)
    names = (_BASE, _TREE) if base is not None else (_TREE,)
    excluded = _remote_commits(repository) if is_thin else ()
    words = ("bundle", "create", "-q", str(path), *names, *(f"^{one}" for one in excluded))
    run_git(places, words, settings=_SETTINGS, seconds=_SECONDS)
    return BundledTree(
        path=path,
        base=base,
        tree=commit,
        branch=repository.branch if repository.is_on_branch else None,
        object_format=repository.object_format,
        needs=_read_needs(path),
        unexamined=unexamined,
        repositories=tuple(os.fsdecode(one) for one in recorder.repositories),
    )


def _commit(recorder: TreeRecorder, words: Sequence[str]) -> str:
    done = recorder.repository.change(words, objects=recorder.objects, identity=_MADE_BY)
    return done.data.decode().strip()


def _view(directory: Path, object_format: str, base: str | None, tree: str) -> Path:
    """A git directory of ours with the two references that a bundle is made of."""
    for folder in ("objects", "refs/quarterdeck"):
        (directory / folder).mkdir(mode=0o700, parents=True)
    (directory / "HEAD").write_text("ref: refs/heads/none\n")
    (directory / "config").write_text(_config(object_format, is_bare=True))
    for name, commit in ((_BASE, base), (_TREE, tree)):
        if commit is not None:
            (directory / name).write_text(f"{commit}\n")
    return directory


def _config(object_format: str, *, is_bare: bool) -> str:
    bare = "true" if is_bare else "false"
    if object_format == "sha1":
        return (
            f"[core]\n\trepositoryFormatVersion = 0\n\tbare = {bare}\n\tlogAllRefUpdates = true\n"
        )
    return (
        f"[core]\n\trepositoryFormatVersion = 1\n\tbare = {bare}\n\tlogAllRefUpdates = true\n"
        f"[extensions]\n\tobjectFormat = {object_format}\n"
    )


def _remote_commits(repository: GitRepository) -> list[str]:
    words = ("for-each-ref", f"--count={_MOST_REMOTE}", "--format=%(objectname)", "refs/remotes")
    return sorted(set(repository.ask(words).data.decode().split()))


def _read_needs(path: Path) -> tuple[str, ...]:
    """The commits that a bundle builds on, from its own header."""
    with path.open("rb") as file:
        header = file.read(_MOST_HEADER).partition(b"\n\n")[0]
    lines = [line[1:].split(b" ")[0] for line in header.split(b"\n") if line.startswith(b"-")]
    return tuple(line.decode("ascii", "replace") for line in lines)


# Secrets in changed files


class _Changed(Struct, frozen=True):
    mode: str
    id: str
    path: bytes


def _mask_changes(
    recorder: TreeRecorder,
    base: str | None,
    tree: str,
    environment: Mapping[str, str],
    report: MaskReport,
) -> tuple[str, tuple[str, ...]]:
    """The tree with secrets in changed files masked, and the files that were not examined."""
    changed = [one for one in _changes(recorder, base, tree) if one.mode in ("100644", "100755")]
    lines: list[bytes] = []
    unexamined: list[str] = []
    for first in range(0, len(changed), _BATCH):
        batch = changed[first : first + _BATCH]
        sizes = _sizes(recorder, batch)
        unexamined += [_shown(one) for one in batch if sizes.get(one.id, 0) > _EXAMINED]
        for one in batch:
            if 0 < sizes.get(one.id, 0) <= _EXAMINED:
                lines += _mask_blob(recorder, one, environment, report)
    if not lines:
        return tree, tuple(unexamined)
    recorder.run("update-index", "-z", "--index-info", given=b"".join(lines))
    return recorder.run("write-tree").decode().strip(), tuple(unexamined)


def _changes(recorder: TreeRecorder, base: str | None, tree: str) -> Iterator[_Changed]:
    if base is None:
        listed = recorder.run("ls-tree", "-r", "-z", tree).split(b"\0")
        for line in filter(None, listed):
            head, _, path = line.partition(b"\t")
            mode, _, id_ = head.decode().split()
            yield _Changed(mode, id_, path)
        return
    words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", base, tree)
    found = recorder.run(*words).split(b"\0")
    for head, path in zip(found[::2], found[1::2], strict=False):
        fields = head.decode().split()
        if len(fields) >= 5 and not fields[4].startswith("D"):
            yield _Changed(fields[1], fields[3], path)


def _sizes(recorder: TreeRecorder, batch: Sequence[_Changed]) -> dict[str, int]:
    given = "".join(f"{one.id}\n" for one in batch).encode()
    lines = recorder.run("cat-file", "--batch-check", given=given).decode().splitlines()
    found = (line.split() for line in lines)
    return {fields[0]: int(fields[2]) for fields in found if len(fields) == 3}


def _mask_blob(
    recorder: TreeRecorder, one: _Changed, environment: Mapping[str, str], report: MaskReport
) -> list[bytes]:
    data = recorder.run("cat-file", "blob", one.id)
    if b"\0" in data[:8_000]:
        return []
    text = data.decode("utf-8", "surrogateescape")
    masked = mask_text(text, environment, report, _shown(one))
    if masked == text:
        return []
    given = masked.encode("utf-8", "surrogateescape")
    id_ = recorder.run("hash-object", "-w", "--stdin", given=given).decode().strip()
    return [f"{one.mode} {id_}\t".encode() + one.path + b"\0"]


def _shown(one: _Changed) -> str:
    return one.path.decode("utf-8", "backslashreplace")


# Unpacking


class RestoredTree(Struct, frozen=True, kw_only=True):
    """What became of a work tree."""

    directory: str
    is_new: bool
    """A repository was made; else the two commits are in the one that was there."""
    references: tuple[str, ...] = ()
    """Their names there: the base, if there is one, and the tree."""


def place_beside(directory: Path) -> Path:
    """Where a new repository is prepared that goes to ``directory``."""
    return directory.parent / f".{directory.name}.{os.getpid()}.part"


def restore_work_tree(
    bundle: Path, tree: CapsuleWorkTree, directory: Path, session: str
) -> RestoredTree:
    """Unpack a bundle: into a repository that is there, or as a new one.

    In a repository that is there, files, index and branches stay as they are. A new one has the
    branch and the files as they were; it is prepared in ``place_beside``, and the caller moves it.

    Raises:
        WorkTreeError: it cannot be there, or the repository lacks commits that it builds on.
        OSError: the disk failed.
    """
    try:
        is_new = not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
        if is_new:
            return _make_repository(bundle, tree, directory)
        repository = find_repository(str(directory))
        if repository is None:
            raise WorkTreeError(
                f"{str(directory)!r} is neither empty nor a git repository; choose another one"
            )
        return _add_to_repository(bundle, tree, repository, directory, session)
    except GitError as error:
        raise WorkTreeError(f"the work tree cannot be unpacked: {error}") from error


def _unbundle(repository: GitRepository, bundle: Path, tree: CapsuleWorkTree) -> None:
    if repository.object_format != tree.object_format:
        raise WorkTreeError(
            f"the repository {repository.top!r} names objects by {repository.object_format}, the "
            f"capsule by {tree.object_format}; choose another directory"
        )
    for commit in _read_needs(bundle):
        words = ("cat-file", "-e", f"{commit}^{{commit}}")
        if repository.ask(words, accepted=(0, 1, 128)).code:
            raise WorkTreeError(
                f"the repository {repository.top!r} lacks the commit {commit}, which the work tree "
                "builds on; fetch it first, or export without --thin"
            )
    repository.change(("bundle", "unbundle", str(bundle)), seconds=_SECONDS)
    for commit in filter(None, (tree.base, tree.tree)):
        words = ("cat-file", "-e", f"{commit}^{{commit}}")
        if repository.ask(words, accepted=(0, 1, 128)).code:
            raise WorkTreeError(f"the bundle does not have the commit {commit} that it should")


def _add_to_repository(
    bundle: Path,
    tree: CapsuleWorkTree,
    repository: GitRepository,
    directory: Path,
    session: str,
) -> RestoredTree:
    _unbundle(repository, bundle, tree)
    top = f"{OWN_REFERENCES}capsules/{session}"
    wanted = {f"{top}/tree": tree.tree}
    if tree.base is not None:
        wanted = {f"{top}/base": tree.base} | wanted
    known = list_references(repository, f"{top}/")
    updates = [
        ReferenceUpdate(name=name, new=commit, old=known.get(name))
        for name, commit in wanted.items()
        if known.get(name) != commit
    ]
    if updates:
        update_references(repository, updates, reason="capsule: imported")
    return RestoredTree(directory=str(directory), is_new=False, references=tuple(wanted))


def _make_repository(bundle: Path, tree: CapsuleWorkTree, directory: Path) -> RestoredTree:
    if not directory.parent.is_dir():
        raise WorkTreeError(f"there is no directory {str(directory.parent)!r}; make it first")
    if tree.needs or _read_needs(bundle):
        commits = ", ".join((tree.needs or _read_needs(bundle))[:3])
        raise WorkTreeError(
            f"the capsule has no history before {commits}; choose a directory in a clone of the "
            "repository, or export without --thin"
        )
    stage = place_beside(directory)
    try:
        git_dir = stage / ".git"
        for folder in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
            (git_dir / folder).mkdir(mode=0o755, parents=True)
        (git_dir / "config").write_text(_config(tree.object_format, is_bare=False))
        (git_dir / "HEAD").write_text(f"ref: {BRANCHES}capsule\n")
        repository = expect_repository(str(stage))
        branch = tree.branch if _is_usable(repository, tree.branch) else "capsule"
        (git_dir / "HEAD").write_text(f"ref: {BRANCHES}{branch}\n")
        _unbundle(repository, bundle, tree)
        start = tree.base or tree.tree
        made = ReferenceUpdate(name=f"{BRANCHES}{branch}", new=start)
        update_references(repository, [made], reason="capsule: imported", identity=_MADE_BY)
        check_out_tree(expect_repository(str(stage)), start, tree.tree, seconds=_SECONDS)
    except BaseException:
        with suppress(OSError):
            delete_directory(str(stage))
        shutil.rmtree(stage, ignore_errors=True)
        raise
    return RestoredTree(directory=str(directory), is_new=True)


def _is_usable(repository: GitRepository, branch: str | None) -> bool:
    return bool(branch) and len(branch) < 200 and is_branch_name(repository, branch)
