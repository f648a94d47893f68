"""What Codex notes about its sessions beside them: names that people gave, and an index.

The index (``state_<n>.sqlite``) is asked for titles, which stand far down in the files, and for all
of a session whose file is compressed, so that it is listed even where nothing can unpack it.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..pipe.told import as_map, as_text
from .databases import open_database
from .errors import HistoryError
from .files import Budget, decode, found_files, one_title, tail_lines

__all__ = ["Indexed", "names", "sessions"]

_NAMES = 256 * 1024
"""Bytes of the end of the list of names that are read."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What the index tells of a session."""

    cwd: str | None
    title: str | None
    is_sub_agent: bool


def names(home: Path, budget: Budget) -> Mapping[str, str]:
    """The names that were given last, by session."""
    given: dict[str, str] = {}
    for file in found_files(home, lambda name: name == "session_index.jsonl"):
        for line in tail_lines(file.path, file.size, budget, most=_NAMES):
            told = as_map(decode(line))
            if name := one_title(as_text(told.get("thread_name"))):
                given.setdefault(as_text(told.get("id")), name)
    return given


def sessions(home: Path) -> Mapping[str, Indexed]:
    """What the newest index tells, by session; empty where it cannot be read."""
    found = found_files(home, lambda name: name.startswith("state_") and name.endswith(".sqlite"))
    newest = max(found, key=lambda one: one.changed, default=None)
    if newest is None:
        return {}
    told: dict[str, Indexed] = {}
    with contextlib.suppress(HistoryError), open_database(newest.path) as connection:
        query = "SELECT id, cwd, title, source FROM threads"
        for id_, cwd, title, source in connection.execute(query):
            told[as_text(id_)] = Indexed(
                as_text(cwd) or None, one_title(as_text(title)), "subagent" in as_text(source)
            )
    return told
