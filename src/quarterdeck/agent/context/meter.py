"""How full the window of a session's model is."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from quarterdeck.models.model import Model
from quarterdeck.wire.usage import ContextUsage

from ..conversation import Conversation
from .gauge import bytes_of
from .marks import Marks, marks_of

if TYPE_CHECKING:
    from ..session import Setup

__all__ = ["Meter"]

_TAIL_OF_FREE = 0.4
"""Of what tools and instructions leave: the newest messages that may stay, where that is little."""


class Meter:
    """Measures a conversation by the model that is asked; nothing here costs more with its length.

    Args:
        setup: what the session works with; its model may change.
    """

    def __init__(self, setup: "Setup", conversation: Conversation) -> None:
        self._setup = setup
        self._conversation = conversation
        self._limits: dict[str, int] = {}
        """What a vendor refused although the model's window is said to be larger."""
        self._overhead: tuple[object, str, int] | None = None

    def marks(self, model: Model) -> Marks:
        """Where the stages begin, by what is known of the model and what it refused."""
        info = model.info
        if (limit := self._limits.get(info.name)) is not None and limit < info.window:
            info = structs.replace(info, window=max(limit, 1))
        return marks_of(info, self._setup.context)

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
        marks = marks_of(model.info, self._setup.context)
        return marks.answer_room(self.estimate(model), model.info.max_output)

    def usage(self, model: Model) -> ContextUsage:
        """The same for people."""
        return ContextUsage(used=self.estimate(model), size=model.info.window)

    def bytes(self, tokens: float) -> int:
        """Bytes that so many tokens are, about."""
        return round(tokens / self._conversation.gauge.scale(self.overhead()))

    def tail(self, marks: Marks, tokens: float) -> int:
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
