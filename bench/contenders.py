"""The coding agents that are measured: how each is started, with the least that it needs.

Every one gets a home of its own, a clean environment and the same scripted model. Of those that
npm installs behind a launcher, what is measured is what people run.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import real_agents

__all__ = ["CONTENDERS", "OURS", "Contender"]

OURS = "quarterdeck"
_SCRIPT = Path(sys.executable).with_name("quarterdeck")


@dataclass(frozen=True, slots=True)
class Contender:
    """One agent: its programs, and the arguments for a turn without a screen."""

    name: str
    turn: Callable[[str], list[str]]
    """Arguments for a prompt."""
    acp: tuple[str, ...] = ()
    """Arguments for the Agent Client Protocol."""
    acp_agent: str | None = None
    """Another program that speaks it for this agent."""

    def is_installed(self) -> bool:
        names = {self.name, self.acp_agent or self.name}
        return self.name == OURS or all(real_agents.find(name) for name in names)

    def turn_command(self, prompt: str) -> list[str]:
        return [str(_program(self.name)), *self.turn(prompt)]

    def acp_command(self) -> list[str]:
        return [str(_program(self.acp_agent or self.name)), *self.acp]

    def environment(self, home: Path, url: str, *, acp: bool = False) -> Mapping[str, str]:
        """Its variables; writes the files that it wants into ``home``."""
        if self.name != OURS:
            who = (self.acp_agent if acp else None) or self.name
            return real_agents.environment(who, home, url)
        return {
            "HOME": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "dummy",
        }


def _program(name: str) -> Path:
    found = _SCRIPT if name == OURS else real_agents.find(name)
    assert found is not None
    return found


def _ours(prompt: str) -> list[str]:
    return ["run", "-m", "openai/gpt-5.5", "--format", "stream-json", prompt]


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
    Contender(OURS, _ours, ("acp",)),
    Contender("codex", _codex, acp_agent="codex-acp"),
    Contender("opencode", _opencode, ("acp",)),
    Contender("claude", _claude, acp_agent="claude-agent-acp"),
    Contender("gemini", _gemini, ("--acp",)),
)
