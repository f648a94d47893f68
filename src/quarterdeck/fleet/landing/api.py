"""Landing as callers see it: options, previews, results, and the methods of the fleet."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.values import Value
from quarterdeck.wire.worktrees import ChangeCounts, LandingMethod

from ..method import fleet_method

__all__ = [
    "FleetLandings",
    "LandingConflict",
    "LandingEntry",
    "LandingFile",
    "LandingOptions",
    "LandingPreview",
    "LandingQueueInfo",
    "LandingResult",
    "LandingState",
    "LandingTarget",
    "PullRequestDraft",
]

LandingState: TypeAlias = Literal[
    "waiting",
    "merging",
    "checking",
    "landed",
    "unchanged",
    "refused",
    "conflict",
    "check",
    "cancelled",
    "interrupted",
]
"""Of a landing: the first three are under way. ``unchanged``: the branch has all of the work.
``conflict`` and ``check``: it failed there. ``interrupted``: the host ended before it did."""


class LandingOptions(Value, frozen=True, kw_only=True):
    """How the work of an agent is landed."""

    method: LandingMethod | None = None
    """None: the setting ``landing.method``."""
    into: str | None = None
    """A branch; None: the one that the agent started from."""
    message: str | None = None
    """Of the commit; None: one that is made from the transcript."""
    trailers: tuple[str, ...] = ()
    """Lines ``Key: value`` at the end of the message."""
    checkout: bool = False
    """Update the files of the checkout that has the branch, if it is clean."""
    check: str | None = None
    """A command that must succeed; None: the setting ``landing.check``."""
    skip_check: bool = False
    """Run no check."""
    keep_worktree: bool = False
    """Keep the agent's worktree whatever the settings say."""
    now: bool = False
    """Also while a turn of the agent runs."""
    expected: str | None = None
    """The ``tree`` of a preview: refuse if the agent has changed something since."""
    hand_to: str | None = None
    """The agent that gets the conflicts or the output of the check as a prompt."""
    batch: bool = False
    """Of a queue: check all together, and search for the agent whose work fails."""


class LandingFile(Struct, frozen=True, kw_only=True):
    """A file that a landing changes."""

    path: str
    """For people."""
    added: int | None = None
    """Lines; None: it is binary."""
    removed: int | None = None
    old_path: str | None = None
    """Where it was before, if it is renamed."""


class LandingConflict(Struct, frozen=True, kw_only=True):
    """A file that cannot be merged."""

    path: str
    """For people."""
    kind: str = ""
    """In git's words."""
    hunks: str = ""
    """The places with both sides between conflict markers; cut where they are long."""


class LandingTarget(Struct, frozen=True, kw_only=True):
    """The branch that a landing moves."""

    branch: str
    commit: str
    checkout: str | None = None
    """The directory in which it is checked out."""
    problem: str | None = None
    """Why the files there cannot be updated; None: they can."""


class LandingPreview(Struct, frozen=True, kw_only=True):
    """What a landing would do."""

    session: SessionId
    name: str
    method: LandingMethod
    target: LandingTarget
    message: str
    tree: str
    """Names all files of the agent as they are now."""
    counts: ChangeCounts = ChangeCounts()
    files: tuple[LandingFile, ...] = ()
    """The first of them."""
    conflicts: tuple[LandingConflict, ...] = ()
    is_empty: bool = False
    """The branch has all of the work."""
    uncommitted: int = 0
    """Files of the agent that are not committed; they are landed too."""
    check: str | None = None
    """The command that would be run."""
    problem: str | None = None
    """Why it would be refused; None: it would not."""
    note: str = ""
    """What else to know."""


class LandingResult(Struct, frozen=True, kw_only=True):
    """What became of a landing."""

    session: SessionId
    name: str
    state: LandingState
    into: str
    method: LandingMethod
    before: str = ""
    commit: str = ""
    """What the branch points at now; as ``before`` if nothing was changed."""
    counts: ChangeCounts = ChangeCounts()
    reason: str = ""
    """Why it failed."""
    conflicts: tuple[LandingConflict, ...] = ()
    output: str = ""
    """The last lines of the check that failed."""
    handed_to: str | None = None
    """The agent that was given it back."""
    checkout: str | None = None
    """The directory whose files were updated."""
    note: str = ""


class LandingEntry(Struct, frozen=True, kw_only=True):
    """An agent in a landing queue."""

    session: SessionId
    name: str
    state: LandingState = "waiting"
    result: LandingResult | None = None


class LandingQueueInfo(Struct, frozen=True, kw_only=True):
    """Landings one after the other."""

    id: str
    into: str
    entries: tuple[LandingEntry, ...]
    is_done: bool = False
    revision: int = 0
    """Grows with every change."""
    created: int = 0
    """Microseconds since the epoch."""
    doing: str = ""
    """What happens now, for people."""


class PullRequestDraft(Struct, frozen=True, kw_only=True):
    """What to push, and what the pull request says."""

    repository: str
    """The checkout with the remotes."""
    branch: str
    """The name of the branch to push to."""
    commit: str
    base: str
    title: str
    body: str


class FleetLandings(Protocol):
    """Landing the work of agents that have a worktree."""

    @fleet_method()
    async def preview_landing(self, agent: str, options: LandingOptions) -> LandingPreview:
        """What a landing would do; no branch and no file changes.

        Raises:
            NoSuchAgentError: there is no such agent.
            LandingRefusedError: it has no worktree, or nothing can be computed.
        """
        ...

    @fleet_method(changes=True)
    async def land(self, agent: str, options: LandingOptions) -> LandingResult:
        """Land the work of an agent; a result that is not ``landed`` has changed nothing.

        Raises:
            NoSuchAgentError: there is no such agent.
        """
        ...

    @fleet_method(changes=True)
    async def queue_landings(
        self, agents: Sequence[str], options: LandingOptions
    ) -> LandingQueueInfo:
        """Land agents one after the other, each after its check; returns at once.

        Raises:
            NoSuchAgentError: there is no such agent.
            LandingRefusedError: they are not of one repository and branch.
        """
        ...

    @fleet_method()
    async def landings(self) -> list[LandingQueueInfo]:
        """Every queue that is under way, and the last ones that ended; oldest first."""
        ...

    @fleet_method()
    async def wait_landing(
        self, queue: str, *, seen: int = 0, timeout: float | None = None
    ) -> LandingQueueInfo:
        """A queue once its revision is above ``seen``, or as it is after ``timeout`` seconds.

        Raises:
            NoSuchLandingError: there is none.
        """
        ...

    @fleet_method(changes=True)
    async def cancel_landing(self, queue: str) -> LandingQueueInfo:
        """End a queue: what has landed stays, the rest is cancelled. Raises NoSuchLandingError."""
        ...

    @fleet_method(changes=True)
    async def draft_pull_request(self, agent: str, options: LandingOptions) -> PullRequestDraft:
        """Prepare the work of an agent for a pull request; the person's own programs push it.

        Raises:
            NoSuchAgentError: there is no such agent.
            LandingRefusedError: there is nothing to land, or it conflicts.
        """
        ...
