"""A text that grows, wrapped as it comes: one more piece costs what the piece costs."""

import copy

from rich.cells import cell_len, chop_cells

from .lines import Line, Wrapping, words_of

__all__ = ["GrowingLines"]


class GrowingLines:
    """Wraps text at one width, piece by piece, to what wrapping it whole would give.

    Lines that are full never change: a word that did not fit does not fit later either. Only the
    last word is held back, because it may go on.
    """

    def __init__(self, width: int, role: str = "text") -> None:
        self.width = max(1, width)
        self._role = role
        self._wrapping = Wrapping(self.width)
        self._word = ""

    def add(self, text: str) -> None:
        """Take the next piece, which must be literal already."""
        first, *others = (self._word + text).split("\n")
        self._word = self._wrapped(first)
        for line in others:
            self._wrapping.add_last(self._word, self._role)
            self._wrapping.next_text()
            self._word = self._wrapped(line)

    @property
    def full(self) -> list[Line]:
        """The lines that never change any more; only ever grows."""
        return self._wrapping.done

    @property
    def rest(self) -> list[Line]:
        """The lines after those, at this moment."""
        trial = copy.copy(self._wrapping)
        trial.done, trial.line = [], list(self._wrapping.line)
        trial.add_last(self._word, self._role)
        return trial.end()

    @property
    def lines(self) -> list[Line]:
        """All lines at this moment."""
        return [*self.full, *self.rest]

    def _wrapped(self, text: str) -> str:
        """Wrap all words but the last, which is returned."""
        if not text:
            return ""
        *words, last = words_of(text)
        for word in words:
            self._wrapping.add(word, self._role)
        if not last.isspace() and cell_len(last) > self.width:
            *full, rest = chop_cells(last, self.width)
            # Longer than any line already: its beginning is where it will stay.
            for part in full:
                self._wrapping.add_row(part, self._role)
            return rest
        return last
