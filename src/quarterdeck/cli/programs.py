"""The programs that we can use, and whether they are there."""

import os
import re
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["GIT", "NODE", "RIPGREP", "Program", "ProgramKind", "agents", "ask_version"]

ProgramKind: TypeAlias = Literal["required", "useful", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that we can use."""

    name: str
    command: str
    """What it is called on PATH."""
    kind: ProgramKind
    purpose: str
    get: str
    """How to get it."""
    version: tuple[str, ...] = ("--version",)
    """Arguments that make it tell its version; empty if it is better not started."""

    def find(self) -> str | None:
        """Where it is on PATH; starts nothing."""
        return shutil.which(self.command)


GIT = Program(
    name="git",
    command="git",
    kind="required",
    purpose="worktrees, diffs and checkpoints",
    get="apt, dnf or brew install git",
)
RIPGREP = Program(
    name="ripgrep",
    command="rg",
    kind="useful",
    purpose="fast search in files; many agents use it",
    get="apt, dnf or brew install ripgrep",
)
NODE = Program(
    name="Node.js",
    command="node",
    kind="useful",
    purpose="runs agents that come from npm",
    get="https://nodejs.org, or apt, dnf or brew install node",
)
_SHOWN = 4096
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


def agents() -> tuple[Program, ...]:
    """Every agent that is described, but our own; none where nobody knows a home. Reads files."""
    from quarterdeck.config.errors import ConfigError
    from quarterdeck.drivers.catalogue import load_catalogue

    try:
        described = load_catalogue().agents
    except ConfigError:
        return ()
    return tuple(
        Program(
            name=agent.title,
            command=agent.program,
            kind="agent",
            purpose="coding agent",
            get=agent.install,
            version=agent.version[1:],
        )
        for agent in described.values()
        if agent.name != "native"
    )


def ask_version(path: str, arguments: tuple[str, ...], seconds: float) -> str | None:
    """Start a program to learn its version; None if it does not tell in time.

    It gets a clean environment, no input and no project to look at. It and its children are
    ended when it has answered or the time is up.
    """
    try:
        process = subprocess.Popen(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_clean_environment(),
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            assert process.stdout is not None
            text = _read(process.stdout.fileno(), seconds)
        finally:
            _end(process)
    found = _VERSION.search(text)
    return found.group() if found else None


def _clean_environment() -> dict[str, str]:
    passed = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**passed, "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "CI": "1"}


def _read(descriptor: int, seconds: float) -> str:
    """Read until the end, enough bytes or the deadline, whichever comes first."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    data = b""
    while len(data) < _SHOWN and (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            if not (chunk := os.read(descriptor, _SHOWN)):
                break
            data += chunk
    return data.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
