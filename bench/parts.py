"""The parts of the bench: what each measures and which programs it cannot do without."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from .size import Size
from .table import Table

__all__ = ["PARTS", "Part", "find_missing_programs", "measure"]

ROOT = Path(__file__).parents[1]
_ACP_SDK = "build/node/node_modules/@agentclientprotocol/sdk"


@dataclass(frozen=True, slots=True)
class Part:
    """One part: the module ``bench/NAME.py``, whose ``run(size)`` gives table after table."""

    name: str
    what: str
    needs: tuple[str, ...] = ()
    """Programs on the PATH, or files: absolute, or below the repository."""


PARTS = {
    part.name: part
    for part in (
        Part("acp", "the ACP codec against the official SDKs", ("node", _ACP_SDK)),
        Part("log", "events appended, searched, opened"),
        Part("startup", "the command against an empty interpreter"),
        Part("agents", "our own agent against others"),
        Part("steps", "what a step of our own agent costs, early and late in a turn", ("/proc",)),
        Part("drivers", "the ACP driver against the SDKs' clients", ("node", _ACP_SDK)),
        Part("fleet", "many agents through the host to two clients", ("/proc",)),
        Part(
            "life", "a day of many agents in one host, made short; a very long session", ("/proc",)
        ),
        Part("inbox", "a thousand open requests, grouped and drawn"),
        Part("meter", "model calls through the meter: direct, and against mitmproxy"),
        Part("web", "many agents through the web server to several tabs", ("/proc",)),
        Part("workbench", "frames, long sessions, keys, on a terminal", ("/proc",)),
        Part("traffic", "bytes that a workbench writes to its terminal"),
        Part("rest", "CPU of a workbench at rest", ("/proc",)),
        Part("context", "a very long session of our own agent"),
        Part("undo", "snapshots of a large work tree", ("git",)),
        Part("worktrees", "a worktree for an agent that starts", ("git",)),
        Part("review", "a very large change, listed and shown", ("git", "/proc")),
        Part("radar", "conflicts between many worktrees", ("git",)),
        Part("permissions", "rules tried on recorded permission requests"),
        Part("history", "listing and searching sessions of other agents and of ours"),
        Part("plans", "a plan with its durable engine against none", ("/proc",)),
        Part("pool", "leases, events and files of a pool of workers", ("postgres", "git")),
        Part("scale", "waiting sessions and tasks of a pool, from few to very many"),
        Part("emulators", "terminal emulators against pyte and tmux"),
        Part("containment", "a command in each kind of sandbox"),
    )
}


def find_missing_programs(part: Part) -> list[str]:
    """Name what this part needs and this machine does not have."""
    return [need for need in part.needs if not _is_there(need)]


def measure(part: Part, size: Size) -> Iterator[Table]:
    """Run a part; every table comes as soon as it is measured."""
    return import_module(f"bench.{part.name}").run(size)


def _is_there(need: str) -> bool:
    return (ROOT / need).exists() if "/" in need else shutil.which(need) is not None
