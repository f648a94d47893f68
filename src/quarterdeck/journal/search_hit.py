"""What a search finds; apart from the search, for those who only receive it."""

from msgspec import Struct

from quarterdeck.wire.ids import SessionId

__all__ = ["SearchHit"]


class SearchHit(Struct, frozen=True, kw_only=True):
    """A place in the log where the words occur."""

    session: SessionId
    seq: int
    """Where the passage begins."""
    type: str
    """The tag of the event it comes from."""
    snippet: str
    marks: tuple[tuple[int, int], ...]
    """Begin and end of each match within ``snippet``."""
    time: int = 0
    """When it was said, in microseconds since the epoch; 0: not looked up."""
