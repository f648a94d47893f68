"""The Markdown viewer: a page, its links, and the way back."""

import asyncio
import os
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from urllib.parse import unquote

from textual.binding import Binding, BindingType

from quarterdeck.wire.terminal_text import count_noun

from ..rendering.lines import Line, text_of
from ..sanitize import sanitize_line, sanitize_text
from .components import PagePanel, empty_lines, problem_lines
from .file.model import FilePanelReadError, FileReader
from .panel import Panel, PanelOptions
from .paths import format_path, safe_path

__all__ = ["MarkdownLink", "MarkdownOptions", "MarkdownPanel", "find_links", "resolve_link"]

_MOST = 2_000


@dataclass(frozen=True, slots=True)
class MarkdownLink:
    """A link: what it is called, and its target as it is written."""

    text: str
    target: str


def find_links(source: str) -> list[MarkdownLink]:
    """Every link in order; pictures are none. The source must be literal already."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    found: list[MarkdownLink] = []
    for block in parser.parse(source):
        inside: list[str] | None = None
        target = ""
        for token in block.children or ():
            if token.type == "link_open":
                inside, target = [], str(token.attrs.get("href", ""))
            elif token.type == "link_close" and inside is not None:
                found.append(MarkdownLink("".join(inside), target))
                inside = None
                if len(found) >= _MOST:
                    return found
            elif inside is not None:
                inside.append(token.content)
    return found


def resolve_link(page: str, target: str) -> str | None:
    """The file that a link of a page leads to, absolute; None: it leads elsewhere."""
    path = unquote(target.partition("#")[0].partition("?")[0])
    if not path or "\0" in path or "://" in target or target.startswith(("mailto:", "//")):
        return None
    if path.partition(":")[0].isalpha() and ":" in path.partition("/")[0]:
        return None
    return os.path.normpath(os.path.join(os.path.dirname(page), path))  # noqa: PTH118, PTH120


_MOST_BACK = 100


class MarkdownOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a Markdown viewer can be given."""

    path: str | None = None


