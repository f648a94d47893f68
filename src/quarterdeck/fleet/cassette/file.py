"""The file of a cassette: JSON lines, written once and read by position.

The format is in docs/cassettes.md. A reader keeps positions of answers, not the answers.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from quarterdeck.wire.decoders import decode_json, json_decoder
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.settings import VendorWire

__all__ = [
    "VERSION",
    "AnswerEnd",
    "AnswerHead",
    "AnswerPiece",
    "Cassette",
    "CassetteEnd",
    "CassetteError",
    "CassetteHead",
    "CassetteRefusal",
    "CassetteWriter",
    "PartReference",
    "RecordedCall",
    "RecordedPrompt",
    "RequestText",
    "TapedRequest",
    "is_cassette",
]

VERSION = 1
FORMAT = "quarterdeck-cassette"
MOST_LINE = 16 * 1024 * 1024
"""Bytes of a line, at the most."""
_MARK = b'{"type":"cassette",'
"""How each cassette begins."""

CassetteRefusal: TypeAlias = Literal[
    "not a cassette", "newer version", "truncated", "changed", "bad line"
]
PartKind: TypeAlias = Literal["model", "system", "tool", "message", "body"]


class CassetteError(QuarterdeckError):
    """A cassette cannot be written, read or used; ``refusal``: what is wrong with the file."""

    def __init__(self, message: str, refusal: CassetteRefusal | None = None) -> None:
        super().__init__(message)
        self.refusal = refusal


class _Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of the file."""


class CassetteHead(_Line, frozen=True, kw_only=True, tag_field="type", tag="cassette"):
    """The first line: what was recorded, and how it was started."""

    format: str
    version: int
    program: str
    """The version of Quarterdeck."""
    created: int
    """Microseconds since the epoch."""
    agent: str
    """By its name in the catalogue."""
    model: str | None = None
    effort: str | None = None
    mode: str | None = None
    """Of permissions. A rerun does not take it over."""
    system_prompt: str | None = None
    """Added to the agent's own."""
    endpoints: tuple[str, ...] = ()
    """Names of the addresses in the agent's file that were led to the recorder."""
    variables: tuple[str, ...] = ()
    """Names of keys and other variables that were set for the agent, without values."""


class RecordedPrompt(_Line, frozen=True, kw_only=True, tag_field="type", tag="prompt"):
    """What a person asked; a turn begins."""

    text: str


