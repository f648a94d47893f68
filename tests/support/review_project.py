"""A repository with a worktree in which an agent of a fleet works, to be reviewed."""
# Names of files may be no text, and pathlib takes text alone.
# ruff: noqa: PTH103, PTH120, PTH123

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import WorktreeAssigned
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import Worktree
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, fleet_of, new_agent

__all__ = ["ReviewedAgent", "assign_worktree", "git", "make_repository", "reviewed_agent"]


def git(where: Path, *words: str, given: bytes = b"", check: bool = True) -> bytes:
    """Run the real git, with nobody's settings."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C"}
    own = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    done = subprocess.run(
        ["git", *own, *words], cwd=where, input=given, capture_output=True, env=environment
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def make_repository(top: Path, files: dict[bytes, bytes]) -> None:
    """A repository with one commit of these files."""
    top.mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "core.autocrlf", "false")
    for name, data in files.items():
        path = os.fsencode(top) + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    git(top, "add", "-A")
    git(top, "commit", "-q", "--allow-empty", "-m", "first")


class ReviewedAgent:
    """An agent called ``ann``, and the directory that it works in."""

    def __init__(self, fleet: LocalFleet, casting: Casting, tree: Path, session: str) -> None:
        self.fleet = fleet
        self.casting = casting
        self.tree = tree
        self.session = SessionId(session)

    def write(self, name: str | bytes, data: str | bytes) -> None:
        """Write a file of the worktree."""
        path = os.fsencode(self.tree) + b"/" + os.fsencode(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())

    def read(self, name: str | bytes) -> bytes | None:
        """What is in a file of the worktree; None: there is none."""
        try:
            with open(os.fsencode(self.tree) + b"/" + os.fsencode(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def staged(self, name: str) -> bytes | None:
        """What is in the index at a path."""
        listed = git(self.tree, "ls-files", "-s", "--", f":(literal){name}")
        return git(self.tree, "cat-file", "blob", listed.split()[1].decode()) if listed else None


@asynccontextmanager
async def reviewed_agent(
    tmp_path: Path, files: dict[bytes, bytes]
) -> AsyncGenerator[ReviewedAgent]:
    """An agent with a worktree of a repository that has these files."""
    project, tree = tmp_path / "project", tmp_path / "tree"
    make_repository(project, files)
    git(project, "worktree", "add", "-q", "-b", "quarterdeck/ann", str(tree))
    casting = Casting()
    async with fleet_of(tmp_path / "home", casting) as fleet:
        info = await fleet.spawn(new_agent(tree, name="ann", prompt="say hello"))
        await fleet.wait(["ann"], timeout=SOON)
        await assign_worktree(fleet, info.session, project, tree)
        yield ReviewedAgent(fleet, casting, tree, info.session)


async def assign_worktree(fleet: LocalFleet, session: SessionId, project: Path, tree: Path) -> None:
    """Note that a session works in a worktree of a repository; returns when the fleet knows."""
    worktree = describe_worktree(project, tree)
    record = await fleet.journal.append(session, WorktreeAssigned(worktree=worktree))
    await fleet.journal.durable(record.seq)
    async for one in fleet.follow(record.seq - 1, agent=session):
        if one.seq == record.seq:
            break


def describe_worktree(project: Path, tree: Path) -> Worktree:
    """A worktree that started at what is checked out in a repository."""
    return Worktree(
        path=str(tree.resolve()),
        repository=str(project.resolve()),
        base=git(project, "rev-parse", "HEAD").decode().strip(),
        base_ref="refs/heads/main",
        branch="quarterdeck/ann",
    )
