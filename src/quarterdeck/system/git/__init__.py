"""Git without a repository's settings: ``command`` is the one way in which this program runs it,
``repository`` finds and reads a person's repository, ``references`` changes branches,
``tree_snapshot`` writes a work tree down, ``worktree`` makes and removes linked worktrees.
"""
