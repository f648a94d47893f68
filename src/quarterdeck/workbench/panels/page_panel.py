"""A panel that shows one file as a page of lines, and reads it again when it has changed."""

from pathlib import PurePath
from typing import Any, ClassVar

from textual.app import ComposeResult

from ..literal import one_line
from ..rendering.lines import Line
from .parts import HeadLine, Page, WatchingPanel
from .paths import absolute

__all__ = ["PagePanel"]


class PagePanel(WatchingPanel):
    """Base of viewers whose options have a ``path``; a subclass reads it and makes the lines."""

    has_head: ClassVar[bool] = False
    EVERY: ClassVar[float | None] = 1.0
    KIND: ClassVar[str] = "page"
    """What it is called while it shows no file."""

    def __init__(self, desk: Any, options: Any, *, id: str | None = None) -> None:
        super().__init__(desk, options, id=id)
        self.path: str | None = self.absolute(options.path)
        self._problem: str | None = None
        self._identity: object = None
        """Which file, and in what state, was read last; None: it is read at the next look."""
        self._scroll: float | None = None
        """Where to go when there is something to see."""
        self.head = HeadLine()
        self.page = Page(self.lines, id="page")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.page)

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return self.KIND if self.path is None else one_line(PurePath(self.path).name, 60)

    @property
    def has_content(self) -> bool:
        """Whether something was read that can be shown."""
        raise NotImplementedError

    def lines(self, width: int) -> list[Line]:
        """The page for a width."""
        raise NotImplementedError

    def tell_head(self) -> None:
        """Say in the first line what is shown."""
        raise NotImplementedError

    def focus_target(self) -> Page:
        """See ``WatchingPanel``."""
        return self.page

    def action_reload(self) -> None:
        """Read the file again."""
        self._identity = None
        self.look_now()

    def absolute(self, path: str | None) -> str | None:
        """A path as options have it, from the directory that the person is in."""
        return None if path is None else absolute(self.desk.cwd, path)

    def update(self) -> None:
        """Show what was read."""
        if not self.is_mounted:
            return
        self.page.update()
        if self._scroll is not None and self.has_content:
            self.page.scroll_to(y=self._scroll, animate=False, force=True)
            self._scroll = None
        self.tell_head()