class MarkdownPanel(PagePanel):
    """Shows a Markdown file; only its structure has any effect."""

    options_type: ClassVar[type[PanelOptions]] = MarkdownOptions
    KIND: ClassVar[str] = "markdown"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,right_square_bracket", "link(1)", "next link"),
        Binding("p,left_square_bracket", "link(-1)", "previous link"),
        Binding("enter", "open", "open the link"),
        Binding("b,backspace", "back", "back"),
        Binding("e", "hand_on('edit')", "edit"),
        Binding("r", "reload", "reload"),
    ]

    def __init__(self, context: Any, options: MarkdownOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.links: list[MarkdownLink] = []
        self.at: int | None = None
        """The link that is chosen."""
        self._source: str | None = None
        self._is_cut = False
        self._back: list[tuple[str, float]] = []

    @property
    def has_content(self) -> bool:
        """See ``PagePanel``."""
        return self._source is not None

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        self.options = options
        path = self.absolute(options.path)
        if path is not None and path != self.path:
            self._go(path)
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        back = [path for path, _ in self._back if safe_path(path)][-10:]
        scroll = self.page.scroll_offset.y if self.is_mounted else 0
        return {"path": safe_path(self.path), "scroll": scroll, "back": back}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        path, scroll, back = state.get("path"), state.get("scroll"), state.get("back")
        if isinstance(path, str):
            self.path = path
        if isinstance(scroll, int):
            self._scroll = scroll
        if isinstance(back, list):
            paths = [one for one in cast("list[Any]", back) if isinstance(one, str)]
            self._back = [(one, 0.0) for one in paths[-_MOST_BACK:]]

    async def look(self) -> None:
        """Read the file if it is another now."""
        path = self.path
        if path is None:
            self.update()
            return
        reader = FileReader(path)
        try:
            identity = (path, await asyncio.to_thread(reader.look))
            is_same = identity == self._identity
            found = None if is_same else await asyncio.to_thread(_read, reader)
        except FilePanelReadError as error:
            if path == self.path and self._problem != error.reason:
                self._problem, self._identity = error.reason, None
                self.update()
            return
        if path != self.path or (found is None and self._problem is None):
            return
        self._problem = None
        if found is not None:
            self._source, self.links, self._is_cut = found
            self._identity = identity
        self.update()

    def action_link(self, step: int) -> None:
        """Choose the next link, or the one before."""
        if self.links:
            self.at = 0 if self.at is None else (self.at + step) % len(self.links)
            self._reveal(self.links[self.at])
            self.show_head()

    def action_open(self) -> None:
        """Open the chosen link: another page here, other files in their own panel."""
        if self.at is None or self.path is None:
            self.action_link(1)
            return
        target = resolve_link(self.path, self.links[self.at].target)
        if target is None:
            self.notify("external links are not opened", markup=False)
        elif target.lower().endswith((".md", ".markdown", ".mdx")):
            if target != self.path:
                self._back = [*self._back, (self.path, self.page.scroll_y)][-_MOST_BACK:]
                self._go(target)
        else:
            self.post_message(Panel.FileWanted(target))

    def action_back(self) -> None:
        """Show the page from which this one was opened."""
        if self._back:
            path, scroll = self._back.pop()
            self._go(path, scroll)

    def action_hand_on(self, how: Any) -> None:
        """Edit the file."""
        if self.path is not None:
            self.post_message(Panel.FileWanted(self.path, None, how))

    def _go(self, path: str, scroll: float = 0.0) -> None:
        self.path, self._scroll = path, scroll
        self._source, self._problem, self.links, self.at = None, None, [], None
        self.post_message(Panel.Renamed(self))
        self.update()
        self.look_now()

    def lines(self, width: int) -> list[Line]:
        """See ``PagePanel``."""
        from ..rendering.markdown import markdown_lines

        if self.path is None:
            hints = [("/open markdown path=PATH", "opens one")]
            return empty_lines("No Markdown file is open.", hints, width)
        if self._source is None:
            problem = f"cannot show {self.path!r}: {self._problem}."
            return problem_lines(problem, width) if self._problem else []
        lines = markdown_lines(self._source, max(10, width))
        if self._is_cut:
            lines = [*lines, (("… truncated; view it as a file to see the rest", "faint"),)]
        return lines

    def _reveal(self, link: MarkdownLink) -> None:
        for wanted in (sanitize_text(link.target), link.text.split("\n")[0][:20]):
            for y in range(self.page.virtual_size.height):
                line, _ = self.page.line_at(y)
                if wanted and wanted in text_of(line):
                    top = self.page.scroll_offset.y
                    if not top <= y < top + self.page.size.height:
                        self.page.scroll_to(y=max(0, y - 2), animate=False)
                    return

    def show_head(self) -> None:
        """See ``PagePanel``."""
        if self.path is None:
            self.head.show("markdown")
            return
        path = format_path(self.context.cwd, self.path)
        notice, role = (f"{count_noun(len(self.links), 'link')}, n" if self.links else ""), "faint"
        if self.at is not None and self.at < len(self.links):
            target = sanitize_line(self.links[self.at].target, 80)
            notice, role = f"link {self.at + 1}/{len(self.links)}, enter: {target}", "text"
        self.head.show_problem(self._problem if self._source is not None else None)
        self.head.show(path, (notice, role), ("b back" if self._back else "", "faint"))


def _read(reader: FileReader) -> tuple[str, list[MarkdownLink], bool]:
    """The source, its links, and whether there is more of it. Blocks."""
    if reader.open().is_binary:
        raise FilePanelReadError(reader.path, "it is binary, not Markdown")
    window = reader.first()
    source = sanitize_text("\n".join(window.lines))
    return source, find_links(source), not window.is_end
