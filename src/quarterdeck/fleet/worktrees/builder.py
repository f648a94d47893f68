"""Makes worktrees: finds the repository and the base, names branch and directory, checks out,
carries uncommitted work along, copies ignored files. Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH111, PTH118, PTH119

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.config.schema import WorktreeSettings
from quarterdeck.system.errors import GitError, NotARepositoryError
from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.references import (
    BRANCHES,
    OWN_REFERENCES,
    ReferenceUpdate,
    is_branch_name,
    read_reference,
    resolve_commit,
    update_references,
)
from quarterdeck.system.git.repository import GitRepository, expect_repository
from quarterdeck.system.git.tree_snapshot import TreeRecorder
from quarterdeck.system.git.worktree import (
    LinkedWorktree,
    add_worktree,
    find_worktree,
    list_worktrees,
    open_worktree,
    reattach_worktree,
    remove_worktree,
)
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.events import NoticePosted
from quarterdeck.wire.private_files import make_private_directory
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import Worktree, WorktreeOptions

from ..errors import AgentNotReadyError, InvalidOptionsError
from .filtered_files import copy_filtered, list_entries
from .includes import IncludedCopy, copy_included
from .record import WorktreeRecord, WorktreeRecords

__all__ = [
    "PROGRAM_IDENTITY",
    "MadeWorktree",
    "WorktreeBuilder",
    "find_base_repository",
    "name_start",
    "resolve_tree",
]

PROGRAM_IDENTITY = GitIdentity(name="Quarterdeck", email="quarterdeck@localhost")
_SHOWN = 20
"""Names that are shown of many."""


class MadeWorktree(Struct, frozen=True, kw_only=True):
    """A worktree that an agent can start in."""

    worktree: Worktree
    cwd: str
    """Where in it the agent starts."""
    is_new: bool = True
    """It was made now; else it existed."""
    includes: tuple[str, ...] = ()
    """Ignored files that were copied into it; the first of many."""
    notices: tuple[NoticePosted, ...] = ()


class WorktreeBuilder:
    """Makes worktrees and keeps records of them.

    ``directory``: below it worktrees are made, if the settings name no place.
    """

    def __init__(self, records: WorktreeRecords, directory: Path) -> None:
        self._records = records
        self._directory = directory

    def make(self, options: SessionOptions, agent: str, settings: WorktreeSettings) -> MadeWorktree:
        """Make the worktree that options ask for, or find the one that they name.

        ``agent``: the name of the agent. When this raises nothing is left of it.

        Raises:
            InvalidOptionsError: it cannot be as it is asked for.
            GitError, OSError: git failed, or the disk is full.
        """
        wanted = options.worktree or WorktreeOptions()
        if wanted.path is not None:
            return self._adopt(options.cwd, wanted)
        repository = find_base_repository(options.cwd)
        if wanted.name is not None:
            for record in self._records.all():
                same = record.name == wanted.name and record.stage == "ready"
                if same and _is_worktree_of(record, repository):
                    return self._join_by_name(options.cwd, repository, record, wanted)
            if wanted.name.startswith("-"):
                raise InvalidOptionsError(
                    f"worktree: the name {wanted.name!r} begins with '-'; use another"
                )
        base, base_ref = _find_base(repository, wanted.base)
        tree = self._carried(repository, wanted) if wanted.carry else None
        name, branch, path = self._choose(repository, wanted.name, agent, settings)
        worktree = Worktree(
            path=path,
            repository=repository.top,
            base=base,
            base_ref=base_ref,
            branch=branch,
            start=tree,
        )
        return self._make(repository, worktree, name, options.cwd, settings)

    def predict(self, options: SessionOptions, agent: str, settings: WorktreeSettings) -> str:
        """The directory in which ``make`` would let a new agent work, if nothing comes between.

        Raises:
            InvalidOptionsError: it cannot be as it is asked for.
            GitError, OSError: git failed.
        """
        wanted = options.worktree or WorktreeOptions()
        repository = find_base_repository(options.cwd)
        _, _, path = self._choose(repository, wanted.name, agent, settings)
        inside = os.path.relpath(os.path.realpath(options.cwd), repository.top)
        return os.path.normpath(os.path.join(path, inside))

    def copy(
        self, source: Worktree, cwd: str, agent: str, settings: WorktreeSettings
    ) -> MadeWorktree:
        """Make another worktree in the state of one: the same commit, the same files.

        What the first agent changed counts as changes here too. Raises as ``make``.
        """
        repository = find_base_repository(source.path)
        tip = resolve_commit(repository, "HEAD")
        tree = self._carried(repository, WorktreeOptions())
        name, branch, path = self._choose(repository, None, agent, settings)
        worktree = replace(source, path=path, branch=branch, is_adopted=False)
        return self._make(repository, worktree, name, cwd, settings, tip=tip, tree=tree)

    def recreate(self, worktree: Worktree, cwd: str, settings: WorktreeSettings) -> MadeWorktree:
        """Make a worktree again that is gone, in its place, from git's index of it or its branch.

        Raises:
            AgentNotReadyError: it is there, or neither is left.
            GitError, OSError: it cannot be made.
        """
        repository = find_base_repository(worktree.repository)
        known = find_worktree(repository, worktree.path)
        if known is not None and known.is_there:
            raise AgentNotReadyError(f"the worktree {worktree.path!r} is there already")
        name = os.path.basename(worktree.path)
        record = WorktreeRecord(name=name, worktree=worktree, created=read_wall_clock())
        self._records.write(record)
        try:
            made = self._check_out_again(repository, worktree, known)
        except BaseException:
            self._records.forget(worktree.path)
            raise
        has_setup = bool(settings.setup)
        self._records.write(
            replace(record, git_dir=made.git_dir, stage="ready", needs_setup=has_setup)
        )
        included = copy_included(repository, worktree.path, settings.include_ignored)
        self._records.write_included(worktree.path, included.files)
        return MadeWorktree(
            worktree=worktree,
            cwd=_cwd_in(worktree, cwd),
            notices=(
                *_submodule_notices(list_entries(made)),
                *_skipped_notices(included.skipped),
            ),
        )

    def _check_out_again(
        self, repository: GitRepository, worktree: Worktree, known: LinkedWorktree | None
    ) -> GitRepository:
        if known is not None:
            return reattach_worktree(known)
        branch = worktree.branch
        tip = read_reference(repository, f"{BRANCHES}{branch}") if branch is not None else None
        thrown = next((o for o in self._records.trash() if o.worktree.path == worktree.path), None)
        if tip is None and thrown is not None:
            raise AgentNotReadyError(
                f"the worktree {worktree.path!r} was discarded; restore it with "
                f"`quarterdeck worktrees restore {thrown.id}`"
            )
        return add_worktree(
            repository,
            worktree.path,
            commit=tip or worktree.base,
            branch=branch,
            creates_branch=tip is None,
        )

    def undo(self, made: MadeWorktree) -> None:
        """Remove a worktree again in which no agent has run. Raises GitError."""
        if not made.is_new:
            return
        worktree = made.worktree
        repository = open_worktree(worktree.path, worktree.repository)
        tip = resolve_commit(repository, "HEAD")
        found = find_worktree(repository, worktree.path)
        if found is not None:
            base = expect_repository(worktree.repository)
            remove_worktree(found)
            names = [f"{BRANCHES}{worktree.branch}"] if worktree.branch is not None else []
            gone = [ReferenceUpdate(name=name, new=None, old=tip) for name in names]
            if worktree.start is not None:
                gone.append(ReferenceUpdate(name=name_start(worktree), new=None))
            update_references(base, gone, reason="worktree: undone")
        self._records.forget(worktree.path)

    # Steps

    def _make(
        self,
        repository: GitRepository,
        worktree: Worktree,
        name: str,
        cwd: str,
        settings: WorktreeSettings,
        *,
        tip: str | None = None,
        tree: str | None = None,
    ) -> MadeWorktree:
        record = WorktreeRecord(name=name, worktree=worktree, created=read_wall_clock())
        self._records.write(record)
        made: GitRepository | None = None
        commit, tree = tip or worktree.base, tree or worktree.start
        try:
            copying = IncludedCopy(repository, worktree.path, settings.include_ignored)
            made = add_worktree(
                repository,
                worktree.path,
                commit=commit,
                branch=worktree.branch,
                tree=tree,
                beside=copying.copy_apart(tree or commit),
            )
            self._records.write(replace(record, git_dir=made.git_dir))
            entries = list_entries(made)
            filtered = copy_filtered(repository, made, entries)
            included = copying.finish()
            if included.files:
                self._records.write_included(worktree.path, included.files)
            _keep_start(repository, worktree)
            has_setup = bool(settings.setup)
            ready = replace(record, git_dir=made.git_dir, stage="ready", needs_setup=has_setup)
            self._records.write(ready)
        except BaseException:
            if made is not None:
                with suppress(GitError, OSError):
                    self.undo(MadeWorktree(worktree=worktree, cwd=cwd))
            self._records.forget(worktree.path)
            raise
        notices = (*filtered, *_submodule_notices(entries), *_skipped_notices(included.skipped))
        shown = tuple(os.fsdecode(one.path) for one in included.files[:_SHOWN])
        return MadeWorktree(
            worktree=worktree, cwd=_cwd_in(worktree, cwd), includes=_plain(shown), notices=notices
        )

    def _join(self, cwd: str, repository: GitRepository, record: WorktreeRecord) -> MadeWorktree:
        del repository
        return MadeWorktree(
            worktree=record.worktree, cwd=_cwd_in(record.worktree, cwd), is_new=False
        )

    def _join_by_name(
        self, cwd: str, repository: GitRepository, record: WorktreeRecord, wanted: WorktreeOptions
    ) -> MadeWorktree:
        """Use a worktree that exists; a notice says so, since the name could be new."""
        if wanted.base is not None or wanted.carry:
            raise InvalidOptionsError(
                f"worktree: {record.name!r} exists already, so that it can be given no base and no "
                "changes; omit them to work there, or use another name"
            )
        notice = NoticePosted(title=f"Joined the worktree {record.name!r}, which exists already.")
        return replace(self._join(cwd, repository, record), notices=(notice,))

    def _adopt(self, cwd: str, wanted: WorktreeOptions) -> MadeWorktree:
        path = wanted.path or ""
        repository = find_base_repository(path)
        record = self._records.find(repository.top)
        if record is not None:
            return self._join(cwd, repository, record)
        if repository.git_dir == repository.common_dir:
            raise InvalidOptionsError(
                f"worktree: {path!r} is the main checkout of its repository; omit the option to "
                "work there"
            )
        head = resolve_commit(repository, "HEAD")
        tree = self._carried(repository, WorktreeOptions())
        has_more = tree != resolve_tree(repository, head)
        main = _main_branch(repository)
        branch = repository.branch if repository.is_on_branch else None
        worktree = Worktree(
            path=repository.top,
            repository=_main_top(repository),
            base=head,
            base_ref=main if main != branch else None,
            branch=branch,
            start=tree if has_more else None,
            is_adopted=True,
        )
        _keep_start(repository, worktree)
        return MadeWorktree(worktree=worktree, cwd=_cwd_in(worktree, cwd), is_new=False)

    def _carried(self, repository: GitRepository, wanted: WorktreeOptions) -> str:
        """The files of a checkout as a tree in the repository."""
        if wanted.base is not None and resolve_commit(repository, wanted.base) != resolve_commit(
            repository, "HEAD"
        ):
            raise InvalidOptionsError(
                "carry: uncommitted changes belong to the commit that is checked out; omit the base"
            )
        key = hashlib.blake2b(os.fsencode(repository.top), digest_size=12).hexdigest()
        directory = self._directory / "carried" / key
        return TreeRecorder(repository, directory, borrows=False, seconds=300.0).take()

    def _choose(
        self, repository: GitRepository, name: str | None, agent: str, settings: WorktreeSettings
    ) -> tuple[str, str, str]:
        """Name, branch and directory that are free."""
        above = self._place(repository, settings)
        for each in [name] if name is not None else _numbered(agent):
            plain = _plain_name(each)
            branch = settings.branch.replace("{agent}", plain)
            if not is_branch_name(repository, branch):
                raise InvalidOptionsError(
                    f"worktree: {branch!r} is not a valid branch name; use another name or change "
                    "the setting worktrees.branch"
                )
            path = os.path.join(above, plain)
            is_taken = read_reference(repository, f"{BRANCHES}{branch}") is not None
            known = any(one.path == path for one in list_worktrees(repository))
            if not is_taken and not known and not os.path.lexists(path):
                return plain, branch, path
            if name is not None:
                what = f"branch {branch!r}" if is_taken else f"directory {path!r}"
                raise InvalidOptionsError(
                    f"worktree: {name!r} cannot be used, because the {what} exists already; use "
                    "another name"
                )
        raise AssertionError("there is always another name")

    def _place(self, repository: GitRepository, settings: WorktreeSettings) -> str:
        """The directory in which worktrees of a repository are made."""
        key = hashlib.blake2b(os.fsencode(repository.common_dir), digest_size=4).hexdigest()
        title = os.path.basename(_main_top(repository)) or "repository"
        if settings.place is not None:
            place = os.path.expanduser(settings.place)
            place = os.path.normpath(os.path.join(_main_top(repository), place))
            os.makedirs(place, exist_ok=True)  # noqa: PTH103
            return os.path.realpath(place)
        place = self._directory / f"{_plain_name(title)}-{key}"
        make_private_directory(place)
        return os.path.realpath(place)


def name_start(worktree: Worktree) -> str:
    """What keeps the tree from which an agent's changes count."""
    key = hashlib.blake2b(os.fsencode(worktree.path), digest_size=8).hexdigest()
    return f"{OWN_REFERENCES}start/{key}"


