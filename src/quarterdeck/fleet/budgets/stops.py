"""What happens as a budget fills: words to agents, notes in the log, a question to a person."""

import logging
from typing import Protocol

from quarterdeck.wire.budgets import BudgetLevel, BudgetUnit, Refusal, describe_limit
from quarterdeck.wire.content import ContentBlock, text
from quarterdeck.wire.events import BudgetReached, QuestionAnswered, QuestionAsked
from quarterdeck.wire.ids import RequestId, SessionId, new_request_id
from quarterdeck.wire.permissions import Decider, QuestionAction
from quarterdeck.wire.tasks import BackgroundTasks

from ..errors import NoSuchAgentError
from ..live_index import LiveIndex, LogWriter
from ..names import looks_like_id
from .accounts import BudgetAccounts, BudgetKey
from .bounds import Bound, CallDecision

__all__ = ["AgentReach", "BudgetStops", "make_budget_question", "make_decider", "name_bound"]

_log = logging.getLogger(__name__)
RAISE_FIELD = "raise_by"
"""The field of the question's form."""
_EXAMPLES: dict[BudgetUnit, str] = {
    "usd": "2usd",
    "tokens": "200ktok",
    "calls": "50calls",
    "seconds": "30min",
    "agents": "2agents",
}
_GO_ON = "The budget was raised. Go on where you were."


class AgentReach(Protocol):
    """How agents are reached when a budget is used up."""

    async def steer(self, session: SessionId, content: tuple[ContentBlock, ...]) -> bool:
        """Give the running turn a message; False if none takes it."""
        ...

    async def interrupt(self, session: SessionId) -> None:
        """End the running turn, if there is one."""
        ...

    async def prompt(self, session: SessionId, words: str) -> None:
        """Let the agent go on with a prompt, resumed if need be."""
        ...


