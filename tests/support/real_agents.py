"""Real agents, pointed at a scripted model on loopback: where they are, what they need.

``make test`` installs two of them, ``make interop`` and ``make bench`` more, and
``make build/extra-peers/.done build/aider/.done`` the rest. Each gets a home of its own, a dummy
key and nothing else of this machine.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["AGENTS", "RealAgent", "environment", "find", "model_of", "need"]

ROOT = Path(__file__).parents[2]
_FOLDERS = [
    ROOT / "build" / name / "node_modules" for name in ("peers", "more-peers", "extra-peers")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealAgent:
    """One program of one vendor, as npm names it."""

    name: str
    program: str
    model: str
    """What to call the model that it asks for; the scripted one answers to any name."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Environment; ``{url}`` is the model's address."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Below its home, with their text; ``{url}`` likewise."""


_CLAUDE = {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_API_KEY": "dummy",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "1",
}
_CLAUDE_FILES = {
    ".claude.json": json.dumps(
        {
            "hasCompletedOnboarding": True,
            "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        }
    )
}
_CODEX = {"LAB_KEY": "dummy", "OPENAI_API_KEY": "dummy"}
_CODEX_FILES = {
    ".codex/config.toml": """
model = "gpt-5.5"
model_provider = "lab"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[features]
daemon_auto_start = false
# Else its sandbox makes an empty /tmp/.git, and every directory below is in a repository then.
[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
[model_providers.lab]
name = "lab"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LAB_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
}
_GEMINI = {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": "{url}"}
_GEMINI_FILES = {
    ".gemini/settings.json": json.dumps(
        {
            "security": {
                "auth": {"selectedType": "gemini-api-key"},
                "folderTrust": {"enabled": False},
            },
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "model": {"disableLoopDetection": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "ide": {"enabled": False},
        }
    )
}
_OPENCODE = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}
_OPENCODE_FILES = {
    ".config/opencode/opencode.json": json.dumps(
        {
            "autoupdate": False,
            "share": "disabled",
            "model": "lab/scripted-1",
            "small_model": "lab/scripted-1",
            "enabled_providers": ["lab"],
            "permission": {"edit": "ask", "bash": "ask"},
            "provider": {
                "lab": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Lab",
                    "options": {"baseURL": "{url}/v1", "apiKey": "dummy"},
                    "models": {
                        name: {"name": name, "limit": {"context": 200000, "output": 8192}}
                        for name in ("scripted-1", "scripted-2")
                    },
                }
            },
        }
    )
}
_QWEN = {"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "scripted-1"}
_KIMI = {
    "KIMI_MODEL_NAME": "scripted-1",
    "KIMI_MODEL_API_KEY": "dummy",
    "KIMI_MODEL_PROVIDER_TYPE": "openai",
    "KIMI_MODEL_BASE_URL": "{url}/v1",
    "KIMI_DISABLE_TELEMETRY": "1",
    "KIMI_CODE_NO_AUTO_UPDATE": "1",
}
# From PyPI, by `make build/aider/.done`. Its reminders stand beside the prompt, not in it.
_AIDER_FILES = {
    ".aider.model.settings.yml": "- name: openai/scripted-1\n  edit_format: diff\n  reminder: sys\n"
}
_AIDER = {
    "OPENAI_API_KEY": "dummy",
    "OPENAI_API_BASE": "{url}/v1",
    "AIDER_MODEL": "openai/scripted-1",
    "AIDER_ANALYTICS": "false",
    "AIDER_GIT": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
_GOOSE = {
    "GOOSE_PROVIDER": "openai",
    "GOOSE_MODEL": "scripted-1",
    "OPENAI_API_KEY": "dummy",
    "OPENAI_HOST": "{url}",
    "GOOSE_DISABLE_KEYRING": "1",
    "GOOSE_TELEMETRY_ENABLED": "false",
}
# From PyPI, by `make build/vibe/.done` with Python 3.12 or newer.
_VIBE = {"LAB_KEY": "dummy", "MISTRAL_API_KEY": "dummy"}
_VIBE_FILES = {
    ".vibe/config.toml": """
active_model = "lab"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
[[providers]]
name = "lab"
api_base = "{url}/v1"
api_key_env_var = "LAB_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "scripted-1"
provider = "lab"
alias = "lab"
"""
}
_PI = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
_PI_FILES = {
    ".pi/agent/models.json": json.dumps(
        {
            "providers": {
                "lab": {
                    "baseUrl": "{url}/v1",
                    "api": "openai-completions",
                    "apiKey": "dummy",
                    "models": [
                        {
                            "id": "scripted-1",
                            "name": "Scripted 1",
                            "reasoning": False,
                            "input": ["text"],
                            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                            "contextWindow": 200000,
                            "maxTokens": 8192,
                        }
                    ],
                }
            }
        }
    )
}

AGENTS = {
    agent.name: agent
    for agent in (
        RealAgent(
            name="codex",
            program="codex",
            model="gpt-5.5",
            variables=_CODEX,
            files=_CODEX_FILES,
        ),
        RealAgent(
            name="codex-acp",
            program="codex-acp",
            model="gpt-5.5",
            variables=_CODEX,
            files=_CODEX_FILES,
        ),
        RealAgent(
            name="opencode",
            program="opencode",
            model="lab/scripted-1",
            variables=_OPENCODE,
            files=_OPENCODE_FILES,
        ),
        RealAgent(
            name="claude",
            program="claude",
            model="claude-sonnet-4-5",
            variables=_CLAUDE,
            files=_CLAUDE_FILES,
        ),
        RealAgent(
            name="claude-agent-acp",
            program="claude-agent-acp",
            model="claude-sonnet-4-5",
            variables=_CLAUDE,
            files=_CLAUDE_FILES,
        ),
        RealAgent(
            name="gemini",
            program="gemini",
            model="gemini-2.5-flash",
            variables=_GEMINI,
            files=_GEMINI_FILES,
        ),
        RealAgent(name="qwen", program="qwen", model="scripted-1", variables=_QWEN),
        RealAgent(name="kimi", program="kimi", model="scripted-1", variables=_KIMI),
        RealAgent(
            name="aider",
            program="aider",
            model="openai/scripted-1",
            variables=_AIDER,
            files=_AIDER_FILES,
        ),
        RealAgent(name="goose", program="goose", model="scripted-1", variables=_GOOSE),
        RealAgent(
            name="vibe",
            program="vibe-acp",
            model="lab",
            variables=_VIBE,
            files=_VIBE_FILES,
        ),
        RealAgent(name="pi", program="pi", model="lab/scripted-1", variables=_PI, files=_PI_FILES),
    )
}


def find(name: str) -> Path | None:
    """The program of an agent, if it is installed."""
    places = [*(folder / ".bin" for folder in _FOLDERS), ROOT / "build" / name / "bin"]
    return next((one for place in places if (one := place / AGENTS[name].program).exists()), None)


def need(name: str) -> None:
    """Skip the test, counted, where an agent is not installed."""
    import pytest  # the bench uses this module too, and has no tests

    if find(name) is None:
        pytest.skip(f"{name} is not installed")


def model_of(name: str) -> str:
    """The model's name to ask this agent for."""
    return AGENTS[name].model


def environment(name: str, home: Path, url: str) -> dict[str, str]:
    """The whole environment for one agent; writes what it wants to find into ``home``."""
    agent = AGENTS[name]
    temporary = home.with_name(f"{home.name}-tmp")
    for folder in (home, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    for path, text in agent.files.items():
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{url}", url))
    newer_node = _FOLDERS[1] / "node" / "bin"
    program = find(name)
    beside = [str(program.parent)] if program is not None else []
    return {
        "HOME": str(home),
        "PATH": ":".join([*beside, str(newer_node), "/usr/local/bin", "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TMPDIR": str(temporary),
    } | {key: value.replace("{url}", url) for key, value in agent.variables.items()}
