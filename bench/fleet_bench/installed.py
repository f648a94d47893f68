"""What this project knows how to start: our own programs, and the agents below ``build/``."""

import sys
from pathlib import Path

from tests.support import real_agents

from .clients import ClientSubject
from .subject import Subject

__all__ = ["find_agents", "find_clients", "find_paths"]

_OURS = str(Path(sys.executable).with_name("quarterdeck"))
_STAND_IN = str(Path(__file__).with_name("stand_in.py"))
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
_AGENT_FILE = 'title = "Stand-in"\n[transports.acp]\ncommand = {agent_json}\n'


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
    """Ours: a program without a host, and through a host."""
    home = {"QUARTERDECK_HOME": "{home}/qd"}
    files = {"qd/agents/standin.toml": _AGENT_FILE}
    run = (_OURS, "run", "-a", "standin", "--format", "stream-json", "{prompt}")
    return [Subject("quarterdeck run, ACP", run, home, files)]


def find_clients() -> list[ClientSubject]:
    """Our workbench."""
    home = {"QUARTERDECK_HOME": "{home}/qd"}
    opens = Subject(
        "quarterdeck workbench", (_OURS,), home, {"qd/agents/standin.toml": _AGENT_FILE}
    )
    spawn = (_OURS, "spawn", "-a", "standin", "-n", "{name}", "--mode", "ask", "{prompt}")
    return [ClientSubject(opens, spawn, _READY, (_OURS, "host", "stop"))]
