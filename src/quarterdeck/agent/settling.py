"""Waiting for a turn, whoever loses patience."""

import asyncio
import logging
from contextlib import suppress

from quarterdeck.wire.events import TurnEnded

__all__ = ["settled"]

_log = logging.getLogger(__name__)


async def settled(running: asyncio.Task[TurnEnded]) -> TurnEnded | None:
    """The turn's end, or None when it was cancelled; a cancelled caller cancels the turn."""
    try:
        await asyncio.wait([running])
    except asyncio.CancelledError:
        running.cancel()
        while not running.done():  # whoever is impatient: the turn ends before we go
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled() and (error := running.exception()) is not None:
            _log.error("a turn whose caller left has failed", exc_info=error)
        raise
    return None if running.cancelled() else running.result()
