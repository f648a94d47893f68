"""Usage of random logs is what a recount of each agent's own spending gives, in every grouping.

The agents of a log report in every way that there is: each call, each turn, running totals, some of
that twice, through the meter, late, wrong, or not at all; they are resumed, forked and moved to
another model, and the clock jumps. What each of them spends is noted beside the log, with where a
person would say that it was used. Nothing of that goes through the code under test.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pytest

from quarterdeck.fleet.budgets.accounts import BudgetAccounts
from quarterdeck.fleet.usage.api import UsageGrouping
from quarterdeck.fleet.usage.ledger import UNKNOWN_DAY, UsageCell, UsageLedger
from quarterdeck.fleet.usage.summary import UsageSource, group_usage
from quarterdeck.models.model import Prices
from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    ModelCallFinished,
    ModelCallMetered,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record, decode_event
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import Cost, TokenUsage

NOW = 1_795_000_000_000_000
DAY = 86_400_000_000
PRICE = Prices(input=1.0, output=2.0, cached=0.1, cache_written=1.5)
UNPRICED = "odd/model"

Way: TypeAlias = Literal["turns", "totals", "both", "anew", "calls", "metered"]
Figures: TypeAlias = tuple[int, int, int, int, int]


def figures(usage: TokenUsage) -> Figures:
    return usage.input, usage.output, usage.cached, usage.cache_written, usage.thought


@dataclass(kw_only=True)
class Spent:
    """Something that was used, and where it counts."""

    session: str
    agent: str
    model: str
    usage: TokenUsage
    time: int
    turn: str | None
    has_cost: bool = False

    @property
    def day(self) -> str:
        return format_local_time(self.time, "%Y-%m-%d") or UNKNOWN_DAY


@dataclass
class World:
    """A log that grows, and what was really spent."""

    dice: random.Random
    records: list[Record] = field(default_factory=list[Record])
    spent: list[Spent] = field(default_factory=list[Spent])
    money: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """Agent, currency, cents."""
    parents: dict[str, str] = field(default_factory=dict[str, str])
    ignored: int = 0
    time: int = NOW

    def add(
        self, session: str, event: Event, turn: str | None = None, parent: str | None = None
    ) -> int:
        self.time += 1_000_000
        record = Record(
            seq=len(self.records) + 1,
            time=self.time,
            session=SessionId(session),
            turn=TurnId(turn) if turn else None,
            parent=ToolCallId(parent) if parent else None,
            event=event,
        )
        self.records.append(record)
        return self.time

    def root(self, agent: str) -> str:
        while agent in self.parents:
            agent = self.parents[agent]
        return agent


class Agent:
    """Spends at random, and reports it in its way."""

    def __init__(
        self,
        world: World,
        name: str,
        way: Way,
        *,
        parent: str | None = None,
        source: "Agent | None" = None,
    ) -> None:
        self.world, self.dice, self.name, self.way = world, world.dice, name, way
        self.model = self.dice.choice(("v/a", "v/b", UNPRICED))
        self.total = TokenUsage()
        """As the agent counts it itself."""
        self.pending: list[TokenUsage] = []
        """What it spent and has not reported."""
        self.is_elsewhere = way in ("totals", "both") and self.dice.random() < 0.2
        self.own: Way = self.dice.choice(("turns", "totals", "both"))
        """How it reports besides the meter."""
        self.is_metered = way == "metered"
        self.cents = 0
        self.currency = self.dice.choice(("USD", "USD", "EUR"))
        self.pays = way not in ("anew", "calls", "metered") and self.dice.random() < 0.4
        self.late: list[tuple[str, str, TokenUsage]] = []
        """Calls at the meter whose end is noted later: call, turn, usage."""
        if parent is not None:
            world.parents[name] = parent
        self.has_reported = False
        """A running total, ever."""
        if source is not None:  # it goes on from there, and so does its total
            self.total, self.is_elsewhere, self.pays = source.total, False, False
            self.spawn(resume="theirs", forked_from=source.name)
            return
        if self.is_elsewhere:
            self.total = TokenUsage(input=50_000, output=5_000)
        self.spawn(resume="theirs" if self.is_elsewhere else None)

    @property
    def can_be_forked(self) -> bool:
        """Whether what it has used is known, so that what its fork uses can be told."""
        is_known = self.has_reported and not self.pending and not self.is_elsewhere
        return self.way in ("totals", "both") and is_known

    @property
    def is_own(self) -> bool:
        return self.way == "calls"

    def spawn(self, *, resume: str | None = None, forked_from: str | None = None) -> None:
        options = SessionOptions(
            agent="native" if self.is_own else "codex",
            cwd=f"/w/{self.name}",
            model=self.model,
            resume=resume,
        )
        above = self.world.parents.get(self.name)
        spawned = SessionSpawned(
            name=self.name,
            options=options,
            parent_session=SessionId(above)
            if (above := self.world.parents.get(self.name))
            else None,
            forked_from=SessionId(forked_from) if forked_from else None,
        )
        self.world.add(self.name, spawned)
        self.world.add(self.name, SessionOpened(agent=options.agent, cwd=options.cwd))

    # What it does

    def act(self) -> None:
        match self.dice.randrange(12):
            case 0:
                self.restart()
            case 1:
                self.model = self.dice.choice(("v/a", "v/b", UNPRICED))
                self.world.add(self.name, SessionChanged(model=self.model))
            case 2:
                self.make_noise()
            case _:
                self.play()

    def restart(self) -> None:
        self.note_late()
        self.world.add(self.name, SessionEnded(how="closed"))
        if self.dice.random() < 0.5:
            self.world.add(self.name, SessionResumed())
        else:
            self.spawn()
        if self.way == "anew" and self.total.total > 2_000:
            # What it reports first is below what it had reached: else no one could tell.
            self.total, self.pending = TokenUsage(), []
        if self.way == "metered" and not self.pending:
            self.is_metered = self.dice.random() < 0.7

    def make_noise(self) -> None:
        """Records that say nothing, or nothing that counts."""
        world, name = self.world, self.name
        world.add(name, MessageChunk(content=text("words")))
        world.add(name, decode_event(b'{"type":"usage_reported","session_tokens":null}'))
        world.add(name, decode_event(b'{"type":"usage_reported","session_tokens":{"input":null}}'))
        world.add(name, decode_event(b'{"type":"usage_reported"}'))
        inner = UsageReported(session_tokens=TokenUsage(input=10**6, output=10**6))
        world.add(name, inner, None, "call_of_a_sub_agent")
        if self.way in ("totals", "both", "anew", "turns"):
            world.add(name, UsageReported(session_cost=Cost(amount=-1.0, currency="USD")))
            world.ignored += 1

    def spend(self) -> TokenUsage:
        dice = self.dice
        cached, written, thought = dice.randrange(40), dice.randrange(20), dice.randrange(15)
        used = TokenUsage(
            input=cached + written + dice.randrange(1, 60),
            output=thought + dice.randrange(20),
            cached=cached,
            cache_written=written,
            thought=thought,
        )
        self.total += used
        return used

    def count(self, used: TokenUsage, time: int, turn: str | None, **fields: str) -> None:
        session = fields.get("session", self.name)
        self.world.spent.append(
            Spent(
                session=session,
                agent=self.name,
                model=fields.get("model", self.model),
                usage=used,
                time=time,
                turn=turn,
                has_cost=self.pays,
            )
        )

    # A turn

    def play(self) -> None:
        turn = f"trn_{self.name}_{len(self.world.records)}"
        self.note_late()
        self.world.add(self.name, TurnStarted(), turn)
        steps = self.dice.randrange(1, 4)
        if self.way == "calls":
            self.play_calls(turn, steps)
        elif self.way == "metered" and self.is_metered:
            self.play_metered(turn, steps)
        else:
            self.play_reports(turn, steps, self.own if self.way == "metered" else self.way)
        if self.dice.random() < 0.3:
            self.note_late()

    def play_calls(self, turn: str, steps: int) -> None:
        world, total = self.world, TokenUsage()
        for _ in range(steps):
            where, inside = self.name, turn
            if self.dice.random() < 0.3:
                where, inside = f"{self.name}-kid", f"{turn}-kid"
                parent = SessionId(self.name)
                world.add(where, SessionOpened(agent="native", cwd="/k", parent_session=parent))
            used = self.spend()
            total += used
            model = self.dice.choice((self.model, "v/other"))
            time = world.add(where, ModelCallFinished(model=model, usage=used), inside)
            self.count(used, time, inside, session=where, model=model)
        world.add(self.name, ModelCallFinished(model="v/a"), turn)  # it has no figures
        bad = ModelCallFinished(model="v/a", usage=TokenUsage(input=-5))
        if self.dice.random() < 0.2:
            world.add(self.name, bad, turn)
            world.ignored += 1
        # The figures of the turn only repeat those of its calls.
        world.add(self.name, TurnEnded(stop="end_turn", usage=total), turn)

    def play_reports(self, turn: str, steps: int, way: Way) -> None:
        """A turn that is reported as a whole, by running totals, or both."""
        has_totals = way != "turns" and not (way == "both" and self.dice.random() < 0.3)
        has_reported = False
        mine: list[TokenUsage] = []
        for at in range(steps):
            mine.append(self.spend())
            self.pending.append(mine[-1])
            is_last = at == steps - 1
            if has_totals and (self.dice.random() < 0.7 or (is_last and way == "both")):
                self.report(turn, counts=not self.is_elsewhere)
                has_reported = True
        told = sum(mine, TokenUsage()) if way in ("turns", "both") else None
        is_cut = way not in ("turns", "both") and self.dice.random() < 0.2
        cost = self.pay() if self.pays and not is_cut else None
        ended = TurnEnded(stop="failed" if is_cut else "end_turn", usage=told, cost=cost)
        time = self.world.add(self.name, ended, turn)
        if told is not None and (not has_totals or self.is_elsewhere):
            for used in mine:
                self.count(used, time, turn)
            self.pending = [one for one in self.pending if one not in mine] if has_totals else []
        if has_reported:
            self.is_elsewhere, self.has_reported = False, True

    def report(self, turn: str, *, counts: bool) -> None:
        world, dice = self.world, self.dice
        for _ in range(dice.randrange(1, 3)):
            time = world.add(self.name, UsageReported(session_tokens=self.total), turn)
            for used in self.pending if counts else ():
                self.count(used, time, turn)
            self.pending = []
        if dice.random() < 0.1:  # it goes backwards within a turn
            lower = TokenUsage(input=self.total.input // 2, output=self.total.output // 3)
            world.add(self.name, UsageReported(session_tokens=lower), turn)
        if dice.random() < 0.1:
            bad = dice.choice((TokenUsage(input=-1), TokenUsage(output=1 << 61)))
            world.add(self.name, UsageReported(session_tokens=bad), turn)
            world.ignored += 1

    def pay(self) -> Cost:
        cents = self.dice.randrange(1, 500)
        self.world.money.append((self.name, self.currency, cents))
        return Cost(amount=cents / 100, currency=self.currency)

    # The meter

    def play_metered(self, turn: str, steps: int) -> None:
        world, dice = self.world, self.dice
        unread: list[TokenUsage] = []
        mine: list[TokenUsage] = []
        for at in range(steps):
            call = f"{turn}-{at}"
            self.meter(call, turn, "started")
            if dice.random() < 0.1:
                self.meter(call, turn, "finished", status=529)
                continue
            used = self.spend()
            mine.append(used)
            if self.own == "turns" and dice.random() < 0.2:
                unread.append(used)  # the answer could not be read
                self.meter(call, turn, "finished", status=200)
            elif dice.random() < 0.2:
                self.late.append((call, turn, used))
            else:
                self.end_call(call, turn, used)
        if dice.random() < 0.1:
            self.meter(f"{turn}-no", turn, "refused", reason="no more")
        if self.own != "turns":
            world.add(self.name, UsageReported(session_tokens=self.total), turn)
        told = sum(mine, TokenUsage()) if self.own != "totals" else None
        time = world.add(self.name, TurnEnded(stop="end_turn", usage=told), turn)
        for used in unread:
            self.count(used, time, turn)

    def meter(self, call: str, turn: str, state: str, **fields: object) -> int:
        event = ModelCallMetered(call=call, state=state, wire="openai", model=self.model, **fields)  # type: ignore[arg-type]
        return self.world.add(self.name, event, turn)

    def end_call(self, call: str, turn: str, used: TokenUsage) -> None:
        time = self.meter(call, turn, "finished", status=200, usage=used)
        self.count(used, time, turn)

    def note_late(self) -> None:
        """The agent was quicker than the note of what it used."""
        for call, turn, used in self.late:
            self.end_call(call, turn, used)
        self.late = []


def make_world(seed: int) -> World:
    dice = random.Random(seed)
    world = World(dice)
    ways: tuple[Way, ...] = ("turns", "totals", "both", "anew", "calls", "metered")
    agents: list[Agent] = []
    for number in range(dice.randrange(1, 6)):
        parent = dice.choice(agents).name if agents and dice.random() < 0.4 else None
        agents.append(Agent(world, f"agent{number}", dice.choice(ways), parent=parent))
    for _ in range(dice.randrange(1, 40)):
        agent = dice.choice(agents)
        agent.act()
        if agent.can_be_forked and dice.random() < 0.1:
            agents.append(Agent(world, f"fork{len(agents)}", agent.way, source=agent))
        jump = dice.randrange(20)
        world.time += {0: 40 * DAY, 1: -3 * DAY, 2: DAY // 3, 3: -DAY // 5}.get(jump, 0)
        if jump == 4:  # a clock that shows nothing that a calendar has, for one turn
            kept, world.time = world.time, 1 << 62
            dice.choice(agents).play()
            world.time = kept
    for agent in agents:
        agent.note_late()
    return world


# The recount


def expect(world: World, by: UsageGrouping) -> dict[object, Figures]:
    keys = {
        "agent": lambda one: one.agent,
        "tree": lambda one: world.root(one.agent),
        "project": lambda one: f"/w/{one.agent}",
        "vendor": lambda one: one.agent,
        "model": lambda one: one.model,
        "day": lambda one: one.day,
        "turn": lambda one: (one.session, one.turn),
    }
    rows: dict[object, TokenUsage] = defaultdict(TokenUsage)
    for one in world.spent:
        rows[keys[by](one)] += one.usage
    return {key: figures(usage) for key, usage in rows.items()}


def find_source(ledger: UsageLedger, cells: list[UsageCell]) -> UsageSource:
    return UsageSource(
        cells=cells,
        sessions=ledger.sessions,
        prices=lambda model: None if model == UNPRICED else PRICE,
    )


def count_days(cells: list[UsageCell]) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for cell in cells:
        for name, amount in zip("iocwt", figures(cell.tokens), strict=True):
            found[cell.session, cell.model, cell.day, name] += amount
        for currency, amount in cell.reported.items():
            found[cell.session, cell.day, currency] += round(amount * 100)
    return +found


def check(seed: int) -> None:
    world = make_world(seed)
    ledger = UsageLedger()
    for record in world.records:
        ledger.add((record,))
        if record.seq % 11 == 0:
            ledger.day_cells()  # looking changes nothing
    cells = ledger.cells()
    for by in ("agent", "tree", "project", "model", "day", "turn"):
        report = group_usage(find_source(ledger, cells), by)
        found = {
            (row.session, row.turn) if by == "turn" else row.session or row.name: figures(
                row.tokens
            )
            for row in report.rows
            if any(figures(row.tokens))
        }
        assert found == expect(world, by), f"seed {seed} by {by}"
    total = group_usage(find_source(ledger, cells), "day").total
    check_money(world, total.reported, total.computed, total.unpriced, seed)
    assert ledger.ignored == world.ignored, f"seed {seed}"
    check_views(world, ledger, cells, seed)


def check_money(
    world: World, reported: dict[str, float], computed: float, unpriced: int, seed: int
) -> None:
    paid: Counter[str] = Counter()
    for _, currency, cents in world.money:
        paid[currency] += cents
    assert {key: round(amount * 100) for key, amount in reported.items()} == paid, f"seed {seed}"
    paying = {agent for agent, _, _ in world.money}
    free = [one for one in world.spent if one.agent not in paying]
    assert unpriced == sum(one.usage.total for one in free if one.model == UNPRICED)
    price = 0.0
    for one in free:
        if one.model != UNPRICED:
            used = one.usage
            fresh = used.input - used.cached - used.cache_written
            price += fresh + 0.1 * used.cached + 1.5 * used.cache_written + 2 * used.output
    assert computed == pytest.approx(price / 1e6), f"seed {seed}"


def check_views(world: World, ledger: UsageLedger, cells: list[UsageCell], seed: int) -> None:
    """What is kept for quick answers says the same, and so do budgets."""
    whole = count_days(cells)
    assert count_days(ledger.day_cells()) == whole, f"seed {seed}"
    alone = [cell for session in ledger.sessions for cell in ledger.cells_of(session)]
    assert count_days(alone) == whole, f"seed {seed}"
    since = format_local_time(NOW + DAY, "%Y-%m-%d")
    late = [cell for cell in cells if cell.day != UNKNOWN_DAY and cell.day >= since]
    kept = group_usage(find_source(ledger, ledger.day_cells(since)), "agent", since=since)
    assert figures(kept.total.tokens) == figures(
        sum((cell.tokens for cell in late), TokenUsage())
    ), f"seed {seed}"
    accounts = BudgetAccounts(lambda _: PRICE, lambda session: session.cwd)
    accounts.add(world.records)
    assert accounts.used("all", "").tokens == sum(one.usage.total for one in world.spent)
    for agent in {one.agent for one in world.spent}:
        own = sum(one.usage.total for one in world.spent if one.agent == agent)
        assert accounts.used("agent", agent).tokens == own, f"seed {seed}"


def test_usage_is_what_a_recount_of_random_logs_gives():
    for seed in range(300):
        check(seed)


@pytest.mark.stress
def test_usage_is_what_a_recount_of_a_thousand_random_logs_gives():
    for seed in range(1_000, 2_000):
        check(seed)


def test_the_logs_have_what_can_go_wrong():
    """The worlds are as bad as they are meant to be."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        world = make_world(seed)
        seen["ignored"] += bool(world.ignored)
        seen["unknown day"] += any(one.day == UNKNOWN_DAY for one in world.spent)
        seen["clock back"] += any(
            later.time < earlier.time
            for earlier, later in zip(world.records, world.records[1:], strict=False)
        )
        for record in world.records:
            seen[type(record.event).__name__] += 1
            seen["sub-agent"] += record.parent is not None
            seen["child"] += record.session.endswith("-kid")
        seen["fork"] += any(one.agent.startswith("fork") for one in world.spent)
        seen["thinking"] += any(one.usage.thought for one in world.spent)
        seen["two currencies"] += len({currency for _, currency, _ in world.money}) > 1
    for what in (
        *("ignored", "unknown day", "clock back", "sub-agent", "child", "thinking", "fork"),
        *("two currencies", "ModelCallMetered", "UsageReported", "SessionResumed"),
    ):
        assert seen[what] >= 3, what
