"""A repository, an agent's worktree in it, and what real git makes of the same."""

from dataclasses import dataclass
from pathlib import Path

from quarterdeck.wire.worktrees import Worktree

from .work_trees import git, new_repository

__all__ = ["AgentTree", "make_agent_tree", "tip_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTree:
    """A project and an agent's worktree of it."""

    project: Path
    worktree: Path
    base: str

    @property
    def value(self) -> Worktree:
        """As the log has it."""
        return Worktree(
            path=str(self.worktree),
            repository=str(self.project),
            base=self.base,
            base_ref="main",
            branch="quarterdeck/ann",
        )


def make_agent_tree(folder: Path, files: dict[str, str] | None = None) -> AgentTree:
    """A project with one commit on ``main``, and a worktree on ``quarterdeck/ann``."""
    given = files if files is not None else {"a.txt": "a\nb\nc\n", "b.txt": "b\n" * 20}
    project = new_repository(folder.resolve() / "project", given)
    worktree = folder.resolve() / "ann"
    git(project, "worktree", "add", "-q", "-b", "quarterdeck/ann", str(worktree))
    return AgentTree(project=project, worktree=worktree, base=tip_of(project, "main"))


def tip_of(directory: Path, name: str) -> str:
    """The commit that a name stands for."""
    return git(directory, "rev-parse", name).strip()
