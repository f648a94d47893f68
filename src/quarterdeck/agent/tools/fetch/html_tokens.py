"""HTML taken apart in linear time, whatever it holds.

The parser of the standard library takes minutes for some kilobytes of hostile text (Python 3.11)
and blocks every thread meanwhile. Markdown needs less than a parser: text, tags, attributes.
"""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["EndTag", "HtmlText", "HtmlToken", "StartTag", "tokenize_html"]

_LONGEST_TAG = 20_000
_NAME = re.compile(r"[a-zA-Z][^\s/>]{0,100}")
_TAG_MARK = re.compile(r"[>\"']")
_ATTRIBUTE = re.compile(r"([^\s\"'<>/=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'=<>`]+)))?")
_RAW = {
    name: re.compile(f"</{name}", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "iframe", "xmp", "noframes")
}
"""Elements whose content is text up to their end tag, whatever it looks like."""


@dataclass(frozen=True, slots=True)
class HtmlText:
    """Text, entities replaced."""

    text: str


@dataclass(frozen=True, slots=True)
class StartTag:
    """A start tag; names are in lower case."""

    name: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EndTag:
    """An end tag."""

    name: str


HtmlToken: TypeAlias = HtmlText | StartTag | EndTag


def tokenize_html(text: str) -> Iterator[HtmlToken]:
    """The text and the tags in order; comments and declarations are left out. Never raises."""
    position = 0
    while (start := text.find("<", position)) >= 0:
        if start > position:
            yield HtmlText(_unescaped(text[position:start]))
        found, position = _next(text, start)
        yield from found
    if position < len(text):
        yield HtmlText(_unescaped(text[position:]))


def _next(text: str, start: int) -> tuple[tuple[HtmlToken, ...], int]:
    """What begins with the ``<`` at ``start``, and where to go on."""
    if text.startswith("<!--", start):
        return (), _after(text, "-->", start + 4)
    if text.startswith(("<!", "<?"), start):
        return (), _after(text, ">", start + 2)
    is_closing = text.startswith("</", start)
    name = _NAME.match(text, start + 1 + is_closing)
    if name is None and not is_closing:
        return (HtmlText("<"),), start + 1
    end = _tag_end(text, start)
    if end < 0:
        return (), len(text)
    if name is None:
        return (), end + 1
    if is_closing:
        return (EndTag(name[0].lower()),), end + 1
    tag = StartTag(name[0].lower(), _attributes(text, name.end(), end))
    if tag.name not in _RAW:
        return (tag,), end + 1
    closing = _RAW[tag.name].search(text, end)
    stop = closing.start() if closing else len(text)
    return (tag, HtmlText(_unescaped(text[end + 1 : stop]))), stop


def _after(text: str, mark: str, start: int) -> int:
    found = text.find(mark, start)
    return len(text) if found < 0 else found + len(mark)


def _tag_end(text: str, start: int) -> int:
    """Where the tag's ``>`` is: the first outside of quotes; -1 when there is none."""
    limit = start + _LONGEST_TAG
    position = start
    while found := _TAG_MARK.search(text, position, limit):
        if found[0] == ">":
            return found.start()
        end = text.find(found[0], found.end(), limit)
        if end < 0:
            break
        position = end + 1
    return text.find(">", start)


def _attributes(text: str, start: int, end: int) -> Mapping[str, str]:
    if end - start < 3 or end - start > _LONGEST_TAG:
        return {}
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text, start, end):
        name, *values = match.groups(default="")
        found.setdefault(name.lower(), _unescaped("".join(values)))
    return found


def _unescaped(text: str) -> str:
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a number of thousands of digits
        return text
