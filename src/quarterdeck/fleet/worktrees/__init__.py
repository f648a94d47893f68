"""Git worktrees of agents."""
