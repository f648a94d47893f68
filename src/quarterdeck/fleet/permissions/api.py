"""The part of the fleet's API about recorded permission requests: rules tried on them."""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.policy.modes import Effect, Mode
from quarterdeck.wire.ids import SessionId

from ..method import fleet_method

__all__ = ["BackTest", "FleetRequests", "RecordedAnswer", "RuleSuggestion", "TriedRequest"]

RecordedAnswer: TypeAlias = Literal["allow", "deny", "none"]
"""What was decided then; ``none``: no one answered, or the turn was cancelled before."""


class TriedRequest(Struct, frozen=True, kw_only=True):
    """A recorded request, and what rules would decide about it."""

    seq: int
    """Of the record in the log."""
    time: int
    session: SessionId
    name: str
    """The agent's, where it has one, else its kind."""
    what: str
    """The command, path, address or tool, on one line; foreign text."""
    cwd: str
    mode: Mode
    then: RecordedAnswer
    by: str
    """Who or what answered then: ``person``, ``rule …``, ``mode …``."""
    now: Effect
    """What the rules would decide."""
    reason: str | None = None
    """Why it would be asked or denied."""
    depends_on_files: bool = False
    """Files that may have changed since have a part in it: the decision then may have differed."""


class BackTest(Struct, frozen=True, kw_only=True):
    """Rules, tried on the requests of the past."""

    rules: tuple[str, ...]
    requests: int
    """Requests that were put to a person."""
    allowed: int
    """Those of them that the rules would allow."""
    denied: int
    """Those that they would deny."""
    asked: int
    """Those that a person would still be asked about."""
    allowed_denied: int
    """Requests that the rules would allow and a person denied."""
    denied_allowed: int
    """Calls that the rules would deny and that were allowed then, by a person, a rule or a mode."""
    decided: int = 0
    """Calls that a rule or mode decided then, with no one asked; only rules that deny or ask
    change what becomes of them."""
    uncertain: int = 0
    """How many of all depend on files that may have changed."""
    unread: int = 0
    """Decisions whose call is not in the log."""
    disagreements: tuple[TriedRequest, ...] = ()
    """Requests that would be allowed and were denied, then the other way round; the latest
    first."""
    is_cut: bool = False
    """There are more disagreements than were asked for."""

    @property
    def answered(self) -> int:
        """Requests that no person would have been asked about."""
        return self.allowed + self.denied

    def describe(self, period: str = "") -> str:
        """In a sentence for a dialog: ``would have answered 31 of 34 requests of this week``."""
        when = f" {period}" if period else ""
        if not self.requests:
            return f"no requests{when} to try it on"
        words = f"would have answered {self.answered} of {self.requests} requests{when}"
        if self.allowed_denied:
            return f"{words}, {self.allowed_denied} that you denied"
        return f"{words}, none that you denied"


class RuleSuggestion(Struct, frozen=True, kw_only=True):
    """Patterns for allow rules that would have answered what people always approved."""

    patterns: tuple[str, ...]
    """All of them together; mostly one."""
    saved: int
    """Requests that a person approved and would not have been asked about, without those that
    suggestions before this one cover."""
    covers: int
    """All approved requests that it would have answered."""
    is_wide: bool
    """It covers more than the very calls that were approved."""
    examples: tuple[TriedRequest, ...]
    """Up to three different ones."""
    others: int
    """Further recorded requests that it would let through: no person approved them."""
    other_examples: tuple[TriedRequest, ...] = ()


class FleetRequests(Protocol):
    """Recorded permission requests."""

    @fleet_method()
    async def back_test(
        self,
        rules: tuple[str, ...],
        *,
        since: int | None = None,
        project: str | None = None,
        limit: int = 100,
    ) -> BackTest:
        """Decide about every recorded permission request by these rules and the mode of the time.

        The rules stand alone: those of the settings and grants do not count. ``since``: in
        microseconds since the epoch. ``project``: only of this project. ``limit``: disagreements.

        Raises:
            RuleError: a rule cannot be read.
        """
        ...

    @fleet_method()
    async def suggest_rules(
        self, *, since: int | None = None, project: str | None = None, limit: int = 20
    ) -> list[RuleSuggestion]:
        """The narrowest rules for what people always approved and never denied, best first."""
        ...
