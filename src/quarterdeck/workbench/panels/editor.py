"""The editor: no text is ever lost, and nothing is written that was not read whole."""

import asyncio
import time
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from quarterdeck.system.errors import FileChanged, SystemFault

from ..rendering.diffs import diff_lines
from .choice_bar import ChoiceBar
from .edit_model import EditedFile, Kept
from .editor_text import EditorOptions, EditorText
from .panel import Panel
from .parts import AskBar
from .text_form import Undecodable

__all__ = ["EditorOptions", "EditorPanel"]


class EditorPanel(EditorText):
    """Edits a file of text: reads it, writes it, and asks where it is another on disk."""

    EVERY: ClassVar[float | None] = 2.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "save"),
        Binding("escape", "leave_difference", "back to the text", show=False),
    ]

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
            self.run_worker(self._save())

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
            self.run_worker(self._save())
        self._head()

    @on(ChoiceBar.Chosen)
    def _chosen(self, event: ChoiceBar.Chosen) -> None:
        event.stop()
        self.run_worker(self._decide(event.topic, event.key))

    async def _load(self) -> None:
        text = "" if self.file is None else await self.file.load()
        self.area.put(text)
        self.area.read_only = self.file is not None and self.file.problem is not None
        self._is_loaded = True
        self._note_dirty(False)
        if self._line is not None:
            self._go(self._line)
        self._copy = await asyncio.to_thread(self._kept.find, self._key)
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
            self._note = "it is gone from the disk; saving makes it anew"
            self._is_dirty_now()
        elif state == "unreadable":
            self._note = "on disk it cannot be read any more"
        elif not self._is_dirty_now():
            self.area.put(await file.load())
            self.area.read_only = file.problem is not None
            self._note = "read again: it changed on disk"
        else:
            self._note = "on disk it is another"
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
            except FileChanged:
                self._ask_conflict(is_saving=True)
            except (SystemFault, Undecodable) as error:
                self._note = "not saved"
                self.notify(f"not saved: {error}", severity="error", markup=False)
            else:
                self._note, self._keeps_mine = "saved", False
                self._is_dirty_now()
                await asyncio.to_thread(self._forget)
        self.post_message(Panel.Renamed(self))
        self._head()

    def _ask_copy(self, copy: Kept) -> None:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(copy.time))
        question = f"Text of {when} was never saved."
        answers = [("u", "use it"), ("s", "show what differs"), ("d", "drop it")]
        self.choice.ask("copy", question, answers, back=self.area)

    def _ask_conflict(self, *, is_saving: bool = False) -> None:
        mine = ("o", "overwrite it") if is_saving else ("k", "keep mine")
        answers = [("r", "read it (undo brings mine back)"), mine, ("s", "show what differs")]
        topic = "overwrite" if is_saving else "conflict"
        question = "Another text is on disk now."
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
                self._note = f"on disk it cannot be edited: {file.problem}"
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
        self._difference = list(diff_lines("on disk → here", old, new))
        page = self.page
        page.display, self.area.display = True, False
        self.call_after_refresh(page.update)
