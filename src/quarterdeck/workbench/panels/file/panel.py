"""The file viewer: any size, found places, colours; it notices when the file changes."""

import asyncio
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from ...rendering.code import MOST_HIGHLIGHTED, highlight_file
from ...rendering.glyphs import CUT
from ...rendering.lines import Line
from ...sanitize import sanitize_line
from ..components import AskBar, HeadLine, PanelPage, PolledPanel, empty_lines, problem_lines
from ..panel import Panel, PanelOptions
from ..paths import format_path, make_absolute, safe_path
from ..system import format_bytes
from .model import FileFacts, FileMatch, FilePanelReadError, FileReader, FileWindow
from .view import FileView, format_line

__all__ = ["FileOptions", "FilePanel"]


class FileOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file viewer can be given."""

    path: str | None = None
    """Absolute, or below where the person is."""
    line: int | None = None


class FilePanel(PolledPanel):
    """Shows a file."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = FileOptions
    EVERY: ClassVar[float | None] = 1.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask('search')", "search"),
        Binding("n", "again(1)", "next match"),
        Binding("N", "again(-1)", "previous match"),
        Binding("g,colon", "ask('goto')", "go to a line"),
        Binding("w", "wrap", "wrap long lines or not"),
        Binding("r", "reload", "reload"),
        Binding("e", "hand_on('edit')", "edit"),
        Binding("d", "hand_on('diff')", "show changes"),
        Binding("t", "hand_on('tail')", "follow the end"),
    ]

    def __init__(self, context: Any, options: FileOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self._reader: FileReader | None = None
        self._facts: FileFacts | None = None
        self._problem: str | None = None
        self._hex: list[str] = []
        self._words = ""
        self._note = ""
        self._line: int | None = options.line
        self._take_path(options.path)
        self.head: HeadLine = HeadLine()
        self.view = FileView(id="view")
        self.page = PanelPage(self._instead, id="instead")
        self.bar = AskBar()

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.view, self.page, self.bar)

    def on_mount(self) -> None:
        """Nothing is shown yet."""
        self._arrange()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return (
            "file" if self._reader is None else sanitize_line(PurePath(self._reader.path).name, 60)
        )

    @property
    def path(self) -> str | None:
        """The file, absolute."""
        return self._reader.path if self._reader is not None else None

    def focus_target(self) -> FileView | PanelPage:
        """See ``PolledPanel``."""
        return self.view if self.view.display else self.page

    def change(self, options: Any) -> bool:
        """See ``Panel``: another file or line is shown in the same panel."""
        before, self.options = self.path, options
        self._take_path(options.path)
        self._facts, self._line, self._note = None, options.line, ""
        if self.path != before:
            self._problem = None
            self.view.show(None)
        self.post_message(Panel.Renamed(self))
        self.look_now()
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        line, wraps = self._top_number(), self.view.wraps
        return {"path": safe_path(self.path), "line": line, "wraps": wraps}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        line = state.get("line")
        if isinstance(state.get("path"), str) and self.options.path is None:
            self._take_path(state["path"])
        if isinstance(line, int) and not isinstance(line, bool) and self.options.line is None:
            self._line = line
        if state.get("wraps") is True:
            self.view.wraps = True

    async def look(self) -> None:
        """Open the file, or see whether it is another now."""
        reader, facts = self._reader, self._facts
        if reader is None:
            self._arrange()
            return
        try:
            if facts is None:
                await self._open(reader)
            else:
                identity = await asyncio.to_thread(reader.look)
                if identity != facts.identity or self._problem is not None:
                    await self._open(reader, is_again=True)
        except FilePanelReadError as error:
            if reader is not self._reader:
                return
            self._problem = error.reason
            self._facts = None if self.view.window is None else self._facts
        self._arrange()

    # What keys do

    def action_ask(self, purpose: str) -> None:
        """Open the line for words or for a number."""
        bar = self.bar
        if self.view.window is None:
            return
        if purpose == "search":
            bar.ask("search", "search (lower case matches any case)", self._words, back=self.view)
        else:
            bar.ask("goto", "line number; negative counts from the end", back=self.view)

    def action_again(self, step: int) -> None:
        """Go to the next match of what was searched for, or the one before."""
        if self._words:
            self.run_worker(partial(self._search, step), group="search", exclusive=True)

    def action_wrap(self) -> None:
        """Break long lines, or let them go on."""
        self.view.set_wraps(not self.view.wraps)
        self._arrange()

    def action_reload(self) -> None:
        """Read the file again."""
        self._facts, self._note = None, ""
        self._line = self._top_number()
        self.look_now()

    def action_hand_on(self, how: Any) -> None:
        """Show the same file in another way."""
        if self.path is not None:
            self.post_message(Panel.FileWanted(self.path, self._top_number(), how))

    @on(AskBar.Given)
    def _given(self, event: AskBar.Given) -> None:
        event.stop()
        if not event.text:
            return
        if event.purpose == "search":
            self._words = event.text
            self.run_worker(partial(self._search, 1), group="search", exclusive=True)
        else:
            self.run_worker(partial(self._go, event.text), group="search", exclusive=True)

    @on(AskBar.Typed)
    def _typed(self, event: AskBar.Typed) -> None:
        event.stop()

    @on(FileView.Wanted)
    def _wanted(self, event: FileView.Wanted) -> None:
        event.stop()
        self.run_worker(partial(self._move, event.what), group="move", exclusive=True)

    # How it is done

    def _take_path(self, path: str | None) -> None:
        if path is None:
            self._reader = None
        else:
            self._reader = FileReader(make_absolute(self.context.cwd, path))

    async def _open(self, reader: FileReader, *, is_again: bool = False) -> None:
        facts = await asyncio.to_thread(reader.open)
        self._hex = await asyncio.to_thread(reader.hexadecimal) if facts.is_binary else []
        if reader is not self._reader:  # another file was wanted meanwhile
            return
        line = self._top_number() if is_again else self._line
        if facts.is_binary:
            self.view.show(None)
        else:
            await self._show_line(reader, line or 1)
        if reader is not self._reader:
            return
        if is_again:
            self._note = "changed on disk, reload"
        self._facts, self._problem, self._line = facts, None, None

    async def _show_line(self, reader: FileReader, number: int) -> None:
        if number < 0:
            window = await asyncio.to_thread(reader.last)
            place = max(
                0, number - window.first if window.first < 0 else len(window.lines) + number
            )
        else:
            found = await asyncio.to_thread(reader.line, number)
            if found is None:
                window = await asyncio.to_thread(reader.last)
                place = len(window.lines) - 1
            else:
                window, place = found
        if reader is self._reader:
            self._show(window, place, place if number != 1 else None)

    def _show(self, window: FileWindow, top: int, marked: int | None = None) -> None:
        self.view.show(window, top=top, marked=marked)
        self.run_worker(partial(self._colour, window), group="colour", exclusive=True)

    async def _colour(self, window: FileWindow) -> None:
        lines = await asyncio.to_thread(_coloured, self.path or "", window)
        if lines is not None:
            self.view.colour(window, lines)

    async def _move(self, what: str) -> None:
        reader, window = self._reader, self.view.window
        if reader is None or window is None:
            return
        try:
            if what == "around":
                offset = window.offsets[min(self.view.top, len(window.offsets) - 1)]
                found = await asyncio.to_thread(reader.around, offset, window)
                self._show(found, found.at_offset(offset))
            elif what == "first":
                self._show(await asyncio.to_thread(reader.first), 0)
            else:
                found = await asyncio.to_thread(reader.last)
                self._show(found, len(found.lines))
        except FilePanelReadError as error:
            self._problem = error.reason
        self._arrange()

    async def _go(self, text: str) -> None:
        try:
            number = int(text.strip())
        except ValueError:
            self._note = "enter a line number"
        else:
            if self._reader is not None:
                try:
                    await self._show_line(self._reader, number or 1)
                    self._note = ""
                except FilePanelReadError as error:
                    self._problem = error.reason
        self._arrange()

    async def _search(self, step: int) -> None:
        reader, window = self._reader, self.view.window
        if reader is None or window is None or not window.offsets:
            return
        at = self.view.marked if self.view.marked is not None else self.view.top
        at = min(at, len(window.offsets) - 1)
        self._note = f"searching {CUT}"
        self._arrange()
        try:
            found = await asyncio.to_thread(
                _find, reader, window, at, self._words, step, self.view.marked is not None
            )
        except FilePanelReadError as error:
            self._problem = error.reason
            found = None
        self._note = await self._shown_hit(reader, found)
        self._arrange()

    async def _shown_hit(self, reader: FileReader, found: FileMatch | int | None) -> str:
        words = sanitize_line(self._words, 40)
        if not isinstance(found, FileMatch):
            at = f" up to byte {found:,}" if found else ""
            return f"{words} not found{at}"
        window = self.view.window
        if window is not None and window.start <= found.offset < window.end:
            self.view.reveal(window.at_offset(found.offset))
        else:
            window, place = await asyncio.to_thread(reader.window_at, found)
            self._show(window, max(0, place - 3), place)
        return f"{words} in line {found.number}"

    def _top_number(self) -> int | None:
        window = self.view.window
        return None if window is None else window.number(self.view.top)

    def _instead(self, width: int) -> list[Line]:
        if self._reader is None:
            hints = [
                ("/open tree", "shows files; enter opens one"),
                ("/open-file PATH", "opens it"),
            ]
            return empty_lines("No file is open.", hints, width)
        if self._problem is not None:
            return problem_lines(f"cannot show {self._reader.path!r}: {self._problem}.", width)
        if self._facts is None:
            return []
        facts_text = f"binary, {format_bytes(self._facts.size)}; its first bytes:"
        return [((facts_text, "faint"),), *(((line, "code"),) for line in self._hex)]

    def _arrange(self) -> None:
        page, view = self.page, self.view
        has_lines = view.window is not None
        if view.display != has_lines or page.display == has_lines:
            had_focus = view.has_focus or page.has_focus
            view.display, page.display = has_lines, not has_lines
            if had_focus:
                self.focus_target().focus()
        page.update()
        self._head()

    def _head(self) -> None:
        path = "file" if self.path is None else format_path(self.context.cwd, self.path)
        window = self.view.window
        self.head.show_problem(self._problem if window is not None else None)
        facts = [*_describe_facts(self._facts, window)]
        facts += ["wrapped"] if self.view.wraps else []
        self.head.show(path, (self._note, "text"), *((fact, "faint") for fact in facts))


