"""Where a note is kept: the file of the project, the person's own, or nowhere."""

import time
from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label

from ..notes import NotePlace, format_note
from ..rendering.lines import Line
from ..sanitize import sanitize_line
from ..widgets.picker import Picker
from .key_guard import KeyGuard

__all__ = ["SEND_AS_PROMPT", "NoteScreen"]

SEND_AS_PROMPT = "prompt"
"""The text is no note."""
_WORDS = {"project": "this project", "personal": "for yourself, everywhere"}


class _Places(Picker):
    def __init__(self, places: Sequence[NotePlace], home: str) -> None:
        super().__init__(id="places")
        self._places = places
        self._home = home
        self.cursor = next((p.scope for p in places if not p.refusal), SEND_AS_PROMPT)

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        rows: list[tuple[str, Line]] = []
        for place in self._places:
            path = str(place.path)
            if self._home and path.startswith(f"{self._home}/"):
                path = f"~{path[len(self._home) :]}"
            role = "faint" if place.refusal else "strong"
            what = place.refusal or path
            spans = ((f"{_WORDS[place.scope]:<26}", role), (sanitize_line(what, 200), "faint"))
            rows.append((place.scope, spans))
        words = (("send it to the agent", "text"), ("      it is no note", "faint"))
        return [*rows, (SEND_AS_PROMPT, words)]


class NoteScreen(ModalScreen[str | None]):
    """Gives the scope of a place, ``SEND_AS_PROMPT``, or None: the text returns to the input."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "cancel")]

    def __init__(self, words: str, places: Sequence[NotePlace], home: str = "") -> None:
        super().__init__()
        self._words = words
        self._places = places
        self._home = home
        self._guard = KeyGuard(time.monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "remember a note"
            box.border_subtitle = "enter choose · esc cancel"
            yield Label(sanitize_line(format_note(self._words), 400), markup=False)
            yield Label("")
            yield _Places(self._places, self._home)

    def on_mount(self) -> None:
        """Let keys choose."""
        self.query_one(_Places).focus()

    @on(Picker.Chosen, "#places")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        place = next((one for one in self._places if one.scope == event.key), None)
        if self._guard.holds:
            return
        if place is not None and place.refusal:
            self.notify(place.refusal, severity="warning", markup=False)
        else:
            self.dismiss(event.key)
