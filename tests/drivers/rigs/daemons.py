"""Rigs for agents that are servers: fakes that speak as the real ones do."""

import sys
from dataclasses import replace
from typing import Any

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.daemon.codex.link import CodexLink
from quarterdeck.drivers.daemon.opencode.link import OpencodeLink
from tests.support.driver_rig import Rig

__all__ = ["CODEX", "OPENCODE", "RIGS", "codex", "opencode"]


def _fake(name: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "quarterdeck.testing.daemons", "--as", name, *words)


CODEX = Launch(
    agent="codex",
    command=_fake("codex", "app-server"),
    dialect="codex",
    agent_modes={
        "read-only": ("on-request", "read-only"),
        "danger-full-access": ("never", "danger-full-access"),
    },
)
OPENCODE = Launch(
    agent="opencode",
    command=_fake("opencode", "serve", "--hostname", "127.0.0.1", "--port", "0"),
    dialect="opencode",
    agent_modes={"plan": ("plan",), "auto": ("build", "allow")},
)


def codex(**changes: Any) -> CodexLink:
    """A link to a fake; ``changes`` are fields of its launch."""
    return CodexLink(replace(CODEX, **changes))


def opencode(**changes: Any) -> OpencodeLink:
    """A link to a fake; ``changes`` are fields of its launch."""
    return OpencodeLink(replace(OPENCODE, **changes))


RIGS = [
    Rig(name="codex-daemon", make=codex),
    Rig(name="opencode-daemon", make=opencode),
]
