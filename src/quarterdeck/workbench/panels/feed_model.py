"""What all agents do, as lines: a window on the log that is bounded, whatever happens."""

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from quarterdeck.wire.record import event_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quarterdeck.fleet.api import Fleet
    from quarterdeck.wire.ids import SessionId
    from quarterdeck.wire.record import Record

__all__ = ["FEED_MODES", "FeedMode", "FeedModel"]

FeedMode: TypeAlias = Literal["audit", "agents", "notices", "debug"]
FEED_MODES: tuple[FeedMode, ...] = get_args(FeedMode)

_TYPES: dict[FeedMode, frozenset[str]] = {
    "audit": frozenset(
        {
            "tool_call_started", "tool_call_ended", "permission_asked", "permission_answered",
            "permission_violated",
            "grant_revoked", "question_asked", "question_answered", "mode_changed",
        }
    ),
    "agents": frozenset(
        {
            "session_spawned", "session_opened", "session_resumed", "session_changed",
            "session_ended", "prompted", "turn_started", "turn_ended", "permission_asked",
            "question_asked",
        }
    ),
    "notices": frozenset(
        {"notice", "rate_limited", "retry_scheduled", "compaction_changed", "session_ended"}
    ),
}  # fmt: skip
"""Which events a mode shows; ``debug`` shows every one."""
_END = 1 << 62
_PAGE = 500
_MOST_PAGES = 8
_ENOUGH = 100


class FeedModel:
    """Records that a mode shows, of one agent or of all, in the order of the log.

    At most ``WINDOW`` are kept; older ones are read from the log when someone goes there.
    """

    WINDOW = 2_000

    def __init__(self, mode: FeedMode, agent: "SessionId | None" = None) -> None:
        self.mode: FeedMode = mode
        self.agent = agent
        self.records: list[Record] = []
        self.has_older = True
        self.is_at_end = True
        """What happens now comes to what is there."""
        self._oldest = _END
        self._newest = 0
        self._early: list[Record] | None = []

    def fits(self, record: "Record") -> bool:
        """Whether a record belongs here."""
        if self.agent is not None and record.session != self.agent:
            return False
        return (
            self.mode == "debug" or event_type(record.event) in _TYPES[self.mode] or _is_bad(record)
        )

    def live(self, records: "Iterable[Record]", *, may_drop: bool) -> tuple[int, int]:
        """Take what has just happened.

        Args:
            records: in the order of the log.
            may_drop: the oldest may go to make room; else what does not fit is left out.

        Returns:
            How many came, and how many were dropped from the beginning.
        """
        fitting = [record for record in records if self.fits(record)]
        if self._early is not None:
            self._early = (self._early + fitting)[-self.WINDOW :]
            return 0, 0
        fresh = [record for record in fitting if record.seq > self._newest]
        if not self.is_at_end:
            return 0, 0
        if not may_drop and len(self.records) + len(fresh) > self.WINDOW:
            self.is_at_end = False
            return 0, 0
        return len(fresh), self._append(fresh)

    async def start(self, fleet: "Fleet") -> None:
        """Read the end of the log. Raises QuarterdeckError."""
        self._early = []
        self.records, self._oldest, self._newest = [], _END, 0
        self.has_older = self.is_at_end = True
        await self.older(fleet)
        early, self._early = self._early, None
        self._append([record for record in early if record.seq > self._newest])

    async def older(self, fleet: "Fleet") -> int:
        """Read earlier records; how many came. Raises QuarterdeckError."""
        found: list[Record] = []
        for _ in range(_MOST_PAGES):
            if not self.has_older or len(found) >= _ENOUGH:
                break
            page = await fleet.read(self.agent, before=self._oldest, limit=_PAGE)
            if not page:
                self.has_older = False
                break
            self._oldest = page[0].seq
            self._newest = max(self._newest, page[-1].seq)
            found = [record for record in page if self.fits(record)] + found
        self.records = found + self.records
        if len(self.records) > self.WINDOW:
            del self.records[self.WINDOW :]
            self.is_at_end = False
        return len(found)

    def _append(self, fresh: "list[Record]") -> int:
        self.records += fresh
        if fresh:
            self._newest = fresh[-1].seq
        dropped = max(0, len(self.records) - self.WINDOW)
        if dropped:
            del self.records[:dropped]
            self.has_older = True
            self._oldest = self.records[0].seq
        return dropped


def _is_bad(record: "Record") -> bool:
    """What no one should miss in any mode: a turn that failed."""
    return (
        event_type(record.event) == "turn_ended" and getattr(record.event, "stop", "") == "failed"
    )
