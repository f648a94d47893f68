"""HTML as Markdown: headings, links, lists, code, quotes, tables; no scripts, no styles.

The parser of the standard library takes minutes for some kilobytes of hostile text (Python 3.11)
and blocks every thread meanwhile. Markdown needs less than a parser: text, tags, attributes.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urljoin

__all__ = [
    "EndTag",
    "HtmlText",
    "HtmlToken",
    "PageWriter",
    "StartTag",
    "to_markdown",
    "tokenize_html",
]

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


_DEEPEST = 16
"""Levels of quotes and lists that are drawn; hostile pages nest thousands."""
_MOST_OPEN = 32


class _Frame:
    """A block that is open: what stands before its first line and before its other lines."""

    __slots__ = ("first", "name", "rest")

    def __init__(self, name: str, first: str, rest: str) -> None:
        self.name = name
        self.first = first
        self.rest = rest


class _Mark:
    """Something inline that is open; it is written when there is text in it."""

    __slots__ = ("end", "is_written", "name", "start")

    def __init__(self, name: str, start: str, end: str) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.is_written = False


class PageWriter:
    """Collects the text of a page."""

    def __init__(self) -> None:
        self.is_inline = False
        """Gaps are spaces now: a table's cell has one line."""
        self._parts: list[str] = []
        self._frames: list[_Frame] = []
        self._marks: list[_Mark] = []
        self._gap = 0
        self._at_start = True
        self._owes_space = False

    def write(self, text: str) -> None:
        """Write a piece of a line; spaces at the beginning of a line are left out."""
        stripped = text.strip(" ")
        if not stripped:
            self._owes_space = self._owes_space or bool(text)
            return
        if self._gap or not self._parts:
            self._break()
        elif (self._owes_space or text.startswith(" ")) and not self._at_start:
            self._parts.append(" ")
        for mark in self._marks:
            if not mark.is_written:
                mark.is_written = True
                self._parts.append(mark.start)
        self._parts.append(stripped)
        self._at_start = False
        self._owes_space = text.endswith(" ")

    def lines(self, lines: Iterable[str]) -> None:
        """Write whole lines as they are."""
        for line in lines:
            self._break(at_least=1)
            self._parts.append(line)
            self._at_start = False
        self._owes_space = False

    def gap(self, newlines: int) -> None:
        """End the line, and with 2 leave one empty; several gaps in a row are the largest."""
        if self.is_inline:
            self._owes_space = True
        else:
            self._gap = max(self._gap, newlines)

    def enter(self, name: str, first: str, rest: str) -> None:
        """Put ``first`` before the next line and ``rest`` before the following ones."""
        if len(self._frames) >= _MOST_OPEN:
            return
        drawn = sum(bool(frame.rest) for frame in self._frames)
        shown = drawn < _DEEPEST
        self._frames.append(_Frame(name, first if shown else "", rest if shown else ""))

    def leave(self, name: str, within: tuple[str, ...] = ()) -> None:
        """End the innermost ``name`` with all in it, unless one of ``within`` is further in."""
        for index in range(len(self._frames) - 1, -1, -1):
            if self._frames[index].name == name:
                del self._frames[index:]
                return
            if self._frames[index].name in within:
                return

    def mark(self, name: str, start: str, end: str) -> None:
        """Begin something inline."""
        if len(self._marks) < _DEEPEST:
            self._marks.append(_Mark(name, start, end))

    def unmark(self, name: str) -> None:
        """End the innermost ``name``, with what was begun in it."""
        if not any(mark.name == name for mark in self._marks):
            return
        while self._marks:
            mark = self._marks.pop()
            if mark.is_written:
                self._parts.append(mark.end)
            if mark.name == name:
                return

    def finished(self) -> str:
        """Everything, with marks closed."""
        while self._marks:
            self.unmark(self._marks[-1].name)
        return "".join(self._parts).strip()

    def _break(self, at_least: int = 0) -> None:
        """Go to the next line, if one is due, and write its prefix."""
        newlines = max(self._gap, at_least) if self._parts else 0
        if newlines > 1:
            blank = "".join(frame.rest for frame in self._frames if not frame.first).rstrip()
            self._parts.append("\n" + blank)
        if newlines:
            self._parts.append("\n")
        for frame in self._frames:
            self._parts.append(frame.first or frame.rest)
            frame.first = ""
        self._gap = 0
        self._owes_space = False
        self._at_start = True


