"""The meter for its users: what is asked before a call, and the fleet's method for people."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.settings import VendorWire
from quarterdeck.wire.usage import TokenUsage

from ..method import fleet_method

__all__ = [
    "CallEnd",
    "CallGuard",
    "CallPlayer",
    "CallRecorder",
    "CallRecording",
    "CallRefusal",
    "FleetMeter",
    "MeterStatus",
    "MeteredRequest",
    "MeteredSession",
    "OpenCallGuard",
    "PassedRequest",
    "PlayedAnswer",
]

_ERRORS = 400
"""The first status that is an error."""


class MeteredRequest(Struct, frozen=True, kw_only=True):
    """A model call that an agent wants to make."""

    call: str
    """Random; the same in the log."""
    wire: VendorWire
    model: str | None
    """As the agent names it; None: it does not."""
    size: int
    """Bytes of the body, of which a long picture or document in it counts as a few thousand."""
    max_output: int | None = None
    """The longest answer that is asked for, in tokens; None: the request does not say."""


class CallRefusal(Struct, frozen=True, kw_only=True):
    """A call that must not be made."""

    reason: str
    """For the person; the agent shows it."""


class CallEnd(Struct, frozen=True, kw_only=True):
    """How a call ended."""

    usage: TokenUsage | None = None
    """As the answer says; None: nothing that could be read."""
    status: int | None = None
    """Of the answer; None: there was none."""
    reason: str | None = None
    """Why the answer did not arrive whole; None: it did."""
    output: int | None = None
    """Tokens of what arrived of the answer, about; None: it could not be read."""
    is_sent: bool = True
    """The server may have the request, and may charge for it."""

    @property
    def has_failed(self) -> bool:
        """Whether there is no whole answer, or it is an error."""
        return self.reason is not None or self.status is None or self.status >= _ERRORS

    @property
    def is_free(self) -> bool:
        """Whether no server can have charged for it."""
        return not self.is_sent or (self.status is not None and self.status >= _ERRORS)


class PassedRequest(Struct, frozen=True, kw_only=True):
    """A request of an agent, for what records or plays."""

    endpoint: str
    """The name of the address in the agent's file."""
    method: str
    path: str
    """Behind that of the upstream, with the query."""
    wire: VendorWire | None
    """None: it is no model call."""
    body: bytes
    """Empty if it is no model call."""
    secrets: tuple[str, ...] = ()
    """Keys in its headers and its query: never to be written."""


class CallRecording(Protocol):
    """One call that is recorded while it passes."""

    async def take(
        self, status: int, headers: Mapping[bytes, bytes], pieces: Sequence[bytes]
    ) -> None:
        """Take what has passed, without its framing. Waits while much is unwritten."""
        ...

    def end(self, reason: str | None) -> None:
        """The call is over; why the answer is not whole, None: it is."""
        ...


class CallRecorder(Protocol):
    """Records the calls of an agent."""

    async def begin(self, request: PassedRequest) -> CallRecording:
        """A request goes out."""
        ...


class PlayedAnswer(Struct, frozen=True, kw_only=True):
    """An answer that is not fetched but played."""

    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: AsyncIterator[bytes]
    is_whole: bool = True
    """The connection breaks off after the last piece otherwise."""


class CallPlayer(Protocol):
    """Answers the requests of an agent in place of its upstream."""

    async def answer(self, request: PassedRequest) -> PlayedAnswer | CallRefusal:
        """What is to be sent."""
        ...


class CallGuard(Protocol):
    """Decides about calls before they are made, and learns what they used."""

    async def authorize(self, session: SessionId, request: MeteredRequest) -> CallRefusal | None:
        """Whether a call may be made; None: it may. One that raises refuses."""
        ...

    async def settle(self, session: SessionId, request: MeteredRequest, end: CallEnd) -> None:
        """How an authorized call ended; once for each, after the log has it."""
        ...


class OpenCallGuard:
    """Allows every call."""

    async def authorize(self, session: SessionId, request: MeteredRequest) -> CallRefusal | None:
        """Allow it."""
        return None

    async def settle(self, session: SessionId, request: MeteredRequest, end: CallEnd) -> None:
        """Nothing is kept."""


class MeteredSession(Struct, frozen=True, kw_only=True):
    """An agent behind the meter, with what passed since it started."""

    session: SessionId
    name: str
    """For people."""
    agent: str
    upstreams: dict[str, str]
    """Where its calls go, by the name in the agent's file: scheme, host and port."""
    calls: int = 0
    """Model calls that went out."""
    running: int = 0
    refused: int = 0
    failed: int = 0
    """Answered with an error, not at all, or cut short."""
    uncounted: int = 0
    """Answered, but without counts that could be read."""
    other: int = 0
    """Requests that are no model calls, such as lists of models; they pass uncounted."""
    tokens: TokenUsage = TokenUsage()


class MeterStatus(Struct, frozen=True, kw_only=True):
    """The meter of the host."""

    address: str | None = None
    """Where it listens, without any agent's secret; None: no agent has needed it yet."""
    sessions: tuple[MeteredSession, ...] = ()
    """Live agents behind it, oldest first."""


class FleetMeter(Protocol):
    """The meter of the fleet."""

    @fleet_method()
    async def meter(self) -> MeterStatus:
        """Where it listens, and which live agents are behind it."""
        ...
