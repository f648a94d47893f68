"""Long texts that were pasted: a few words stand for each in the input, and all of it is sent.

A draft that is kept has the texts themselves, each between two control characters, so that it can
be read again after a restart; those characters are taken out of what is pasted.
"""

import re

from .literal import literal

__all__ = ["LONG_LINES", "LONG_TEXT", "Pastes", "is_long", "unfolded"]

LONG_TEXT = 2_000
"""Characters above which a paste is folded."""
LONG_LINES = 20
_BEGIN, _END = "\x02", "\x03"
_KEPT = re.compile(f"{_BEGIN}([^{_BEGIN}{_END}]*){_END}")
_CHIP = re.compile(r"\[pasted text #(\d+), [\d,]+ (?:lines|characters)\]")


def is_long(text: str) -> bool:
    """Whether a paste is folded."""
    return len(text) > LONG_TEXT or text.count("\n") > LONG_LINES


def unfolded(draft: str) -> str:
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
        return _CHIP.sub(lambda chip: self._full(chip, "", ""), shown) if self._texts else shown

    def keep(self, shown: str) -> str:
        """The same as a draft, which ``restore`` takes apart again."""
        if not self._texts:
            return shown
        return _CHIP.sub(lambda chip: self._full(chip, _BEGIN, _END), shown)

    def restore(self, draft: str) -> str:
        """What to show of a draft, instead of what was there before."""
        self._texts.clear()
        begin = 0
        shown: list[str] = []
        for kept in _KEPT.finditer(draft):
            shown += [self._plain(draft[begin : kept.start()]), self.fold(kept[1])]
            begin = kept.end()
        return "".join([*shown, self._plain(draft[begin:])])

    def _plain(self, text: str) -> str:
        """A text that was not pasted; one that is too long to be edited is folded all the same."""
        if len(text) > LONG_TEXT * 5 or text.count("\n") > LONG_LINES * 10:
            return self.fold(text)
        return literal(text)

    def _full(self, chip: "re.Match[str]", begin: str, end: str) -> str:
        text = self._texts.get(int(chip[1]))
        return chip[0] if text is None else f"{begin}{text}{end}"
