"""Our own agent for the program that started this one, over standard input and output."""

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress

from quarterdeck.config.places import Places
from quarterdeck.wire.rpc.stream import stdio_stream

from .server import serve

__all__ = ["serve_standard_streams"]


def serve_standard_streams(environment: Mapping[str, str], *, verbose: bool = False) -> None:
    """Serve until the input ends or SIGTERM arrives; diagnostics go to standard error."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.WARNING,
        format="quarterdeck: %(levelname)s: %(message)s",
    )
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve(environment))


async def _serve(environment: Mapping[str, str]) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()

    def end(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(task.cancel)

    # Not ``loop.add_signal_handler``, which imports 7 ms to see that this is no coroutine.
    before = signal.signal(signal.SIGTERM, end)
    try:
        await serve(await stdio_stream(), Places.find(environment), environment)
    finally:
        signal.signal(signal.SIGTERM, before)
