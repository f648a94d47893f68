"""Two commits in one run: ``python -m bench --against COMMIT [startup] [agents] [acp]``.

The working tree and the commit take turns, in changing order, so that a busy minute of the machine
is both sides'. Each clock has its least and its median. Something is slower when both grew by more
than 5 %: one number alone grows by chance.
"""

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .agent_rig import AgentFailedError, AgentRig, ScriptedModel, scripted
from .checkout import ROOT, Checkout, check_out, make_environment
from .contenders import make_own_environment, make_own_turn
from .docs import describe_commit
from .processes import Cost, adopt_orphans
from .size import Size
from .table import Row, Table

__all__ = ["COMPARED", "Comparison", "Sample", "compare", "find_slower"]

COMPARED = ("startup", "agents", "acp")
"""The parts that can be compared."""
_TOLERANCE = 1.05
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


class _Commit:
    """Our own agent as one of the two sides has it."""

    def __init__(self, name: str, checkout: Checkout) -> None:
        self.name = name
        self._program = str(checkout.program)

    def command(self, *words: str) -> list[str]:
        return [self._program, *words]

    def turn_command(self, prompt: str) -> list[str]:
        return self.command(*make_own_turn(prompt, "--allow", "bash(true)"))

    def acp_command(self) -> list[str]:
        return self.command("acp")

    def environment(self, home: Path, url: str, *, acp: bool = False) -> Mapping[str, str]:
        del acp
        return make_own_environment(home, url)


@dataclass(frozen=True, slots=True)
class _Side:
    agent: _Commit
    rig: AgentRig


@dataclass(frozen=True, slots=True)
class _Case:
    """One kind of run."""

    part: str
    name: str
    run: Callable[[_Side], Cost]


@dataclass(frozen=True, slots=True)
class _Plan:
    warm: int
    """Rounds that come first, fill caches and do not count."""
    rounds: int
    read: tuple[int, int]
    shell: tuple[int, int]


def compare(commit: str, parts: Sequence[str], size: Size) -> list[Table]:
    """Measure the working tree against a commit, in turns; the last table says what got slower.

    Raises ``CommitNotFoundError``, and ``AgentFailedError`` when a side cannot do what is measured.
    """
    plan = size.choose(
        _Plan(1, 15, (5, 50), (2, 20)), _Plan(1, 5, (5, 50), (2, 20)), _Plan(0, 1, (1, 3), (1, 2))
    )
    adopt_orphans()
    with tempfile.TemporaryDirectory() as place, scripted(*plan.read, *plan.shell) as model:
        folder = Path(place)
        (folder / "before").mkdir()
        with check_out(commit, folder / "before") as checkout:
            other = describe_commit(checkout.root)
            notes = [f"before: {other}; now: {describe_commit()}"]
            if not checkout.has_same_lock():
                notes.append("the commit locks other packages; both sides ran with those of now")
            sides = _make_sides(folder, checkout, model, plan)
            costs = _measure([case for case in _cases(plan) if case.part in parts], sides, plan)
    found = _pair(costs, plan)
    return [_table(found, clock) for clock in _CLOCKS] + [_verdict(found, notes)]


def find_slower(found: Sequence[Comparison]) -> list[str]:
    """Name what takes more than 5 % longer than before, by its least and its median."""
    return [
        f"{one.what}, {clock}: {least:.2f}× (least), {middle:.2f}× (median)"
        for one in found
        for clock in _CLOCKS
        for least, middle in [one.grown(clock)]
        if min(least, middle) > _TOLERANCE
    ]


def _make_sides(
    folder: Path, checkout: Checkout, model: ScriptedModel, plan: _Plan
) -> dict[str, _Side]:
    now = make_environment(ROOT, folder / "now" / "environment")
    agents = [_Commit("before", checkout), _Commit("now", now)]
    return {
        agent.name: _Side(agent, AgentRig(agent, folder, model, files=plan.read[1]))
        for agent in agents
    }


def _cases(plan: _Plan) -> list[_Case]:
    def turn(scene: str) -> _Case:
        return _Case("agents", scene, lambda side: side.rig.run_turn(scene)[0])

    def start(word: str) -> _Case:
        return _Case("startup", word, lambda side: side.rig.run_command(side.agent.command(word)))

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
        turn("text"),
        *map(turn, scenes),
        _Case("acp", "session/new", open_session),
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


def _pair(costs: Mapping[str, Mapping[str, list[Cost]]], plan: _Plan) -> list[Comparison]:
    found: list[Comparison] = []
    titles = {
        "--version": "quarterdeck --version",
        "--help": "quarterdeck --help",
        "text": "a turn with one text reply",
        "session/new": "spawn → session/new over ACP",
    }
    for name, title in titles.items():
        if name in costs:
            sample = {side: Sample(found_costs) for side, found_costs in costs[name].items()}
            found.append(Comparison(title, sample["before"], sample["now"]))
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
        rows.append(Row(one.what, f"{' → '.join(figures)} ms", f"{least:.2f}× / {middle:.2f}×"))
    return Table(f"{clock}, least / median, before → now", rows)


def _verdict(found: Sequence[Comparison], notes: Sequence[str]) -> Table:
    rows = [Row("slower", line, met=False) for line in find_slower(found)]
    nothing = [Row("nothing got slower by more than 5 %", "")]
    return Table("What got slower by more than 5 %", rows or nothing, tuple(notes))


def _divide(now: float, before: float) -> float:
    return now / before if before > 0 else 1.0
