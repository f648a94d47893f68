"""Where the agent's messages go: updates of our session, requests, and what is neither."""

from collections.abc import Awaitable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.router import Router
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.rpc.codes import INVALID_REQUEST, MethodNotFound

from .plain import plain
from .updates import Translator

__all__ = ["ClientRouter"]

_MOST_EARLY = 10_000
"""Updates that are kept while the session has no name yet."""
_SHOWN = 100_000
"""Bytes of a strange message that are kept."""


class ClientRouter(Router):
    """The client's side of the protocol. What it does not know becomes an ``Unknown`` event."""

    def __init__(self, translator: Translator) -> None:
        super().__init__("client", unstable=True)
        self._translator = translator
        self._take = translator.take
        self._early: list[acp.SessionNotification] | None = []
        self._too_early = 0
        self.session: str | None = None
        """The session whose updates are ours."""
        self.on(acp.SESSION_UPDATE, self._update)

    def on_notification(self, method: str, params: Raw | None) -> Awaitable[None] | None:
        """Take a notification; one that is not known or cannot be read is kept as it is."""
        try:
            return super().on_notification(method, params)
        except MethodNotFound:
            return self._strange(method, params, "a notification that we do not know")
        except msgspec.DecodeError as error:
            return self._strange(method, params, f"it cannot be read: {error}")

    async def catch_up(self) -> None:
        """Take what was said before the session had a name; call it once it has."""
        early, self._early = self._early or (), None
        await self._catch_up(early)

    async def _catch_up(self, early: Iterable[acp.SessionNotification]) -> None:
        for note in early:
            if (step := self._update(note)) is not None:
                await step
        if self._too_early:
            raise RpcError(
                INVALID_REQUEST,
                f"{self._too_early} updates came before the session was open and were not kept",
            )

    def _update(self, note: acp.SessionNotification) -> Awaitable[None] | None:
        if note.session_id == self.session:
            return self._take(note.update)
        if self.session is None and self._early is not None:
            if len(self._early) < _MOST_EARLY:
                self._early.append(note)
            else:
                self._too_early += 1
            return None
        update = note.update
        body: Any = update.raw if isinstance(update, acp.UnknownUpdate) else update
        raw = {"sessionId": note.session_id, "update": plain(body)}
        return self._translator.strange(raw, "an update of a session that is not this one")

    def _strange(self, method: str, params: Raw | None, reason: str) -> Awaitable[None]:
        told: Any = None
        if params is not None:
            told = bytes(params)[:_SHOWN].decode("utf-8", "replace")
            with suppress(msgspec.DecodeError):
                told = msgspec.json.decode(params)
        return self._translator.strange({"method": method, "params": told}, reason)
