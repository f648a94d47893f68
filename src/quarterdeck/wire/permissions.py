"""The values of a permission request and its answer."""

from typing import Literal, TypeAlias

from .values import AcpValue, Value

__all__ = [
    "Cancelled",
    "Decider",
    "PermissionKind",
    "PermissionOption",
    "PermissionOutcome",
    "QuestionAction",
    "Selected",
]

PermissionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
QuestionAction: TypeAlias = Literal["accept", "decline", "cancel"]


class PermissionOption(AcpValue, frozen=True, kw_only=True):
    """One choice that an asker offers.

    ``kind`` is a ``PermissionKind``; a kind that we do not know is kept as it came and never
    counts as leave.
    """

    option_id: str
    name: str
    kind: str


class Selected(AcpValue, frozen=True, kw_only=True, tag_field="outcome", tag="selected"):
    """One of the offered options was chosen."""

    option_id: str


class Cancelled(AcpValue, frozen=True, kw_only=True, tag_field="outcome", tag="cancelled"):
    """Nobody chose: the turn was cancelled, the asker died, or the wait ran out."""


PermissionOutcome: TypeAlias = Selected | Cancelled


class Decider(Value, frozen=True, kw_only=True):
    """Who or what answered."""

    kind: Literal["person", "rule", "mode", "hook", "agent", "timeout", "cancel"]
    name: str | None = None
    """The rule's text, the agent's session, the person's client: whatever names it."""
