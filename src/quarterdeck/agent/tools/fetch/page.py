"""What a server sent, as text."""

import codecs
import re
from dataclasses import dataclass
from typing import Literal

from ..tool import ToolError
from .markdown import to_markdown

__all__ = ["FetchedPage", "check_type", "decoded", "readable"]

_TEXT_TYPES = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-ndjson"
    r"|x-sh|sql|graphql|typescript|x-httpd-php|ld\+json)|image/svg\+xml|message/.+"
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """An answer with its body, or the beginning of it."""

    url: str
    status: int
    type: str
    """The ``Content-Type`` as it came; may be empty."""
    data: bytes
    is_cut: bool = False
    length: int | None = None
    """Bytes of the whole body, where the server said so."""

    @property
    def is_html(self) -> bool:
        """Whether it is HTML, by its type or, without one, by its first characters."""
        kind = _kind(self.type)
        if kind:
            return kind in ("text/html", "application/xhtml+xml")
        return self.data.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html"))


def check_type(content_type: str, size: int | None) -> None:
    """Refuse what is not text, before its body is read.

    Raises:
        ToolError: The type is another; the text says which and how large the body is.
    """
    kind = _kind(content_type)
    if kind and not _TEXT_TYPES.fullmatch(kind) and kind != "application/xhtml+xml":
        length = "of unknown size" if size is None else f"of {size} bytes"
        raise ToolError(
            f"The page is {kind!r} {length}, not text. Download it with a command if you need it."
        )


def readable(page: FetchedPage, format: Literal["markdown", "text", "html"]) -> str:
    """The page as text in a format. Works long on large pages: call it in a thread.

    Raises:
        ToolError: It has no type and looks binary.
    """
    if not page.type and b"\0" in page.data[:4096]:
        raise ToolError(f"The page has no type and is not text ({len(page.data)} bytes).")
    text = decoded(page)
    if format == "html" or not page.is_html:
        return text
    return to_markdown(text, base=page.url, is_plain=format == "text")


def decoded(page: FetchedPage) -> str:
    """The body as text: by its mark, its header, its ``meta`` tag, or as UTF-8. Never raises."""
    for mark, name in _MARKS:
        if page.data.startswith(mark):
            return _decode(page.data[len(mark) :], name, page.is_cut)
    names = [found[1] for found in [_CHARSET.search(page.type)] if found]
    if page.is_html:
        names += [
            found[1].decode("ascii", "replace")
            for found in [_META.search(page.data[:4096])]
            if found
        ]
    for name in names:
        if (known := _known(name)) is not None:
            return _decode(page.data, known, page.is_cut)
    return _decode(page.data, "utf-8", page.is_cut)


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _known(name: str) -> str | None:
    """The codec of a web page's charset; browsers read Latin-1 as Windows-1252."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    if not getattr(codec, "_is_text_encoding", True):
        return None
    return "cp1252" if codec.name in ("iso8859-1", "ascii") else codec.name


def _decode(data: bytes, name: str, is_cut: bool) -> str:
    """Decode; a character that the cut went through is left out."""
    try:
        return codecs.getincrementaldecoder(name)("replace").decode(data, not is_cut)
    except (LookupError, TypeError, ValueError):  # a codec that has no incremental form
        return data.decode("utf-8", "replace")
