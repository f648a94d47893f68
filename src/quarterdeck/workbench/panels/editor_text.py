"""The text of an editor: what is typed, what of it is saved, and the copy of what is not."""

import asyncio
import os
import time
from typing import Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.widgets import TextArea

from quarterdeck.config.places import Places

from ..literal import literal, one_line
from ..rendering.lines import Line, clip
from .choice_bar import ChoiceBar
from .edit_model import EditedFile, Kept, KeptCopies
from .editor_area import EditorArea
from .panel import Panel, PanelOptions
from .parts import AskBar, HeadLine, Page, WatchingPanel
from .paths import absolute, safe_path, spelled

__all__ = ["EditorOptions", "EditorText"]

_QUICK = 2_000
"""Lines up to which a text is compared with each key."""
_KEEP = 1.0
"""Seconds after which what was typed is on disk, as a copy."""


class EditorOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an editor can be told."""

    path: str | None = None
    """None: a new file, whose name is asked for when it is saved."""
    line: int | None = None


class EditorText(WatchingPanel):
    """A text that belongs to a file; reading and writing it is a subclass's."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = EditorOptions

    def __init__(self, desk: Any, options: EditorOptions, *, id: str | None = None) -> None:
        super().__init__(desk, options, id=id)
        self.file: EditedFile | None = self._file_of(options.path)
        self.is_dirty = False
        """What is here differs from what was last read or written."""
        self._kept = KeptCopies(Places.find().state / "workbench" / "unsaved")
        self._copy: Kept | None = None
        self._is_loaded = False
        self._keeps_mine = False
        self._difference: list[Line] = []
        self._note = ""
        self._words = ""
        self._line = options.line
        self._timer: Any = None
        self._saving = asyncio.Lock()
        self.head = HeadLine()
        self.area = EditorArea()
        self.page = Page(self._difference_lines, id="difference")
        self.choice = ChoiceBar()
        self.bar = AskBar()

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.area, self.page, self.choice, self.bar)

    def on_mount(self) -> None:
        """The text comes when it is read; until then nothing can be typed over."""
        self.page.display = False
        self.area.read_only = True
        self._head()

    async def on_unmount(self) -> None:
        """Keep what was typed in the last second too."""
        if self._is_loaded and self.is_dirty:
            await self._keep()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        name = "new file" if self.file is None else os.path.basename(self.file.path)  # noqa: PTH119
        return one_line(name, 60)

    @property
    def unsaved(self) -> str | None:
        """See ``Panel``."""
        if not self.is_dirty:
            return None
        name = "a new file" if self.file is None else self.file.path
        return f"the changes of {one_line(name, 200)} are not saved"

    def focus_target(self) -> Any:
        """See ``WatchingPanel``."""
        bar = self.choice
        return bar if bar.display else self.area

    def change(self, options: Any) -> bool:
        """See ``Panel``: another line always, another file unless something is not saved."""
        if options.path != self.options.path:
            return False
        self.options = options
        if options.line is not None:
            self._go(options.line)
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        path = safe_path(self.file.path) if self.file is not None else None
        return {"path": path, "cursor": list(self.area.cursor_location)}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        path, cursor = state.get("path"), state.get("cursor")
        if isinstance(path, str) and self.file is None and not self._is_loaded:
            self.file = self._file_of(path)
        if isinstance(cursor, list) and self.options.line is None:
            row = next(iter(cast("list[Any]", cursor)), None)
            self._line = row + 1 if isinstance(row, int) else None

    @on(TextArea.Changed)
    def _changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self.area.document.line_count < _QUICK:
            self._is_dirty_now()
        else:  # to compare takes a while; it is done when the copy is written
            self._note_dirty(True)
        if self._timer is None:
            self._timer = self.set_timer(_KEEP, self._keep_soon)

    @on(TextArea.SelectionChanged)
    def _moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._head()

    @on(EditorArea.Wanted)
    def _wanted(self, event: EditorArea.Wanted) -> None:
        event.stop()
        title = "find" if event.purpose == "search" else "line number"
        given = self._words if event.purpose == "search" else ""
        self.bar.ask(event.purpose, title, given, back=self.area)

    @on(AskBar.Typed)
    def _typed(self, event: AskBar.Typed) -> None:
        event.stop()

    def _file_of(self, path: str | None) -> EditedFile | None:
        if path is None:
            return None
        return EditedFile(absolute(self.desk.cwd, path))

    @property
    def _key(self) -> str:
        """Under which the copy is kept; a new file has the panel's name."""
        return self.file.path if self.file is not None else f"{self.desk.cwd}/\n{self.id}"

    def _go(self, line: int) -> None:
        self._line = line
        if self._is_loaded:
            row = max(0, min(line, self.area.document.line_count) - 1)
            self.area.move_cursor((row, 0), center=True)
            self._line = None

    def _keep_soon(self) -> None:
        self._timer = None
        self.run_worker(self._keep())

    async def _keep(self) -> None:
        """Write the copy, or drop it if there is nothing to keep."""
        is_dirty = self._is_dirty_now()
        try:
            if is_dirty:
                text = self.area.real_text
                await asyncio.to_thread(self._kept.keep, self._key, text, time.time())
            else:
                await asyncio.to_thread(self._kept.drop, self._key)
        except OSError as error:
            self._note = f"no copy of this text can be kept: {error}"
            self._head()

    def _is_dirty_now(self) -> bool:
        """Compare; whether something is not saved."""
        saved = self.file.saved if self.file is not None else ""
        is_refused = self.file is not None and self.file.problem is not None
        self._note_dirty(self.area.real_text != saved and not is_refused)
        return self.is_dirty

    def _note_dirty(self, is_dirty: bool) -> None:
        if self.is_dirty != is_dirty:
            self.is_dirty = is_dirty
            self.post_message(Panel.Renamed(self))
            self._head()

    def _head(self) -> None:
        if not self.is_mounted:
            return
        file = self.file
        path = "new file" if file is None else spelled(self.desk.cwd, file.path)
        row, column = self.area.cursor_location
        parts = [f"  {row + 1}:{column + 1}"]
        parts += [hidden] if (hidden := self.area.under_cursor()) else []
        if file is not None:
            parts += ["CRLF"] if file.form.newline == "\r\n" else []
            parts += [file.form.encoding] if file.form.encoding != "utf-8" else []
            parts += ["new"] if file.is_new and self._is_loaded else []
        problem = f"  read-only: {literal(file.problem)}" if file and file.problem else ""
        note = f"  {literal(self._note)}" if self._note else ""
        sign = "● " if self.is_dirty else ""
        self.head.show(
            sign + path,
            (problem.replace("\n", " "), "bad"),
            (note.replace("\n", " "), "warning"),
            (" ".join(parts), "faint"),
        )

    def _forget(self) -> None:
        """In a thread: drop the copies, also that of a file that had no name."""
        try:
            self._kept.drop(self._key)
            self._kept.drop(f"{self.desk.cwd}/\n{self.id}")
        except OSError as error:
            self._note = f"saved; but the copy cannot be removed: {error}"

    def _difference_lines(self, width: int) -> list[Line]:
        return [clip(line, width) for line in self._difference]
