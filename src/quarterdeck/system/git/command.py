"""The one way in which this program runs git.

A repository's settings come from anyone who can write to it, agents among them, and many of them
name programs: file monitors, hooks, filters, text conversion, pagers, helpers. Switching them off
one by one fails as soon as one is forgotten, or written between the look and the run. So git never
reads them: it works with a git directory that we wrote (``repository.GitRepository`` makes one
for a person's repository; checkpoints have their own), without the settings of the person and of
the machine, and does not look into submodules. Options that would run a program are switched off
on top of that. Everything here blocks; callers are in a thread.
"""

import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from quarterdeck.system.environment import (
    child_environment,
    find_own_program,
    search_folders,
)
from quarterdeck.system.errors import GitError, GitUnavailableError

__all__ = ["GitIdentity", "GitOutput", "GitPlaces", "run_git"]

_SETTINGS = (
    # What would run a program. Nothing we let git read has these; they cost nothing.
    *(
        "core.fsmonitor=false",
        f"core.hooksPath={os.devnull}",
        "core.pager=cat",
        "core.editor=false",
    ),
    *("sequence.editor=false", "core.askPass=false", "core.sshCommand=false", "credential.helper="),
    *("gpg.program=false", "gpg.ssh.program=false", "gpg.x509.program=false"),
    *("log.showSignature=false", "commit.gpgSign=false", "tag.gpgSign=false"),
    *(
        "protocol.allow=never",
        "gc.auto=0",
        "maintenance.auto=false",
        "safe.bareRepository=explicit",
    ),
    # What would look into other repositories.
    *("submodule.recurse=false", "diff.ignoreSubmodules=dirty", "diff.submodule=short"),
    *("status.submoduleSummary=false", "fetch.recurseSubmodules=false"),
    # What would write to the person's repository, or make the output another.
    *("diff.autoRefreshIndex=false", "core.quotePath=false", "color.ui=false"),
    *("core.safecrlf=false", "advice.addEmbeddedRepo=false", "core.preloadIndex=true"),
)
_VARIABLES = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "LC_ALL": "C",
}
_UNSAID = frozenset({"HOME", "SHELL", "TERM"})
"""Git without a home finds no settings of the person, in versions too that know no other way."""
_SUBMODULES = "--ignore-submodules=dirty"
"""On the command line: ``.gitmodules`` outranks the setting. Git would run in each submodule."""
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", _SUBMODULES)
_VERBS: Mapping[str, tuple[str, ...]] = {
    "add": (),
    "apply": (),
    "bundle": (),
    "cat-file": (),
    "check-attr": (),
    "check-ignore": (),
    "check-ref-format": (),
    "checkout-index": (),
    "commit": ("--no-verify", "--no-gpg-sign", "--no-status"),
    "commit-tree": ("--no-gpg-sign",),
    "config": ("--no-includes",),
    "diff": _DIFF,
    "diff-files": _DIFF,
    "diff-index": _DIFF,
    "diff-tree": _DIFF,
    "for-each-ref": (),
    "hash-object": ("--no-filters",),
    "init": ("--template=",),
    "log": (*_DIFF, "--no-show-signature"),
    "ls-files": (),
    "ls-tree": (),
    "merge-base": (),
    "merge-file": (),
    "merge-tree": (),
    "read-tree": (),
    "rev-list": (),
    "rev-parse": (),
    "status": (_SUBMODULES,),
    "update-index": (),
    "update-ref": (),
    "version": (),
    "write-tree": (),
}
"""The commands that we use, and the options of each. No other is run: no alias, no helper."""
_REFUSED = (
    *("--ext-diff", "--textconv", "--filters", "--ignore-submodules", "--submodule", "--output"),
    *("--recurse-submodules", "--show-signature", "--gpg-sign"),
)
"""Options that would undo those of each command; git takes their beginnings too."""
_MEMORY = 4_000_000_000
"""Bytes that git may take: a name in a repository can lead to a file without an end."""
_ERRORS = 4_000


