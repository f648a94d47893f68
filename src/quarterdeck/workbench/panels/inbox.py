"""What waits for a person, as a panel; it takes no room while nothing waits."""

from textual.app import ComposeResult

from ..widgets.inbox import InboxList
from .panel import Panel

__all__ = ["InboxPanel"]


class InboxPanel(Panel):
    """A row for each open request; choosing one opens it."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield InboxList(self.desk.inbox, self.desk.clock, id="inbox")

    def on_mount(self) -> None:
        """Follow the store."""
        self._stop = self.desk.inbox.watch(self._changed)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._stop()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        count = len(self.desk.inbox.items)
        return f"{count} {'needs' if count == 1 else 'need'} you · ctrl+g"

    def wanted(self, width: int) -> int | None:
        """See ``Panel``."""
        return len(self.desk.inbox.items)

    def _changed(self) -> None:
        self.post_message(self.Renamed(self))
        self.refresh(layout=True)
