"""The bounds of a journal: how much it holds in memory and how long it waits."""

from msgspec import Struct

__all__ = ["JournalLimits"]


class JournalLimits(Struct, frozen=True, kw_only=True):
    """Bounds with defaults for fifty busy agents; tests choose smaller ones."""

    pending_events: int = 50_000
    """Events taken on and not yet committed; beyond it ``append`` waits."""
    pending_bytes: int = 64 << 20
    batch_events: int = 4_096
    """Most events in one transaction."""
    batch_bytes: int = 8 << 20
    linger: float = 0.004
    """Seconds for which a commit without a waiter gathers more; saves disk flushes."""
    recent_events: int = 8_192
    """Published records kept for followers; those further behind read from disk."""
    recent_bytes: int = 16 << 20
    page_bytes: int = 16 << 20
    """A page of records ends early when its bodies exceed this."""
    retry_first: float = 0.05
    """Seconds until the first retry of a failed commit; doubles each time."""
    retry_most: float = 2.0
    poll: float = 0.05
    """Seconds between looks at a log that another process writes, while someone follows."""
    index_every: float = 5.0
    """Seconds between background updates of the search index."""
