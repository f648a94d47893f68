"""Checks: a command of the person's runs on the result of a landing, in a temporary worktree.

The worktree is a linked one of the repository, below the state directory, with no branch checked
out. Nothing that the repository names runs when it is made. The command itself is the person's:
it has few variables, a process group of its own and a time limit.
"""
# Names may be no text, and are joined as they are.

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.system.api import CommandSpec, EndingDeadlines
from quarterdeck.system.errors import GitError, OperatingSystemError
from quarterdeck.system.git.repository import GitRepository, find_repository
from quarterdeck.system.git.worktree import (
    add_worktree,
    delete_directory,
    find_worktree,
    remove_worktree,
)
from quarterdeck.system.output import OutputRing, Utf8Decoder
from quarterdeck.system.process import spawn
from quarterdeck.wire.ids import new_request_id

__all__ = ["CheckOutcome", "CheckTree", "remove_check_trees", "run_check"]

_log = logging.getLogger(__name__)
_OUTPUT = 12_000
_SECONDS = 300.0
_PREFIX = "quarterdeck-check-"


class CheckOutcome(Struct, frozen=True, kw_only=True):
    """How a check ended."""

    command: str
    exit_code: int | None
    """None: it was ended, by a signal or because it took too long."""
    output: str
    """Its last lines, both streams."""
    seconds: float

    @property
    def has_passed(self) -> bool:
        """Whether the command reported success."""
        return self.exit_code == 0

    @property
    def reason(self) -> str:
        """Why it failed, in words."""
        if self.exit_code is None:
            return f"the check {self.command!r} was ended after {self.seconds:.0f} s"
        return f"the check {self.command!r} failed with exit code {self.exit_code}"


class CheckTree:
    """A temporary worktree; ``remove`` it.

    Args:
        repository: whose commits are checked out.
        directory: of ours, in which it is made.
    """

    def __init__(self, repository: GitRepository, directory: Path) -> None:
        self.path = directory / f"{_PREFIX}{new_request_id()[-12:]}"
        self._repository = repository
        self._tree: GitRepository | None = None

    def check_out(self, commit: str) -> None:
        """Let its files be those of a commit; what a command left there stays. Blocks.

        Raises:
            GitError: it cannot be written.
        """
        try:
            if self._tree is None:
                self._tree = add_worktree(self._repository, str(self.path), commit=commit)
                return
            Path(self._tree.git_dir, "HEAD").write_text(f"{commit}\n")
        except OSError as error:
            raise GitError(f"cannot write the worktree {str(self.path)!r}: {error}") from error
        self._tree = replace(self._tree, head=commit)
        self._tree.change(("read-tree", "--reset", "-u", commit), seconds=_SECONDS)

    def remove(self) -> None:
        """Delete it. Blocks."""
        _remove(self._repository, self.path)


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


async def run_check(
    command: str, path: Path, *, seconds: float, variables: Mapping[str, str] | None = None
) -> CheckOutcome:
    """Run a command line in a directory, to its end or the end of its time."""
    started = time.monotonic()
    ring = OutputRing(tail=_OUTPUT)
    spec = CommandSpec(argv=("/bin/sh", "-c", command), cwd=str(path), env=dict(variables or {}))
    code: int | None = None
    try:
        async with await spawn(spec, stdin="nothing", merged=True) as process:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while data := await process.receive():
                        ring.write(data)
                    code = (await process.wait()).code
            await process.end(EndingDeadlines(ask=0.0, terminate=2.0))
    except OperatingSystemError as error:
        ring.write(str(error).encode())
    output = Utf8Decoder().decode(ring.kept().at_characters().tail, final=True)
    return CheckOutcome(
        command=command, exit_code=code, output=output, seconds=time.monotonic() - started
    )
