"""A model as its wire needs to know it."""

from typing import Literal, TypeAlias

from msgspec import Struct

from .model import ModelInfo

__all__ = ["ModelProfile", "ReasoningStyle"]

ReasoningStyle: TypeAlias = Literal[
    "none", "budget", "adaptive", "switch", "between_tools", "always", "effort", "level"
]
"""How a model is told to think.

``none``: it cannot be told. Claude: ``budget`` counts tokens and is off unless asked; ``adaptive``
is off unless asked; ``switch`` thinks unless disabled; ``between_tools`` has that as its least;
``always`` cannot stop. OpenAI and its kin: ``effort`` knows ``none``, ``always`` does not.
Gemini: ``level``.
"""


class ModelProfile(Struct, frozen=True, kw_only=True):
    """What is known of a model, and how it is told to think."""

    info: ModelInfo
    reasoning: ReasoningStyle = "none"

    @property
    def owner(self) -> str:
        """Whose thinking and signatures go back unchanged: this model's and no other's.

        Newer models refuse even the sealed thinking of a sibling.
        """
        return self.info.name
