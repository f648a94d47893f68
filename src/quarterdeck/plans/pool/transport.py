"""How files travel in a pool: by a git remote, through a mirror of it on each worker.

The network is used from the mirror alone, which agents have no business in: the settings and hooks
of a checkout that agents work in are never read by a git with the person's credentials. A checkout
of a run borrows the objects of the mirror, so that what is fetched is there at once.
"""

# Names may be no text, and are joined as they are.
# ruff: noqa: PTH114, PTH118

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from quarterdeck.config.places import Places, make_private
from quarterdeck.fleet.landing.api import PullRequestDraft
from quarterdeck.fleet.landing.pull_request import (
    OpenedPullRequest,
    PullRequestError,
    open_pull_request,
    run_own_program,
)
from quarterdeck.fleet.worktrees.includes import list_included
from quarterdeck.system.errors import GitError
from quarterdeck.system.file_copy import TreeCopier
from quarterdeck.system.git.references import (
    BRANCHES,
    OWN_REFERENCES,
    ReferenceUpdate,
    list_references,
    read_reference,
    update_references,
)
from quarterdeck.system.git.repository import (
    GitRepository,
    expect_repository,
    find_identity,
)
from quarterdeck.system.git.tree_snapshot import TreeRecorder
from quarterdeck.wire.filelock import open_lock, release_lock, try_lock
from quarterdeck.wire.redaction import mask_secrets

from .errors import TransportError

__all__ = ["PoolTransport", "commit_included", "name_reference"]

_SECONDS = 600.0
_AT_ONCE = 100
"""References that one push removes."""
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false")


def name_reference(run: str, *parts: str) -> str:
    """A reference of ours at the remote. Keys of tasks and names of agents are safe in it."""
    return "/".join((f"{OWN_REFERENCES}pool/{run}", *parts))


