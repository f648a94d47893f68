"""A model behind HTTP: what every wire shares.

A wire is three pure things: the path, the request's body, and a parser that turns the events of
the answer into deltas. ``RemoteModel`` does the talking.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, suppress
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from quarterdeck.wire.conversation import Message

from .counts import plausible
from .endpoint import Endpoint
from .errors import CallError, Rejected, StreamBroken
from .failures import failure, stream_failure
from .history import History
from .http import Answer, Client, read_all
from .model import Delta, Finished, ModelInfo, Request
from .profile import ModelProfile
from .reply import encode
from .sse import EventDecoder, ServerEvent

__all__ = ["Parser", "RemoteModel", "Wire", "WireFailure"]

_DRAIN_SECONDS = 0.05


class WireFailure(Exception):
    """The vendor reported an error inside the stream; ``error`` is its own object."""

    def __init__(self, error: Any) -> None:
        super().__init__("the stream holds an error")
        self.error = error


class Parser(Protocol):
    """Turns the events of one answer into deltas; any cut of the bytes gives the same."""

    @property
    def is_done(self) -> bool:
        """Whether the reply is complete, so that nothing more need be read."""
        ...

    def feed(self, event: ServerEvent) -> Iterable[Delta]:
        """Take an event.

        Raises:
            WireFailure: the event is the vendor's error.
            msgspec.DecodeError: the event is not what the format says.
        """
        ...

    def finish(self) -> Finished:
        """Give the whole reply after the last event.

        Raises:
            StreamBroken: the stream ended before the reply did.
        """
        ...

    def partial(self) -> Message | None:
        """What has arrived so far."""
        ...


class Wire(Struct, frozen=True, kw_only=True):
    """One vendor's format."""

    path: Callable[[ModelProfile], str]
    build: Callable[[Request, ModelProfile, History | None], dict[str, Any]]
    parser: Callable[[ModelProfile], Parser]


class RemoteModel:
    """A model of any vendor, spoken to over one wire."""

    def __init__(
        self, wire: Wire, profile: ModelProfile, endpoint: Endpoint, client: Client
    ) -> None:
        self._wire = wire
        self._profile = profile
        self._endpoint = endpoint
        self._client = client
        self._history = History()

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        return self._profile.info

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask the model once; see ``Model.stream``."""
        parser = self._wire.parser(self._profile)
        body = encode(self._wire.build(request, self._profile, self._history))
        url = self._endpoint.base_url + self._wire.path(self._profile)
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "User-Agent": "quarterdeck",
            **self._endpoint.headers,
        }
        try:
            async with (
                self._client.send("POST", url, headers, body) as answer,
                aclosing(self._deltas(answer, parser)) as deltas,
            ):
                async for delta in deltas:
                    yield delta
            finished = parser.finish()
            yield msgspec.structs.replace(finished, usage=plausible(finished.usage))
        except CallError as error:
            error.partial = parser.partial()
            raise

    async def close(self) -> None:
        """Close every connection; calls under way end with ``StreamBroken``."""
        await self._client.close()

    async def _deltas(self, answer: Answer, parser: Parser) -> AsyncGenerator[Delta, None]:
        await self._check(answer)
        decoder = EventDecoder()
        async with aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                for event in decoder.feed(piece):
                    for delta in self._parsed(parser, event):
                        yield delta
                if parser.is_done:
                    await _drain(pieces)
                    return
        for event in decoder.end():
            for delta in self._parsed(parser, event):
                yield delta

    def _parsed(self, parser: Parser, event: ServerEvent) -> Iterable[Delta]:
        try:
            yield from parser.feed(event)
        except WireFailure as report:
            raise stream_failure(self._endpoint, report.error) from None
        except msgspec.DecodeError as error:
            sample = self._endpoint.mask(event.data[:80])
            text = f"{self._endpoint.vendor}: cannot read {sample!r} in the stream: {error}"
            raise StreamBroken(text) from None

    async def _check(self, answer: Answer) -> None:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = answer.headers.get("content-encoding", "identity")
        if answer.status == 200 and kind not in ("application/json", "text/html"):
            if encoding != "identity":
                raise StreamBroken(f"{self._endpoint.vendor}: the stream is packed as {encoding!r}")
            return
        body = b""
        with suppress(StreamBroken):  # the status says enough when the reason is cut off
            body = await read_all(answer)
        if answer.status == 200:
            raise self._no_stream(kind, body)
        raise failure(self._endpoint, answer.status, answer.headers, body)

    def _no_stream(self, kind: str, body: bytes) -> CallError:
        with suppress(msgspec.DecodeError):
            value: Any = msgspec.json.decode(body)
            if isinstance(value, dict) and "error" in value:
                return stream_failure(self._endpoint, value["error"])
        vendor, url = self._endpoint.vendor, self._endpoint.base_url
        return Rejected(f"{vendor}: {url} answers with {kind!r}, not a stream: is the URL right?")


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Read the few bytes after the last event, so that the connection can be kept."""
    with suppress(TimeoutError, StreamBroken):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in pieces:
                pass
