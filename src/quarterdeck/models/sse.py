"""Server-sent events of a model: ``wire.sse`` with the failures of this room."""

from quarterdeck.wire import sse
from quarterdeck.wire.sse import EVENT_LIMIT, ServerEvent

from .errors import StreamBroken

__all__ = ["EVENT_LIMIT", "EventDecoder", "ServerEvent"]


class EventDecoder(sse.EventDecoder):
    """Collects bytes into events; see ``wire.sse.EventDecoder``."""

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Take bytes and give the events that they complete.

        Raises:
            StreamBroken: an event is larger than the limit.
        """
        try:
            return super().feed(piece)
        except sse.EventTooLarge as error:
            raise StreamBroken(str(error)) from None