class PoolTransport:
    """The files of one run on this worker.

    Args:
        places: of this program.
        run: its id.
        remote: the address of the git remote, without a password.
        base: the commit that the run starts from.
        included: the commit with the ignored files that it starts with; empty: none.
    """

    def __init__(
        self, places: Places, run: str, remote: str, base: str, included: str = ""
    ) -> None:
        above = places.state / "pool"
        name = hashlib.sha256(remote.encode()).hexdigest()[:20]
        self.mirror = above / "mirrors" / f"{name}.git"
        self.checkout = above / "checkouts" / run
        self._recorders = above / "snapshots"
        self._run = run
        self._remote = remote
        self._base = base
        self._included = included

    def hold(self) -> "_Lock":
        """Be the one that changes mirror and branches; for a landing until it is pushed."""
        return _Lock(self.mirror.with_suffix(".lock"))

    async def prepare(self) -> None:
        """Fetch, and make the checkout of the run if it is not there. Raises TransportError."""
        async with self.hold():
            await self.refresh()

    async def refresh(self) -> None:
        """As ``prepare``, for a caller that holds the lock."""
        await self._fetch_mirror()
        if not (self.checkout / ".git" / "HEAD").exists():
            await self._make_checkout()
        await self._use_checkout(self._follow_branches)

    async def add_branch(self, branch: str) -> None:
        """A branch that the remote does not have starts where the run does."""
        await self._use_checkout(partial(self._add_branch, branch))

    def _add_branch(self, branch: str) -> None:
        here, name = expect_repository(str(self.checkout)), f"{BRANCHES}{branch}"
        if read_reference(here, name) is None:
            update = ReferenceUpdate(name=name, new=self._base)
            update_references(here, [update], reason="pool: start a branch")

    async def _fetch_mirror(self) -> None:
        await self._init_mirror()
        await self._fetch(f"+{BRANCHES}*:{BRANCHES}*", name_reference(self._run, "base"))

    async def _init_mirror(self) -> None:
        if not (self.mirror / "HEAD").exists():
            await asyncio.to_thread(make_private, self.mirror)
            await self._git("init", "-q", "--bare", ".")
            await self._git("config", "safe.bareRepository", "all")

    async def _fetch(self, *wanted: str) -> None:
        words = ("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", self._remote)
        await self._git(*_QUIET, *words, *wanted)

    async def _make_checkout(self) -> None:
        """A checkout without a branch, so that every branch can follow the remote's."""
        beside = self.checkout.with_name(f"{self.checkout.name}.new")
        await asyncio.to_thread(make_private, beside.parent)
        words = ("clone", "-q", "--shared", "--no-checkout", "--no-tags", "--", ".", str(beside))
        if not beside.exists():
            await self._git(*_QUIET, *words)
        await self._git("-C", str(beside), *_QUIET, "checkout", "-q", "--detach", self._base)
        if self._included:
            reference = name_reference(self._run, "included")
            await self.fetch_included(reference, self._included, str(beside))
        await asyncio.to_thread(beside.rename, self.checkout)

    async def _use_checkout(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(work)
        except GitError as error:
            raise TransportError(f"the checkout of the run cannot be used: {error}") from error

    def _follow_branches(self) -> None:
        """Put the branches of the checkout where those of the mirror are."""
        here = expect_repository(str(self.checkout))
        theirs = _read_mirror(self.mirror)
        ours = list_references(here, BRANCHES)
        updates = [
            ReferenceUpdate(name=name, new=commit, old=ours.get(name))
            for name, commit in theirs.items()
            if ours.get(name) != commit
        ]
        if updates:
            update_references(here, updates, reason="pool: follow the remote")

    async def push_tree(self, worktree: str, session: str, reference: str) -> str:
        """Push the files of a worktree, untracked ones too, to a reference; the commit.

        Raises:
            TransportError: they cannot be read or pushed.
        """
        try:
            commit = await asyncio.to_thread(self._commit, worktree, session)
        except GitError as error:
            raise TransportError(f"{worktree!r} cannot be written down: {error}") from error
        await self._push(commit, reference)
        return commit

    async def push_included(self, worktree: str, session: str, reference: str) -> str:
        """Push the ignored files of a worktree that its list names; empty: there are none.

        Raises:
            TransportError: they cannot be read or pushed.
        """
        recorders = self._recorders / f"{session}-included"
        try:
            commit = await asyncio.to_thread(commit_included, worktree, recorders)
        except GitError as error:
            raise TransportError(
                f"ignored files of {worktree!r} cannot be read: {error}"
            ) from error
        if commit:
            await self._push(commit, reference)
        return commit

    async def fetch_included(self, reference: str, commit: str, directory: str) -> None:
        """Write the ignored files of a commit into a directory; those that are there are replaced.

        No link is followed. Raises TransportError.
        """
        await self._fetch(reference)
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="quarterdeck-included-"))
        try:
            files = folder / "files"
            files.mkdir()
            env = {"GIT_INDEX_FILE": str(folder / "index"), "GIT_WORK_TREE": str(files)}
            plain = ("-c", "core.autocrlf=false", *_QUIET)
            await self._git(*plain, "read-tree", f"{commit}^{{tree}}", env=env)
            await self._git(*plain, "checkout-index", "-q", "-a", "-f", env=env)
            await asyncio.to_thread(_copy_all, str(files), directory)
        except OSError as error:
            raise TransportError(f"ignored files cannot be written here: {error}") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, True)

    def _commit(self, worktree: str, session: str) -> str:
        repository = expect_repository(worktree)
        recorder = TreeRecorder(repository, self._recorders / session, borrows=False)
        tree = recorder.take()
        head = repository.ask(("rev-parse", "--verify", "HEAD")).data.decode().strip()
        words = ("commit-tree", tree, "-p", head, "-m", f"pool: files of {session}")
        made = repository.change(words, identity=find_identity(repository))
        return made.data.decode().strip()

    async def push_branch(self, branch: str) -> bool:
        """Push a branch of the checkout as it is; False: the remote's went on, nothing changed.

        The caller holds the lock since it changed the branch.

        Raises:
            TransportError: it cannot be pushed at all.
        """
        here = await asyncio.to_thread(expect_repository, str(self.checkout))
        commit = await asyncio.to_thread(read_reference, here, f"{BRANCHES}{branch}")
        if commit is None:
            raise TransportError(f"there is no branch {branch!r} to push")
        try:
            await self._push(commit, f"{BRANCHES}{branch}", force=False)
        except TransportError:
            before = (await asyncio.to_thread(_read_mirror, self.mirror)).get(f"{BRANCHES}{branch}")
            await self.refresh()
            after = (await asyncio.to_thread(_read_mirror, self.mirror)).get(f"{BRANCHES}{branch}")
            if before == after:
                raise
            return False
        return True

    async def _push(self, commit: str, reference: str, *, force: bool = True) -> None:
        sign = "+" if force else ""
        words = ("push", "-q", "--porcelain", "--", self._remote, f"{sign}{commit}:{reference}")
        objects = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.checkout / ".git" / "objects")}
        await self._git(*_QUIET, *words, env=objects)

    async def remove_references(self) -> int:
        """Remove all references of the run at the remote; how many. Raises TransportError."""
        count = 0
        async with self.hold():
            await self._init_mirror()
            # Of a long list only the end is read, so that it is asked for until it is empty.
            while names := await self._list_references():
                some = (f":{name}" for name in names[:_AT_ONCE])
                await self._git(*_QUIET, "push", "-q", "--", self._remote, *some)
                count += len(names[:_AT_ONCE])
        return count

    async def _list_references(self) -> list[str]:
        words = ("ls-remote", "--refs", "--", self._remote, name_reference(self._run, "*"))
        names = [line.partition("\t")[2] for line in (await self._git(*words)).splitlines()]
        return [name for name in names if name.startswith(f"{name_reference(self._run)}/")]

    async def push_draft(self, draft: PullRequestDraft, task: str) -> None:
        """Let other workers have the commit of a pull request. Raises TransportError."""
        await self._push(draft.commit, name_reference(self._run, "drafts", task))

    async def open_pull_request(self, draft: PullRequestDraft, task: str) -> OpenedPullRequest:
        """Push a branch and open a pull request for it, with the programs of this machine.

        They run in the mirror, where no agent can write. Raises TransportError, PullRequestError.
        """
        await self._fetch(name_reference(self._run, "drafts", task))
        await self._git("config", "remote.origin.url", self._remote)
        return await open_pull_request(replace(draft, repository=str(self.mirror)), None)

    async def fetch_trees(self, references: tuple[str, ...], commits: tuple[str, ...]) -> list[str]:
        """Fetch into the mirror alone; the trees of commits. Raises TransportError."""
        async with self.hold():
            await self._fetch_mirror()
            await self._fetch(*references)
        words = ("rev-parse", "--verify", "--end-of-options")
        return [(await self._git(*words, f"{one}^{{tree}}")).strip() for one in commits]

    async def fetch_tree(self, reference: str) -> None:
        """Fetch what another worker pushed. Raises TransportError."""
        await self._fetch(reference)

    async def _git(self, *words: str, env: dict[str, str] | None = None) -> str:
        try:
            return await run_own_program(
                "git", words, cwd=str(self.mirror), seconds=_SECONDS, env=env
            )
        except PullRequestError as error:
            raise TransportError(mask_secrets(str(error))) from error


