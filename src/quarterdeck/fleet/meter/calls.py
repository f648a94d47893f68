"""Which request is a model call, what it asks for, and a refusal in the words of its vendor."""

import re
import secrets
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.models.answer_usage import READABLE_CODINGS
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.settings import VendorWire

from .api import MeteredRequest

__all__ = [
    "OwnAnswer",
    "describe_call",
    "find_wire",
    "measure_text",
    "narrow_codings",
    "refuse_call",
]

_ENDINGS: tuple[tuple[str, VendorWire], ...] = (
    ("/messages", "anthropic"),
    ("/chat/completions", "openai-chat"),
    ("/responses", "openai"),
    ("/responses/compact", "openai"),
    (":generateContent", "google"),
    (":streamGenerateContent", "google"),
)
_GOOGLE_MODEL = re.compile(r"/models/([^/:?]+):")
_MOST_NAME = 200
_DATA = (b'"data"', b";base64,")
"""Behind these stands a picture or a document, in each of the four formats."""
_LONG_BODY = 64 * 1024
_LONG_DATA = 16 * 1024
_DATA_SIZE = 8 * 1024
"""What such data counts as: a picture has some 1,500 tokens, however many bytes."""

Fault: TypeAlias = Literal["refused", "unreachable", "too-large"]
_STATUS: dict[Fault, int] = {"refused": 400, "unreachable": 502, "too-large": 413}
_ANTHROPIC: dict[Fault, str] = {
    "refused": "billing_error",
    "unreachable": "api_error",
    "too-large": "request_too_large",
}
_OPENAI: dict[Fault, str] = {
    "refused": "insufficient_quota",
    "unreachable": "server_error",
    "too-large": "invalid_request_error",
}
_GOOGLE: dict[Fault, str] = {
    "refused": "FAILED_PRECONDITION",
    "unreachable": "UNAVAILABLE",
    "too-large": "INVALID_ARGUMENT",
}


def find_wire(method: str, path: str) -> VendorWire | None:
    """The form of a model call by its path, without the query; None: it is no model call."""
    if method != "POST":
        return None
    path = path.rstrip("/")
    return next((wire for ending, wire in _ENDINGS if path.endswith(ending)), None)


class _Generation(Struct, rename="camel"):
    max_output_tokens: int | None = None


class _Asked(Struct):
    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    generation_config: _Generation | None = msgspec.field(default=None, name="generationConfig")

    @property
    def longest(self) -> int | None:
        """Of the answer, in tokens."""
        of_google = self.generation_config.max_output_tokens if self.generation_config else None
        figures = (self.max_tokens, self.max_completion_tokens, self.max_output_tokens, of_google)
        return next((one for one in figures if one is not None and one > 0), None)


def describe_call(wire: VendorWire, path: str, body: bytes) -> MeteredRequest:
    """What a call asks for. A body that is no JSON is the vendor's to refuse."""
    try:
        asked = decode_json(body, _Asked)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        asked = _Asked()
    model = asked.model
    if wire == "google" and (found := _GOOGLE_MODEL.search(path)):
        model = found[1]
    return MeteredRequest(
        call=f"mtr_{secrets.token_hex(8)}",
        wire=wire,
        model=model[:_MOST_NAME] if model else None,
        size=measure_text(body),
        max_output=asked.longest,
    )


def measure_text(body: bytes) -> int:
    """The bytes of a body, without those by which pictures are longer than their tokens are."""
    size = len(body)
    if size < _LONG_BODY:
        return size
    for mark in _DATA:
        at = body.find(mark)
        while at >= 0:
            # Behind a field's name and its colon, or at once.
            begin = at + len(mark) if mark[:1] == b";" else body.find(b'"', at + len(mark)) + 1
            end = body.find(b'"', begin) if begin else -1
            if end < 0:
                break
            if end - begin >= _LONG_DATA and b" " not in body[begin : begin + _LONG_DATA]:
                size -= end - begin - _DATA_SIZE
            at = body.find(mark, end)
    return size


def narrow_codings(value: bytes) -> bytes:
    """``Accept-Encoding`` without the codings that we could not read."""
    offered = [one.strip() for one in value.decode("latin-1").split(",")]
    kept = [one for one in offered if one.partition(";")[0].strip().lower() in READABLE_CODINGS]
    return ", ".join(kept or ("identity",)).encode("latin-1")


class OwnAnswer(Struct, frozen=True):
    """An answer of the meter itself."""

    status: int
    body: bytes

    def headers(self) -> list[tuple[str, str]]:
        """Its headers; clients of two vendors read from one of them that asking again is vain."""
        fields = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(self.body))),
            ("Connection", "close"),
        ]
        if self.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            fields.append(("x-should-retry", "false"))
        return fields


def refuse_call(wire: VendorWire | None, reason: str, fault: Fault = "refused") -> OwnAnswer:
    """An error as the vendor would send it, so that the agent shows the reason."""
    status = _STATUS[fault]
    if wire in ("anthropic", "openai-chat") and fault == "refused":
        status = 402  # after 400 Claude Code and Goose ask several times more
    error: dict[str, Any]
    match wire:
        case "anthropic":
            error = {"type": "error", "error": {"type": _ANTHROPIC[fault], "message": reason}}
        case "google":
            error = {"error": {"code": status, "message": reason, "status": _GOOGLE[fault]}}
        case _:
            kind = _OPENAI[fault]
            error = {"error": {"message": reason, "type": kind, "param": None, "code": kind}}
    return OwnAnswer(status, msgspec.json.encode(error))