class GitIdentity(Struct, frozen=True, kw_only=True):
    """A person, or a program, that commits."""

    name: str
    email: str
    date: str | None = None
    """As git takes dates; None: now."""

    def variables(self) -> dict[str, str]:
        """As git takes them."""
        found: dict[str, str] = {}
        for role in ("AUTHOR", "COMMITTER"):
            found |= {f"GIT_{role}_NAME": self.name, f"GIT_{role}_EMAIL": self.email}
            if self.date is not None:
                found[f"GIT_{role}_DATE"] = self.date
        return found


class GitPlaces(Struct, frozen=True, kw_only=True):
    """What a command works on."""

    git_dir: str
    """One that we wrote: its settings are read."""
    work_tree: str | None = None
    index: str | None = None
    objects: str | None = None
    """Where objects are, if not in ``git_dir``."""
    alternates: tuple[str, ...] = ()
    """Where else objects are read from."""
    identity: "GitIdentity | None" = None
    """The committer, whose name the logs of references get."""
    cwd: str = os.sep
    project: str | None = None
    """No program in there is run; None: the work tree."""

    def variables(self) -> dict[str, str]:
        """As git takes them."""
        named: dict[str, str | None] = {
            "GIT_DIR": self.git_dir,
            "GIT_WORK_TREE": self.work_tree,
            "GIT_INDEX_FILE": self.index,
            "GIT_OBJECT_DIRECTORY": self.objects,
            "HOME": self.git_dir,
            "XDG_CONFIG_HOME": self.git_dir,
        }
        if self.alternates:
            named["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(map(_quote, self.alternates))
        if self.identity is not None:
            named |= self.identity.variables()
        return {name: value for name, value in named.items() if value is not None}


def _quote(path: str) -> str:
    """A path in a list of them: one with a colon, a quote or a newline is quoted as in C."""
    if not any(mark in path for mark in ':"\n'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class GitOutput(Struct, frozen=True, kw_only=True):
    """What git wrote."""

    data: bytes
    code: int = 0
    """What it exited with: 0, or one of those that were accepted."""
    is_cut: bool = False
    """There was more than was wanted."""


def run_git(
    places: GitPlaces,
    words: Sequence[str],
    *,
    settings: Iterable[str] = (),
    given: bytes = b"",
    most: int | None = None,
    seconds: float = 20.0,
    literal: bool = False,
    reads_own_settings: bool = False,
    accepted: Sequence[int] = (0,),
) -> GitOutput:
    """Run one command of git and give the first ``most`` bytes that it writes.

    Args:
        places: what it works on.
        words: the command, one that we use, and its arguments.
        settings: more of them, as ``name=value``; none may come from a repository unchecked.
        given: what it reads.
        most: bytes of its output; None: all of them.
        seconds: it is ended then, with what it started.
        literal: names of files are no patterns.
        reads_own_settings: for ``config`` alone: see the settings of the person and the machine.
        accepted: exit codes that are an answer; every other is a failure.

    Raises:
        GitUnavailableError: there is no git, or it did not end in time.
        GitError: it failed; with its words.
    """
    verb, *rest = words
    if verb not in _VERBS or (reads_own_settings and verb != "config"):
        raise ValueError(f"git {verb!r} is not among the commands that this program uses.")
    for word in itertools.takewhile(lambda word: word not in ("--", "--end-of-options"), rest):
        if any(one.startswith(word.partition("=")[0]) for one in _REFUSED if len(word) > 2):
            raise ValueError(f"git {verb} does not accept {word!r} here.")
    projects = [one for one in (places.project, places.work_tree) if one is not None]
    program = find_own_program("git", projects)
    if program is None:
        raise GitUnavailableError(
            "git is not installed, or in no directory of PATH outside the project; install git"
        )
    environment = _environment(places, search_folders(projects), literal, reads_own_settings)
    options = [word for one in (*_SETTINGS, *settings) for word in ("-c", one)]
    fixed = () if reads_own_settings else _VERBS[verb]
    argv = [program, "--no-pager", *options, verb, *fixed, *rest]
    try:
        child = subprocess.Popen(
            argv,
            cwd=places.cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise GitUnavailableError(f"git cannot be run in {places.cwd!r}: {error}") from error
    with child:
        _limit_memory(child.pid)
        return _Reading(child, f"git {verb}", seconds, accepted).read(given, most)


def _environment(
    places: GitPlaces, folders: Iterable[str], literal: bool, reads_own_settings: bool
) -> dict[str, str]:
    """An allow-list; nothing that was meant for another git gets through."""
    passed = child_environment()
    kept = {} if not reads_own_settings else passed
    kept |= {
        name: value
        for name, value in passed.items()
        if name not in _UNSAID and not name.startswith("XDG_")
    }
    variables = _VARIABLES | places.variables()
    if reads_own_settings:
        unwanted = ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "HOME", "XDG_CONFIG_HOME")
        variables = {name: value for name, value in variables.items() if name not in unwanted}
    if literal:
        variables["GIT_LITERAL_PATHSPECS"] = "1"
    return kept | variables | {"PATH": os.pathsep.join(folders)}


def _limit_memory(pid: int) -> None:
    """Bound what git may allocate, where the system lets us say so for another process."""
    if sys.platform == "linux":
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


class _Reading:
    """Feeds a child and takes what it says, until it ends or the time is up."""

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        title: str,
        seconds: float,
        accepted: Sequence[int],
    ) -> None:
        self._child = child
        self._accepted = accepted
        self._title = title
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._errors = b""
        self._is_late = threading.Event()

    def read(self, given: bytes, most: int | None) -> GitOutput:
        """Raises GitError."""
        child = self._child
        assert child.stdout is not None
        threads = [threading.Thread(target=self._listen, daemon=True)]
        if given:
            threads.append(threading.Thread(target=self._feed, args=(given,), daemon=True))
        else:
            self._feed(b"")
        timer = threading.Timer(max(0.0, self._end - time.monotonic()), self._stop)
        timer.daemon = True
        for thread in (timer, *threads):
            thread.start()
        try:
            data = child.stdout.read(-1 if most is None else most + 1)
            is_cut = most is not None and len(data) > most
            if is_cut:
                self._kill()
            for thread in threads:
                thread.join()
            code = child.wait()
        finally:
            timer.cancel()
            timer.join()
            if child.poll() is None:
                self._kill()
        if self._is_late.is_set():
            raise GitUnavailableError(
                f"{self._title} did not answer within {self._seconds:g} s; try again later."
            )
        if code not in self._accepted and not is_cut:
            raise GitError(f"{self._title}: {self._words() or f'it failed with code {code}'}")
        return GitOutput(
            data=data if most is None else data[:most], code=max(code, 0), is_cut=is_cut
        )

    def _words(self) -> str:
        """The line of git's words that says what is wrong."""
        lines = self._errors.decode("utf-8", "backslashreplace").strip().splitlines()
        marked = [line for line in lines if line.startswith(("fatal: ", "error: "))]
        return (marked or lines or [""])[0]

    def _feed(self, given: bytes) -> None:
        stdin = self._child.stdin
        assert stdin is not None
        with suppress(OSError):  # it may have ended without reading all
            stdin.write(given)
        with suppress(OSError):
            stdin.close()

    def _listen(self) -> None:
        """Keep the beginning of what it complains of, and let it complain."""
        stderr = self._child.stderr
        assert stderr is not None
        while piece := os.read(stderr.fileno(), 65_536):
            self._errors = (self._errors + piece)[:_ERRORS]

    def _stop(self) -> None:
        self._is_late.set()
        self._kill()

    def _kill(self) -> None:
        """End git and what it started; it has a group of its own."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