_Attributes: TypeAlias = Mapping[str, str]

_SILENT = frozenset(
    ("script", "style", "template", "svg", "iframe", "noframes", "object", "canvas", "math")
)
_PARAGRAPHS = frozenset(
    (
        *("p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "figure"),
        *("figcaption", "form", "fieldset", "address", "details", "summary", "dl", "center"),
    )
)
_LINES = frozenset(("dt", "dd", "option", "caption", "legend"))
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`", "del": "~~", "s": "~~"}
_SPACES = re.compile(r"\s+")
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source)-([\w+#.-]{1,30})")


def to_markdown(text: str, *, base: str = "", is_plain: bool = False) -> str:
    """Convert a page. ``base`` makes its links whole; plain text has no links and marks.

    Never raises; takes time linear in the length of the page.
    """
    converter = _Converter(base, is_plain)
    for token in tokenize_html(text):
        match token:
            case HtmlText():
                converter.text(token.text)
            case StartTag():
                converter.open(token.name, token.attributes)
            case EndTag():
                converter.close(token.name)
    return converter.finished()


class _Converter:
    """What is open while a page is read."""

    def __init__(self, base: str, is_plain: bool) -> None:
        self._base = base
        self._is_plain = is_plain
        self._writer = PageWriter()
        self._title = ""
        self._silent = ""
        """The element that is left out, with all in it."""
        self._silent_depth = 0
        self._in_title = False
        self._pre: list[str] | None = None
        self._language = ""
        self._lists: list[int | None] = []
        """For each open list the number of its next item; None: it has no numbers."""
        self._cells = 0
        self._rows = 0

    def text(self, text: str) -> None:
        if self._silent:
            return
        if self._in_title:
            self._title = self._title or _SPACES.sub(" ", text).strip()
        elif self._pre is not None:
            self._pre.append(text)
        else:
            self._writer.write(_SPACES.sub(" ", text))

    def finished(self) -> str:
        if self._pre is not None:
            self._end_pre()
        text = self._writer.finished()
        if self._title and self._title not in text[:200]:
            head = self._title if self._is_plain else f"# {self._title}"
            text = f"{head}\n\n{text}".rstrip()
        return text

    def open(self, name: str, attributes: _Attributes) -> None:
        if self._silent:
            self._silent_depth += name == self._silent
        elif name in _SILENT:
            self._silent, self._silent_depth = name, 1
        elif name == "title":
            self._in_title = True
        elif self._pre is not None:
            self._inside_pre(name, attributes)
        elif not self._open_block(name, attributes):
            self._open_inline(name, attributes)

    def close(self, name: str) -> None:
        if self._silent:
            self._silent_depth -= name == self._silent
            if not self._silent_depth:
                self._silent = ""
        elif name == "title":
            self._in_title = False
        elif self._pre is not None:
            if name == "pre":
                self._end_pre()
        elif not self._close_block(name):
            self._close_inline(name)

    def _open_block(self, name: str, attributes: _Attributes) -> bool:
        writer = self._writer
        if name in _PARAGRAPHS:
            writer.gap(2)
        elif name in _LINES:
            writer.gap(1)
        elif name in _HEADINGS:
            writer.gap(2)
            writer.enter(name, "" if self._is_plain else _HEADINGS[name], "")
        elif name in ("ul", "ol", "menu"):
            self._open_list(name, attributes)
        elif name == "li":
            self._open_item()
        elif name == "blockquote":
            writer.gap(2)
            writer.enter(name, "> ", "> ")
        elif name == "pre":
            self._pre, self._language = [], _language_of(attributes)
        elif name in ("table", "tr", "td", "th"):
            self._open_table_part(name)
        else:
            return False
        return True

    def _close_block(self, name: str) -> bool:
        writer = self._writer
        if name in _PARAGRAPHS:
            writer.gap(2)
        elif name in _LINES:
            writer.gap(1)
        elif name in _HEADINGS or name == "blockquote":
            writer.leave(name)
            writer.gap(2)
        elif name in ("ul", "ol", "menu"):
            if self._lists:
                self._lists.pop()
            writer.leave(name)
            writer.gap(1 if self._lists else 2)
        elif name == "li":
            writer.leave(name, within=("ul", "ol", "menu"))
            writer.gap(1)
        elif name in ("table", "tr", "td", "th"):
            self._close_table_part(name)
        else:
            return False
        return True

    def _open_inline(self, name: str, attributes: _Attributes) -> None:
        if name == "br":
            self._writer.gap(1)
        elif name == "hr":
            self._writer.gap(2)
            self._writer.write("---")
            self._writer.gap(2)
        elif name == "img":
            self._image(attributes)
        elif name == "a" and not self._is_plain:
            if target := self._address(attributes.get("href", "")):
                self._writer.mark("a", "[", f"]({target})")
        elif name in _MARKS and not self._is_plain:
            self._writer.mark(name, _MARKS[name], _MARKS[name])

    def _close_inline(self, name: str) -> None:
        if name == "a" or name in _MARKS:
            self._writer.unmark(name)

    def _open_list(self, name: str, attributes: _Attributes) -> None:
        self._writer.gap(1 if self._lists else 2)
        self._writer.enter(name, "", "")
        start = attributes.get("start", "")
        first = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 1
        self._lists.append(first if name == "ol" else None)

    def _open_item(self) -> None:
        self._writer.leave("li", within=("ul", "ol", "menu"))
        self._writer.gap(1)
        marker = "- "
        if self._lists and (number := self._lists[-1]) is not None:
            marker = f"{number}. "
            self._lists[-1] = number + 1
        self._writer.enter("li", marker, " " * len(marker))

    def _open_table_part(self, name: str) -> None:
        writer = self._writer
        if name == "table":
            writer.gap(2)
            self._rows = 0
        elif name == "tr":
            writer.is_inline = False
            writer.gap(1)
            self._cells = 0
        else:
            writer.is_inline = False
            writer.write(" | ")
            writer.is_inline = True
            self._cells += 1

    def _close_table_part(self, name: str) -> None:
        writer = self._writer
        writer.is_inline = False
        if name == "table":
            writer.gap(2)
        elif name == "tr":
            self._end_row()
        else:
            writer.write(" ")

    def _end_row(self) -> None:
        if not self._cells:
            return
        self._writer.write(" |")
        self._rows += 1
        if self._rows == 1 and not self._is_plain:
            self._writer.gap(1)
            self._writer.write("|" + " --- |" * min(self._cells, 1000))
        self._writer.gap(1)
        self._cells = 0

    def _inside_pre(self, name: str, attributes: _Attributes) -> None:
        if name == "br" and self._pre is not None:
            self._pre.append("\n")
        elif name == "code":
            self._language = self._language or _language_of(attributes)

    def _end_pre(self) -> None:
        code = "".join(self._pre or ()).strip("\n").expandtabs(4)
        self._pre = None
        if not code.strip():
            return
        if self._writer.is_inline:
            self._writer.write(_SPACES.sub(" ", code))
            return
        fence = "```"
        while fence in code and len(fence) < 20:
            fence += "`"
        lines = code.splitlines()
        if not self._is_plain:
            lines = [fence + self._language, *lines, fence]
        self._writer.gap(2)
        self._writer.lines(lines)
        self._writer.gap(2)

    def _image(self, attributes: _Attributes) -> None:
        words = _SPACES.sub(" ", attributes.get("alt", "")).strip()
        if not words:
            return
        address = self._address(attributes.get("src", ""))
        linked = address and not self._is_plain
        self._writer.write(f"![{words}]({address})" if linked else words)

    def _address(self, reference: str) -> str:
        """The whole address of a link; empty when it leads nowhere useful."""
        reference = reference.strip()
        if not reference or reference.startswith("#"):
            return ""
        try:
            address = urljoin(self._base, reference) if self._base else reference
        except ValueError:
            return ""
        if address.lower().startswith(("javascript:", "data:", "vbscript:")):
            return ""
        return _SPACES.sub("%20", address).replace("(", "%28").replace(")", "%29")


def _language_of(attributes: _Attributes) -> str:
    found = _LANGUAGE.search(attributes.get("class", ""))
    return found[1] if found else ""
