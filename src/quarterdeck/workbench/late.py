"""The fleet behind a host, imported when it is first needed: the first frame does without it."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.client import HostClient

__all__ = ["LateFleet"]


class LateFleet:
    """Everything that ``HostClient`` is; made with the first ``reach``, or the first use.

    Args:
        places: where the host is.
        environment: what a host that is started gets.
    """

    def __init__(self, places: "Places", environment: Mapping[str, str]) -> None:
        self._places = places
        self._environment = environment
        self._client: HostClient | None = None

    async def reach(self, starts: bool) -> None:
        """Have a link to the host. Raises QuarterdeckError."""
        # In a thread: importing takes longer than a key may wait.
        client = self._client or await asyncio.to_thread(self._make)
        self._client = client

        async def ensure() -> Any:
            from quarterdeck.fleet.host.starting import ensure_host

            return await ensure_host(self._places, self._environment)

        await client.reach(ensure if starts else None)

    async def disconnect(self) -> None:
        """Give the link up, if there ever was one."""
        if self._client is not None:
            await self._client.disconnect()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._client is None:
            self._client = self._make()
        return getattr(self._client, name)

    def _make(self) -> "HostClient":
        from quarterdeck.fleet.client import HostClient
        from quarterdeck.fleet.host.dialling import dial

        return HostClient(lambda: dial(self._places), "workbench")