def resolve_tree(repository: GitRepository, commit: str) -> str:
    """The tree of a commit. Raises GitError."""
    words = ("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
    return repository.ask(words).data.decode().strip()


def find_base_repository(directory: str) -> GitRepository:
    """The repository around a directory, from which a worktree can be made.

    Raises:
        InvalidOptionsError: there is none, or it cannot have worktrees, with the reason.
        GitError: git cannot be run.
    """
    try:
        repository = expect_repository(directory)
    except NotARepositoryError:
        names = ("HEAD", "objects", "refs")
        if all(os.path.lexists(os.path.join(directory, name)) for name in names):
            raise InvalidOptionsError(
                f"worktree: {directory!r} is a bare repository; start in one of its worktrees"
            ) from None
        raise InvalidOptionsError(
            f"worktree: {directory!r} is not in a git repository; run `git init` and commit "
            "something, or start without a worktree"
        ) from None
    try:
        repository.top.encode()
        repository.common_dir.encode()
    except UnicodeEncodeError:
        raise InvalidOptionsError(
            f"worktree: the path {repository.top!r} is not valid UTF-8; rename the directory"
        ) from None
    return repository


def _find_base(repository: GitRepository, name: str | None) -> tuple[str, str | None]:
    """The commit to start from, and the branch of which it is the tip."""
    if name is not None:
        try:
            commit = resolve_commit(repository, name)
        except GitError as error:
            raise InvalidOptionsError(f"base: {error}") from error
        branch = name.removeprefix(BRANCHES)
        is_branch = is_branch_name(repository, branch)
        if is_branch and read_reference(repository, f"{BRANCHES}{branch}") == commit:
            return commit, branch
        return commit, None
    try:
        commit = resolve_commit(repository, "HEAD")
    except GitError:
        raise InvalidOptionsError(
            f"worktree: {repository.top!r} has no commit yet; commit something first"
        ) from None
    return commit, repository.branch if repository.is_on_branch else None


def _main_top(repository: GitRepository) -> str:
    """The main checkout; of a bare repository the checkout that is there."""
    common = repository.common_dir
    return os.path.dirname(common) if os.path.basename(common) == ".git" else repository.top  # noqa: PTH120


def _main_branch(repository: GitRepository) -> str | None:
    """The branch of the main checkout, if it has a commit."""
    try:
        main = expect_repository(_main_top(repository))
    except GitError:
        return None
    if not main.is_on_branch:
        return None
    found = read_reference(main, f"{BRANCHES}{main.branch}")
    return main.branch if found is not None else None


def _is_worktree_of(record: WorktreeRecord, repository: GitRepository) -> bool:
    return record.git_dir is not None and record.git_dir.startswith(f"{repository.common_dir}/")


def _keep_start(repository: GitRepository, worktree: Worktree) -> None:
    """Keep git from collecting the tree from which changes count, as long as it is needed."""
    if worktree.start is None:
        return
    words = ("commit-tree", "-p", worktree.base, "-m", "start of a worktree", worktree.start)
    commit = repository.change(words, identity=PROGRAM_IDENTITY).data.decode().strip()
    name = name_start(worktree)
    old = read_reference(repository, name)
    kept = ReferenceUpdate(name=name, new=commit, old=old)
    update_references(repository, [kept], reason="worktree: start", identity=PROGRAM_IDENTITY)


def _cwd_in(worktree: Worktree, cwd: str) -> str:
    """The same directory in the worktree, which is made if only its files are not committed."""
    real = os.path.realpath(cwd)
    for top in (worktree.path, worktree.repository, _top_of(real)):
        if top is not None and (real == top or real.startswith(f"{top}/")):
            inside = os.path.normpath(os.path.join(worktree.path, os.path.relpath(real, top)))
            break
    else:
        return worktree.path
    resolved = os.path.realpath(inside)
    if resolved != inside:  # a link of the worktree leads elsewhere
        return worktree.path
    try:
        os.makedirs(inside, exist_ok=True)  # noqa: PTH103
    except OSError:
        return worktree.path
    return inside


def _top_of(directory: str) -> str | None:
    try:
        return expect_repository(directory).top
    except GitError:
        return None


def _submodule_notices(entries: bytes) -> Iterator[NoticePosted]:
    if b"160000 " not in entries:
        return
    lines = (line for line in entries.split(b"\0") if line.startswith(b"160000 "))
    names = [os.fsdecode(line.partition(b"\t")[2]) for line in lines]
    if names:
        yield NoticePosted(
            title=f"Submodules are empty in the worktree: {_some(names)}",
            severity="warning",
            description="Fill them with a command in the setting worktrees.setup, such as "
            "`git submodule update --init`.",
        )


def _skipped_notices(skipped: tuple[str, ...]) -> Iterator[NoticePosted]:
    if skipped:
        yield NoticePosted(
            title=f"Not copied into the worktree: {_some(skipped)}", severity="warning"
        )


def _some(names: "list[str] | tuple[str, ...]") -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(_plain(tuple(names[:_SHOWN]))) + more


def _plain(names: tuple[str, ...]) -> tuple[str, ...]:
    """For people: what is no text is escaped."""
    return tuple(path_line(os.fsencode(name)) for name in names)


def _plain_name(name: str) -> str:
    """A name as a part of a path and of a branch."""
    plain = "".join(mark if mark.isalnum() or mark in "-_." else "-" for mark in name)
    while ".." in plain:
        plain = plain.replace("..", ".")
    # Nothing that begins with "-" can be given to a command.
    plain = plain.lstrip("-.").rstrip(".").removesuffix(".lock")
    return plain or "worktree"


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in count(2):
        yield f"{name}-{number}"
