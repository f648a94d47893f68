"""Two commits in one run: ``python -m bench --against COMMIT [PART …]``.

The working tree and the commit take turns, in changing order, so that a busy minute of the machine
is both sides'. Each clock has its least and its median. Something is slower when both grew by more
than 5 % and by more than the noise: what the median of the rounds' ratios may be off by chance.
"""

import math
import statistics
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .agent_rig import AgentFailedError, AgentRig, ScriptedModel, scripted
from .checkout import ROOT, Checkout, check_out, make_environment
from .contenders import make_own_environment, make_own_turn
from .docs import describe_commit
from .fleet_rig import FleetRig
from .processes import Cost, adopt_orphans
from .size import Size
from .table import Row, Table

__all__ = ["COMPARED", "Comparison", "Sample", "compare", "find_slower"]

COMPARED = ("startup", "agents", "acp", "drivers", "fleet", "workbench")
"""The parts that can be compared."""
_TOLERANCE = 1.05
_LEAST_ROUNDS = 3
"""With fewer there is no telling what is chance."""
_NORMAL_DEVIATION = 1.4826
"""A standard deviation in median deviations, if the figures are normally distributed."""
_MEDIAN_ERROR = 1.2533
"""The standard error of a median, in those of a mean."""
_CLOCKS: Mapping[str, Callable[[Cost], float]] = {
    "CPU": lambda cost: cost.cpu,
    "wall": lambda cost: cost.wall,
}


@dataclass(slots=True)
class Sample:
    """The runs of one thing on one side; a step is what the long turn takes more than the short."""

    costs: list[Cost] = field(default_factory=list[Cost])
    short: list[Cost] = field(default_factory=list[Cost])
    """Runs whose figure is taken off; empty: none."""
    steps: int = 1
    """What the rest is divided by."""

    def figure(self, clock: str, measure: Callable[[list[float]], float]) -> float:
        """Milliseconds; ``measure`` is ``min`` or the median."""
        read = _CLOCKS[clock]
        less = measure([read(cost) for cost in self.short]) if self.short else 0.0
        return (measure([read(cost) for cost in self.costs]) - less) / self.steps * 1000

    def by_round(self, clock: str) -> list[float]:
        """Milliseconds of each round, in order."""
        read = _CLOCKS[clock]
        less = [read(cost) for cost in self.short] or [0.0] * len(self.costs)
        pairs = zip(self.costs, less, strict=True)
        return [(read(cost) - short) / self.steps * 1000 for cost, short in pairs]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One thing that was measured on both sides."""

    what: str
    before: Sample
    after: Sample

    def grown(self, clock: str) -> tuple[float, float]:
        """How many times as long it takes now: by the least and by the median."""
        least, middle = (
            _divide(self.after.figure(clock, measure), self.before.figure(clock, measure))
            for measure in (min, statistics.median)
        )
        return least, middle

    def noise(self, clock: str) -> float:
        """By how much the ratio of the medians may differ from 1 by chance; 0.03 is 3 %.

        Two standard errors of the median of the rounds' ratios, by their median deviation, so that
        one slow round counts little. Infinite with fewer than three rounds.
        """
        before, after = (one.by_round(clock) for one in (self.before, self.after))
        ratios = [_divide(now, then) for then, now in zip(before, after, strict=True)]
        if len(ratios) < _LEAST_ROUNDS:
            return math.inf
        middle = statistics.median(ratios)
        deviation = statistics.median(abs(ratio - middle) for ratio in ratios)
        return 2 * _MEDIAN_ERROR * _NORMAL_DEVIATION * deviation / math.sqrt(len(ratios))

    def is_slower(self, clock: str) -> bool:
        """Whether it grew by more than 5 %, by least and median, and by more than the noise."""
        least, middle = self.grown(clock)
        return min(least, middle) > max(_TOLERANCE, 1 + self.noise(clock))


class _Commit:
    """Our own agent as one of the two sides has it."""

    def __init__(self, name: str, checkout: Checkout) -> None:
        self.name = name
        self._program = str(checkout.program)

    def command(self, *words: str) -> list[str]:
        return [self._program, *words]

    def turn_command(self, prompt: str) -> list[str]:
        return self.command(*make_own_turn(prompt, "--allow", "bash(true:*)"))

    def acp_command(self) -> list[str]:
        return self.command("acp")

    def environment(self, home: Path, url: str, *, acp: bool = False) -> Mapping[str, str]:
        del acp
        return make_own_environment(home, url)


@dataclass(frozen=True, slots=True)
class _Side:
    agent: _Commit
    rig: AgentRig
    alone: FleetRig
    """Without a host."""
    hosted: FleetRig
    """With a host that runs agents."""
    desk: FleetRig
    """With a host that has a long and a short session."""


@dataclass(frozen=True, slots=True)
class _Case:
    """One kind of run."""

    part: str
    name: str
    run: Callable[[_Side], Cost]
    title: str = ""
    """What its figure is; empty: it is a part of another figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    warm: int = 1
    """Rounds that come first, fill caches and do not count."""
    rounds: int
    read: tuple[int, int] = (5, 50)
    shell: tuple[int, int] = (2, 20)
    chunks: int = 20_000
    agents: int = 50
    """That speak through a host; a tenth of them while the workbench shows them."""
    seconds: float = 6.0
    """For which they speak."""
    keys: int = 40
    entries: int = 200
    """Of a long session."""


