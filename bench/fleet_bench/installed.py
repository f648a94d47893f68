"""What this project knows how to start: our own programs, and the agents below ``build/``."""

import sys
from pathlib import Path

from tests.support import real_agents

from .clients import ClientSubject
from .subject import Subject, fill

__all__ = ["find_agents", "find_clients", "find_paths"]

_OURS = str(Path(sys.executable).with_name("quarterdeck"))
_ACP = {
    "codex-acp": (),
    "opencode": ("acp",),
    "claude-agent-acp": (),
    "gemini": ("--acp",),
    "qwen": ("--acp",),
    "kimi": ("acp",),
    "goose": ("acp",),
    "vibe": (),
}
"""Agents that speak ACP, by their names, and the words that make them."""
_READY = "ctrl+q quit"
_STOP = (_OURS, "host", "stop")
_FAKE = f'["{sys.executable}", "-m", "quarterdeck.testing.'
_AGENT_FILE = 'title = "Stand-in"\n[transports.{transport}]\ncommand = {command}\n'
_TRANSPORTS = {
    "acp": ("standin", "{agent_json}"),
    "pipe": ("claude", f'{_FAKE}claude_cli"]'),
    "daemon": ("codex", f'{_FAKE}daemons", "--as", "codex", "app-server"]'),
}
"""The agent that is run over each transport: the stand-in, or one of ``quarterdeck testing``."""


def find_agents() -> list[Subject]:
    """The stand-in as the least that is possible, ours, and those that are installed."""
    ours = {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "dummy"}
    settings = {".config/quarterdeck/config.toml": 'model = "openai/gpt-5.5"\n'}
    found = [Subject("quarterdeck", (_OURS, "acp"), ours, settings)]
    for name, words in _ACP.items():
        program = real_agents.find(name)
        if program is not None:
            agent = real_agents.AGENTS[name]
            # Beside a program is the interpreter that it wants.
            path = f"{program.parent}:/usr/local/bin:/usr/bin:/bin"
            variables = {"PATH": path, **agent.variables}
            found.append(Subject(name, (str(program), *words), variables, agent.files))
    return found


def find_paths() -> list[Subject]:
    """Ours: over each transport without a host, and over ACP through a host."""
    home = {"QUARTERDECK_HOME": "{home}/qd"}
    found: list[Subject] = []
    for transport, (agent, _) in _TRANSPORTS.items():
        words = ("run", "-a", agent, "--transport", transport, "--format", "stream-json")
        command = (_OURS, *words, "{prompt}")
        found.append(Subject(f"quarterdeck run, {transport}", command, home, _write(transport)))
    spawn = (_OURS, "spawn", "-a", "standin", "-n", "{name}", "--wait", "{prompt}")
    found.append(Subject("quarterdeck host, acp", spawn, home, _write("acp"), _STOP))
    return found


def find_clients() -> list[ClientSubject]:
    """Our workbench."""
    home = {"QUARTERDECK_HOME": "{home}/qd"}
    opens = Subject("quarterdeck workbench", (_OURS,), home, _write("acp"), _STOP)
    spawn = (_OURS, "spawn", "-a", "standin", "-n", "{name}", "--mode", "ask", "{prompt}")
    return [ClientSubject(opens, spawn, _READY)]


def _write(transport: str) -> dict[str, str]:
    """The file that makes an agent known."""
    agent, command = _TRANSPORTS[transport]
    text = fill(_AGENT_FILE, {"transport": transport, "command": command})
    return {f"qd/agents/{agent}.toml": text}
