"""What waits for a person, all of it in one list."""

from collections.abc import Callable

from quarterdeck.wire.shown import since

from ..literal import one_line
from ..rendering.lines import Line
from ..stores.inbox import InboxStore
from .picker import Picker

__all__ = ["InboxList"]


class InboxList(Picker):
    """A row for each open request; choosing one opens it."""

    def __init__(
        self, inbox: InboxStore, clock: Callable[[], int], *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._inbox = inbox
        self._clock = clock
        self._unwatch = lambda: None

    def on_mount(self) -> None:
        """Follow the store."""
        self._unwatch = self._inbox.watch(self.update)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def update(self) -> None:
        """See ``Picker``."""
        count = len(self._inbox.items)
        if self.cursor is None and count:
            self.cursor = self._inbox.items[0].request
        super().update()

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        now = self._clock()
        rows: list[tuple[str, Line]] = []
        for item in self._inbox.items:
            if item.permission is not None:
                asked = item.permission
                name = one_line(asked.name or asked.kind, 30)
                what = f"{name}: {one_line(asked.title)}"
            else:
                what = one_line(item.question.text) if item.question else ""
            line: Line = (
                ("? ", "asking"),
                (one_line(item.name, 30) + " ", "strong"),
                (f"{since(item.since, now)}  ", "faint"),
                (what, "text"),
            )
            rows.append((item.request, line))
        return rows
