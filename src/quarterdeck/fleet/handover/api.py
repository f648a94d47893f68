"""The fleet's API for hand-overs: what is asked for, and the brief that the new agent gets."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.settings import PlanEntry

from ..method import fleet_method

__all__ = ["FleetHandovers", "HandoverBrief", "HandoverOptions"]

_Variables: type[dict[str, str]] = dict


class HandoverOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the work of an agent is handed over."""

    to: str
    """The agent that takes over: a name of the catalogue."""
    name: str | None = None
    """What the new agent is called; None: one is made up."""
    model: str | None = None
    """By the new agent's own name for it."""
    transport: str | None = None
    """How the new agent is reached; None: the first that starts."""
    environment: Mapping[str, str] = field(default_factory=_Variables)
    """Variables for the new agent. The log does not keep their values."""
    prompt: str | None = None
    """What it is to do now; None: continue the work."""
    keep: bool = False
    """The old agent stays, with its queued prompts and its children."""
    summary: bool = False
    """Ask the old agent for a summary first, if it is live; it costs a turn."""


class HandoverBrief(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What another agent needs to continue a session. Every list and text is bounded."""

    agent: str
    """Which agent worked so far."""
    name: str
    session: SessionId
    cwd: str
    goal: str = ""
    """The first prompt, and the goal that was set, if one was."""
    prompts: tuple[str, ...] = ()
    """The newest prompts after the first, oldest first."""
    demands: tuple[str, ...] = ()
    """Sentences of older prompts that demand something."""
    plan: tuple[PlanEntry, ...] = ()
    decisions: tuple[str, ...] = ()
    """What was decided: answers to questions, refusals, pinned messages, what the agent calls a
    decision."""
    questions: tuple[str, ...] = ()
    """What is open: questions without an answer, requests that were not decided, comments."""
    changed: tuple[str, ...] = ()
    """Files that were changed, the latest last."""
    read: tuple[str, ...] = ()
    """Files that were only read, the latest last."""
    errors: tuple[str, ...] = ()
    """The latest failures."""
    children: tuple[str, ...] = ()
    """Agents that it started and that are still there."""
    instructions: str = ""
    """What was added to its system prompt."""
    summary: str = ""
    """In the words of the old agent: what it was asked for, or of its last compaction."""
    answer: str = ""
    """Its last message."""
    diff: str = ""
    """What it changed, as a patch."""
    is_diff_cut: bool = False
    """The patch is longer."""
    earlier: int = 0
    """How many hand-overs came before; their sessions are part of this brief."""


class FleetHandovers(Protocol):
    """What a hand-over would tell; ``Fleet.hand_over`` does it."""

    @fleet_method()
    async def handover_brief(self, agent: str) -> HandoverBrief:
        """The brief that another agent would get now, secrets masked. Nothing is changed.

        Raises:
            NoSuchAgentError: there is no such agent.
        """
        ...
