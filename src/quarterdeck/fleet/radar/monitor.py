"""When worktrees are looked at: decided by what agents do, so that agents at rest cost nothing.

A call that may have changed files has the worktree looked at half a second after its end; one that
still runs, every few seconds; a turn without such a call, now and then, because not every agent
reports its calls. Everything here is arithmetic with times, and touches no file.
"""

# Paths are those of agents, taken by their names alone.
# ruff: noqa: PTH118
import os
from collections.abc import Callable, Iterable
from itertools import combinations

from msgspec import UNSET, UnsetType

from quarterdeck.agent.checkpoints.file_state import is_within, path_text
from quarterdeck.wire.events import (
    ChangesLanded,
    Event,
    Redone,
    Rewound,
    SessionChanged,
    SessionEnded,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    TurnStarted,
    WorktreeAssigned,
    WorktreeReleased,
)
from quarterdeck.wire.ids import SessionId, ToolCallId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import Diff, ToolCallLocation, ToolKind
from quarterdeck.wire.worktrees import ConflictFile

__all__ = ["WATCHED_EVENTS", "TouchedFiles", "WorktreeMonitor"]

_SETTLE = 0.5
"""Seconds after a change, in which more changes are awaited."""
_POLL = 2.0
"""Seconds between two looks while a call runs that may write."""
_SLOW_POLL = 15.0
"""Seconds between two looks while a turn runs, and no such call."""
_SHARE = 0.25
"""Of one processor, what looking may take while calls run."""
_LONGEST_POLL = 4.0
_HARMLESS: frozenset[ToolKind] = frozenset({"read", "search", "fetch", "think"})
WATCHED_EVENTS: frozenset[type[Event]] = frozenset(
    {
        *(ToolCallStarted, ToolCallUpdated, ToolCallEnded, TurnStarted, TurnEnded, SessionEnded),
        *(SessionChanged, WorktreeAssigned, WorktreeReleased, ChangesLanded, Rewound, Redone),
    }
)
"""Events that say something about files."""


class _Activity:
    """What a session does that may change files."""

    __slots__ = ("calls", "in_turn", "looked")

    def __init__(self) -> None:
        self.in_turn = False
        self.calls: set[ToolCallId] = set()
        """Those that run and may write."""
        self.looked = 0.0


class WorktreeMonitor:
    """Says which sessions' worktrees are due. ``now`` tells seconds that never go back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._activities: dict[SessionId, _Activity] = {}
        self._due: dict[SessionId, float] = {}
        self._cost = 0.0
        """Seconds that one look takes, lately."""

    def take(self, record: Record) -> bool:
        """Take in what an agent did; whether that changed when something is due."""
        event, session = record.event, record.session
        if type(event) not in WATCHED_EVENTS:
            return False
        match event:
            case ToolCallStarted() | ToolCallUpdated():
                return self._begin(session, event.call, event.kind)
            case TurnStarted():
                self._activity(session).in_turn = True
                return True
            case ToolCallEnded(call=call):
                if call not in self._activity(session).calls:
                    return False
                self._activity(session).calls.discard(call)
            case TurnEnded() | SessionEnded():
                self._activities.pop(session, None)
            case SessionChanged(archived=archived) if not isinstance(archived, bool):
                return False
            case _:
                pass
        self.demand(session)
        return True

    def demand(self, session: SessionId, after: float = _SETTLE) -> None:
        """Have a session looked at; what follows soon is seen by the same look."""
        due = self._now() + after
        self._due[session] = min(due, self._due.get(session, due))

    def next_due(self) -> float | None:
        """When something is due next; None: when something happens."""
        times = [*self._due.values(), *map(self._next_poll, self._activities.values())]
        return min((time for time in times if time is not None), default=None)

    def take_due(self) -> set[SessionId]:
        """The sessions that are due now; they are not any more."""
        now = self._now()
        found = {session for session, due in self._due.items() if due <= now}
        for session, activity in self._activities.items():
            poll = self._next_poll(activity)
            if poll is not None and poll <= now:
                found.add(session)
        for session in found:
            self._due.pop(session, None)
            if (activity := self._activities.get(session)) is not None:
                activity.looked = now
        return found

    def report_cost(self, seconds: float) -> None:
        """Say what one look took; looks that take long come less often."""
        self._cost = seconds if not self._cost else 0.7 * self._cost + 0.3 * seconds

    def forget(self, session: SessionId) -> None:
        """Drop a session that is gone."""
        self._activities.pop(session, None)
        self._due.pop(session, None)

    def _begin(self, session: SessionId, call: ToolCallId, kind: ToolKind | UnsetType) -> bool:
        """Take in what a call is; an update may know better than its start."""
        if kind is UNSET:
            return False
        activity = self._activity(session)
        if kind in _HARMLESS:
            activity.calls.discard(call)
            return False
        if not activity.calls:
            activity.looked = self._now()
        activity.calls.add(call)
        return True

    def _activity(self, session: SessionId) -> _Activity:
        found = self._activities.get(session)
        if found is None:
            found = self._activities[session] = _Activity()
            found.looked = self._now()
        return found

    def _next_poll(self, activity: _Activity) -> float | None:
        if not activity.in_turn:
            return None
        if not activity.calls:
            return activity.looked + _SLOW_POLL
        busy = sum(1 for one in self._activities.values() if one.in_turn and one.calls)
        pause = max(_POLL, busy * self._cost / _SHARE)
        return activity.looked + min(pause, _LONGEST_POLL)


_WRITES: frozenset[ToolKind] = frozenset({"edit", "delete", "move"})
_MOST = 5_000
"""Files of one agent that are remembered; a run seldom edits so many one by one."""


class TouchedFiles:
    """Which files each live agent has edited in its run, by absolute path.

    Without a worktree of its own, what an agent changes is known by the calls that edit files. What
    its shell commands change is not known to be its: others may have written it.
    """

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
