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

__all__ = ["AGENTS", "GIT", "NODE", "PROGRAMS", "RIPGREP", "Program", "ProgramKind", "ask_version"]

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


def _agent(name: str, command: str, get: str, version: tuple[str, ...] = ("--version",)) -> Program:
    return Program(
        name=name,
        command=command,
        kind="agent",
        purpose="coding agent",
        get=get,
        version=version,
    )


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
AGENTS = (
    _agent("Claude Code", "claude", "npm install -g @anthropic-ai/claude-code"),
    _agent("Codex", "codex", "npm install -g @openai/codex"),
    _agent("Gemini CLI", "gemini", "npm install -g @google/gemini-cli"),
    _agent("OpenCode", "opencode", "npm install -g opencode-ai"),
    _agent("Qwen Code", "qwen", "npm install -g @qwen-code/qwen-code"),
    _agent("Cursor", "cursor-agent", "https://cursor.com/cli"),
    _agent("Goose", "goose", "npm install -g @aaif/goose"),
    _agent("GitHub Copilot", "copilot", "npm install -g @github/copilot"),
    _agent("Amp", "amp", "npm install -g @sourcegraph/amp"),
    _agent("Aider", "aider", "uv tool install aider-chat"),
    # The last release of the older program of this name fetches and runs a script when started.
    _agent("Kimi Code", "kimi", "npm install -g @moonshot-ai/kimi-code", version=()),
    _agent("Auggie", "auggie", "npm install -g @augmentcode/auggie"),
    _agent("Droid", "droid", "npm install -g droid"),
    _agent("Mistral Vibe", "vibe", "uv tool install mistral-vibe"),
    _agent("Cline", "cline", "npm install -g cline"),
)
PROGRAMS = (GIT, RIPGREP, NODE, *AGENTS)

_SHOWN = 4096
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


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
