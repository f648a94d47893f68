"""What carries messages to a server and back."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

__all__ = ["Mirror", "Transport"]

Mirror: TypeAlias = Callable[[str, Mapping[str, Any]], Mapping[str, str]]
"""The headers that a tool's server wants for a call: from its name and its arguments."""


class Transport(Protocol):
    """A stream of lines, each a JSON-RPC message, and what else a connection to a server is."""

    async def receive(self) -> bytes:
        """See ``ByteStream``."""
        ...

    async def send(self, data: bytes) -> None:
        """See ``ByteStream``."""
        ...

    async def close(self) -> None:
        """Take no more messages; what is behind it is ended by ``end``."""
        ...

    def agreed(self, version: str, *, is_modern: bool) -> None:
        """Take note of the version that both sides speak."""
        ...

    def mirror(self, headers_of: Mirror) -> None:
        """Take note of which arguments are shown outside of the message as well."""
        ...

    async def end(self) -> str:
        """End what is behind it; return what is known of how it ended, for people."""
        ...
