"""The input of a chat: several lines, earlier prompts, completion; long pastes are folded."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from textual import events, on
from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.message import Message
from textual.widgets import TextArea

from ..completion import CompletionChoice, CompletionWord, find_completion_word
from ..mentions import format_mention, parse_image_path
from ..sanitize import sanitize_text
from .vim_keys import VimInput, VimMode, uses_vim

if TYPE_CHECKING:
    from textual.screen import Screen
    from textual.worker import Worker

    from .completion_list import CompletionList

__all__ = [
    "LONG_LINES",
    "LONG_TEXT",
    "ChatInput",
    "CompleteWord",
    "Pastes",
    "expand_pastes",
    "is_long_paste",
]

_BURST = 0.003
"""Seconds between two keys that no person presses."""


_PLACEHOLDER = "Ask anything, @ a file, / a command"
LONG_TEXT = 2_000
"""Characters above which a paste is folded."""
LONG_LINES = 20
_BEGIN, _END = "\x02", "\x03"
_FOLDED_PASTE = f"{_BEGIN}([^{_BEGIN}{_END}]*){_END}"
_CHIP = r"\[pasted text #(\d+), [\d,]+ (?:lines|characters)\]"


def is_long_paste(text: str) -> bool:
    """Whether a paste is folded."""
    return len(text) > LONG_TEXT or text.count("\n") > LONG_LINES


def expand_pastes(draft: str) -> str:
    """What a draft would be as a prompt."""
    return draft.replace(_BEGIN, "").replace(_END, "")


class Pastes:
    """The long texts of one input, by number."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def fold(self, text: str) -> str:
        """What stands for a text in the input."""
        number = max(self._texts, default=0) + 1
        self._texts[number] = text.replace(_BEGIN, "\\x02").replace(_END, "\\x03")
        lines = text.count("\n") + (not text.endswith("\n"))
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[pasted text #{number}, {size}]"

    def expand(self, shown: str) -> str:
        """The input's text with every long text in full."""
        if not self._texts:
            return shown
        return re.sub(_CHIP, lambda chip: self._full(chip, "", ""), shown)

    def keep(self, shown: str) -> str:
        """The same as a draft, which ``restore`` takes apart again."""
        if not self._texts:
            return shown
        return re.sub(_CHIP, lambda chip: self._full(chip, _BEGIN, _END), shown)

    def restore(self, draft: str) -> str:
        """What to show of a draft, instead of what was there before."""
        self._texts.clear()
        begin = 0
        shown: list[str] = []
        for match in re.finditer(_FOLDED_PASTE, draft):
            shown += [self._plain(draft[begin : match.start()]), self.fold(match[1])]
            begin = match.end()
        return "".join([*shown, self._plain(draft[begin:])])

    def _plain(self, text: str) -> str:
        """A text that was not pasted; one that is too long to be edited is folded all the same."""
        if len(text) > LONG_TEXT * 5 or text.count("\n") > LONG_LINES * 10:
            return self.fold(text)
        return sanitize_text(text)

    def _full(self, chip: "re.Match[str]", begin: str, end: str) -> str:
        text = self._texts.get(int(chip[1]))
        return chip[0] if text is None else f"{begin}{text}{end}"


CompleteWord: TypeAlias = Callable[[CompletionWord], Awaitable[Sequence[CompletionChoice]]]
"""Tells what a word can become, the best first."""


async def _nothing(word: CompletionWord) -> Sequence[CompletionChoice]:
    del word
    return ()


class ChatInput(TextArea):
    """A text that is sent with enter.

    A long text that is pasted is folded to a few words, which stand for it until it is sent.

    Args:
        past: what was sent before, oldest first; asked for when someone wants to see it.
        complete: tells what a word can become.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "send"),
        Binding("ctrl+s", "steer", "steer the running turn"),
        Binding("ctrl+j,shift+enter,alt+enter", "newline", "new line"),
        Binding("ctrl+c", "app.stop", "interrupt", show=False),
        Binding("up", "older", "earlier prompts", show=False),
        Binding("down", "newer", "later prompts", show=False),
        Binding("ctrl+f", "app.command('search')", "search the transcript"),
        Binding("ctrl+y", "app.command('copy')", "copy the marked block, or the last answer"),
        Binding("ctrl+e", "app.command('queue')", "edit the queued prompts"),
        Binding("alt+g", "app.command('give')", "quote the last command that you ran with !"),
        Binding("alt+up", "app.command('earlier-prompt')", "previous prompt"),
        Binding("alt+down", "app.command('later-prompt')", "next prompt"),
        Binding("ctrl+z", "undo", "undo"),
        Binding("alt+z", "redo", "redo"),
    ]

    class Submitted(Message):
        """A text is to be sent, whole."""

        def __init__(self, text: str, steers: bool = False) -> None:
            super().__init__()
            self.text = text
            self.steers = steers
            """It is for the turn that runs, not for the queue."""

    class ModeChanged(Message):
        """Keys of vim are in another mode; None: they are not wanted."""

        def __init__(self, mode: VimMode | None) -> None:
            super().__init__()
            self.mode = mode

    class HelpWanted(Message):
        """A question mark in an empty input."""

    def __init__(
        self,
        past: Callable[[], Sequence[str]],
        complete: CompleteWord = _nothing,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder=_PLACEHOLDER,
        )
        self.cursor_blink = False  # it would draw twice a second for nothing
        self._past = past
        self._complete = complete
        self.take_empty_key: Callable[[str], bool] = lambda _: False
        """Handles a key that comes while nothing is typed; False: it is handled as always."""
        self._offers: CompletionList | None = None
        self._offered_for: CompletionWord | None = None
        """The word that the list was made for; it may have grown since."""
        self._offering: Worker[None] | None = None
        self._pastes = Pastes()
        self._back = 0
        """How far back in the past the text is from; 0: it is new."""
        self._own_draft = ""
        self._last_key = 0.0
        """When the last key came."""
        self._vim = VimInput(self, self.action_older, self.action_newer)
        self.mode: VimMode | None = None
        """The mode of the keys of vim that is shown."""

    @property
    def draft(self) -> str:
        """What is typed, as it is kept; ``set_text`` takes it."""
        return self._pastes.keep(self.text)

    @property
    def full_text(self) -> str:
        """What would be sent."""
        return self._pastes.expand(self.text)

    def set_text(self, draft: str) -> None:
        """Put another text in, with the cursor at its end; one that is very long is folded."""
        self._back = 0
        if draft != self.draft:
            self._load(draft)
        self._end_offers()

    def add_text(self, text: str) -> None:
        """Put a text at the cursor, as if it was pasted."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        path = parse_image_path(text)
        if path is not None:
            text = format_mention(path) + " "
        self.insert(self._pastes.fold(text) if is_long_paste(text) else sanitize_text(text))

    def action_submit(self, *, steers: bool = False) -> None:
        """Send what is there, unless it is nothing."""
        if self.text.strip():
            self._back = 0
            self._vim.begin_insert()
            self._show_mode()
            self.post_message(self.Submitted(self.full_text, steers))

    def action_steer(self) -> None:
        """Send what is there to the turn that runs."""
        self.action_submit(steers=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where there is no word to delete, the key for it closes the panel, as anywhere else."""
        return action != "delete_word_left" or bool(self.text)

    def action_newline(self) -> None:
        """Begin another line."""
        self.insert("\n")

    def action_older(self) -> None:
        """One line up, or from the first line to the previous prompt."""
        if self.cursor_location[0] > 0 or not self._recall(1):
            self.action_cursor_up()

    def action_newer(self) -> None:
        """One line down, or from the last line to the prompt after."""
        if self.cursor_location[0] < self.document.line_count - 1 or not self._recall(-1):
            self.action_cursor_down()

    def on_key(self, event: events.Key) -> None:
        """Take the keys that the text itself would swallow.

        They are taken here, not by bindings with priority: those run before the characters that
        were typed just before have arrived.
        """
        before, self._last_key = self._last_key, event.time
        is_empty = not self.text
        if (
            self._offered(event.key)
            or (is_empty and self.take_empty_key(event.key))
            or (self._take_vim_key(event))
        ):
            pass
        elif event.key == "enter":
            # Together with the characters before it, as no person types: a terminal that does not
            # mark what is pasted sends it as keys, and no command may run by that.
            if self.text.startswith("!") and event.time - before < _BURST:
                self.action_newline()
            else:
                self.action_submit()
        elif event.key in ("ctrl+j", "shift+enter", "alt+enter"):
            self.action_newline()
        elif event.character == "?" and not self.text:
            self.post_message(self.HelpWanted())
        else:
            return
        event.prevent_default()
        event.stop()

    def _take_vim_key(self, event: events.Key) -> bool:
        if (event.character == "?" and not self.text) or not uses_vim(self):
            return False
        if not self._vim.take(event.key, event.character):
            return False
        self._show_mode()
        return True

    def _show_mode(self) -> None:
        mode = self._vim.mode if uses_vim(self) else None
        if mode != self.mode:
            self.mode = mode
            self.post_message(self.ModeChanged(mode))

    def on_focus(self) -> None:
        """Show the mode, where there are modes."""
        self._show_mode()

    def on_paste(self, event: events.Paste) -> None:
        """A clipboard may hold what would act on the terminal when it is drawn, or far too much."""
        event.prevent_default()
        event.stop()
        self.add_text(event.text)

    def on_resize(self) -> None:
        """Offer again what is offered, where there is another room for it."""
        if self._offers is not None and self._offers.display:
            self._look_for_offers()

    def on_blur(self) -> None:
        """Offer nothing to who is elsewhere."""
        self._end_offers()

    def on_unmount(self) -> None:
        """Take the list along."""
        if self._offers is not None and self._offers.is_attached:
            self._offers.leave()

    # Completion

    @on(TextArea.Changed)
    def _look_for_offers(self) -> None:
        word = self._word()
        if word is None or not self.has_focus:
            self._end_offers()
        else:
            self._stop_offering()
            self._offering = self.run_worker(partial(self._offer, word), group="offers")

    @on(TextArea.SelectionChanged)
    def _moved(self) -> None:
        if self._word() is None:
            self._end_offers()

    def _word(self) -> CompletionWord | None:
        row, column = self.cursor_location
        line = self.document.get_line(row) if row < self.document.line_count else ""
        return find_completion_word(
            line, column, is_first=not row and self.document.line_count == 1
        )

    async def _offer(self, word: CompletionWord) -> None:
        offers = await self._complete(word)
        if word != self._word() or not self.has_focus:
            return
        if len(offers) == 1 and offers[0].text == self._written(word):
            offers = ()  # it stands there already
        if self._offers is None:
            from .completion_list import CompletionList  # not part of the first frame

            self._offers = CompletionList()
            self._offers.offer_to = self._take
            await self.screen.mount(self._offers)
            # Textual says of its type only that it is some screen's.
            cast("Any", self.screen).screen_layout_refresh_signal.subscribe(self, self._follow)
        self._offered_for = word
        self._offers.show(offers, self._offer_place(word))

    def _follow(self, _: "Screen[object]") -> None:
        """What is above the input may get another height, and the input another place."""
        if self._offers is not None and self._offered_for is not None and self.has_focus:
            self._offers.follow(self._offer_place(self._offered_for))

    def _offer_place(self, word: CompletionWord) -> Offset:
        cursor = self.cursor_screen_offset
        return Offset(max(0, cursor.x - len(word.typed) - 1), self.region.y - 1)

    def _offered(self, key: str) -> bool:
        """Do with the offers what a key says; False: it says nothing about them."""
        offers = self._offers
        chosen = offers.chosen if offers is not None else None
        if offers is None or chosen is None:
            return False
        word = self._word()
        if word != self._offered_for:
            return False
        if key == "enter" and word is not None and chosen.text == self._written(word):
            self._end_offers()
            return False
        if key in ("up", "down"):
            offers.action_step(-1 if key == "up" else 1)
        elif key in ("tab", "enter"):
            self._take(chosen)
        elif key == "escape":
            self._end_offers()
        else:
            return False
        return True

    def _take(self, offer: CompletionChoice) -> None:
        word = self._word()
        if word is None:
            return
        row, column = self.cursor_location
        self.replace(sanitize_text(offer.text) + " ", (row, word.start), (row, column))
        self._end_offers()

    def _written(self, word: CompletionWord) -> str:
        row, column = self.cursor_location
        return self.document.get_line(row)[word.start : column]

    def _end_offers(self) -> None:
        self._stop_offering()
        if self._offers is not None and self._offers.display:
            self._offers.hide()

    def _stop_offering(self) -> None:
        if self._offering is not None:
            self._offering.cancel()
            self._offering = None

    # The past

    def _recall(self, step: int) -> bool:
        past = self._past()
        back = self._back + step
        if not 0 <= back <= len(past):
            return False
        if self._back == 0:
            self._own_draft = self.draft
        self._load(past[-back] if back else self._own_draft)
        self._back = back
        return True

    def _load(self, draft: str) -> None:
        self.load_text(self._pastes.restore(draft))
        self.move_cursor(self.document.end)
