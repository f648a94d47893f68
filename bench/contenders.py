"""The coding agents that are measured: how each is started, with the least that it needs.

Every one gets a home of its own, a clean environment and the same scripted model. What is measured
is what people run, launchers of npm included; Codex is measured without its launcher too.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import real_agents

__all__ = ["CONTENDERS", "OURS", "Contender", "make_own_environment", "make_own_turn"]

OURS = "quarterdeck"
_BINARY = "codex, no launcher"
_SCRIPT = Path(sys.executable).with_name("quarterdeck")


@dataclass(frozen=True, slots=True)
class Contender:
    """One agent: its programs, and the arguments for a turn without a screen."""

    name: str
    turn: Callable[[str], list[str]]
    """Arguments for a prompt."""
    acp: tuple[str, ...] | None = None
    """The program that speaks the Agent Client Protocol for it, and its arguments."""
    environment_of: str | None = None
    """The agent whose settings it takes; None: its own."""

    def is_installed(self) -> bool:
        programs = [self.name, *(self.acp or ())[:1]]
        return all(_program(program) for program in programs)

    def turn_command(self, prompt: str) -> list[str]:
        return [str(_program(self.name)), *self.turn(prompt)]

    def acp_command(self) -> list[str] | None:
        return [str(_program(self.acp[0])), *self.acp[1:]] if self.acp else None

    def environment(self, home: Path, url: str, *, acp: bool = False) -> Mapping[str, str]:
        """Its variables; writes the files that it wants into ``home``."""
        if self.name != OURS:
            who = self.acp[0] if acp and self.acp else self.environment_of or self.name
            return real_agents.environment(who, home, url)
        return make_own_environment(home, url)


def make_own_environment(home: Path, url: str) -> Mapping[str, str]:
    """The variables of our own agent."""
    return {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "dummy",
    }


def make_own_turn(prompt: str, *options: str) -> list[str]:
    """The arguments of our own agent for a turn without a screen."""
    return ["run", "-m", "openai/gpt-5.5", "--format", "stream-json", *options, prompt]


def _program(name: str) -> Path | None:
    if name == OURS:
        return _SCRIPT
    return _codex_binary() if name == _BINARY else real_agents.find(name)


def _codex_binary() -> Path | None:
    """What Codex's launcher starts: the program itself, without node."""
    launcher = real_agents.find("codex")
    if launcher is None:
        return None
    packages = launcher.resolve().parents[2]
    return next(iter(packages.glob("codex-*/vendor/*/bin/codex")), None)


def _codex(prompt: str) -> list[str]:
    # Its own sandbox off: ours is off for reading too, and the goal is the loop, not the sandbox.
    return ["exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", prompt]


def _opencode(prompt: str) -> list[str]:
    return ["run", "--format", "json", "-m", real_agents.model_of("opencode"), prompt]


def _claude(prompt: str) -> list[str]:
    model = real_agents.model_of("claude")
    return ["-p", prompt, "--output-format", "stream-json", "--verbose", "--model", model]


def _gemini(prompt: str) -> list[str]:
    return ["-p", prompt, "-o", "stream-json", "-m", real_agents.model_of("gemini")]


CONTENDERS = (
    Contender(OURS, make_own_turn, (OURS, "acp")),
    Contender("codex", _codex, ("codex-acp",)),
    Contender(_BINARY, _codex, environment_of="codex"),
    Contender("opencode", _opencode, ("opencode", "acp")),
    Contender("claude", _claude, ("claude-agent-acp",)),
    Contender("gemini", _gemini, ("gemini", "--acp")),
)