def commit_included(worktree: str, directory: Path) -> str:
    """A commit, without a parent, of the ignored files that a worktree's list names; empty: none.

    ``directory``: of ours. Blocks. Raises GitError.
    """
    repository = expect_repository(worktree)
    names = list_included(repository)
    if not names:
        return ""
    recorder = TreeRecorder(repository, directory, borrows=False)
    recorder.empty()
    recorder.run("update-index", "--add", "-z", "--stdin", given=b"\0".join(names), more=_SECONDS)
    tree = recorder.run("write-tree").decode().strip()
    words = ("commit-tree", tree, "-m", "pool: ignored files")
    made = repository.change(words, identity=find_identity(repository))
    return made.data.decode().strip()


def _copy_all(source: str, target: str) -> None:
    top = os.fsencode(source)
    names = [
        os.path.relpath(os.path.join(folder, name), top)
        for folder, folders, files in os.walk(top)
        for name in (*files, *(one for one in folders if os.path.islink(os.path.join(folder, one))))
    ]
    TreeCopier(source, target, replaces=True).copy(names)


def _read_mirror(mirror: Path) -> dict[str, str]:
    """The branches of the mirror; it is ours, and has no work tree to look at."""
    view = GitRepository(
        top=str(mirror), git_dir=str(mirror), common_dir=str(mirror), head="ref: refs/heads/none"
    )
    return list_references(view, BRANCHES)


class _Lock:
    """One process at a time changes a mirror; waits without blocking the loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    async def __aenter__(self) -> None:
        await asyncio.to_thread(make_private, self._path.parent)
        self._handle = await asyncio.to_thread(open_lock, self._path)
        while True:
            if await asyncio.to_thread(try_lock, self._handle):
                return
            await asyncio.sleep(0.05)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(release_lock, self._handle)
