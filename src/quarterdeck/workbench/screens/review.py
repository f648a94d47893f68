"""The list of comments of a review."""

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from ..rendering.lines import Line
from ..sanitize import sanitize_line
from ..widgets.picker import Picker

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.fleet.review.api import PlacedComment

__all__ = ["CommentsScreen"]

_ROLES = {"open": "warning", "sent": "good", "resolved": "faint"}
_STATES = {"open": "not sent", "sent": "sent", "resolved": "resolved"}


class _Comments(Picker):
    def __init__(
        self, comments: "list[PlacedComment]", author: "Callable[[PlacedComment], str]"
    ) -> None:
        super().__init__(id="comments")
        self._comments = comments
        self._author = author

    def head(self, width: int) -> list[Line]:
        return [] if self._comments else [(("no comments; c writes one", "faint"),)]

    def rows(self, width: int) -> list[tuple[str, Line]]:
        return [(placed.comment.id, self._row(placed)) for placed in self._comments]

    def _row(self, placed: "PlacedComment") -> Line:
        comment = placed.comment
        state = _STATES.get(comment.state, comment.state)
        if placed.line is None:
            state += ", the file is gone"
        elif placed.is_changed:
            state += ", lines changed"
        where = f"{sanitize_line(placed.path, 60)}:{placed.line or comment.line}"
        return (
            (f"{where}  ", "strong"),
            (f"{sanitize_line(self._author(placed), 20)}: ", "faint"),
            (sanitize_line(comment.text, 200), "text"),
            (f"  {state}", _ROLES.get(comment.state, "faint")),
        )


class CommentsScreen(ModalScreen[str | None]):
    """Gives the id of the comment that is chosen.

    Args:
        comments: all of them.
        author: who made one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "close")]

    def __init__(
        self, comments: "list[PlacedComment]", author: "Callable[[PlacedComment], str]"
    ) -> None:
        super().__init__()
        self._comments = comments
        self._author = author

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            count = len(self._comments)
            box.border_title = Content(f"{count} comment{'s' * (count != 1)}")
            box.border_subtitle = "enter go there · esc close"
            yield _Comments(self._comments, self._author)

    def on_mount(self) -> None:
        """Begin with the first."""
        picker = self.query_one(_Comments)
        if self._comments:
            picker.place(self._comments[0].comment.id)
        picker.focus()

    @on(Picker.Moved)
    def _moved(self, event: Picker.Moved) -> None:
        event.stop()

    @on(Picker.Chosen)
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        self.dismiss(event.key)
