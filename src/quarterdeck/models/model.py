"""The API of a language model: what goes in, what comes out, and nothing of any vendor.

A model is asked with a ``ModelRequest`` and answers with a stream of ``Delta`` values that ends
with exactly one ``ReplyFinished``. Everything that can go wrong leaves ``stream`` as a
``ModelError``.
"""

from collections.abc import AsyncIterator
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.wire.conversation import Message
from quarterdeck.wire.settings import Effort
from quarterdeck.wire.usage import TokenUsage

__all__ = [
    "Delta",
    "Effort",
    "Model",
    "ModelInfo",
    "ModelProfile",
    "ModelRequest",
    "ModelStop",
    "Prices",
    "ReasoningStyle",
    "ReplyFinished",
    "TextDelta",
    "ThinkingDelta",
    "ToolSpec",
    "ToolUseDelta",
    "ToolUseStarted",
]

ModelStop: TypeAlias = Literal["end_turn", "tool_use", "max_tokens", "refusal", "other"]


class Prices(Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cached: float = 0.0
    cache_written: float = 0.0


class ModelInfo(Struct, frozen=True, kw_only=True):
    """What is known of a model; see ``catalogue`` for where it comes from."""

    vendor: str
    id: str
    """The vendor's own id."""
    window: int
    """Tokens that prompt and answer may have together."""
    max_output: int
    images: bool = True
    thinking: bool = False
    tools: bool = True
    prices: Prices | None = None
    """None: unknown, so costs are not stated."""
    known: bool = True
    """False: the figures are the stated defaults for models that we do not know."""

    @property
    def name(self) -> str:
        """The name people use: ``vendor/id``."""
        return f"{self.vendor}/{self.id}"


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as the model sees it; ``parameters`` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One call of a model. Same values, same bytes on the wire."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output: int | None = None
    effort: Effort = "off"


class TextDelta(Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """A piece of the model's reasoning, where the vendor shows it."""

    text: str


class ToolUseStarted(Struct, frozen=True):
    """The model begins to write a tool call."""

    id: str
    name: str


class ToolUseDelta(Struct, frozen=True):
    """A piece of the JSON text of the call's arguments."""

    id: str
    json: str


class ReplyFinished(Struct, frozen=True, kw_only=True):
    """The answer is complete: the last value of every stream that does not raise."""

    reply: Message
    stop: ModelStop
    usage: TokenUsage
    raw_stop: str | None = None


Delta: TypeAlias = TextDelta | ThinkingDelta | ToolUseStarted | ToolUseDelta | ReplyFinished


class Model(Protocol):
    """A language model that can be asked."""

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Ask the model once; retries are the caller's.

        Closing the iterator or cancelling the task ends the call at once and frees the
        connection. A text or thinking delta is passed on as soon as it arrives.

        Raises:
            ModelError: from the iterator, whatever went wrong, with the partial reply if any.
        """
        ...

    async def close(self) -> None:
        """Free connections; calls under way end with ``ModelError``."""
        ...


ReasoningStyle: TypeAlias = Literal[
    "none", "budget", "adaptive", "switch", "between_tools", "always", "effort", "level"
]
"""How thinking is set for a model.

``none``: it cannot be set. Claude: ``budget`` counts tokens and is off unless asked; ``adaptive``
is off unless asked; ``switch`` thinks unless disabled; ``between_tools`` has that as its least;
``always`` cannot stop. OpenAI and compatible: ``effort`` knows ``none``, ``always`` does not.
Gemini: ``level``.
"""


class ModelProfile(Struct, frozen=True, kw_only=True):
    """What is known of a model, and how its thinking is set."""

    info: ModelInfo
    reasoning: ReasoningStyle = "none"

    @property
    def owner(self) -> str:
        """The owner of the thinking and signatures that are sent back unchanged: this model only.

        Newer models refuse even the sealed thinking of a sibling.
        """
        return self.info.name
