"""Several ways to do the same, measured in turns, so that a busy moment is all sides'."""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = ["Cost", "Way", "cpu_seconds", "measure_in_turns", "tell_medians"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took in each round, in seconds."""

    walls: list[float] = field(default_factory=list[float])
    cpus: list[float] = field(default_factory=list[float])
    """Of this process and of those that it started and that have ended."""

    @property
    def wall(self) -> float:
        """The least: what other programs did meanwhile only adds to it."""
        return min(self.walls)

    @property
    def cpu(self) -> float:
        """The least CPU time."""
        return min(self.cpus)

    def __str__(self) -> str:
        return f"{self.cpu * 1000:.0f} ms CPU, {self.wall * 1000:.0f} ms"

    def ratio(self, other: "Cost") -> str:
        """How much it is of another."""
        return f"{self.cpu / other.cpu:.2f}× CPU, {self.wall / other.wall:.2f}×"


@dataclass(frozen=True, slots=True)
class Way:
    """One way; it gets the number of the round."""

    name: str
    do: Callable[[int], object]
    clean: Callable[[int], object] = lambda _: None
    """Runs after it, and is not measured."""


def measure_in_turns(
    rounds: int, ways: Sequence[Way], prepare: Callable[[int], object] = lambda _: None
) -> dict[str, Cost]:
    """Do each way once a round; blocks. The order is another in each round.

    ``prepare``: runs before each round.
    """
    found = {way.name: Cost() for way in ways}
    for number in range(rounds):
        prepare(number)
        at = number % len(ways)
        for way in (*ways[at:], *ways[:at]):
            used, begin = cpu_seconds(), time.perf_counter()
            way.do(number)
            found[way.name].walls.append(time.perf_counter() - begin)
            found[way.name].cpus.append(cpu_seconds() - used)
            way.clean(number)
    return found


def tell_medians(costs: dict[str, Cost]) -> str:
    """A note below a table of minima."""
    middle = statistics.median
    said = (
        f"{name}: {middle(cost.cpus) * 1000:.0f} ms CPU, {middle(cost.walls) * 1000:.0f} ms"
        for name, cost in costs.items()
    )
    rounds = max((len(cost.walls) for cost in costs.values()), default=0)
    return f"The least of {rounds} rounds in turns. Medians: {'; '.join(said)}."


def cpu_seconds() -> float:
    """CPU time that this process and its children have used until now."""
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, both))
