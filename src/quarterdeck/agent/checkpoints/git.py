"""Git on a store of our own, within a deadline. Everything here blocks."""

import time

from quarterdeck.system.errors import GitError
from quarterdeck.system.git import GitPlaces, run_git

from .errors import SnapshotError

__all__ = ["Deadline", "StoreGit"]

_SETTINGS = (
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.fileMode=true",
    "core.bigFileThreshold=1g",
    "core.fsync=none",
    "index.threads=true",
)


class Deadline:
    """A moment by which everything has to be done."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then. Raises SnapshotError when it is over."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.over()
        return left

    def over(self) -> SnapshotError:
        """What is raised when it is over."""
        return SnapshotError(f"it took longer than {self.seconds:g} s")


class StoreGit:
    """Runs commands on one store; names of files are no patterns there."""

    def __init__(self, places: GitPlaces, *, settings: tuple[str, ...] = ()) -> None:
        self._places = places
        self._settings = (*_SETTINGS, *settings)

    def run(self, *words: str, deadline: Deadline, given: bytes = b"") -> bytes:
        """Run a command and give what it prints; blocks. Raises SnapshotError."""
        seconds = deadline.left()
        try:
            return run_git(
                self._places,
                words,
                settings=self._settings,
                given=given,
                seconds=seconds,
                literal=True,
            ).data
        except GitError as error:
            deadline.left()
            raise SnapshotError(str(error)) from error
