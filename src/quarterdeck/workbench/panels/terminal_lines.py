"""What is said above and below a terminal, and where none is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..literal import literal, one_line
from ..rendering.lines import Line, Span, clip, plain, width_of, wrap
from ..terminals.wishes import spoken
from ..widgets.lined import Lined

if TYPE_CHECKING:
    from ..widgets.terminal import TerminalView

__all__ = ["TitleLine", "foot_spans", "head_spans", "key_spans", "offer_lines"]

_LEAST_TITLE = 12
"""Cells that a title keeps beside what else is said."""


class TitleLine(Lined, can_focus=False):
    """A title, and what is to be said beside it; the title's end goes first."""

    def __init__(self) -> None:
        super().__init__(classes="panel-head")
        self._title = ""
        self._spans: tuple[Span, ...] = ()

    def show(self, title: str, *spans: Span) -> None:
        """Say something else; ``title`` must be literal."""
        if (title, spans) != (self._title, self._spans):
            self._title, self._spans = title, spans
            self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``Lined``."""
        if y:
            return (), False
        width = self.scrollable_content_region.width
        room = max(min(_LEAST_TITLE, width), width - width_of(self._spans))
        title = clip(((self._title, "strong"),), room) if self._title else ()
        return clip((*title, *self._spans), width), False


def head_spans(view: "TerminalView", place: str) -> list[Span]:
    """What keys do, how far up one is, or where the program runs."""
    spans: list[Span] = []
    if view.back:
        spans.append((f"  ↑ {view.back:,} lines up", "warning"))
    if view.standing != "live":
        return spans
    if view.takes_every_key:
        if view.guarded:
            spans.append(("  you type into the agent;", "warning"))
        return [*spans, *key_spans(("ctrl+\\", "leaves"))]
    if view.has_focus:
        keys = (("enter", "types"), ("/", "searches"), ("f4", "next panel"))
        return [*spans, *key_spans(*keys[: 1 if view.guarded else 3])]
    return [*spans, (f"  {literal(place)}", "faint")] if place else spans


def foot_spans(view: "TerminalView", keys: Sequence[tuple[str, str]]) -> list[Span]:
    """How it ended, and what can be done then; nothing while it runs."""
    reason = one_line(view.reason, 200)
    match view.standing:
        case "ended":
            told = f"ended: {reason}" if reason else "ended"
            return [(told, "warning"), *key_spans(*keys)]
        case "gone":
            told = "there is nothing to see" if view.guarded else "this terminal is gone"
            return [(told, "warning"), *key_spans(*keys), (f"  {reason}", "faint")]
        case "lost":
            return [("out of reach, waited for", "warning"), (f"  {reason}", "faint")]
        case _:
            return []


def offer_lines(argv: Sequence[str], place: str, width: int) -> list[Line]:
    """What a key would start, and where."""
    room = max(1, width - 2)
    what = "your shell" if not argv else literal(spoken(argv))
    lines: list[Line] = [
        (),
        *wrap([("Nothing runs here.", "text")], room),
        (),
        *wrap([("enter", "key"), (" starts ", "text"), (what, "strong")], room),
        *wrap([("in ", "text"), (literal(place), "text")], room),
    ]
    if argv:
        lines += [(), *wrap(plain("No layout starts a program by itself.", "faint"), room)]
    return [((" ", "text"), *line) for line in lines]


def key_spans(*keys: tuple[str, str]) -> list[Span]:
    """Keys and what they do, in a row."""
    spans: list[Span] = []
    for at, (key, does) in enumerate(keys):
        spans += [("  " if not at else " · ", "faint"), (key, "key"), (f" {does}", "faint")]
    return spans
