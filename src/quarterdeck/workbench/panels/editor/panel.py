"""The editor panel: unsaved text is never lost, and nothing is written that was not read whole."""

import asyncio
import os
from functools import partial
from typing import Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from quarterdeck.config.places import Places
from quarterdeck.system.errors import FileChangedError, OperatingSystemError
from quarterdeck.wire.clock import format_local_time, read_wall_seconds

from ...rendering.diffs import diff_lines
from ...rendering.glyphs import RUNNING, TO
from ...rendering.lines import Line, clip
from ...sanitize import sanitize_line, sanitize_text
from ..components import AskBar, HeadLine, PanelPage, PolledPanel
from ..panel import Panel, PanelOptions
from ..paths import format_path, make_absolute, safe_path
from .model import EditedFile, UndecodableFileError, UnsavedCopies, UnsavedCopy
from .view import ChoiceBar, EditorArea

__all__ = ["EditorOptions", "EditorPanel"]

_QUICK = 2_000
"""Lines up to which a text is compared with each key."""
_KEEP = 1.0
"""Seconds after which what was typed is on disk, as a copy."""


class EditorOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an editor can be given."""

    path: str | None = None
    """None: a new file, whose name is asked for when it is saved."""
    line: int | None = None


class EditorPanel(PolledPanel):
    """Edits a file of text: reads it, writes it, and asks where it is another on disk."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = EditorOptions
    EVERY: ClassVar[float | None] = 2.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "save"),
        Binding("escape", "leave_difference", "back to the text", show=False),
    ]

    def __init__(self, context: Any, options: EditorOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.file: EditedFile | None = self._file_of(options.path)
        self.is_dirty = False
        """What is here differs from what was last read or written."""
        places: Places = context.discovery.places or Places.find()
        self._copies = UnsavedCopies(places.state / "workbench" / "unsaved")
        self._copy: UnsavedCopy | None = None
        self._is_loaded = False
        self._keeps_mine = False
        self._difference: list[Line] = []
        self._note = ""
        self._words = ""
        self._line = options.line
        self._timer: Any = None
        self._saving = asyncio.Lock()
        self.head: HeadLine = HeadLine()
        self.area = EditorArea()
        self.page = PanelPage(self._difference_lines, id="difference")
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
        return sanitize_line(name, 60)

    @property
    def unsaved(self) -> str | None:
        """See ``Panel``."""
        if not self.is_dirty:
            return None
        name = "a new file" if self.file is None else self.file.path
        return f"unsaved changes in {sanitize_line(name, 200)}"

    def focus_target(self) -> Any:
        """See ``PolledPanel``."""
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
        return EditedFile(make_absolute(self.context.cwd, path))

    @property
    def _key(self) -> str:
        """Under which the copy is kept; a new file has the panel's name."""
        return self.file.path if self.file is not None else f"{self.context.cwd}/\n{self.id}"

    def _go(self, line: int) -> None:
        self._line = line
        if self._is_loaded:
            row = max(0, min(line, self.area.document.line_count) - 1)
            self.area.move_cursor((row, 0), center=True)
            self._line = None

    def _keep_soon(self) -> None:
        self._timer = None
        self.run_worker(self._keep)

    async def _keep(self) -> None:
        """Write the backup, or discard it if there is nothing to keep."""
        is_dirty = self._is_dirty_now()
        try:
            if is_dirty:
                text = self.area.real_text
                await asyncio.to_thread(self._copies.keep, self._key, text, read_wall_seconds())
            else:
                await asyncio.to_thread(self._copies.drop, self._key)
        except OSError as error:
            self._note = f"cannot back up unsaved text: {error}"
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
        path = "new file" if file is None else format_path(self.context.cwd, file.path)
        row, column = self.area.cursor_location
        parts = [f"{row + 1}:{column + 1}"]
        parts += [hidden] if (hidden := self.area.under_cursor()) else []
        if file is not None:
            parts += ["CRLF"] if file.form.newline == "\r\n" else []
            parts += [file.form.encoding] if file.form.encoding != "utf-8" else []
            parts += ["new"] if file.is_new and self._is_loaded else []
        problem = f"read-only: {sanitize_text(file.problem)}" if file and file.problem else ""
        note = sanitize_text(self._note) if self._note else ""
        sign = f"{RUNNING} " if self.is_dirty else ""
        self.head.show(
            sign + path,
            (problem.replace("\n", " "), "bad"),
            (note.replace("\n", " "), "warning"),
            (" ".join(parts), "faint"),
        )

    def _forget(self) -> None:
        """In a thread: drop the copies, also that of a file that had no name."""
        try:
            self._copies.drop(self._key)
            self._copies.drop(f"{self.context.cwd}/\n{self.id}")
        except OSError as error:
            self._note = f"saved, but cannot delete the backup: {error}"

    def _difference_lines(self, width: int) -> list[Line]:
        return [clip(line, width) for line in self._difference]

    # Reading and writing

    async def look(self) -> None:
        """Read the file, or see what happened to it."""
        if not self._is_loaded:
            await self._load()
        elif self.file is not None and not self._saving.locked():
            await self._check(self.file)
        self._head()

    def action_save(self) -> None:
        """Write the file."""
        if self._is_loaded:
            self.run_worker(self._save)

    def action_leave_difference(self) -> None:
        """Show the text again."""
        page = self.page
        if page.display:
            page.display, self.area.display = False, True
            self.area.focus()

    @on(AskBar.Given)
    def _given(self, event: AskBar.Given) -> None:
        event.stop()
        if not event.text:
            return
        if event.purpose == "search":
            self._words = event.text
            self._note = "" if self.area.find(event.text) else "not found"
        elif event.purpose == "goto":
            self._go(int(event.text) if event.text.strip().isdecimal() else 1)
        else:
            self.file = self._file_of(event.text)
            self._is_dirty_now()
            self.run_worker(self._save)
        self._head()

    @on(ChoiceBar.Chosen)
    def _chosen(self, event: ChoiceBar.Chosen) -> None:
        event.stop()
        self.run_worker(partial(self._decide, event.topic, event.key))

    async def _load(self) -> None:
        text = "" if self.file is None else await self.file.load()
        self.area.put(text)
        self.area.read_only = self.file is not None and self.file.problem is not None
        self._is_loaded = True
        self._note_dirty(False)
        if self._line is not None:
            self._go(self._line)
        self._copy = await asyncio.to_thread(self._copies.find, self._key)
        if self._copy is not None and self._copy.text == text:
            self._copy = None
        if self._copy is not None and not self.area.read_only:
            self._ask_copy(self._copy)

    async def _check(self, file: EditedFile) -> None:
        state = await file.look()
        if state == "same":
            self._note = "" if self._note.startswith("on disk") else self._note
        elif state == "gone":
            file.vanished()
            file.saved = ""
            self._note = "deleted on disk; saving recreates it"
            self._is_dirty_now()
        elif state == "unreadable":
            self._note = "cannot read it on disk any more"
        elif not self._is_dirty_now():
            self.area.put(await file.load())
            self.area.read_only = file.problem is not None
            self._note = "reloaded: it changed on disk"
        else:
            self._note = "changed on disk"
            if not self._keeps_mine and not self.choice.display:
                self._ask_conflict()

    async def _save(self, *, anyway: bool = False) -> None:
        file = self.file
        if file is None:
            bar = self.bar
            bar.ask("path", "save as", back=self.area)
            return
        async with self._saving:
            text = self.area.real_text
            self.area.history.checkpoint()  # undo comes back to what was saved
            try:
                await file.save(text, anyway=anyway)
            except FileChangedError:
                self._ask_conflict(is_saving=True)
            except (OperatingSystemError, UndecodableFileError) as error:
                self._note = "not saved"
                self.notify(f"not saved: {error}", severity="error", markup=False)
            else:
                self._note, self._keeps_mine = "saved", False
                self._is_dirty_now()
                await asyncio.to_thread(self._forget)
        self.post_message(Panel.Renamed(self))
        self._head()

    def _ask_copy(self, copy: UnsavedCopy) -> None:
        when = format_local_time(int(copy.time * 1_000_000))
        question = f"Unsaved text from {when} was recovered."
        answers = [("u", "use it"), ("s", "show the diff"), ("d", "discard it")]
        self.choice.ask("copy", question, answers, back=self.area)

    def _ask_conflict(self, *, is_saving: bool = False) -> None:
        mine = ("o", "overwrite the file") if is_saving else ("k", "keep mine")
        answers = [("r", "reload (undo restores mine)"), mine, ("s", "show the diff")]
        topic = "overwrite" if is_saving else "conflict"
        question = "The file changed on disk."
        self.choice.ask(topic, question, answers, back=self.area)

    async def _decide(self, topic: str, key: str | None) -> None:
        file, copy = self.file, self._copy
        if topic == "copy" and copy is not None:
            if key == "u":
                self.area.put_over(copy.text)
            elif key == "d":
                await asyncio.to_thread(self._forget)
            elif key == "s":
                self._show_difference(file.saved if file is not None else "", copy.text)
                self._ask_copy(copy)
        elif file is not None:
            await self._resolve(file, topic, key)
        self._head()

    async def _resolve(self, file: EditedFile, topic: str, key: str | None) -> None:
        if key == "r":
            text = await file.load()
            if file.problem is not None:
                # It can never be written from here; mine stays, and can be saved elsewhere.
                self._note = f"cannot edit the version on disk: {file.problem}"
                return
            self.area.put_over(text)
            self._note_dirty(False)
        elif key == "o":
            await self._save(anyway=True)
        elif key == "s":
            self._show_difference(await file.on_disk() or "", self.area.real_text)
            self._ask_conflict(is_saving=topic == "overwrite")
        else:
            self._keeps_mine = True

    def _show_difference(self, old: str, new: str) -> None:
        self._difference = list(diff_lines(f"on disk {TO} here", old, new))
        page = self.page
        page.display, self.area.display = True, False
        self.call_after_refresh(page.update)
