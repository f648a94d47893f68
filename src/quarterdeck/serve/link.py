"""What delegated files and terminals need of a client."""

from typing import Protocol, TypeVar

from quarterdeck.wire.acp.methods import Method

__all__ = ["Link"]

P = TypeVar("P")
R = TypeVar("R")


class Link(Protocol):
    """A way to ask the client about one session."""

    @property
    def session_id(self) -> str:
        """The session, as the client knows it."""
        ...

    async def call(self, method: Method[P, R], params: P, *, timeout: float | None = None) -> R:
        """Ask the client.

        Raises:
            SystemFault: it is gone.
            RpcError: it answered with an error.
            TimeoutError: it did not answer in time (seconds).
        """
        ...
