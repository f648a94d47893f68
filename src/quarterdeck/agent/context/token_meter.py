"""How full the window of a session's model is, and the thresholds at which room is made."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from quarterdeck.config.schema import ContextSettings
from quarterdeck.models.model import Model, ModelInfo
from quarterdeck.wire.usage import ContextUsage

from ..conversation import Conversation
from .token_estimate import bytes_of

if TYPE_CHECKING:
    from ..session_setup import SessionSetup

__all__ = ["Thresholds", "TokenMeter", "thresholds_of"]

_LEAST_RESERVE = 512
_TAIL = 0.25
"""Of what can be used: how much of the newest steps stays whole."""
_GAIN = 0.25
"""Of what can be used: less is not worth losing the vendor's cache for."""
_SLACK = 0.02
"""Of the window: how far an estimate may be off before the length of an answer is limited."""


class Thresholds(Struct, frozen=True, kw_only=True):
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


def thresholds_of(info: ModelInfo, settings: ContextSettings) -> Thresholds:
    """The marks for a model: a fifth of its window at most is kept free for its answer."""
    reserve = min(info.max_output, max(info.window // 5, _LEAST_RESERVE))
    usable = max(1, info.window - reserve)
    clear, summarise, wait = (
        round(usable * mark)
        for mark in (settings.clear_at, settings.summarise_at, settings.wait_at)
    )
    return Thresholds(
        window=info.window,
        reserve=reserve,
        clear=clear,
        summarise=max(summarise, clear),
        wait=max(wait, summarise, clear),
        tail=round(min(usable * _TAIL, clear / 2)),
        gain=round(min(usable * _GAIN, clear * 0.4)),
    )


_TAIL_OF_FREE = 0.4
"""Of what tools and instructions leave: the newest messages that may stay, where that is little."""


class TokenMeter:
    """Measures a conversation by the model that is asked; nothing here costs more with its length.

    Args:
        setup: what the session works with; its model may change.
    """

    def __init__(self, setup: "SessionSetup", conversation: Conversation) -> None:
        self._setup = setup
        self._conversation = conversation
        self._limits: dict[str, int] = {}
        """Sizes that a vendor refused although the model's documented window is larger."""
        self._overhead: tuple[object, str, int] | None = None

    def marks(self, model: Model) -> Thresholds:
        """Where the stages begin, by what is known of the model and what it refused."""
        info = model.info
        if (limit := self._limits.get(info.name)) is not None and limit < info.window:
            info = structs.replace(info, window=max(limit, 1))
        return thresholds_of(info, self._setup.context)

    def refused(self, model: Model) -> None:
        """The vendor says that the request as it is now is too large."""
        self._limits[model.info.name] = min(self.estimate(model), self.marks(model).window)

    def estimate(self, model: Model) -> int:
        """Tokens of the next request."""
        conversation = self._conversation
        return conversation.gauge.tokens(conversation.size, self.overhead(), model.info.name)

    def answer_room(self, model: Model) -> int | None:
        """The longest answer that fits beside the next request; None: as the model likes."""
        # By the stated window: this goes into the request, and must be the same after a resume.
        marks = thresholds_of(model.info, self._setup.context)
        return marks.answer_room(self.estimate(model), model.info.max_output)

    def usage(self, model: Model) -> ContextUsage:
        """The same for people."""
        return ContextUsage(used=self.estimate(model), size=model.info.window)

    def bytes(self, tokens: float) -> int:
        """Bytes that so many tokens are, about."""
        return round(tokens / self._conversation.gauge.scale(self.overhead()))

    def tail(self, marks: Thresholds, tokens: float) -> int:
        """Bytes of the newest messages that may stay whole; ``tokens`` at most."""
        free = self.bytes(marks.usable) - self.overhead()
        return max(1, min(self.bytes(tokens), round(free * _TAIL_OF_FREE)))

    def overhead(self) -> int:
        """Bytes of system prompt and tools."""
        specs, system = self._setup.toolbox.specs, self._setup.system_prompt
        known = self._overhead
        if known is None or known[0] is not specs or known[1] is not system:
            known = (specs, system, bytes_of(system) + len(msgspec.json.encode(specs)))
            self._overhead = known
        return known[2]
