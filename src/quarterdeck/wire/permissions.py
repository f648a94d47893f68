"""The values of a permission request and its answer."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from .values import AcpValue, Value

__all__ = [
    "ApprovalRule",
    "Cancelled",
    "Decider",
    "PermissionKind",
    "PermissionOption",
    "PermissionOutcome",
    "QuestionAction",
    "Selected",
    "option_of_kind",
]

PermissionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
QuestionAction: TypeAlias = Literal["accept", "decline", "cancel"]


class PermissionOption(AcpValue, frozen=True, kw_only=True):
    """One choice that an asker offers.

    ``kind`` is a ``PermissionKind``; a kind that we do not know is kept as it came and never
    counts as permission.
    """

    option_id: str
    name: str
    kind: str


def option_of_kind(options: Iterable[PermissionOption], kind: str) -> str | None:
    """The id of the first option of a kind; None: there is none.

    An option that lasts is meant by its kind only if we keep it ourselves: what an agent would
    remember is chosen by its id.
    """
    for option in options:
        is_ours = "quarterdeck" in (option.meta or {})
        if option.kind == kind and (is_ours or not kind.endswith("_always")):
            return option.option_id
    return None


class Selected(AcpValue, frozen=True, kw_only=True, tag_field="outcome", tag="selected"):
    """One of the offered options was chosen."""

    option_id: str


class Cancelled(AcpValue, frozen=True, kw_only=True, tag_field="outcome", tag="cancelled"):
    """No choice was made: the turn was cancelled, the asker died, or the wait ran out."""


PermissionOutcome: TypeAlias = Selected | Cancelled


class ApprovalRule(Value, frozen=True, kw_only=True):
    """Which people have to allow a call before it runs."""

    people: tuple[str, ...]
    needed: int = 1
    """How many of them."""
    match: str | None = None
    """The pattern of the calls that it is for; None: all."""


class Decider(Value, frozen=True, kw_only=True):
    """Who or what answered."""

    kind: Literal["person", "rule", "mode", "hook", "agent", "timeout", "cancel"]
    name: str | None = None
    """The rule's text, the agent's session, the person's client: whatever names it."""
