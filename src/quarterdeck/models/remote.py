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

from .encoded_history import EncodedHistory
from .errors import CallError, RequestRejectedError, StreamBrokenError
from .http_client import HttpClient, HttpResponse, ServerEvent, VendorEventDecoder, read_all
from .model import Delta, ModelInfo, ModelProfile, ModelRequest, ReplyFinished
from .reply import bound_counts, encode
from .vendors import Endpoint

__all__ = ["ModelWire", "RemoteModel", "StreamParser", "WireError"]

_DRAIN_SECONDS = 0.05


class WireError(Exception):
    """The vendor reported an error inside the stream; ``error`` is its own object."""

    def __init__(self, error: Any) -> None:
        super().__init__("the stream contains an error")
        self.error = error


class StreamParser(Protocol):
    """Turns the events of one answer into deltas; any cut of the bytes gives the same."""

    @property
    def is_done(self) -> bool:
        """Whether the reply is complete, so that nothing more need be read."""
        ...

    def feed(self, event: ServerEvent) -> Iterable[Delta]:
        """Take an event.

        Raises:
            WireError: the event is the vendor's error.
            msgspec.DecodeError: the event is not what the format says.
        """
        ...

    def finish(self) -> ReplyFinished:
        """Give the whole reply after the last event.

        Raises:
            StreamBrokenError: the stream ended before the reply did.
        """
        ...

    def partial(self) -> Message | None:
        """What has arrived so far."""
        ...


class ModelWire(Struct, frozen=True, kw_only=True):
    """One vendor's format."""

    path: Callable[[ModelProfile], str]
    build: Callable[[ModelRequest, ModelProfile, EncodedHistory | None], dict[str, Any]]
    parser: Callable[[ModelProfile], StreamParser]


class RemoteModel:
    """A model of any vendor, spoken to over one wire."""

    def __init__(
        self, wire: ModelWire, profile: ModelProfile, endpoint: Endpoint, client: HttpClient
    ) -> None:
        self._wire = wire
        self._profile = profile
        self._endpoint = endpoint
        self._client = client
        self._history = EncodedHistory()

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        return self._profile.info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
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
            yield msgspec.structs.replace(finished, usage=bound_counts(finished.usage))
        except CallError as error:
            error.partial = parser.partial()
            raise

    async def close(self) -> None:
        """Close every connection; calls under way end with ``StreamBrokenError``."""
        await self._client.close()

    async def _deltas(
        self, answer: HttpResponse, parser: StreamParser
    ) -> AsyncGenerator[Delta, None]:
        await self._check(answer)
        decoder = VendorEventDecoder()
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

    def _parsed(self, parser: StreamParser, event: ServerEvent) -> Iterable[Delta]:
        try:
            yield from parser.feed(event)
        except WireError as report:
            from .failures import stream_failure  # late: most calls do not fail

            raise stream_failure(self._endpoint, report.error) from None
        except msgspec.DecodeError as error:
            sample = self._endpoint.mask(event.data[:80])
            text = f"{self._endpoint.vendor}: cannot read {sample!r} in the stream: {error}"
            raise StreamBrokenError(text) from None

    async def _check(self, answer: HttpResponse) -> None:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = answer.headers.get("content-encoding", "identity")
        if answer.status == 200 and kind not in ("application/json", "text/html"):
            if encoding != "identity":
                raise StreamBrokenError(
                    f"{self._endpoint.vendor}: the stream is compressed as {encoding!r}"
                )
            return
        body = b""
        with suppress(StreamBrokenError):  # the status says enough when the reason is cut off
            body = await read_all(answer)
        if answer.status == 200:
            raise self._no_stream(kind, body)
        from .failures import call_failure

        raise call_failure(self._endpoint, answer.status, answer.headers, body)

    def _no_stream(self, kind: str, body: bytes) -> CallError:
        with suppress(msgspec.DecodeError):
            value: Any = msgspec.json.decode(body)
            if isinstance(value, dict) and "error" in value:
                from .failures import stream_failure

                return stream_failure(self._endpoint, value["error"])
        vendor, url = self._endpoint.vendor, self._endpoint.base_url
        return RequestRejectedError(
            f"{vendor}: {url} answers with {kind!r}, not a stream: is the URL right?"
        )


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Read the few bytes after the last event, so that the connection can be kept."""
    with suppress(TimeoutError, StreamBrokenError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in pieces:
                pass
