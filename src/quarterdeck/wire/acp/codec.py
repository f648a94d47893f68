"""From bytes to the types of ``schema`` and back, as lenient as the schema tells a reader to be."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import DecodeError, Raw, ValidationError
from msgspec.json import Decoder, Encoder

from ..values import AcpValue
from .schema import SessionNotification, UnknownUpdate

__all__ = ["PROTOCOL_VERSION", "decode", "decode_update", "encode", "negotiate"]

PROTOCOL_VERSION = 1
"""The newest version of the protocol that we speak."""

T = TypeVar("T")

_decoders: dict[Any, Decoder[Any]] = {}
_encoder = Encoder()
_read_update: Callable[[bytes | Raw], SessionNotification] | None = None


class _Envelope(AcpValue, frozen=True, kw_only=True):
    """A ``session/update`` whose update is not looked into."""

    session_id: str
    update: Raw


class _Tag(AcpValue, frozen=True, kw_only=True):
    session_update: str


def negotiate(requested: int) -> int:
    """Return the version that an agent answers to a client's ``initialize``.

    It is the requested one if we speak it, else the newest of ours; the client decides whether
    it can go on. A version that we do not speak is never echoed.
    """
    return min(requested, PROTOCOL_VERSION) if requested > 0 else PROTOCOL_VERSION


def decode(type: type[T], raw: bytes | Raw | None) -> T:
    """Read parameters or a result.

    Absent parameters and null count as an empty object: peers write an empty result that way.
    A wrong value becomes its default where the schema forgives it; a wrong item of a list is
    left out where the schema lets a reader skip it.

    Raises:
        ValidationError: The value is no ``type``, however leniently one reads it.
        DecodeError: It is no JSON.
    """
    decoder = _decoders.get(type)
    if decoder is None:
        decoder = _decoders[type] = Decoder(type)
    try:
        return decoder.decode(b"{}" if raw is None else raw)
    except ValidationError:
        from .lenient_decoder import decode_leniently  # late: only a peer with mistakes needs it

        return decode_leniently(type, b"{}" if raw is None else raw)


def decode_update(raw: bytes | Raw | None) -> SessionNotification:
    """Read a ``session/update``; an update that cannot be read comes as an ``UnknownUpdate``.

    Raises:
        ValidationError: There is no session or no update in it.
        DecodeError: It is no JSON.
    """
    # The hot path of every client: the decoder itself, without the way through ``decode``.
    global _read_update
    if _read_update is None:
        _read_update = Decoder(SessionNotification).decode
    try:
        return _read_update(raw or b"{}")
    except ValidationError:
        pass
    try:
        return decode(SessionNotification, raw)
    except ValidationError:  # a new kind of update, or one that cannot be mended
        envelope = decode(_Envelope, raw)
    return SessionNotification(
        session_id=envelope.session_id,
        update=UnknownUpdate(kind=_kind(envelope.update), raw=envelope.update.copy()),
        meta=envelope.meta,
    )


def encode(value: Any) -> bytes:
    """Write a value as JSON; a field that has its default value is left out."""
    return _encoder.encode(value)


def _kind(update: Raw) -> str:
    try:
        return decode(_Tag, update).session_update
    except DecodeError:
        return ""