_FULL = _Plan(rounds=15)
_QUICK = _Plan(rounds=5)
_TINY = _Plan(
    warm=0, rounds=1, read=(1, 3), shell=(1, 2),
    chunks=100, agents=2, seconds=0.5, keys=2, entries=10,
)  # fmt: skip


def compare(commit: str, parts: Sequence[str], size: Size, repository: Path = ROOT) -> list[Table]:
    """Measure the working tree against a commit, in turns; the last table says what got slower.

    Raises ``CommitNotFoundError``, and ``AgentFailedError`` when a side cannot do what is measured.
    """
    plan = size.choose(_FULL, _QUICK, _TINY)
    adopt_orphans()
    with tempfile.TemporaryDirectory() as place, scripted(*plan.read, *plan.shell) as model:
        folder = Path(place)
        (folder / "before").mkdir()
        with check_out(commit, folder / "before", repository) as checkout:
            other = describe_commit(checkout.root)
            notes = [f"before: {other}; now: {describe_commit(repository)}"]
            if not checkout.has_own_packages:
                notes.append("the commit locks other packages; both sides ran with those of now")
            cases = [case for case in _cases(plan) if case.part in parts]
            now = make_environment(repository, folder / "now" / "environment")
            with _sides(folder, {"before": checkout, "now": now}, model, plan, parts) as sides:
                costs = _measure(cases, sides, plan)
    found = _pair(cases, costs, plan)
    return [_table(found, clock) for clock in _CLOCKS] + [_verdict(found, notes)]


def find_slower(found: Sequence[Comparison]) -> list[str]:
    """Name what takes more than 5 % longer than before, and more than chance explains."""
    return [
        f"{one.what}, {clock}: {least:.2f}× (least), {middle:.2f}× (median), "
        f"noise ±{one.noise(clock):.2f}"
        for one in found
        for clock in _CLOCKS
        if one.is_slower(clock)
        for least, middle in [one.grown(clock)]
    ]


@contextmanager
def _sides(
    folder: Path,
    checkouts: Mapping[str, Checkout],
    model: ScriptedModel,
    plan: _Plan,
    parts: Sequence[str],
) -> Generator[dict[str, _Side]]:
    """Both sides; hosts run meanwhile if a part needs them."""
    sides: dict[str, _Side] = {}
    with ExitStack() as hosts:
        for name, one in checkouts.items():
            agent = _Commit(name, one)
            alone, hosted, desk = (
                FleetRig(f"{name}-{kind}", one, folder, chunks=plan.chunks)
                for kind in ("alone", "hosted", "desk")
            )
            rig = AgentRig(agent, folder, model, files=plan.read[1])
            sides[name] = _Side(agent, rig, alone, hosted, desk)
            if {"fleet", "workbench"} & {*parts}:
                hosts.enter_context(hosted.running())
            if "workbench" in parts:
                hosts.enter_context(desk.running(entries=plan.entries))
        yield sides


def _cases(plan: _Plan) -> list[_Case]:
    return [*_agent_cases(plan), *_fleet_cases(plan)]


