"""When worktrees are looked at: told by what agents do, so that agents at rest cost nothing.

A call that may have changed files has the worktree looked at half a second after its end; one that
still runs, every few seconds; a turn without such a call, now and then, because not every agent
reports its calls. Everything here is arithmetic with times, and touches no file.
"""

from collections.abc import Callable

from msgspec import UNSET, UnsetType

from quarterdeck.wire.events import (
    ChangesLanded,
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
from quarterdeck.wire.tool_calls import ToolKind

__all__ = ["WorktreeMonitor"]

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
_HANDLED = frozenset(
    {
        *(ToolCallStarted, ToolCallUpdated, ToolCallEnded, TurnStarted, TurnEnded, SessionEnded),
        *(SessionChanged, WorktreeAssigned, WorktreeReleased, ChangesLanded, Rewound, Redone),
    }
)


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
        if type(event) not in _HANDLED:
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
