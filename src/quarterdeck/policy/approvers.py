"""Which people have to allow a call: policies for teams, pure.

A policy holds for the calls that its pattern touches, taken at its broadest like a deny rule: what
may be meant is meant. Of several that hold, each has to be satisfied.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from quarterdeck.wire.permissions import ApprovalRule

if TYPE_CHECKING:
    from .call import Call
    from .rules import Pattern

__all__ = [
    "ApproverPolicy",
    "approvals_for",
    "describe_approvals",
    "describe_people",
    "is_approved",
    "list_approvers",
]


class ApproverPolicy(Struct, frozen=True, kw_only=True):
    """Who has to allow the calls that a pattern touches."""

    rule: ApprovalRule
    pattern: "Pattern | None" = None
    """None: every call."""


def approvals_for(
    policies: Iterable[ApproverPolicy], call: "Call | None"
) -> tuple[ApprovalRule, ...]:
    """What has to be satisfied before a call runs; without a call what holds for every one."""
    found: dict[ApprovalRule, None] = {}
    for policy in policies:
        if policy.pattern is None or (call is not None and _touches(policy.pattern, call)):
            found[policy.rule] = None
    return tuple(found)


def _touches(pattern: "Pattern", call: "Call") -> bool:
    from .call_parts import parts_of
    from .matching import touches

    return any(touches(pattern, part, call) != "no" for part in parts_of(call))


def is_approved(rules: Iterable[ApprovalRule], people: Collection[str]) -> bool:
    """Whether these people are enough for all of the rules."""
    return all(_count(rule, people) >= rule.needed for rule in rules)


def list_approvers(rules: Iterable[ApprovalRule]) -> tuple[str, ...]:
    """All people who may answer, in the order of the rules."""
    return tuple(dict.fromkeys(name for rule in rules for name in rule.people))


def describe_approvals(rules: Iterable[ApprovalRule], people: Collection[str]) -> str:
    """How far it is, in a few words: ``1 of 2: ann allowed``; empty: the first answer counts."""
    words: list[str] = []
    for rule in rules:
        allowed = [name for name in rule.people if name in people]
        left = [name for name in rule.people if name not in people]
        if allowed:
            words.append(f"{len(allowed)} of {rule.needed}: {', '.join(allowed)} allowed")
        else:
            words.append(f"needs {describe_people(left, rule.needed)}")
    return "; ".join(words)


def describe_people(people: Iterable[str], needed: int) -> str:
    """Who has to allow a call: ``ann``, ``ann or bob``, ``2 of ann, bob``."""
    return " or ".join(people) if needed == 1 else f"{needed} of {', '.join(people)}"


def _count(rule: ApprovalRule, people: Collection[str]) -> int:
    return sum(name in people for name in dict.fromkeys(rule.people))
