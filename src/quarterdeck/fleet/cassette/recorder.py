"""Records the model traffic of an agent while it passes the meter."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from quarterdeck.models.answer_usage import ContentDecoder
from quarterdeck.version import __version__
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.tasks import BackgroundTasks

from ..meter.api import CallRecorder, CallRecording, PassedRequest
from .file import (
    FORMAT,
    VERSION,
    AnswerEnd,
    AnswerHead,
    AnswerPiece,
    CassetteEnd,
    CassetteError,
    CassetteHead,
    CassetteWriter,
    PartReference,
    RecordedPrompt,
    RequestText,
    TapedRequest,
    encode_line,
)
from .request_parts import PlainForm, split_request

__all__ = ["CassetteRecorder"]

_log = logging.getLogger(__name__)

MOST_PENDING = 4 * 1024 * 1024
"""Bytes that may wait to be written; a stream that is faster waits."""
_MOST_TEXT = 1024 * 1024
"""Characters of a part of a request that are kept."""
_MOST_WHOLE = 4 * 1024 * 1024
"""Bytes of an answer that are masked as one value, or of a line of a stream."""
_PIECE = 256 * 1024
"""Bytes of a line of the file, about."""
_SETTLE = 10.0
"""Seconds that calls get which still run when the turn is over."""
_KEPT_HEADERS = (b"content-type", b"retry-after", b"x-should-retry")


_LineMaker: TypeAlias = Callable[[], Iterable[msgspec.Struct]]


class CassetteRecorder:
    """Writes a cassette; a thread masks, encodes and writes, in the order of what passed."""

    def __init__(self, path: Path, form: PlainForm) -> None:
        """Blocks. Raises CassetteError."""
        self._writer = CassetteWriter(path)
        self._form = form
        self._jobs: deque[tuple[int, _LineMaker]] = deque()
        self._pending = 0
        self._ready = asyncio.Event()
        self._moved = asyncio.Event()
        self._task = BackgroundTasks()
        self._error: CassetteError | None = None
        self._known: set[str] = set()
        self._calls = 0
        self._running = 0

    async def start(
        self, options: SessionOptions, endpoints: Iterable[str], variables: Iterable[str]
    ) -> None:
        """Write what is recorded."""
        head = CassetteHead(
            format=FORMAT,
            version=VERSION,
            program=__version__,
            created=read_wall_clock(),
            agent=options.agent,
            model=options.model,
            effort=options.effort,
            mode=options.mode,
            system_prompt=self._form.mask(options.system_prompt) if options.system_prompt else None,
            endpoints=tuple(endpoints),
            variables=tuple(variables),
        )
        self._task.start(self._work(), name="cassette: write")
        await self.put(0, lambda: (head,))

    async def add_prompt(self, text: str) -> None:
        """A turn begins."""
        await self.put(len(text), lambda: (RecordedPrompt(text=self._form.mask(text)),))

    async def begin(self, request: PassedRequest) -> CallRecording:
        """A request goes out."""
        self._calls += 1
        self._running += 1
        number = self._calls
        self._form.add_secrets(request.secrets)
        await self.put(len(request.body), lambda: self._describe(number, request))
        return _AnswerRecording(self, self._form, number)

    async def settle(self) -> None:
        """Wait for calls that still run, for some seconds."""
        try:
            async with asyncio.timeout(_SETTLE):
                while self._running:
                    await self._wait()
        except TimeoutError:
            pass

    async def finish(
        self, transcript: Sequence[str], transport: str | None, agent_version: str | None
    ) -> None:
        """Write the end and put the file at its place. Raises CassetteError."""
        while self._pending and self._error is None:
            await self._wait()
        if self._error is not None:
            raise self._error
        end = CassetteEnd(
            calls=self._calls,
            transport=transport,
            agent_version=agent_version,
            masked=self._form.masked,
            transcript=tuple(transcript),
        )
        await asyncio.to_thread(self._writer.finish, end)

    async def close(self) -> None:
        """End; a cassette that is not finished is discarded."""
        await self._task.close()
        await asyncio.to_thread(self._writer.discard)

    # For recordings

    async def put(self, size: int, make: _LineMaker) -> None:
        """Have lines written, made in the thread that writes; waits while much is unwritten."""
        while self._pending >= MOST_PENDING and self._error is None:
            await self._wait()
        self._append(size, make)

    def end_call(self, make: _LineMaker) -> None:
        """Have the last lines of a call written, without waiting."""
        self._running -= 1
        self._append(0, make)
        self._moved.set()

    # Writing

    def _append(self, size: int, make: _LineMaker) -> None:
        size += 1  # what has no length waits to be written, too
        self._jobs.append((size, make))
        self._pending += size
        self._ready.set()

    async def _wait(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def _work(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            jobs = list(self._jobs)
            self._jobs.clear()
            try:
                if self._error is None:
                    await asyncio.to_thread(self._write, [make for _, make in jobs])
            except CassetteError as error:
                self._error = error  # the agent goes on; the end of the recording raises it
            except Exception as error:
                # Not with its text, in which parts of a request may be.
                _log.error("the recording failed: %s", type(error).__name__)
                words = f"the recording on {str(self._writer.path)!r} failed"
                self._error = CassetteError(f"{words}: {type(error).__name__}")
            self._pending -= sum(size for size, _ in jobs)
            self._moved.set()

    def _write(self, jobs: Sequence[_LineMaker]) -> None:
        for make in jobs:
            for line in make():
                self._writer.write(encode_line(line))

    def _describe(self, number: int, request: PassedRequest) -> Iterable[msgspec.Struct]:
        references: list[PartReference] = []
        parts = ()
        if request.wire is not None:
            parts = split_request(request.wire, request.path, request.body, self._form)
        for part in parts:
            id_ = part.id
            references.append(PartReference(kind=part.kind, name=part.name, id=id_))
            if id_ not in self._known:
                self._known.add(id_)
                text = part.text if len(part.text) <= _MOST_TEXT else None
                yield RequestText(id=id_, text=text)
        yield TapedRequest(
            call=number,
            endpoint=request.endpoint,
            method=request.method,
            path=self._form.mask(request.path),
            wire=request.wire,
            parts=tuple(references),
        )


class _AnswerRecording:
    """One call; its lines are made in the thread that writes."""

    def __init__(self, recorder: CassetteRecorder, form: PlainForm, number: int) -> None:
        self._recorder = recorder
        self._form = form
        self._number = number
        self._decoder: ContentDecoder | None = None
        self._is_stream = False
        self._is_text = False
        self._buffer = bytearray()
        self._is_lost = False

    async def take(
        self, status: int, headers: Mapping[bytes, bytes], pieces: Sequence[bytes]
    ) -> None:
        """Take what has passed."""
        fields = dict(headers) if self._decoder is None else {}
        size = sum(map(len, pieces))
        await self._recorder.put(size, lambda: self._lines(status, fields, pieces))

    def end(self, reason: str | None) -> None:
        """The call is over."""
        self._recorder.end_call(lambda: self._last_lines(reason))

    def _lines(
        self, status: int, headers: Mapping[bytes, bytes], pieces: Sequence[bytes]
    ) -> Iterable[msgspec.Struct]:
        if self._decoder is None:
            kind = headers.get(b"content-type", b"").decode("latin-1").lower()
            self._is_stream = "event-stream" in kind
            self._is_text = self._is_stream or "json" in kind or kind.startswith("text/")
            self._decoder = ContentDecoder(headers.get(b"content-encoding", b"").decode("latin-1"))
            kept = tuple(
                (name.decode("latin-1"), self._form.mask(headers[name].decode("latin-1")))
                for name in _KEPT_HEADERS
                if name in headers
            )
            yield AnswerHead(call=self._number, status=status, headers=kept)
        for piece in pieces:
            plain = self._decoder.decode(piece) if not self._is_lost else None
            if plain is None:
                self._is_lost = True
                return
            self._buffer += plain
        yield from self._pieces(self._take_whole())

    def _take_whole(self) -> bytes:
        """What may be written: whole lines of a stream; else all of it, at the end or if long."""
        end = self._buffer.rfind(b"\n") + 1 if self._is_stream else 0
        if not self._is_text:
            end = len(self._buffer)
        elif not end and len(self._buffer) > _MOST_WHOLE:
            end = len(self._buffer) - 4
            while self._buffer[end] & 0xC0 == 0x80:
                end -= 1  # not within a character
        taken = bytes(self._buffer[:end])
        del self._buffer[:end]
        return taken

    def _last_lines(self, reason: str | None) -> Iterable[msgspec.Struct]:
        yield from self._pieces(bytes(self._buffer))
        self._buffer.clear()
        if self._is_lost:
            reason = "its coding cannot be read"
        yield AnswerEnd(call=self._number, reason=reason)

    def _pieces(self, plain: bytes) -> Iterable[AnswerPiece]:
        if not plain:
            return
        try:
            text = plain.decode()
        except UnicodeDecodeError:
            plain = self._form.mask_bytes(plain)
            for at in range(0, len(plain), _PIECE):
                yield AnswerPiece(call=self._number, data=plain[at : at + _PIECE])
            return
        if self._is_stream:
            text = "\n".join(map(self._mask_line, text.split("\n")))
        else:
            text = self._mask_body(text)
        for at in range(0, len(text), _PIECE):
            yield AnswerPiece(call=self._number, text=text[at : at + _PIECE])

    def _mask_line(self, line: str) -> str:
        name, colon, rest = line.partition(":")
        if name != "data" or not colon:
            return self._form.mask(line)
        body = rest.strip()
        masked = self._mask_body(body)
        return line if masked == body else f"{name}: {masked}"

    def _mask_body(self, text: str) -> str:
        """A text that may be JSON: then its values are masked, and its form stays."""
        try:
            value: Any = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return self._form.mask(text)
        masked = self._form.mask_json(value)
        return text if masked == value else msgspec.json.encode(masked).decode()


if TYPE_CHECKING:
    from typing import cast

    _recorder: CallRecorder = cast("CassetteRecorder", None)
