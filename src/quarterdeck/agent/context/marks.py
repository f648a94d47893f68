"""Where the stages begin, in tokens of the model that is asked."""

from msgspec import Struct

from quarterdeck.config.schema import ContextSettings
from quarterdeck.models.model import ModelInfo

__all__ = ["Marks", "marks_of"]

_LEAST_RESERVE = 512
_TAIL = 0.25
"""Of what can be used: how much of the newest steps stays whole."""
_GAIN = 0.25
"""Of what can be used: less is not worth losing the vendor's cache for."""
_SLACK = 0.02
"""Of the window: what an estimate may be wrong by before an answer is told to be shorter."""


class Marks(Struct, frozen=True, kw_only=True):
    """The marks of one model, in tokens."""

    window: int
    reserve: int
    """What is left free for the answer."""
    clear: int
    summarise: int
    wait: int
    tail: int
    """The newest messages that stay whole, at most."""
    gain: int
    """What clearing or summarising must free to be worth it."""

    @property
    def usable(self) -> int:
        """What a request may have."""
        return self.window - self.reserve

    def answer_room(self, estimate: int, max_output: int) -> int | None:
        """The longest answer to a request of that size; None: as long as the model likes."""
        left = self.window - estimate - round(self.window * _SLACK)
        return None if left >= max_output else max(left, min(_LEAST_RESERVE, max_output))


def marks_of(info: ModelInfo, settings: ContextSettings) -> Marks:
    """The marks for a model: a fifth of its window at most is kept free for its answer."""
    reserve = min(info.max_output, max(info.window // 5, _LEAST_RESERVE))
    usable = max(1, info.window - reserve)
    clear, summarise, wait = (
        round(usable * mark)
        for mark in (settings.clear_at, settings.summarise_at, settings.wait_at)
    )
    return Marks(
        window=info.window,
        reserve=reserve,
        clear=clear,
        summarise=max(summarise, clear),
        wait=max(wait, summarise, clear),
        tail=round(min(usable * _TAIL, clear / 2)),
        gain=round(min(usable * _GAIN, clear * 0.4)),
    )
