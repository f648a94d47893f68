"""What all agents do, as lines: a window on the log that is bounded, whatever happens."""

from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from quarterdeck.wire.errors import QuarterdeckError
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
        self._oldest: dict[str, int] = {}
        self._newest: dict[str, int] = {}
        """Positions by the host whose log they are in; see ``_scope``."""
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
        fresh = [record for record in fitting if self._is_new(record)]
        if not self.is_at_end:
            return 0, 0
        if not may_drop and len(self.records) + len(fresh) > self.WINDOW:
            self.is_at_end = False
            return 0, 0
        return len(fresh), self._append(fresh)

    async def start(self, fleet: "Fleet") -> None:
        """Read the end of the log. Raises QuarterdeckError."""
        self._early = []
        self.records, self._oldest, self._newest = [], {}, {}
        self.has_older = self.is_at_end = True
        await self.older(fleet)
        early, self._early = self._early, None
        self._append([record for record in early if self._is_new(record)])

    async def older(self, fleet: "Fleet") -> int:
        """Read earlier records; how many came. Raises QuarterdeckError."""
        found: list[Record] = []
        for _ in range(_MOST_PAGES):
            if not self.has_older or len(found) >= _ENOUGH:
                break
            page = await self._read_before(fleet)
            if not page:
                self.has_older = False
                break
            for record in page:
                scope = _scope(record)
                self._oldest[scope] = min(self._oldest.get(scope, _END), record.seq)
                self._newest[scope] = max(self._newest.get(scope, 0), record.seq)
            found = [record for record in page if self.fits(record)] + found
        self.records = found + self.records
        if len(self.records) > self.WINDOW:
            del self.records[self.WINDOW :]
            self.is_at_end = False
        return len(found)

    async def _read_before(self, fleet: "Fleet") -> "list[Record]":
        """A page before what is there: of one log, or of each host's."""
        scopes: dict[str, str] | None = getattr(fleet, "scopes", None)
        if self.agent is not None or scopes is None:
            before = min(self._oldest.values(), default=_END)
            return await fleet.read(self.agent, before=before, limit=_PAGE)
        pages: list[Record] = []
        for scope, reference in scopes.items():
            before = self._oldest.get(scope, _END)
            with suppress(QuarterdeckError):  # a host that is lost; the others are shown
                pages += await fleet.read(reference, before=before, limit=_PAGE // len(scopes))
        return sorted(pages, key=lambda record: record.time)

    def _is_new(self, record: "Record") -> bool:
        return record.seq > self._newest.get(_scope(record), 0)

    def _append(self, fresh: "list[Record]") -> int:
        self.records += fresh
        for record in fresh:
            self._newest[_scope(record)] = record.seq
        dropped = max(0, len(self.records) - self.WINDOW)
        if dropped:
            for record in self.records[:dropped]:
                self._oldest[_scope(record)] = record.seq + 1
            del self.records[:dropped]
            self.has_older = True
        return dropped


def _scope(record: "Record") -> str:
    """The host of a record; empty: there is one alone, or it is that of this machine."""
    return record.session.rpartition("/")[0]


def _is_bad(record: "Record") -> bool:
    """What no one should miss in any mode: a turn that failed."""
    return (
        event_type(record.event) == "turn_ended" and getattr(record.event, "stop", "") == "failed"
    )
