"""The part of the fleet's API about permission requests: groups of open ones, and rules tried on
recorded ones.
"""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.policy.modes import Effect, Mode
from quarterdeck.wire.ids import RequestId, SessionId

from ..method import fleet_method

__all__ = [
    "BackTest",
    "FleetRequests",
    "GroupAnswer",
    "GroupMember",
    "RecordedAnswer",
    "RequestGroup",
    "RequestTraits",
    "RuleSuggestion",
    "TriedRequest",
]

RecordedAnswer: TypeAlias = Literal["allow", "deny", "none"]
"""What was decided then; ``none``: no one answered, or the turn was cancelled before."""


class RequestTraits(Struct, frozen=True, kw_only=True):
    """What of an open permission request decides which others one answer may decide with it."""

    group: str
    """Equal for those requests; a hash that says nothing else."""
    what: str
    """The command, or what the agent calls it; foreign text."""
    rule: str = ""
    """The narrowest rule that would answer it; empty: none can."""
    risk: int = 0
    """How much is at stake: 0 nothing special, 1 it cannot be judged or reads elsewhere, 2 it
    reaches beyond the workspace, 3 what it does may last."""
    risks: tuple[str, ...] = ()
    """Why, in a few words each."""
    arguments: dict[str, str] = {}
    """What may differ between requests of a group, whole."""


class GroupMember(Struct, frozen=True, kw_only=True):
    """A request in a group."""

    request: RequestId
    session: SessionId
    name: str
    """The agent's."""
    cwd: str
    since: int
    differences: dict[str, str] = {}
    """Arguments in which the members of the group differ."""


class RequestGroup(Struct, frozen=True, kw_only=True):
    """Open requests that one answer may decide: equal ones, or covered by the same narrowest rule,
    and treated alike by the policy.
    """

    what: str
    """What all of them ask for; foreign text."""
    members: tuple[GroupMember, ...]
    """Oldest first; at least one."""
    agents: int
    """How many agents are blocked."""
    rule: str = ""
    risk: int = 0
    risks: tuple[str, ...] = ()
    is_question: bool = False
    """It is a question; such a group has one member."""

    @property
    def first(self) -> RequestId:
        """The oldest request, by which the group is named."""
        return self.members[0].request

    @property
    def requests(self) -> tuple[RequestId, ...]:
        """All of its requests, oldest first."""
        return tuple(one.request for one in self.members)


class GroupAnswer(Struct, frozen=True, kw_only=True):
    """What became of an answer to several requests; each is in one of the three."""

    answered: tuple[RequestId, ...] = ()
    waiting: tuple[RequestId, ...] = ()
    """Allowed by this person, and still open: others have to allow them too."""
    skipped: tuple[RequestId, ...] = ()
    """Answered by someone else before."""


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
    """Permission requests, open and recorded."""

    @fleet_method()
    async def inbox_groups(self) -> list[RequestGroup]:
        """What waits for a person, equal requests together: the riskiest first, then those that
        block the most agents, then the oldest.
        """
        ...

    @fleet_method(changes=True)
    async def answer_group(
        self,
        requests: tuple[RequestId, ...],
        choice: str,
        *,
        by: str = "person",
        feedback: str | None = None,
    ) -> GroupAnswer:
        """Answer just these permission requests alike, each by its own option.

        ``choice``: an option's kind, or the id of an option of the first request; the others are
        answered by their own option that means the same. Nothing is answered if one has none.

        Raises:
            NoSuchRequestError: there never was one of them.
            NotAnApproverError: one of them has to be allowed by other people.
            ValueError: one of them offers no such option, or is a question.
        """
        ...

    @fleet_method(changes=True)
    async def ask_approval(
        self,
        agent: str,
        request: RequestId,
        title: str,
        *,
        reason: str | None = None,
        text: str = "",
    ) -> bool:
        """Ask a person to approve the work of an agent, live or not; returns at once.

        It is a permission request with two options, in the inbox as any other; its
        ``permission_answered`` in the log is the answer. It stays open when the host ends. The end
        of a session that was resumed closes it without an answer: then ask again. False: it is
        open or answered already.

        Args:
            agent: by name or id.
            request: its id, chosen by the caller, so that asking again is safe.
            title: what is to be approved, in a line.
            reason: why a person is asked.
            text: what the decision needs.

        Raises:
            NoSuchAgentError: there is none.
        """
        ...

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
