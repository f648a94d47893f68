"""What becomes of a worktree when the work in it has landed."""

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import Worktree

from ..errors import AgentNotReadyError
from ..worktrees.management import WorktreeManagement

__all__ = ["WorktreeRelease"]


class WorktreeRelease:
    """Marks worktrees as landed; one that need not be kept a day is removed at once."""

    def __init__(self, worktrees: WorktreeManagement) -> None:
        self._worktrees = worktrees

    async def __call__(
        self, session: SessionId, worktree: Worktree, commit: str, files: str | None
    ) -> str | None:
        """Note that everything up to a commit is on another branch; what was done beyond that.

        ``files``: a commit with what was not committed then, too.

        Raises:
            WorktreeError, GitError, ConfigError: it could not be removed.
        """
        await self._worktrees.mark_landed(worktree, commit, files)
        settings = await self._worktrees.settings(worktree.repository)
        if worktree.is_adopted or "merge" not in settings.remove_after or settings.keep_days > 0:
            return None
        try:
            outcome = await self._worktrees.remove_worktree(worktree.path)
        except AgentNotReadyError:
            return None  # it goes when its agent has ended
        branch = f"; the branch {outcome.branch} is kept" if outcome.branch else ""
        return f"the worktree was removed{branch}"
