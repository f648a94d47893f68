"""One request of an agent at the meter and its answer, and who makes it."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import h11

from quarterdeck.models.answer_usage import AnswerUsage

from .api import (
    CallEnd,
    CallPlayer,
    CallRecorder,
    CallRecording,
    CallRefusal,
    MeteredRequest,
    PassedRequest,
)
from .calls import find_wire, narrow_codings
from .frames import AnswerFrames, UnreadableAnswerError
from .upstream import Upstream, UpstreamConnection

if TYPE_CHECKING:
    from quarterdeck.wire.settings import VendorWire

__all__ = ["BROKEN", "GONE", "MeterExchange", "MeterSeat"]

GONE = "the agent closed the connection"
BROKEN = "the server broke the answer off"
_KEYS = frozenset((b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key", b"cookie"))
_KEY_IN_QUERY = re.compile(r"(?<=[?&]key=)[^&#]+")
_SHORTEST_KEY = 6
_OF_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"expect", b"host")
)
"""Headers that are about one connection alone."""


class MeterSeat(Protocol):
    """An agent that may use the meter."""

    @property
    def is_exposed(self) -> bool:
        """Its secret can be seen by other users of this machine: they must be kept out."""
        ...

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """Where its requests go, by the second part of their path."""
        ...

    @property
    def recorder(self) -> CallRecorder | None:
        """Gets a copy of what passes."""
        ...

    @property
    def player(self) -> CallPlayer | None:
        """Answers in place of the upstreams, which are not asked then."""
        ...

    async def begin(self, request: MeteredRequest) -> CallRefusal | None:
        """A call is about to be made; None: it may be. Then ``finish`` follows, once."""
        ...

    def finish(self, request: MeteredRequest, end: CallEnd) -> None:
        """The call is over."""
        ...

    def pass_other(self) -> None:
        """A request that is no model call goes out."""
        ...


class MeterExchange:
    """One request of an agent and the answer to it."""

    def __init__(
        self,
        head: h11.Request,
        protocol: h11.Connection,
        seat: MeterSeat,
        endpoint: str,
        path: str,
    ) -> None:
        self.head = head
        self.protocol = protocol
        self.seat = seat
        self.endpoint = endpoint
        self.upstream = seat.upstreams[endpoint]
        self.path = path
        """Behind that of the upstream, with the query."""
        self.wire: VendorWire | None = find_wire(
            head.method.decode("latin-1"), path.partition("?")[0]
        )
        self.length = _read_length(head)
        """Of the body; None: it is chunked."""
        self.call: MeteredRequest | None = None
        self.body: bytes | None = None
        """Of a model call; others are streamed."""
        self.recording: CallRecording | None = None
        self.passed: list[bytes] = []
        """Of the body of the answer, in the last piece that was read."""
        self.usage: AnswerUsage | None = None
        self.status: int | None = None
        self.is_whole = False
        self.frames = AnswerFrames(head.method)
        self.is_kept = False
        """Both connections can be used again."""
        self.is_readable = True
        """The answer is HTTP as it is known here."""
        self.has_answer = False
        """Bytes of it have arrived."""
        self.is_sent = False
        """Some of the request may have been sent."""
        self.is_uploaded = False
        """All of it was."""
        self.is_gone = False
        """The agent is gone, or its request broke off."""
        self.is_answered = False
        """There is nothing more to be passed back."""

    def begin(self) -> None:
        """Expect an answer; once more after a connection turned out to be closed."""
        self.frames = AnswerFrames(self.head.method)
        self.is_readable, self.is_uploaded, self.is_answered = True, False, False
        self.is_sent = True

    def make_head(self, connection: UpstreamConnection) -> bytes:
        """The head of the request; its headers have been read, so they are well formed."""
        target = f"{connection.prefix}{self.upstream.path}{self.path}".encode("latin-1")
        lines = [b"%b %b HTTP/1.1" % (self.head.method, target)]
        lines.append(b"Host: " + self.upstream.origin.host_header.encode("latin-1"))
        lines += [b"%b: %b" % one for one in connection.headers]
        for name, value in self.head.headers.raw_items():
            lowered = name.lower()
            if lowered in _OF_HOP or (self.length is None and lowered == b"content-length"):
                continue
            is_read = self.wire is not None or self.recording is not None
            if is_read and lowered == b"accept-encoding":
                value = narrow_codings(value)
            lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def frame(self, piece: bytes) -> bytes:
        """A piece of the body as it is sent; none is the end."""
        if self.length is not None:
            return piece
        return b"%x\r\n%b\r\n" % (len(piece), piece)

    def observe(self, piece: bytes) -> bool:
        """Read a copy of what has passed, nothing at its end; True: the answer is over."""
        if not self.is_readable:
            return False
        frames = self.frames
        try:
            pieces = self.passed = frames.feed(piece) if piece else frames.end()
        except UnreadableAnswerError:
            self.is_readable = False
            return False
        if self.status is None and frames.status is not None:
            self._take_head(frames)
        if self.usage is not None:
            for one in pieces:
                self.usage.feed(one)
        self.is_whole = frames.is_over
        self.is_kept = frames.is_over and frames.is_kept and self.is_uploaded
        return frames.is_over

    def _take_head(self, frames: AnswerFrames) -> None:
        status = self.status = frames.status or 0
        if self.wire is None or not 200 <= status < 300:
            return
        kind = frames.headers.get(b"content-type", b"").decode("latin-1")
        coding = frames.headers.get(b"content-encoding", b"").decode("latin-1")
        self.usage = AnswerUsage(self.wire, kind, coding)

    @property
    def is_persistent(self) -> bool:
        """Whether the agent wants to use its connection again."""
        return not any(
            name == b"connection" and b"close" in value.lower() for name, value in self.head.headers
        )

    def describe(self) -> PassedRequest:
        """The request without its headers; keys in them and in the query are named as such."""
        found = _KEY_IN_QUERY.findall(self.path)
        for name, value in self.head.headers:
            if name in _KEYS:
                text = value.decode("latin-1")
                found += [text, *text.split()]
        return PassedRequest(
            endpoint=self.endpoint,
            method=self.head.method.decode("latin-1"),
            path=_KEY_IN_QUERY.sub("…", self.path),
            wire=self.wire,
            body=(self.body or b"") if self.wire is not None else b"",
            secrets=tuple(
                one for one in found if len(one) >= _SHORTEST_KEY and one.lower() != "bearer"
            ),
        )

    async def record(self) -> None:
        """Give a copy of what was passed on to the recording, if there is one."""
        if self.recording is not None and self.status is not None:
            pieces, self.passed = self.passed, []
            await self.recording.take(self.status, self.frames.headers, pieces)

    def finish(self, reason: str | None) -> None:
        """Report the call, if it is one."""
        if self.recording is not None:
            self.recording.end(None if self.is_whole else reason or BROKEN)
        if self.call is None:
            return
        if self.usage is not None:
            self.usage.end()
        seen = self.usage
        end = CallEnd(
            usage=seen.usage if seen is not None else None,
            status=self.status,
            reason=None if self.is_whole else reason,
            output=seen.output if seen is not None else (0 if not self.has_answer else None),
            is_sent=self.is_sent,
        )
        self.seat.finish(self.call, end)


def _read_length(head: h11.Request) -> int | None:
    """Of the body of a request; None: it is chunked."""
    length = 0
    for name, value in head.headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            length = int(value)
    return length
