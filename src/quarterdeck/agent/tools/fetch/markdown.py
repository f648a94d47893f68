"""HTML as Markdown: headings, links, lists, code, quotes, tables; no scripts, no styles."""

import re
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import urljoin

from .tokens import Close, Open, Text, tokens
from .writer import Writer

__all__ = ["to_markdown"]

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
    for token in tokens(text):
        match token:
            case Text():
                converter.text(token.text)
            case Open():
                converter.open(token.name, token.attributes)
            case Close():
                converter.close(token.name)
    return converter.finished()


class _Converter:
    """What is open while a page is read."""

    def __init__(self, base: str, is_plain: bool) -> None:
        self._base = base
        self._is_plain = is_plain
        self._writer = Writer()
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
