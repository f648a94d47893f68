"""What a workspace would do if it were trusted, and whether it is: the same for every face."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from quarterdeck.agent.tool_servers import MCP_FILE
from quarterdeck.config.errors import ConfigError
from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import FOLDER, find_workspace
from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.decoders import convert, decode_json

__all__ = [
    "INSTRUCTION_FILES",
    "TRUSTED_FOLDERS",
    "TrustEffect",
    "TrustState",
    "WorkspaceTrust",
    "inspect_workspace_trust",
]

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""What our own agent is sent in a workspace that is trusted."""
TRUSTED_FOLDERS = {
    f"{FOLDER}/commands": "are commands for our own agent",
    ".claude/commands": "are commands for our own agent",
    f"{FOLDER}/skills": "are skills that our own agent may use",
    ".claude/skills": "are skills that our own agent may use",
    ".agents/skills": "are skills that our own agent may use",
    f"{FOLDER}/profiles": "are sub-agents that our own agent may start",
    ".claude/agents": "are sub-agents that our own agent may start",
}
"""Directories of a project that count in a workspace that is trusted, and what is in them."""
_MOST = 40
"""Lines that a person reads; a file with more settings tells how many."""

_MOST_BYTES = 1_000_000

TrustState: TypeAlias = Literal["trusted", "untrusted", "plain"]
"""``plain``: there is nothing that trust would change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustEffect:
    """A file of the workspace that would act."""

    path: str
    """Relative to the root where it is below it."""
    what: str
    """What it would do, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceTrust:
    """A workspace as far as trust goes."""

    root: str
    state: TrustState
    is_unasked: bool = False
    """The person does not want to be asked."""
    acts: tuple[TrustEffect, ...] = ()


def inspect_workspace_trust(
    places: Places, environment: Mapping[str, str], directory: Path
) -> WorkspaceTrust:
    """Look at the project of a directory. Blocks on files.

    Raises:
        UnusableTrustError, NewerVersionError: the list of trusted directories cannot be read.
    """
    workspace = find_workspace(directory)
    root, store = workspace.project, TrustStore(places.trust_file)
    acts = tuple(_acts(places, environment, directory, root))
    if store.is_trusted(root):
        return WorkspaceTrust(root=str(root), state="trusted", acts=acts)
    return WorkspaceTrust(
        root=str(root),
        state="untrusted" if acts else "plain",
        is_unasked=store.is_unasked(root),
        acts=acts,
    )


def _acts(
    places: Places, environment: Mapping[str, str], directory: Path, root: Path
) -> Iterator[TrustEffect]:
    yield from _files(root)
    try:
        notices = load_config(
            places, directory=directory, environ=environment, trusted=False
        ).notices
    except (ConfigError, OSError) as error:
        folder = find_workspace(directory).folder
        if folder is not None and str(folder) in str(error):  # not the person's own file
            yield TrustEffect(path=FOLDER, what=f"cannot be read: {str(error).splitlines()[0]}")
        return
    settings: dict[str, list[str]] = {}
    for notice in notices:
        if notice.where != "environment":
            settings.setdefault(notice.where, []).append(notice.key)
    for place, keys in settings.items():
        shown = os.path.relpath(place, root) if Path(place).is_relative_to(root) else place
        yield TrustEffect(path=shown, what=f"sets {_some(keys)}")


def _files(root: Path) -> Iterator[TrustEffect]:
    for name in INSTRUCTION_FILES:
        if (root / name).is_file():
            yield TrustEffect(path=name, what="is sent to our own agent with every prompt")
    for name, what in TRUSTED_FOLDERS.items():
        if found := _names(root / name):
            yield TrustEffect(path=name, what=f"{_some(found)} {what}")
    if (root / MCP_FILE).is_file():
        yield TrustEffect(path=MCP_FILE, what=f"starts or reaches tool servers{_servers(root)}")


def _some(words: list[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(words) - _MOST} more" if len(words) > _MOST else ""
    return ", ".join(words[:_MOST]) + more


def _names(folder: Path) -> list[str]:
    """What is in a directory; nothing if it is none or cannot be read."""
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _servers(root: Path) -> str:
    """The names of the servers in a project's file; empty if it cannot be read."""
    try:
        data = read_regular_file(root / MCP_FILE, _MOST_BYTES)
        found = decode_json(data, dict[str, Any])
        names = list(convert(found.get("mcpServers", {}), dict[str, Any]))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return f": {', '.join(names[:_MOST])}" if names else ""
