"""The meter for its users: what is asked before a call, and the fleet's method for people."""

from typing import Protocol

from msgspec import Struct

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.settings import VendorWire
from quarterdeck.wire.usage import TokenUsage

from ..method import fleet_method

__all__ = [
    "CallGuard",
    "CallRefusal",
    "FleetMeter",
    "MeterStatus",
    "MeteredRequest",
    "MeteredSession",
    "OpenCallGuard",
]


class MeteredRequest(Struct, frozen=True, kw_only=True):
    """A model call that an agent wants to make."""

    call: str
    """Random; the same in the log."""
    wire: VendorWire
    model: str | None
    """As the agent names it; None: it does not."""
    size: int
    """Bytes of the body."""
    max_output: int | None = None
    """The longest answer that is asked for, in tokens; None: the request does not say."""


class CallRefusal(Struct, frozen=True, kw_only=True):
    """A call that must not be made."""

    reason: str
    """For the person; the agent shows it."""


class CallGuard(Protocol):
    """Decides about calls before they are made, and learns what they used."""

    async def authorize(self, session: SessionId, request: MeteredRequest) -> CallRefusal | None:
        """Whether a call may be made; None: it may. One that raises refuses."""
        ...

    async def settle(
        self,
        session: SessionId,
        request: MeteredRequest,
        usage: TokenUsage | None,
        *,
        is_whole: bool,
    ) -> None:
        """What an authorized call used; once for each, also for one that failed.

        ``usage`` None: nothing, or it is not known. ``is_whole``: the answer arrived to its end.
        """
        ...


class OpenCallGuard:
    """Allows every call."""

    async def authorize(self, session: SessionId, request: MeteredRequest) -> CallRefusal | None:
        """Allow it."""
        return None

    async def settle(
        self,
        session: SessionId,
        request: MeteredRequest,
        usage: TokenUsage | None,
        *,
        is_whole: bool,
    ) -> None:
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
