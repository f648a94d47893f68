"""Where the agents keep their sessions, told by an environment that is given and no other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["VARIABLES", "AgentHomes"]

VARIABLES = (
    *("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME"),
    *("KIMI_CODE_HOME", "PI_CODING_AGENT_DIR", "QWEN_HOME", "VIBE_HOME"),
)
"""The variables that count; none of them holds a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHomes:
    """The directories of the agents. Absolute; none needs to exist."""

    claude: Path
    codex: Path
    gemini: Path
    opencode: Path
    goose: Path
    kimi: Path
    pi: Path
    qwen: Path
    vibe: Path

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> "AgentHomes":
        """Tell them from an environment; touches no file.

        Raises:
            QuarterdeckError: it names no home directory.
        """
        given = environment.get("HOME", "")
        if not given:
            raise QuarterdeckError("no home directory is known; set HOME to a directory")
        home = Path(given).absolute()
        told = environment.get("XDG_DATA_HOME", "")
        data = Path(told) if told.startswith("/") else home / ".local" / "share"
        gemini = environment.get("GEMINI_CLI_HOME", "")
        return cls(
            claude=_given(environment, "CLAUDE_CONFIG_DIR", home / ".claude"),
            codex=_given(environment, "CODEX_HOME", home / ".codex"),
            gemini=(Path(gemini).absolute() if gemini else home) / ".gemini",
            opencode=data / "opencode",
            goose=data / "goose",
            kimi=_given(environment, "KIMI_CODE_HOME", home / ".kimi-code"),
            pi=_given(environment, "PI_CODING_AGENT_DIR", home / ".pi" / "agent"),
            qwen=_given(environment, "QWEN_HOME", home / ".qwen"),
            vibe=_given(environment, "VIBE_HOME", home / ".vibe"),
        )


def _given(environment: Mapping[str, str], variable: str, usual: Path) -> Path:
    told = environment.get(variable, "")
    return Path(told).absolute() if told else usual
