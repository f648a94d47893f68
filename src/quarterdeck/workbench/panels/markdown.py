"""The Markdown viewer: a page, its links, and the way back."""

import asyncio
from typing import Any, ClassVar, cast

from textual.binding import Binding, BindingType

from ..literal import literal, one_line
from ..rendering.lines import Line, text_of
from .file_model import FileReader, Unreadable
from .markdown_model import MdLink, links_of, target_file
from .page_panel import PagePanel
from .panel import Panel, PanelOptions
from .parts import problem_lines
from .paths import safe_path, spelled

__all__ = ["MarkdownOptions", "MarkdownPanel"]

_MOST_BACK = 100


class MarkdownOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a Markdown viewer can be told."""

    path: str | None = None


class MarkdownPanel(PagePanel):
    """Shows a Markdown file; only its structure has any effect."""

    options_type: ClassVar[type[PanelOptions]] = MarkdownOptions
    KIND: ClassVar[str] = "markdown"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,right_square_bracket", "link(1)", "next link"),
        Binding("p,left_square_bracket", "link(-1)", "link before"),
        Binding("enter", "open", "open the link"),
        Binding("b,backspace", "back", "back"),
        Binding("e", "hand_on('edit')", "edit"),
        Binding("r", "reload", "read again"),
    ]

    def __init__(self, desk: Any, options: MarkdownOptions, *, id: str | None = None) -> None:
        super().__init__(desk, options, id=id)
        self.links: list[MdLink] = []
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
        except Unreadable as error:
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
            self.tell_head()

    def action_open(self) -> None:
        """Open the chosen link: another page here, other files in their own panel."""
        if self.at is None or self.path is None:
            self.action_link(1)
            return
        target = target_file(self.path, self.links[self.at].target)
        if target is None:
            self.notify("this link leads out of here; it is not opened", markup=False)
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
            return [(("no file; enter on one in the file tree opens it", "faint"),)]
        if self._source is None:
            told = [(("reading …", "faint"),)]
            problem = f"{self.path!r} cannot be shown: {self._problem}."
            return problem_lines(problem, width) if self._problem else told
        lines = markdown_lines(self._source, max(10, width))
        if self._is_cut:
            lines = [*lines, (("… the file goes on; view it as a file", "faint"),)]
        return lines

    def _reveal(self, link: MdLink) -> None:
        for wanted in (literal(link.target), link.text.split("\n")[0][:20]):
            for y in range(self.page.virtual_size.height):
                line, _ = self.page.line_at(y)
                if wanted and wanted in text_of(line):
                    top = self.page.scroll_offset.y
                    if not top <= y < top + self.page.size.height:
                        self.page.scroll_to(y=max(0, y - 2), animate=False)
                    return

    def tell_head(self) -> None:
        """See ``PagePanel``."""
        if self.path is None:
            self.head.show("no file")
            return
        path = spelled(self.desk.cwd, self.path)
        told = f"  {len(self.links)} links (n)" if self.links else ""
        if self.at is not None and self.at < len(self.links):
            target = one_line(self.links[self.at].target, 80)
            told = f"  link {self.at + 1}/{len(self.links)}: {target} (enter opens)"
        problem = f"  ✗ {literal(self._problem)}" if self._problem and self._source else ""
        back = "  b: back" if self._back else ""
        self.head.show(path, (problem, "bad"), (told, "text"), (back, "faint"))


def _read(reader: FileReader) -> tuple[str, list[MdLink], bool]:
    """The source, its links, and whether there is more of it. Blocks."""
    if reader.open().is_binary:
        raise Unreadable(reader.path, "it is binary, no Markdown")
    window = reader.first()
    source = literal("\n".join(window.lines))
    return source, links_of(source), not window.is_end
