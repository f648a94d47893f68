"""What git says about a directory, within bounds and without running what a repository names.

Settings of a repository belong to whoever could write to it, agents among them. What would start
a program from there (hooks, external diffs, text conversion, file watchers, filters) is switched
off; filters that the person set up for every repository stay.
Everything here blocks; callers are in a thread.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from quarterdeck.system.environment import child_environment
from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["GitAnswer", "GitFailed", "ask_git", "status_marks", "top_of"]

_QUIET = (
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false",
    "-c", "diff.external=", "-c", "color.ui=false", "-c", "core.pager=cat",
)  # fmt: skip
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
_MOST_MARKS = 20_000
_READ_FILES = frozenset({"diff", "status"})
"""What reads files of the work tree, and would filter them."""
_WITHOUT = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))


class GitFailed(QuarterdeckError):
    """Git is missing, took too long or said no; the message has its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAnswer:
    """What git wrote."""

    data: bytes
    is_cut: bool
    """There was more than was wanted."""


def ask_git(
    cwd: str, words: Sequence[str], *, most: int = 4_000_000, seconds: float = 20.0
) -> GitAnswer:
    """Run git in a directory and give the first ``most`` bytes that it writes.

    Raises:
        GitFailed: there is no git or no such directory, it did not end in time, or it failed.
    """
    settings = _without_filters(cwd) if words[0] in _READ_FILES else {}
    return _ask(cwd, words, settings, most, seconds)


def _without_filters(cwd: str) -> dict[str, str]:
    """Variables that switch off each filter which the repository's own settings name."""
    listed = ("config", "-z", "--includes", "--show-scope", "--name-only", "--get-regexp")
    try:
        answer = _ask(cwd, [*listed, r"^filter\."], {}, 100_000, 5.0)
    except GitFailed:
        return {}  # it says no where there is none
    parts = answer.data.split(b"\0")
    names = {
        os.fsdecode(key).removeprefix("filter.").rpartition(".")[0]
        for scope, key in zip(parts[::2], parts[1::2], strict=False)
        if scope in (b"local", b"worktree")
    }
    pairs = [(f"filter.{name}.{what}", no) for name in sorted(names) for what, no in _WITHOUT]
    found = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for at, (key, value) in enumerate(pairs):
        found |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    return found


def _ask(
    cwd: str, words: Sequence[str], settings: dict[str, str], most: int, seconds: float
) -> GitAnswer:
    try:
        child = subprocess.Popen(
            ["git", *_QUIET, *words],
            cwd=cwd,
            env=child_environment({**_VARIABLES, **settings}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise GitFailed(f"git cannot be run in {cwd!r}: {error}. Is it installed?") from error
    with child:
        return _read(child, cwd, most, seconds)


def _read(child: "subprocess.Popen[bytes]", cwd: str, most: int, seconds: float) -> GitAnswer:
    assert child.stdout is not None and child.stderr is not None
    errors: list[bytes] = []
    stderr = child.stderr
    listening = threading.Thread(target=lambda: errors.append(stderr.read(4_000)), daemon=True)
    listening.start()
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        _kill(child)

    deadline = threading.Timer(seconds, end)
    deadline.daemon = True
    deadline.start()
    try:
        data = child.stdout.read(most + 1)
        is_cut = len(data) > most
        if is_cut:
            _kill(child)
        listening.join()
        code = child.wait()
    finally:
        deadline.cancel()
        deadline.join()
        if child.poll() is None:
            _kill(child)
    if is_late.is_set():
        raise GitFailed(f"git did not answer within {seconds:g} s in {cwd!r}; try again later.")
    if code and not is_cut:
        words = b"".join(errors).decode("utf-8", "backslashreplace").strip()
        raise GitFailed(words or f"git failed in {cwd!r} with code {code}.")
    return GitAnswer(data=data[:most], is_cut=is_cut)


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """End git and what it started; it has a group of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def top_of(cwd: str) -> str:
    """The top directory of the work tree around ``cwd``. Raises GitFailed where there is none."""
    answer = ask_git(cwd, ["rev-parse", "--show-toplevel"])
    return os.fsdecode(answer.data.removesuffix(b"\n"))


def status_marks(cwd: str) -> dict[str, str]:
    """A letter for each changed path, absolute: M A D R U (conflict), ``?`` new to git.

    Directories are there where git names a whole one. At most some thousands.

    Raises:
        GitFailed: it is no work tree, or git cannot tell.
    """
    top = top_of(cwd)
    words = ["status", "--porcelain=v1", "-z", "--ignore-submodules=dirty", "--", "."]
    answer = ask_git(cwd, words)
    return parse_status(answer.data, top)


def parse_status(data: bytes, top: str) -> dict[str, str]:
    """The letters of ``git status --porcelain=v1 -z``; half an entry at the end is left out."""
    marks: dict[str, str] = {}
    entries = iter(data.split(b"\0")[:-1])
    for entry in entries:
        if len(entry) < 4 or len(marks) >= _MOST_MARKS:
            continue
        staged, unstaged = chr(entry[0]), chr(entry[1])
        path = f"{top.rstrip('/')}/{os.fsdecode(entry[3:]).rstrip('/')}"
        if "R" in (staged, unstaged) or "C" in (staged, unstaged):
            next(entries, None)  # where it came from
        marks[path] = _letter(staged, unstaged)
    return marks


def _letter(staged: str, unstaged: str) -> str:
    pair = staged + unstaged
    if "U" in pair or pair in ("AA", "DD"):
        return "U"
    letter = unstaged if unstaged != " " else staged
    return letter if letter in "MADRCT?" else "M"
