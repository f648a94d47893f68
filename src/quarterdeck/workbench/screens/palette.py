"""The palette: every command by name, with its help and its key; those used last come first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from ..commands.registry import (
    CHAT_COMMANDS,
    COMMANDS,
    FIRST_RUN_COMMANDS,
    LAYOUT_COMMANDS,
    PREFERENCE_ROWS,
    TERMINAL_COMMANDS,
    WorkbenchCommand,
)
from ..rendering.lines import Line, Span, clip, width_of
from ..sanitize import sanitize_line
from ..widgets.picker import Picker

__all__ = ["PaletteEntry", "PaletteScreen", "collect_entries", "rank_entries"]

_REVIEW = frozenset({"diff", "review", "review-do", "merge", "land", "conflicts", "changes"})
_WORKBENCH = frozenset({"help", "quit", "host", "cd", "palette", "notices"})
_ORDER = (
    "recent", "agents", "conversation", "review", "panels", "terminals", "look and keys",
    "workbench", "first steps",
)  # fmt: skip
"""Titles, in the order in which they are shown."""
_MOST_RECENT = 6
_NAME = 18
"""Cells of the names."""
_LEAST_HELP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PaletteEntry:
    """A command as the palette shows it."""

    name: str
    help: str
    category: str
    key: str = ""
    """The key that does the same, as a person calls it."""


def collect_entries(keys: Mapping[str, str]) -> list[PaletteEntry]:
    """Every command; ``keys``: by the name of a command."""
    return [
        PaletteEntry(
            name=command.name,
            help=command.help,
            category=_categorize(command),
            key=keys.get(command.name, ""),
        )
        for command in COMMANDS
    ]


def _categorize(command: WorkbenchCommand) -> str:
    if command.name in _REVIEW:
        return "review"
    if command.name in _WORKBENCH:
        return "workbench"
    if command in CHAT_COMMANDS or command.name in ("end", "unfold", "start"):
        return "conversation"
    if command in FIRST_RUN_COMMANDS:
        return "first steps"
    if command in LAYOUT_COMMANDS:
        return "panels"
    if command in TERMINAL_COMMANDS:
        return "terminals"
    target = command.target or ""
    is_preference = any(command.name == row[0] for row in PREFERENCE_ROWS)
    if is_preference and target.startswith("commands.layout"):
        return "panels"
    return "look and keys" if is_preference and "agents" not in target else "agents"


def rank_entries(entries: Iterable[PaletteEntry], words: str) -> list[PaletteEntry]:
    """Those that fit what was typed, the best first; equally good ones stay in their order."""
    typed = words.casefold().strip().removeprefix("/")
    found = ((_score(entry, typed), entry) for entry in entries)
    ranked = sorted((pair for pair in found if pair[0] is not None), key=lambda pair: pair[0] or 0)
    return [entry for _, entry in ranked]


def _score(entry: PaletteEntry, typed: str) -> int | None:
    """Lower is better; None: it does not fit."""
    name, text = entry.name.casefold(), f"{entry.name} {entry.category} {entry.help}".casefold()
    if name == typed:
        return 0
    if name.startswith(typed):
        return 1
    if typed in name:
        return 2
    if all(word in text for word in typed.split()):
        return 3
    letters = iter(name)
    return 4 if all(letter in letters for letter in typed) else None


class _Entries(Picker, can_focus=False):
    """Commands below the titles of their categories."""

    def __init__(self, entries: Sequence[PaletteEntry], recent: Sequence[str]) -> None:
        super().__init__(id="commands")
        self._entries = entries
        self._recent = recent
        self._words = ""

    def seek(self, words: str) -> None:
        """Show what fits; the best is chosen."""
        self._words = words.strip()
        self.update()
        keys = [key for key, _ in self._rows if key.startswith("/")]
        self.cursor = keys[0] if keys else None
        self.scroll_to(y=0, animate=False)
        self.refresh()

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``; a key is the category and the name, as recent ones come twice."""
        if self._words:
            found = rank_entries(self._entries, self._words)
            rows = [(f"/{one.name}", _row(one, width, one.category)) for one in found]
            return rows or [("", (("no command fits; esc closes", "faint"),))]
        rows: list[tuple[str, Line]] = []
        for title, group in self._groups():
            rows += [(f" {title}", ((title, "faint"),))]
            rows += [(f"/{one.name}/{title}", _row(one, width)) for one in group]
        return rows

    def action_step(self, step: int) -> None:
        """Move the cursor; titles are passed over."""
        keys = [key for key, _ in self._rows if key.startswith("/")]
        if not keys:
            return
        at = keys.index(self.cursor) + step if self.cursor in keys else 0
        self.place(keys[max(0, min(len(keys) - 1, at))])
        if self.cursor == keys[0]:
            self.scroll_to(y=0, animate=False)  # with the title

    def _groups(self) -> list[tuple[str, list[PaletteEntry]]]:
        by_name = {entry.name: entry for entry in self._entries}
        recent = [by_name[name] for name in self._recent if name in by_name][:_MOST_RECENT]
        groups = {"recent": recent}
        for entry in self._entries:
            groups.setdefault(entry.category, []).append(entry)
        return [(title, groups[title]) for title in _ORDER if groups.get(title)]


def _row(entry: PaletteEntry, width: int, category: str = "") -> Line:
    """Name, help, and at the right the key, or the category if it is not said above."""
    right = [(entry.key, "key")] if entry.key else [(category, "faint")] if category else []
    name = f"  {sanitize_line(entry.name, _NAME):<{_NAME}} "
    room = width - len(name) - (width_of(tuple(right)) + 2 if right else 0)
    if room < _LEAST_HELP:
        right, room = [], width - len(name)
    words = clip(((sanitize_line(entry.help), "text"),), max(0, room)) if room > 0 else ()
    spans: list[Span] = [(name, "strong"), *words]
    if right:
        spans.append((" " * (width - width_of(tuple(spans)) - cell_len(right[0][0])), "text"))
    return (*spans, *right)


class PaletteScreen(ModalScreen[str | None]):
    """Gives the name of a command, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+p", "dismiss(None)", "close"),
        Binding("up", "step(-1)", "up", priority=True),
        Binding("down", "step(1)", "down", priority=True),
        Binding("pageup", "step(-10)", "a page up", priority=True),
        Binding("pagedown", "step(10)", "a page down", priority=True),
    ]

    def __init__(self, entries: Sequence[PaletteEntry], recent: Sequence[str]) -> None:
        super().__init__()
        self._entries = _Entries(entries, recent)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "commands"
            box.border_subtitle = "enter run · ↑↓ choose · esc close"
            yield Input(placeholder="type to search", id="sought")
            yield self._entries

    def on_mount(self) -> None:
        """Let keys search."""
        self.query_one(Input).focus()
        self.call_after_refresh(self._entries.seek, "")

    @on(Input.Changed, "#sought")
    def _sought(self, event: Input.Changed) -> None:
        event.stop()
        self._entries.seek(event.value)

    @on(Input.Submitted, "#sought")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._entries.action_choose()

    @on(Picker.Chosen, "#commands")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        if event.key.startswith("/"):
            self.dismiss(event.key[1:].partition("/")[0])

    def action_step(self, step: int) -> None:
        """Move the cursor."""
        self._entries.action_step(step)
