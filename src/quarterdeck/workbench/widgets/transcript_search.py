"""Search in a transcript: the search bar, the matches, and the one in view."""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label

from quarterdeck.wire.errors import QuarterdeckError

from ..rendering.lines import compile_pattern, text_of
from ..sanitize import sanitize_line, sanitize_text
from ..stores.search import MOST_FOUND, TranscriptSearch

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from textual.timer import Timer
    from textual.worker import Worker

    from ..rendering.block_layout import BlockLayout
    from ..stores.blocks import Block
    from ..stores.transcript import TranscriptStore
    from .lines_view import LineCanvas

__all__ = ["SearchBar", "SearchController"]


class SearchBar(Horizontal):
    """Tells what to look for, and shows how many were found."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(1)", "previous match"),
        Binding("down,shift+enter", "step(-1)", "next match"),
        Binding("escape", "close", "end the search"),
    ]

    class Changed(Message):
        """Other words are looked for."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class Stepped(Message):
        """Go to the next match: 1 for an earlier one, -1 for a later one."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    class Closed(Message):
        """No one looks any more."""

    def __init__(self, words: str = "") -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        """The parts."""
        yield Label("search ", classes="search-sign")
        hint = "enter, ↑ previous · ↓ next · esc close"
        yield Input(sanitize_line(self._words), placeholder=hint, compact=True)
        yield Label("", classes="search-count", markup=False)

    def on_mount(self) -> None:
        """Take the keys."""
        self.query_one(Input).focus()

    def show_state(self, words: str) -> None:
        """Show how the search stands."""
        self.query_one(".search-count", Label).update(words)

    def enter(self) -> None:
        """Take the keys again."""
        self.query_one(Input).focus()

    def action_step(self, step: int) -> None:
        """Go to another match."""
        self.post_message(self.Stepped(step))

    def action_close(self) -> None:
        """End the search."""
        self.post_message(self.Closed())

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Stepped(1))


_PAUSE = 0.15
"""Seconds after the last key before the log is searched."""


class _Bar(SearchBar):
    """The line of one view."""

    def __init__(self, looking: "SearchController", words: str) -> None:
        super().__init__(words)
        self._looking = looking

    @on(SearchBar.Changed)
    def _other_words(self, event: SearchBar.Changed) -> None:
        event.stop()
        self._looking.change(event.words)

    @on(SearchBar.Stepped)
    def _step(self, event: SearchBar.Stepped) -> None:
        event.stop()
        self._looking.step(event.step)

    @on(SearchBar.Closed)
    def _close(self, event: SearchBar.Closed) -> None:
        event.stop()
        self._looking.end()


class SearchController:
    """What one view looks for; nothing while ``pattern`` is None.

    Args:
        view: where matches are marked, and above which the search bar is.
        store: returns the transcript that the view shows.
        go_to: shows a record, at the line with the given words.
    """

    def __init__(
        self,
        view: "LineCanvas",
        store: "Callable[[], TranscriptStore | None]",
        go_to: "Callable[[int, str], None]",
    ) -> None:
        self.pattern: re.Pattern[str] | None = None
        """What is marked in the view."""
        self.search: TranscriptSearch | None = None
        self._view = view
        self._store = store
        self._go_to = go_to
        self._bar: _Bar | None = None
        self._at = -1
        """Which match is shown, the newest being 0; -1: none yet."""
        self._wanted = 0
        self._words = ""
        self._worker: Worker[None] | None = None
        self._timer: Timer | None = None
        self._before: Widget | None = None

    def begin(self, words: str = "") -> None:
        """Show the line to type into, with some words in it already."""
        view = self._view
        if self._store() is None or not isinstance(view.parent, Widget):
            return
        if self._bar is None:
            self._before = view.screen.focused
            self._bar = _Bar(self, words)
            view.parent.mount(self._bar, after=view)
        else:
            self._bar.enter()

    def end(self) -> None:
        """Look no further, and give the keys back."""
        self._stop()
        self.pattern, self._words = None, ""
        bar, self._bar = self._bar, None
        if bar is None:
            return
        if bar.has_focus_within and self._before is not None and self._before.is_attached:
            self._before.focus()
        bar.remove()
        self._view.refresh()

    def change(self, words: str) -> None:
        """Look for other words, once someone has typed them."""
        if words == self._words:
            return
        self._stop()
        self._words = words
        # What is shown is literal, and so is what people can type.
        self.pattern = compile_pattern(words) if words.strip() else None
        self._view.refresh()
        self._show_state()
        if self.pattern is not None:
            self._timer = self._view.set_timer(_PAUSE, self._run)

    def step(self, step: int) -> None:
        """Go to the previous match (1) or the next one (-1)."""
        if self.pattern is None:
            self.begin()
            return
        if self.search is None:
            self._run()
            return
        self._wanted = max(0, self._wanted + step)
        if self.search.is_done:
            self._wanted = min(self._wanted, max(0, len(self.search.found) - 1))
        self._go()

    def line_with(self, layout: "BlockLayout", block: "Block") -> tuple[int, int]:
        """The piece and line of a block that has the words; the first of all if none has."""
        first = layout.find(block)
        if self.pattern is None or first is None:
            return 0, 0
        layout.open(first)
        at = first
        while at < len(layout) and layout.block(at) is block:
            if layout.may_have(at, self.pattern):
                layout.measure(at)
                for offset in range(layout.height(at)):
                    if self.pattern.search(text_of(layout.line(at, offset))):
                        return at - first, offset
            at += 1
        return 0, 0

    def _run(self) -> None:
        store = self._store()
        if store is None or self.search is not None or not self._words:
            return
        self.search = TranscriptSearch(self._words, store.read)
        self._worker = self._view.run_worker(partial(self._look, self.search), group="search")

    async def _look(self, search: TranscriptSearch) -> None:
        try:
            await search.run(self._stepped)
        except QuarterdeckError as error:
            self._view.notify(sanitize_text(str(error)), severity="error", markup=False)

    def _stepped(self) -> None:
        self._show_state()
        self._go()

    def _go(self) -> None:
        """Show the match that is wanted, if it is found already."""
        search = self.search
        if search is None or self._at == self._wanted or self._wanted >= len(search.found):
            self._show_state()
            return
        self._at = self._wanted
        self._go_to(search.found[self._at].seq, self._words)
        self._show_state()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        if self._worker is not None:
            self._worker.cancel()
        self._timer = self._worker = self.search = None
        self._at, self._wanted = -1, 0

    def _show_state(self) -> None:
        if self._bar is None:
            return
        with suppress(NoMatches):
            self._bar.show_state(self._describe_state())

    def _describe_state(self) -> str:
        search = self.search
        if search is None:
            return ""
        found = len(search.found)
        if not found:
            return "not found" if search.is_done else f"searching, {search.searched:,} records"
        more = "" if search.is_done and found < MOST_FOUND else "+"
        times = "time" if search.total == 1 and not more else "times"
        often = f" ({search.total:,}{more} {times})" if search.total != found else ""
        return f"{self._at + 1} of {found:,}{more}{often}"
