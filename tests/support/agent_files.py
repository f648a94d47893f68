"""Files of agents in a home of one's own, whose programs are the fakes that ship."""

import json
import sys
from pathlib import Path

__all__ = ["write_agent_files"]

_FAKES = {
    "fake-acp": {"acp": ("acp_agent",)},
    "claude": {"pipe": ("claude_cli",)},
    "codex": {
        "pipe": ("oneshot_cli", "--as", "codex", "exec", "--json", "--skip-git-repo-check"),
        "daemon": ("daemons", "--as", "codex", "app-server"),
    },
    "gemini": {"pipe": ("oneshot_cli", "--as", "gemini", "--output-format", "stream-json")},
    "opencode": {
        "pipe": ("oneshot_cli", "--as", "opencode", "run", "--format", "json", "--thinking"),
        "daemon": (
            "daemons",
            "--as",
            "opencode",
            "serve",
            "--hostname",
            "127.0.0.1",
            "--port",
            "0",
        ),
    },
    "fake-tui": {"pty": ("tui",)},
}
_MORE = {"fake-tui": 'dialect = "fake"\n'}


def write_agent_files(folder: Path) -> None:
    """Write them: ``fake-acp``, ``fake-tui``, and of agents that ship the program alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, transports in _FAKES.items():
        tables = [
            f"[transports.{transport}]\ncommand = {json.dumps(_command(*words))}\n"
            for transport, words in transports.items()
        ]
        head = f'title = "{name}"\ninstall = "it ships"\n'
        (folder / f"{name}.toml").write_text(head + "\n".join(tables) + _MORE.get(name, ""))


def _command(module: str, *words: str) -> list[str]:
    return [sys.executable, "-m", f"quarterdeck.testing.{module}", *words]