def _coloured(path: str, window: FileWindow) -> list[Line] | None:
    if window.end - window.start > MOST_HIGHLIGHTED:
        return None
    return highlight_file(path, [format_line(line) for line in window.lines])


def _find(
    reader: FileReader, window: FileWindow, at: int, words: str, step: int, passes: bool
) -> FileMatch | int:
    """The next match of some words from a line on, or the last before it; forwards it goes around.

    ``passes``: that line was the last place, so the search begins behind it.
    """
    if step < 0:
        return reader.find_before(
            words, FileMatch(offset=window.offsets[at], number=window.number(at))
        )
    at += passes
    offset = window.offsets[at] if at < len(window.offsets) else window.end
    found = reader.find(words, FileMatch(offset=offset, number=window.number(at)))
    if isinstance(found, FileMatch) or found < window.size:
        return found
    return reader.find(words, FileMatch(offset=0, number=1))


def _describe_facts(facts: FileFacts | None, window: FileWindow | None) -> list[str]:
    """What is to be said of a file, and where in it the window is."""
    if facts is None:
        return []
    facts_text = [format_bytes(facts.size)]
    if window is not None and not (window.is_start and window.is_end):
        facts_text.append(f"a window at {100 * window.start // max(1, window.size)} %")
    if facts.encoding != "utf-8":
        facts_text.append(facts.encoding)
    return facts_text
