"""What of a request to a model is compared: its parts, without what varies from run to run."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.redaction import mask_secrets, mask_values
from quarterdeck.wire.settings import VendorWire

from .file import PartKind

__all__ = ["PlainForm", "RequestPart", "split_request"]

_UNCOMPARED = frozenset(("cache_control",))
"""Fields that say nothing about the conversation."""
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_VARYING: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "{time}",
        re.compile(
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?"
            r"|\b\d{1,2}:\d\d:\d\d(?:\.\d+)?(?: ?[AP]M)?\b"
            rf"|\b(?:{_DAY},? )?{_MONTH} +\d{{1,2}}(?:,? +(?:\d{{4}}|\d{{1,2}}:\d\d))?\b"
            r"|\b\d{1,2}/\d{1,2}/\d{4}\b"
        ),
    ),
    (
        "{id}",
        re.compile(
            r"(?<![0-9A-Za-z])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
        ),
    ),
    (
        "{id}",
        re.compile(r"\b(?:ses|msg|prt|rs|fc|thread|turn|req|resp|tool)_[0-9A-Za-z]{12,}\b"),
    ),
    ("{id}", re.compile(r"\b[0-9a-f]{32,}\b")),
    ("{id}", re.compile(r"(?<=Chunk ID: )[0-9a-f]{6,}\b")),
    (
        "{duration}",
        re.compile(r"(?<![\w.])\d+(?:\.\d+)? ?(?:ms|s|secs?|seconds?|milliseconds?)\b"),
    ),
)


class PlainForm:
    """Takes out of texts what differs between two runs that are the same, and masks secrets.

    Directories become ``{cwd}`` and ``{home}``, dates and times ``{time}``, random ids ``{id}``,
    durations ``{duration}``.
    """

    def __init__(self, *, cwd: str, home: str, secrets: Mapping[str, str]) -> None:
        """Blocks: paths are resolved."""
        self.masked = 0
        """Texts in which something was masked."""
        self._secrets = dict(secrets)
        places: dict[str, str] = {}
        for path, name in ((home, "{home}"), (cwd, "{cwd}")):
            for one in {path, str(Path(path).resolve())} if len(path) > 1 else ():
                places[one] = name
                places[re.sub(r"[^A-Za-z0-9]", "-", one)] = name
        # The longest first: one place may lie in another.
        ordered = sorted(places, key=len, reverse=True)
        self._places = places
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def add_secrets(self, values: Iterable[str]) -> None:
        """Mask these too: keys that were seen in headers."""
        for value in values:
            if value not in self._secrets.values():
                # A new mapping: another thread may be reading the old one.
                self._secrets = {**self._secrets, f"KEY_{len(self._secrets)}": value}

    def mask(self, text: str) -> str:
        """The text with secrets masked, and as it is otherwise."""
        masked = mask_secrets(text, self._secrets)
        self.masked += masked != text
        return masked

    def mask_bytes(self, data: bytes) -> bytes:
        """Bytes that are no text, without the secrets whose values are known."""
        for value in self._secrets.values():
            data = data.replace(value.encode(), b"*")
        return data

    def mask_json(self, value: Any) -> Any:
        """A JSON value with secrets masked."""
        masked = mask_values(value, self._secrets)
        self.masked += masked != value
        return masked

    def text(self, text: str) -> str:
        """The text in the form that is compared."""
        text = self.mask(text)
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._places[found[0]], text)
        for name, pattern in _VARYING:
            text = pattern.sub(name, text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value in the form that is compared."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {name: self.value(one) for name, one in items if name not in _UNCOMPARED}
        if isinstance(value, list):
            return [self.value(one) for one in cast("list[Any]", value)]
        return value


class RequestPart(Struct, frozen=True, kw_only=True):
    """One part of a request."""

    kind: PartKind
    name: str
    text: str

    @property
    def id(self) -> str:
        """The same for the same text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_Found = list[tuple[PartKind, str, Any]]


def split_request(
    wire: VendorWire, path: str, body: bytes, form: PlainForm
) -> tuple[RequestPart, ...]:
    """The parts of a model call: model, system prompt, tools, messages; in this order.

    A body in another form is one part. Takes time in proportion to the body.
    """
    try:
        asked: Any = decode_json(body, Any)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        text = form.text(body.decode("utf-8", "replace"))
        return (RequestPart(kind="body", name="", text=text),)
    fields = cast("dict[str, Any]", asked)
    model = str(fields.get("model") or path.partition("?")[0])
    is_streamed = fields.get("stream") is True or "stream" in path
    found: _Found = [("model", model, f"{model}, streamed" if is_streamed else model)]
    found += _SPLITTERS[wire](fields)
    return tuple(
        RequestPart(kind=kind, name=name, text=_to_text(form.value(value)))
        for kind, name, value in found
    )


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _field(value: Any, *names: str) -> str:
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return next((one for name in names if isinstance(one := fields.get(name), str)), "")


def _system(value: Any) -> _Found:
    return [("system", "", value)] if value else []


def _split_anthropic(asked: dict[str, Any]) -> _Found:
    tools: _Found = [
        ("tool", _field(one, "name", "type"), one) for one in _items(asked.get("tools"))
    ]
    messages: _Found = [("message", _field(m, "role"), m) for m in _items(asked.get("messages"))]
    return [*_system(asked.get("system")), *tools, *messages]


def _split_responses(asked: dict[str, Any]) -> _Found:
    tools: _Found = [
        ("tool", _field(one, "name", "type"), one) for one in _items(asked.get("tools"))
    ]
    given = asked.get("input")
    items = [given] if isinstance(given, str) else _items(given)
    messages: _Found = [("message", _field(one, "role", "type"), one) for one in items]
    return [*_system(asked.get("instructions")), *tools, *messages]


def _split_chat(asked: dict[str, Any]) -> _Found:
    tools: _Found = [
        ("tool", _field(cast("dict[str, Any]", one).get("function"), "name"), one)
        for one in _items(asked.get("tools"))
        if isinstance(one, dict)
    ]
    messages: _Found = [("message", _field(m, "role"), m) for m in _items(asked.get("messages"))]
    return [*tools, *messages]


def _split_google(asked: dict[str, Any]) -> _Found:
    tools: _Found = [
        ("tool", _field(one, "name"), one)
        for group in _items(asked.get("tools"))
        if isinstance(group, dict)
        for one in _items(cast("dict[str, Any]", group).get("functionDeclarations"))
    ]
    messages: _Found = [("message", _field(m, "role"), m) for m in _items(asked.get("contents"))]
    return [*_system(asked.get("systemInstruction")), *tools, *messages]


_SPLITTERS: dict[VendorWire, Callable[[dict[str, Any]], _Found]] = {
    "anthropic": _split_anthropic,
    "openai": _split_responses,
    "openai-chat": _split_chat,
    "google": _split_google,
}
