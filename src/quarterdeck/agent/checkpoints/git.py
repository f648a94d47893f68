"""Runs git with an environment of our own: no hooks, no filters, no settings of the person."""

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from quarterdeck.system.environment import child_environment

from .errors import SnapshotFailed

__all__ = ["Deadline", "Git", "Repository", "find_repository"]

_SAFE = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.fileMode=true",
    "core.bigFileThreshold=1g",
    "core.fsync=none",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "advice.addEmbeddedRepo=false",
    "index.threads=true",
    "core.preloadIndex=true",
)
_OURS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}


_DESCRIBING = (
    *("--show-toplevel", "--git-dir", "--git-common-dir"),
    *("--git-path", "index", "--git-path", "objects", "--show-object-format"),
)


class Deadline:
    """A moment by which everything has to be done."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then. Raises SnapshotFailed when it is over."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise SnapshotFailed(f"it took longer than {self.seconds:g} s")
        return left


class Repository(Struct, frozen=True, kw_only=True):
    """A person's work tree, as git describes it."""

    top: bytes
    git_dir: str
    common_dir: str
    index: str
    objects: str
    object_format: str
    excludes: str | None
    """The person's own file of names to ignore, where they set one."""
    autocrlf: bool
    """Line ends may be other ones in the work tree than in the repository."""


class Git:
    """Runs commands on one set of git's places."""

    def __init__(self, places: Mapping[str, str], *, settings: tuple[str, ...] = ()) -> None:
        self._environment = child_environment(dict(_OURS) | dict(places))
        self._settings = [word for one in (*_SAFE, *settings) for word in ("-c", one)]

    def run(self, *words: str, deadline: Deadline, given: bytes | None = None) -> bytes:
        """Run a command and give what it prints; blocks. Raises SnapshotFailed."""
        return _run(["git", *self._settings, *words], self._environment, deadline, given)


def find_repository(directory: str, deadline: Deadline) -> Repository | None:
    """The work tree that holds a directory; None where there is none, or none that git trusts.

    Only questions that read no index are asked, with the person's own settings: those decide
    which directories git trusts.
    """
    if not any((one / ".git").exists() for one in (Path(directory), *Path(directory).parents)):
        return None
    environment = child_environment({"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"})
    asking = ["git", "-c", "core.fsmonitor=false", "-C", directory]

    def ask(*words: str) -> list[str]:
        try:
            said = _run([*asking, *words], environment, deadline, None)
        except SnapshotFailed:
            deadline.left()
            return []
        return os.fsdecode(said).splitlines()

    described = ask("rev-parse", "--path-format=absolute", *_DESCRIBING)
    if len(described) != 6:  # none, or a name with a line end in it
        return None
    top, git_dir, common_dir, index, objects, object_format = described
    settings = dict(
        line.split(" ", 1)
        for line in ask("config", "--type=path", "--get-regexp", r"^core\.(excludesfile|autocrlf)$")
        if " " in line
    )
    return Repository(
        top=os.fsencode(os.path.realpath(top)),
        git_dir=git_dir,
        common_dir=common_dir,
        index=index,
        objects=objects,
        object_format=object_format,
        excludes=settings.get("core.excludesfile"),
        autocrlf=settings.get("core.autocrlf", "false") != "false",
    )


def _run(
    argv: list[str], environment: Mapping[str, str], deadline: Deadline, given: bytes | None
) -> bytes:
    seconds = deadline.left()
    try:
        done = subprocess.run(
            argv,
            env=dict(environment),
            input=given if given is not None else b"",
            capture_output=True,
            cwd=Path(os.sep),
            timeout=seconds,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise SnapshotFailed(f"it took longer than {deadline.seconds:g} s") from error
    except OSError as error:
        raise SnapshotFailed(f"git cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        verb = next((word for word in argv[1:] if word.isascii() and word[0].isalpha()), "")
        raise SnapshotFailed(f"git {verb}: {said[-1] if said else done.returncode}")
    return done.stdout
