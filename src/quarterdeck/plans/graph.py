"""The graph of a plan as text and as values."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .plan import CheckedPlan, PlannedTask

__all__ = [
    "describe_graph",
    "draw_graph",
    "prefers_ascii",
]


def draw_graph(
    plan: CheckedPlan, tasks: Mapping[str, PlannedTask], *, ascii_only: bool = False
) -> Iterator[str]:
    """The plan as a tree: each task below the last of those that it needs, the others named."""
    yield f"{plan.name}: {len(tasks)} task{'s' if len(tasks) != 1 else ''} in {plan.directory}"
    depths: dict[str, int] = {}
    for key, task in tasks.items():
        depths[key] = 1 + max((depths[need] for need in task.needs), default=0)
    parents = {key: _choose_parent(task, depths) for key, task in tasks.items()}
    signs = ("|- ", "`- ", "|  ", " - ") if ascii_only else ("├─ ", "└─ ", "│  ", " · ")
    yield from _draw_below(None, parents, tasks, signs, "")


def _choose_parent(task: PlannedTask, depths: Mapping[str, int]) -> str | None:
    return max(task.needs, key=lambda need: depths[need], default=None)


def _draw_below(
    parent: str | None,
    parents: Mapping[str, str | None],
    tasks: Mapping[str, PlannedTask],
    signs: tuple[str, str, str, str],
    indent: str,
) -> Iterator[str]:
    children = [key for key, above in parents.items() if above == parent]
    tee, corner, wall, between = signs
    for key in children:
        is_last = key == children[-1]
        task = tasks[key]
        others = tuple(need for need in task.needs if need != parent)
        facts = [*_list_facts(task), *([f"needs also {', '.join(others)}"] if others else ())]
        yield f"{indent}{corner if is_last else tee}{key}  {between.join(facts)}"
        below = indent + ("   " if is_last else wall)
        yield from _draw_below(key, parents, tasks, signs, below)


def _list_facts(task: PlannedTask) -> Iterator[str]:
    fields = task.fields
    if task.label:
        yield task.label
    agents = ", ".join(one.name for one in task.contenders)
    if not fields.is_race:
        yield agents
    else:
        by = f" {fields.race.judge}" if fields.race.judge else ""
        yield f"race of {agents}, pick {fields.race.pick}{by}"
    if not fields.worktree:
        yield "no worktree"
    if fields.checks:
        yield f"{len(fields.checks)} check{'s' if len(fields.checks) != 1 else ''}"
    if fields.retries:
        yield f"{fields.retries} retr{'ies' if fields.retries != 1 else 'y'}"
    if fields.gate:
        yield "gate"
    if fields.end == "land":
        yield f"land on {fields.into}" if fields.into else "land"
    elif fields.end == "pull request":
        yield f"pull request for {fields.into}" if fields.into else "pull request"


def describe_graph(plan: CheckedPlan, tasks: Mapping[str, PlannedTask]) -> dict[str, Any]:
    """The same as values for JSON."""
    return {
        "name": plan.name,
        "path": str(plan.path),
        "directory": str(plan.directory),
        "inputs": {
            name: {"default": one.default, "text": one.text}
            for name, one in plan.fields.inputs.items()
        },
        "tasks": [
            {
                "key": task.key,
                "task": task.task,
                "label": task.label,
                "needs": list(task.needs),
                "contenders": [one.name for one in task.contenders],
                "pick": task.fields.race.pick if task.fields.is_race else None,
                "checks": [check.name or check.run for check in task.fields.checks],
                "retries": task.fields.retries,
                "gate": task.fields.gate,
                "end": task.fields.end,
            }
            for task in tasks.values()
        ],
    }


def prefers_ascii(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the locale that is named is not UTF-8, or the terminal has few signs."""
    names: Iterable[str | None] = (environ.get(one) for one in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "")
    is_utf8 = not locale or "utf8" in locale.lower().replace("-", "")
    return not is_utf8 or environ.get("TERM") in ("linux", "dumb")
