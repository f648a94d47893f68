"""What was seen of agents and policy in this run, as the table that docs/agents.md keeps."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["MATRIX", "Cell", "table"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One session: what of reading, editing and running was done."""

    agent: str
    transport: str
    column: str
    done: frozenset[str] = frozenset()
    refused: str = ""
    """Why the session was not opened."""
    violations: int = 0
    is_asking: bool = True
    stops: tuple[str, ...] = ()
    """How each turn ended, and why: a deed may be missing because its turn failed."""

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "done": sorted(self.done)}

    @property
    def shown(self) -> str:
        if self.refused:
            return "refused"
        words = "".join(
            letter if deed in self.done else "·"
            for deed, letter in (("read", "r"), ("edit", "e"), ("run", "x"))
        )
        return words + "!" * self.violations


MATRIX: list[Cell] = []


def table(cells: Iterable[Cell]) -> list[str]:
    """Lines of Markdown: an agent a row, a policy a column."""
    known = list(cells)
    columns = list(dict.fromkeys(one.column for one in known))
    rows = list(dict.fromkeys((one.agent, one.transport) for one in known))
    found = {(one.agent, one.transport, one.column): one.shown for one in known}
    lines = [f"| agent | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for agent, transport in rows:
        shown = (found.get((agent, transport, column), "") for column in columns)
        lines.append(f"| {agent} over {transport} | {' | '.join(shown)} |")
    return lines
