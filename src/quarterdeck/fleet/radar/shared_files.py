"""Files that agents touch in a directory which they share, as far as their tool calls tell.

Without a worktree of its own, what an agent changes is told by the calls that edit files. What its
shell commands change is not known to be its: others may have written it.
"""
# Paths are those of agents, taken by their names alone.
# ruff: noqa: PTH118

import os
from collections.abc import Iterable
from itertools import combinations

from quarterdeck.agent.checkpoints.file_state import is_within, path_text
from quarterdeck.wire.events import SessionEnded, ToolCallEnded, ToolCallStarted, ToolCallUpdated
from quarterdeck.wire.ids import SessionId, ToolCallId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import Diff, ToolCallLocation, ToolKind
from quarterdeck.wire.worktrees import ConflictFile

__all__ = ["TouchedFiles"]

_WRITES: frozenset[ToolKind] = frozenset({"edit", "delete", "move"})
_MOST = 5_000
"""Files of one agent that are remembered; a run seldom edits so many one by one."""


class TouchedFiles:
    """Which files each live agent has edited in its run, by absolute path."""

    def __init__(self) -> None:
        self._calls: dict[tuple[SessionId, ToolCallId], set[str]] = {}
        """Of the calls that run and edit."""
        self._files: dict[SessionId, dict[str, None]] = {}

    def take(self, record: Record, cwd: str) -> bool:
        """Take in a record of an agent that works in ``cwd``; whether it has touched a new file."""
        match record.event:
            case ToolCallStarted(call=call, kind=kind) as event if kind in _WRITES:
                self._calls[record.session, call] = set(_paths(event.locations, event.content))
            case ToolCallUpdated(call=call, kind=kind) as event:
                self._update(record.session, call, kind, event)
            case ToolCallEnded(call=call, status=status) as event:
                paths = self._calls.pop((record.session, call), None)
                if paths is None or status != "completed":
                    return False
                paths.update(_paths(event.locations, event.content))
                return self._touch(record.session, paths, cwd)
            case SessionEnded():
                self.forget(record.session)
                return True
            case _:
                pass
        return False

    def _update(
        self, session: SessionId, call: ToolCallId, kind: object, event: ToolCallUpdated
    ) -> None:
        key = (session, call)
        if kind in _WRITES:
            self._calls.setdefault(key, set())
        if key in self._calls:
            self._calls[key].update(_paths(event.locations, event.content))

    def _touch(self, session: SessionId, paths: Iterable[str], cwd: str) -> bool:
        files = self._files.setdefault(session, {})
        before = len(files)
        for path in paths:
            if len(files) < _MOST:
                files[os.path.normpath(os.path.join(cwd, path))] = None
        return len(files) > before

    def forget(self, session: SessionId) -> None:
        """Drop what an agent has touched: its run is over."""
        self._files.pop(session, None)
        for key in [key for key in self._calls if key[0] == session]:
            del self._calls[key]

    def pairs(self) -> list[tuple[SessionId, SessionId]]:
        """The agents that have touched a file in common, two and two, in order."""
        holders: dict[str, list[SessionId]] = {}
        for session in sorted(self._files):
            for path in self._files[session]:
                holders.setdefault(path, []).append(session)
        found = {pair for some in holders.values() for pair in combinations(some, 2)}
        return sorted(found)

    def common(self, one: SessionId, other: SessionId, top: str) -> tuple[ConflictFile, ...]:
        """The files below a directory that both have touched."""
        mine, theirs = self._files.get(one, {}), self._files.get(other, {})
        root = os.fsencode(top)
        paths = sorted(
            path for path in map(os.fsencode, mine.keys() & theirs.keys()) if is_within(path, root)
        )
        return tuple(ConflictFile(path=path_text(path, root), kind="file") for path in paths)


def _paths(locations: object, content: object) -> Iterable[str]:
    """The files that a call names; either may be left out."""
    if isinstance(locations, tuple):
        for place in locations:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(place, ToolCallLocation):
                yield place.path
    if isinstance(content, tuple):
        for item in content:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(item, Diff):
                yield item.path
