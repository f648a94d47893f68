"""The inbox panel: a row for each open request; it takes no room while the inbox is empty."""

from textual.app import ComposeResult

from quarterdeck.wire.clock import WallClock
from quarterdeck.wire.terminal_text import format_age

from ..rendering.lines import Line
from ..sanitize import sanitize_line
from ..stores.inbox import InboxStore
from ..widgets.picker import Picker
from .panel import Panel

__all__ = ["InboxList", "InboxPanel"]


class InboxList(Picker):
    """A row for each open request; choosing one opens it."""

    def __init__(self, inbox: InboxStore, clock: WallClock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._inbox = inbox
        self._clock = clock
        self._unwatch = lambda: None
        self._ages: list[str] = []

    def on_mount(self) -> None:
        """Follow the store, and the clock while something waits."""
        self._unwatch = self._inbox.watch(self.update)
        self._timer = self.set_interval(1.0, self._tick, pause=not self._inbox.items)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def update(self) -> None:
        """See ``Picker``."""
        count = len(self._inbox.items)
        if self.cursor is None and count:
            self.cursor = self._inbox.items[0].request
        if count:
            self._timer.resume()
        else:
            self._timer.pause()
        self._ages = self._read_ages()
        super().update()

    def _tick(self) -> None:
        """Show how long each request waits; nothing is drawn while that is the same."""
        if self.is_on_screen and self._read_ages() != self._ages:
            self.update()

    def _read_ages(self) -> list[str]:
        now = self._clock()
        return [format_age(item.since, now) for item in self._inbox.items]

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        now = self._clock()
        rows: list[tuple[str, Line]] = []
        for item in self._inbox.items:
            if item.permission is not None:
                asked = item.permission
                name = sanitize_line(asked.name or asked.kind, 30)
                what = f"{name}: {sanitize_line(asked.title)}"
            else:
                what = sanitize_line(item.question.text) if item.question else ""
            line: Line = (
                ("? ", "asking"),
                (sanitize_line(item.name, 30) + " ", "strong"),
                (f"{format_age(item.since, now)}  ", "faint"),
                (what, "text"),
            )
            rows.append((item.request, line))
        return rows


class InboxPanel(Panel):
    """A row for each open request; choosing one opens it."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield InboxList(self.context.inbox, self.context.clock, id="inbox")

    def on_mount(self) -> None:
        """Follow the store."""
        self._stop = self.context.inbox.watch(self._changed)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._stop()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        count = len(self.context.inbox.items)
        return f"{count} {'needs' if count == 1 else 'need'} you · ctrl+g"

    def wanted(self, width: int) -> int | None:
        """See ``Panel``."""
        return len(self.context.inbox.items)

    def _changed(self) -> None:
        self.post_message(self.Renamed(self))
        self.refresh(layout=True)