class BudgetStops:
    """Warns and stops agents. It remembers what it has said, and which agents wait for a raise."""

    def __init__(
        self,
        accounts: BudgetAccounts,
        current: LiveIndex,
        notes: LogWriter,
        reach: AgentReach,
        work: BackgroundTasks,
    ) -> None:
        self.warn_at = 0.8
        self._accounts = accounts
        self._current = current
        self._notes = notes
        self._reach = reach
        self._work = work
        self._words: dict[SessionId, dict[BudgetKey, tuple[float, BudgetLevel]]] = {}
        """What each agent was sent about which budget, when it had which amount."""
        self._pending: dict[SessionId, str] = {}
        """What agents are sent with their next prompt."""
        self._stopped: dict[BudgetKey, set[SessionId]] = {}
        self._asked: dict[BudgetKey, tuple[RequestId, SessionId]] = {}

    # Words

    def find_words(self, session: SessionId, decided: CallDecision) -> str | None:
        """What an agent is sent with a call: once for each budget, amount and level."""
        bound = decided.tightest
        if bound is None:
            return None
        if decided.is_last or bound.spent >= bound.amount:
            return self._word(session, bound, "reached")
        if bound.spent >= bound.amount * self.warn_at:
            return self._word(session, bound, "warned")
        return None

    def _word(self, session: SessionId, bound: Bound, level: BudgetLevel) -> str | None:
        known = self._words.setdefault(session, {})
        if known.get(bound.key) in ((bound.amount, level), (bound.amount, "reached")):
            return None
        known[bound.key] = (bound.amount, level)
        budget = bound.describe(self.find_name(bound))
        used = describe_limit(bound.unit, bound.spent)
        if level == "warned":
            return f"[{used} of {budget} are used. Use the rest for what matters most.]"
        return (
            f"[{used} of {budget} are used. Wrap up now: finish or undo what is half done, then "
            "say what is done and what is not. Further calls will be refused.]"
        )

    def find_name(self, bound: Bound) -> str:
        """What a budget is for, for people."""
        found = self._accounts.sessions.get(SessionId(bound.subject))
        return name_bound(bound, (found.name if found is not None else None) or bound.subject)

    def take_words(self, session: SessionId) -> str | None:
        """What an agent is to be sent with its next prompt, once."""
        return self._pending.pop(session, None)

    # Levels

    def is_own(self, agent: SessionId) -> bool:
        """Whether an agent reserves its calls; one that is gone needs no care either."""
        try:
            return self._current.get(agent).is_native
        except NoSuchAgentError:
            return True

    async def note_level(self, agent: SessionId, bound: Bound) -> None:
        """Note in the log that a budget is used up to a level, once for each amount."""
        if bound.spent < bound.amount * self.warn_at:
            return
        level: BudgetLevel = "reached" if bound.spent >= bound.amount else "warned"
        amount, known = self._accounts.levels.get(bound.key, (0.0, None))
        if amount == bound.amount and known in (level, "reached", "stopped"):
            return
        self._accounts.levels[bound.key] = (bound.amount, level)
        used = describe_limit(bound.unit, bound.spent)
        reason = f"{used} of {bound.describe(self.find_name(bound))} are used"
        await self._notes.take(agent, _make_reached(bound, level, reason, None))

    async def hold_to(self, agent: SessionId, bound: Bound, *, is_over: bool) -> None:
        """Do for an agent that does not reserve what can be done after the fact."""
        if bound.is_exhausted:
            is_held = self._accounts.is_metered(agent)  # its next call will be refused
            if not is_over and not is_held and agent not in self._stopped.get(bound.key, ()):
                await self.refuse(agent, bound)
                self._work.start(self._reach.interrupt(agent), name=f"budgets: stop {agent}")
            return
        if bound.spent >= bound.amount:
            words = self._word(agent, bound, "reached")
        elif bound.spent >= bound.amount * self.warn_at:
            words = self._word(agent, bound, "warned")
        else:
            return
        if words is not None:
            self.send(agent, words)

    def send(self, agent: SessionId, words: str) -> None:
        """Send an agent words about a budget, at the latest with its next prompt."""
        self._work.start(self._steer(agent, words), name=f"budgets: warn {agent}")

    async def _steer(self, agent: SessionId, words: str) -> None:
        if not await self._reach.steer(agent, (text(words),)):
            self._pending[agent] = words

    # Stops

    async def refuse(
        self, session: SessionId, bound: Bound, *, no_price: bool = False, is_again: bool = False
    ) -> Refusal:
        """Stop an agent, and ask a person where raising the budget would help.

        ``is_again``: it may only be trying the same call again; then nothing is noted twice.
        """
        budget = bound.describe(self.find_name(bound))
        is_unknown = bound.is_unpriced or (bound.unit == "usd" and no_price)
        if is_unknown:
            reason = (
                f"{budget} cannot be kept: the price of a model is not known. Set "
                "models.NAME.prices, or use a budget of tokens"
            )
        else:
            used = describe_limit(bound.unit, bound.spent)
            reason = f"{budget} is used up: {used}, and the next call does not fit"
        agent = self._accounts.find_agent(session)
        is_known = agent in self._stopped.get(bound.key, ()) and (
            is_unknown or bound.key in self._asked
        )
        if not (is_again and is_known):
            await self._stop(agent, bound, reason, ask=not is_unknown)
        return Refusal(reason=reason, scope=bound.scope, subject=bound.subject, unit=bound.unit)

    async def _stop(self, agent: SessionId, bound: Bound, reason: str, *, ask: bool) -> None:
        """Note it, and ask a person: once, for all agents that the budget stops."""
        self._stopped.setdefault(bound.key, set()).add(agent)
        request = new_request_id() if ask and bound.key not in self._asked else None
        if request is not None:
            self._asked[bound.key] = (request, agent)
            self._accounts.requests[request] = bound.key
        await self._notes.take(agent, _make_reached(bound, "stopped", reason, request))
        if request is not None:
            await self._notes.take(agent, make_budget_question(request, bound, reason))

    def is_stopped(self, agent: SessionId, bound: Bound) -> bool:
        """Whether an agent waits for a budget, and a person knows."""
        return agent in self._stopped.get(bound.key, ()) and (
            bound.key in self._asked or bound.is_unpriced
        )

    def find_open(self, key: BudgetKey) -> RequestId | None:
        """The open question about a budget."""
        asked = self._asked.get(key)
        return asked[0] if asked is not None else None

    def forget_agent(self, session: SessionId) -> list[tuple[BudgetKey, SessionId]]:
        """A question ends with its agent; gives the budgets and who is to ask again."""
        for stopped in self._stopped.values():
            stopped.discard(session)
        self._pending.pop(session, None)
        self._words.pop(session, None)
        found: list[tuple[BudgetKey, SessionId]] = []
        for key, (_, asker) in tuple(self._asked.items()):
            if asker == session:
                del self._asked[key]
                found += [(key, other) for other in tuple(self._stopped.get(key, ()))[:1]]
        return found

    async def answer(self, key: BudgetKey, action: QuestionAction, by: Decider) -> None:
        """Close the question about a budget, if one is open."""
        if (asked := self._asked.pop(key, None)) is not None:
            request, asker = asked
            await self._notes.take(asker, QuestionAnswered(request=request, action=action, by=by))

    def take_stopped(self, key: BudgetKey) -> set[SessionId]:
        """The agents that a budget has stopped; it no longer does."""
        return self._stopped.pop(key, set())

    def go_on(self, agent: SessionId) -> None:
        """Let an agent go on where it was."""
        self._work.start(self._reach.prompt(agent, _GO_ON), name=f"budgets: go on {agent}")


def name_bound(bound: Bound, agent: str) -> str:
    """What a budget is for, for people; ``agent``: the name of the agent, if it is for one."""
    names = {
        "agent": agent,
        "tree": f"{agent} and all that it starts",
        "project": f"the project {bound.subject}",
        "day": f"the day {bound.subject}",
    }
    return names.get(bound.scope, "everything")


def _make_reached(
    bound: Bound, level: BudgetLevel, reason: str, request: RequestId | None
) -> BudgetReached:
    return BudgetReached(
        scope=bound.scope,
        subject=bound.subject,
        unit=bound.unit,
        amount=bound.amount,
        used=bound.spent,
        level=level,
        request=request,
        reason=reason,
    )


def make_budget_question(request: RequestId, bound: Bound, reason: str) -> QuestionAsked:
    """Ask a person whether to raise a budget: by as much again, by another amount, or not."""
    field = {
        "type": "string",
        "title": "Raise it by",
        "description": f"as much again, or another amount such as {_EXAMPLES[bound.unit]}",
        "default": describe_limit(bound.unit, bound.amount),
    }
    form = {"type": "object", "properties": {RAISE_FIELD: field}, "required": [RAISE_FIELD]}
    words = (
        f"{reason[:1].upper()}{reason[1:]}.\n"
        "Raise it? If so, its agents go on where they were; else they stay stopped."
    )
    return QuestionAsked(request=request, text=words, form=form)


def make_decider(by: str) -> Decider:
    """Who changed a budget."""
    return Decider(kind="agent" if looks_like_id(by) else "person", name=by)
