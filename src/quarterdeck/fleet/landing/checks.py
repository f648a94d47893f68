"""Checks of a landing before it is landed, and the temporary worktree in which they run.

It is a linked worktree of the repository, below the state directory, with no branch checked out.
Nothing that the repository names runs when it is made.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from quarterdeck.config.schema import Settings
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import GitRepository, find_repository
from quarterdeck.system.git.worktree import (
    add_worktree,
    delete_directory,
    find_worktree,
    remove_worktree,
)
from quarterdeck.wire.ids import SessionId, new_request_id
from quarterdeck.wire.worktrees import CommandPurpose

from ..live_index import LogWriter
from ..worktrees.commands import CommandContainment, run_worktree_command
from ..worktrees.includes import copy_included

__all__ = ["CheckRunner", "CheckTree", "remove_check_trees"]

_log = logging.getLogger(__name__)
_SECONDS = 300.0
_PREFIX = "quarterdeck-check-"


class CheckTree:
    """A temporary worktree; ``remove`` it.

    Args:
        repository: whose commits are checked out.
        directory: of ours, in which it is made.
    """

    def __init__(self, repository: GitRepository, directory: Path) -> None:
        self.path = directory / f"{_PREFIX}{new_request_id()[-12:]}"
        self.source = repository.top
        """The checkout that it was made from."""
        self.needed = (repository.common_dir, repository.top)
        """Directories that git, or a command, has to read."""
        self._repository = repository
        self._tree: GitRepository | None = None

    def check_out(self, commit: str) -> bool:
        """Let its files be those of a commit; what a command left there stays. Blocks.

        Returns whether it was made now.

        Raises:
            GitError: it cannot be written.
        """
        try:
            if self._tree is None:
                self._tree = add_worktree(self._repository, str(self.path), commit=commit)
                return True
            Path(self._tree.git_dir, "HEAD").write_text(f"{commit}\n")
        except OSError as error:
            raise GitError(f"cannot write the worktree {str(self.path)!r}: {error}") from error
        self._tree = replace(self._tree, head=commit)
        self._tree.change(("read-tree", "--reset", "-u", commit), seconds=_SECONDS)
        return False

    def copy_included(self, patterns: Sequence[str]) -> None:
        """Copy ignored files that work needs, as into the worktree of an agent. Blocks.

        Raises:
            GitError: they cannot be read or written.
        """
        try:
            copy_included(self._repository, str(self.path), patterns)
        except OSError as error:
            raise GitError(f"cannot copy files into {str(self.path)!r}: {error}") from error

    def remove(self) -> None:
        """Delete it. Blocks."""
        _remove(self._repository, self.path)


class CheckRunner:
    """Runs the commands of a check, and writes their output to the log of each session.

    Args:
        load_settings: of the project in a directory; blocks.
        notes: writes to the log.
        hidden: directories of ours that no check may see.
    """

    def __init__(
        self,
        load_settings: Callable[[str], Settings],
        notes: LogWriter,
        hidden: tuple[str, ...],
    ) -> None:
        self._load_settings = load_settings
        self._notes = notes
        self._hidden = hidden

    async def run(
        self,
        sessions: Sequence[SessionId],
        tree: CheckTree,
        commit: str,
        command: str,
        seconds: float,
    ) -> tuple[str, str] | None:
        """Run a check on a commit; why it failed and its output, or None. Raises GitError."""
        is_new = await asyncio.to_thread(tree.check_out, commit)
        if is_new and (failed := await self._prepare(sessions, tree, seconds)) is not None:
            return failed
        return await self._run_command(sessions, tree, command, "check", seconds)

    async def _prepare(
        self, sessions: Sequence[SessionId], tree: CheckTree, seconds: float
    ) -> tuple[str, str] | None:
        """Copy ignored files into it and run set-up commands, as for an agent's worktree."""
        settings = await asyncio.to_thread(self._load_settings, tree.source)
        await asyncio.to_thread(tree.copy_included, settings.worktrees.include_ignored)
        for line in settings.worktrees.setup:
            timeout = min(seconds, settings.worktrees.timeout)
            failed = await self._run_command(sessions, tree, line, "setup", timeout)
            if failed is not None:
                return failed
        return None

    async def _run_command(
        self,
        sessions: Sequence[SessionId],
        tree: CheckTree,
        line: str,
        purpose: CommandPurpose,
        seconds: float,
    ) -> tuple[str, str] | None:
        variables = {"QUARTERDECK_WORKTREE": str(tree.path), "QUARTERDECK_REPOSITORY": tree.source}
        event = await run_worktree_command(
            line,
            cwd=str(tree.path),
            purpose=purpose,
            variables=variables,
            timeout=seconds,
            containment=await self._find_containment(tree),
        )
        for session in sessions:
            await self._notes.note(session, event)
        if event.exit_code == 0:
            return None
        what = "check" if purpose == "check" else "set-up command"
        how = f"failed with exit code {event.exit_code}"
        if event.exit_code is None:
            how = f"was ended after {event.seconds:.0f} s"
        return f"the {what} {line!r} {how}", event.output

    async def _find_containment(self, tree: CheckTree) -> CommandContainment | None:
        """What runs there is what an agent wrote, whoever named the command."""
        settings = await asyncio.to_thread(self._load_settings, tree.source)
        if not settings.landing.sandbox:
            return None
        return CommandContainment(
            settings=settings.sandbox,
            setting="landing.sandbox",
            readable=tree.needed,
            hidden=self._hidden,
        )


def remove_check_trees(directory: Path) -> None:
    """Delete what a killed host left. Blocks."""
    for path in sorted(directory.glob(f"{_PREFIX}*")):
        try:
            repository = find_repository(str(path))
        except GitError:
            repository = None
        _remove(repository, path)


def _remove(repository: GitRepository | None, path: Path) -> None:
    try:
        found = find_worktree(repository, str(path)) if repository is not None else None
        if found is not None:
            remove_worktree(found)
        delete_directory(str(path))
    except (GitError, OSError) as error:
        _log.warning("the temporary worktree %s could not be deleted: %s", path, error)