class RequestText(_Line, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A part of requests, before the first request that has it; without what varies."""

    id: str
    text: str | None = None
    """None: it is too long to be kept; its id tells whether it is the same."""


class PartReference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of one request."""

    kind: PartKind
    name: str
    """Of the tool or the model, or the role of the message."""
    id: str


class TapedRequest(_Line, frozen=True, kw_only=True, tag_field="type", tag="request"):
    """A request went out. Headers are never kept."""

    call: int
    """Numbered from 1."""
    endpoint: str
    """The name of the address in the agent's file."""
    method: str
    path: str
    """Behind the base URL."""
    wire: VendorWire | None = None
    """None: it is no model call."""
    parts: tuple[PartReference, ...] = ()


class AnswerHead(_Line, frozen=True, kw_only=True, tag_field="type", tag="answer"):
    """Its answer begins."""

    call: int
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    """Those that an agent reads; no others are kept."""


class AnswerPiece(_Line, frozen=True, kw_only=True, tag_field="type", tag="piece"):
    """A piece of the answer, decompressed; ``text`` or ``data``."""

    call: int
    text: str | UnsetType = UNSET
    data: bytes | UnsetType = UNSET
    """Base64, where it is no UTF-8."""

    @property
    def content(self) -> bytes:
        """The bytes."""
        if self.data is not UNSET:
            return self.data
        return self.text.encode() if self.text is not UNSET else b""


class AnswerEnd(_Line, frozen=True, kw_only=True, tag_field="type", tag="end"):
    """The call is over."""

    call: int
    reason: str | None = None
    """Why the answer did not arrive whole; None: it did."""


class CassetteEnd(_Line, frozen=True, kw_only=True, tag_field="type", tag="over"):
    """The last line."""

    calls: int
    transport: str | None = None
    agent_version: str | None = None
    masked: int = 0
    """Texts in which secrets were masked."""
    transcript: tuple[str, ...] = ()
    """What came of it, as lines."""
    sha256: str = ""
    """Of all bytes before this line, and of this line with an empty ``sha256``."""


CassetteLine: TypeAlias = (
    CassetteHead
    | RecordedPrompt
    | RequestText
    | TapedRequest
    | AnswerHead
    | AnswerPiece
    | AnswerEnd
    | CassetteEnd
)


class _CassetteVersion(Struct):
    """What every version of the first line says."""

    format: str = ""
    version: int = 0


_decoder: "msgspec.json.Decoder[CassetteLine]" = json_decoder(CassetteLine)
_encoder = msgspec.json.Encoder()


class CassetteWriter:
    """Writes a cassette beside its place; ``finish`` puts it there in one step. Blocks."""

    def __init__(self, path: Path) -> None:
        """Raises CassetteError: something else is there, or it cannot be written."""
        self.path = path
        self._hash = hashlib.sha256()
        if path.exists() and not is_cassette(path):
            raise CassetteError(
                f"{str(path)!r} is there and is no cassette: name another file for --record"
            )
        try:
            descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        except OSError as error:
            raise _unwritable(path, error) from error
        self._temporary = Path(name)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")

    def write(self, data: bytes) -> None:
        """Append encoded lines. Raises CassetteError."""
        self._hash.update(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def finish(self, end: CassetteEnd) -> None:
        """Write the last line and put the file at its place. Raises CassetteError."""
        try:
            self._file.write(encode_line(_seal(end, self._hash)))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._temporary.replace(self.path)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def discard(self) -> None:
        """Leave nothing; after ``finish`` this does nothing."""
        with suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)


def encode_line(line: Struct) -> bytes:
    """A line of the file."""
    return _encoder.encode(line) + b"\n"


def _seal(end: CassetteEnd, hashed: Any) -> CassetteEnd:
    whole = hashed.copy()
    whole.update(encode_line(msgspec.structs.replace(end, sha256="")))
    return msgspec.structs.replace(end, sha256=whole.hexdigest())


def _unwritable(path: Path, error: OSError) -> CassetteError:
    return CassetteError(f"cannot write the cassette {str(path)!r}: {error.strerror or error}")


def is_cassette(path: Path) -> bool:
    """Whether a file begins as a cassette does; blocks."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MARK)) == _MARK
    except (OSError, ValueError):
        return False


class RecordedCall:
    """A request of a cassette, with the places of its answer in the file."""

    def __init__(self, request: TapedRequest) -> None:
        self.request = request
        self.head: AnswerHead | None = None
        self.pieces: list[tuple[int, int]] = []
        """Position and length of each line."""
        self.end: AnswerEnd | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its answer was recorded to the end."""
        return self.head is not None and self.end is not None and self.end.reason is None


class Cassette:
    """A cassette that was read and checked; ``close`` it. Reading blocks."""

    def __init__(self, path: Path) -> None:
        """Raises CassetteError: it cannot be read, or is refused."""
        self.path = path
        self.head: CassetteHead
        self.end: CassetteEnd
        self.prompts: list[RecordedPrompt] = []
        self.calls: list[RecordedCall] = []
        self._texts: dict[str, tuple[int, int]] = {}
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CassetteError(f"cannot read {str(path)!r}: {error.strerror}") from error
        try:
            with os.fdopen(os.dup(self._file), "rb") as file:
                self._read(file)
        except OSError as error:
            self.close()
            raise CassetteError(f"cannot read {str(path)!r}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def read_text(self, id_: str) -> str | None:
        """A part of a request; None: it was too long to be kept."""
        place = self._texts.get(id_)
        line = self._read_line(place) if place is not None else None
        return line.text if isinstance(line, RequestText) else None

    def read_piece(self, place: tuple[int, int]) -> bytes:
        """A piece of an answer."""
        line = self._read_line(place)
        return line.content if isinstance(line, AnswerPiece) else b""

    def _read_line(self, place: tuple[int, int]) -> CassetteLine:
        return _decoder.decode(os.pread(self._file, place[1], place[0]))

    def _read(self, file: BinaryIO) -> None:
        hashed, position, end = hashlib.sha256(), 0, None
        for number, data in enumerate(_lines(file, self.path), 1):
            if end is not None:
                raise self._refuse("changed", "lines follow its end")
            line = self._decode(number, data)
            if isinstance(line, CassetteEnd):
                end = line
            else:
                self._take(number, line, (position, len(data)))
                hashed.update(data)
            position += len(data)
        if position == 0:
            raise self._refuse("not a cassette", "it is empty")
        if end is None:
            raise self._refuse("truncated", "its end is missing; record it again")
        if _seal(end, hashed).sha256 != end.sha256:
            raise self._refuse("changed", "its checksum does not fit; record it again")
        self.end = end

    def _decode(self, number: int, data: bytes) -> CassetteLine:
        if number == 1:
            self._check_head(data)
        if not data.endswith(b"\n"):
            raise self._refuse("truncated", f"line {number} is cut off; record it again")
        try:
            return _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._refuse("bad line", f"line {number}: {error}") from error

    def _check_head(self, data: bytes) -> None:
        try:
            found = decode_json(data, _CassetteVersion)
        except (msgspec.DecodeError, RecursionError):
            found = _CassetteVersion()
        if not data.startswith(_MARK) or found.format != FORMAT:
            raise self._refuse(
                "not a cassette", "`quarterdeck run -a AGENT --record FILE` makes one"
            )
        if found.version != VERSION:
            raise self._refuse(
                "newer version",
                f"it has version {found.version}, this program knows {VERSION}; update it",
            )

    def _take(self, number: int, line: CassetteLine, place: tuple[int, int]) -> None:
        match line:
            case CassetteHead() if number == 1:
                self.head = line
            case RecordedPrompt():
                self.prompts.append(line)
            case RequestText():
                self._texts[line.id] = place
            case TapedRequest() if line.call == len(self.calls) + 1:
                self.calls.append(RecordedCall(line))
            case AnswerHead() | AnswerPiece() | AnswerEnd() if 0 < line.call <= len(self.calls):
                self._take_answer(self.calls[line.call - 1], line, place)
            case _:
                raise self._refuse("bad line", f"line {number} is not where it may be")

    def _take_answer(
        self,
        call: RecordedCall,
        line: "AnswerHead | AnswerPiece | AnswerEnd",
        place: tuple[int, int],
    ) -> None:
        match line:
            case AnswerHead():
                call.head = line
            case AnswerPiece():
                call.pieces.append(place)
            case AnswerEnd():
                call.end = line

    def _refuse(self, refusal: CassetteRefusal, why: str) -> CassetteError:
        return CassetteError(f"{str(self.path)!r} is refused: {refusal}: {why}", refusal)


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    while data := file.readline(MOST_LINE + 1):
        if len(data) > MOST_LINE:
            raise CassetteError(
                f"{str(path)!r} is refused: bad line: one has more than {MOST_LINE} bytes",
                "bad line",
            )
        yield data