def _fleet_cases(plan: _Plan) -> list[_Case]:
    few = max(1, plan.agents // 10)

    def speak(side: _Side) -> Cost:
        return side.alone.run_clients(plan.seconds, plan.agents)

    def watch(side: _Side) -> Cost:
        return side.hosted.watch_agents(plan.seconds / 2, few)

    return [
        _Case(
            "drivers",
            "chunks",
            lambda side: side.alone.run_driver(),
            f"{plan.chunks:,} chunks through the ACP driver",
        ),
        _Case(
            "drivers",
            "run -a",
            lambda side: side.alone.run_agent_turn(),
            f"`run -a`, a turn of {plan.chunks:,} chunks",
        ),
        _Case("fleet", "clients", speak, f"host in a second, {plan.agents} agents; delay"),
        _Case("fleet", "spawn", lambda side: side.hosted.run_spawn(), "quarterdeck spawn"),
        _Case("fleet", "ps", lambda side: side.hosted.run_ps(), "quarterdeck ps"),
        _Case("workbench", "frame", lambda side: side.desk.draw_first_frame(), "first frame"),
        _Case("workbench", "key", lambda side: side.desk.press_keys(plan.keys), "a key"),
        _Case(
            "workbench",
            "long",
            lambda side: side.desk.open_long_session(),
            f"open a session of {plan.entries:,} entries",
        ),
        _Case("workbench", "watch", watch, f"workbench in a second, {few} agents; delay"),
    ]


def _agent_cases(plan: _Plan) -> list[_Case]:
    def turn(scene: str, title: str = "") -> _Case:
        return _Case("agents", scene, lambda side: side.rig.run_turn(scene)[0], title)

    def start(word: str) -> _Case:
        def run(side: _Side) -> Cost:
            return side.rig.run_command(side.agent.command(word))

        return _Case("startup", word, run, f"quarterdeck {word}")

    def open_session(side: _Side) -> Cost:
        cost = side.rig.open_session()
        assert cost is not None
        return cost

    scenes = [
        f"{kind}-{count}"
        for kind, counts in (("read", plan.read), ("shell", plan.shell))
        for count in counts
    ]
    return [
        start("--version"),
        start("--help"),
        turn("text", "a turn with one text reply"),
        *map(turn, scenes),
        _Case("acp", "session/new", open_session, "spawn → session/new over ACP"),
    ]


def _measure(
    cases: Sequence[_Case], sides: Mapping[str, _Side], plan: _Plan
) -> dict[str, dict[str, list[Cost]]]:
    """The costs of each case on each side; those of warm rounds do not count."""
    costs = {case.name: {name: list[Cost]() for name in sides} for case in cases}
    for number in range(plan.warm + plan.rounds):
        order = list(sides)
        if number % 2:
            order.reverse()
        for case in cases:
            for name in order:
                try:
                    cost = case.run(sides[name])
                except AgentFailedError as error:
                    raise AgentFailedError(f"{case.name!r} failed {name}: {error}") from error
                if number >= plan.warm:
                    costs[case.name][name].append(cost)
    return costs


def _pair(
    cases: Sequence[_Case], costs: Mapping[str, Mapping[str, list[Cost]]], plan: _Plan
) -> list[Comparison]:
    found: list[Comparison] = []
    for case in cases:
        if case.title:
            sample = {side: Sample(found_costs) for side, found_costs in costs[case.name].items()}
            found.append(Comparison(case.title, sample["before"], sample["now"]))
    for kind, (few, many) in (("read", plan.read), ("shell", plan.shell)):
        if f"{kind}-{many}" in costs:
            sample = {
                side: Sample(long, costs[f"{kind}-{few}"][side], many - few)
                for side, long in costs[f"{kind}-{many}"].items()
            }
            found.append(Comparison(f"a {kind} step", sample["before"], sample["now"]))
    return found


def _table(found: Sequence[Comparison], clock: str) -> Table:
    rows: list[Row] = []
    for one in found:
        least, middle = one.grown(clock)
        figures = (
            f"{sample.figure(clock, min):.1f} / {sample.figure(clock, statistics.median):.1f}"
            for sample in (one.before, one.after)
        )
        ratio = f"{least:.2f}× / {middle:.2f}× ±{one.noise(clock):.2f}"
        rows.append(Row(one.what, f"{' → '.join(figures)} ms", ratio))
    return Table(f"{clock}, least / median, before → now; the ratios, ± the noise", rows)


def _verdict(found: Sequence[Comparison], notes: Sequence[str]) -> Table:
    rows = [Row("slower", line, met=False) for line in find_slower(found)]
    nothing = [Row("nothing got slower by more than 5 %", "")]
    return Table("What got slower by more than 5 %", rows or nothing, tuple(notes))


def _divide(now: float, before: float) -> float:
    return now / before if before > 0 else 1.0
