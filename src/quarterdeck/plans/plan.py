"""A plan: read from its file, checked as a whole, and expanded into the tasks that run."""

import copy
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct

from quarterdeck.config.errors import UnreadableConfigError
from quarterdeck.config.loader import read_toml
from quarterdeck.config.validation import check_layer, spell_key, suggest_name
from quarterdeck.config.workspace import find_workspace
from quarterdeck.system.errors import PathError
from quarterdeck.system.paths import Roots
from quarterdeck.wire.budgets import parse_limit
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError

from .errors import InvalidPlanError, PlanInputError, PlanProblem, UnreadablePlanError
from .key_lines import TEXT, Key, find_key_lines
from .schema import PLAN_VERSION, RANK_RULES, OptionFields, PlanFields, TaskFields
from .template import fill_template, list_names

__all__ = [
    "CheckedPlan",
    "Contender",
    "Needs",
    "PlannedTask",
    "expand_tasks",
    "find_cycles",
    "list_needed",
    "load_plan",
    "sort_by_needs",
]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,23}")
_INPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_LINE = re.compile(r"at line (\d+)")
_LONGEST_PROMPT = 1_000_000
_MOST_INSTANCES = 200
_NAME_RULE = "use at most 24 small letters, digits, '-' and '_'"
_END_FIELDS = {
    "into": ("land", "pull request"),
    "method": ("land", "pull request"),
    "checkout": ("land",),
    "remote": ("pull request",),
}
"""Fields that say more about the end of a task, and the ends with which they count."""
_CHECK_NAMES = frozenset(("check.name", "check.reason", "check.output"))


Needs: TypeAlias = Mapping[str, Sequence[str]]
"""Tasks, and what each of them needs."""


class CheckedPlan(Struct, frozen=True, kw_only=True):
    """A plan whose file was checked."""

    path: Path
    name: str
    text: str
    """The file, whole."""
    fields: PlanFields
    prompts: Mapping[str, str]
    """The template of each task's prompt."""

    @property
    def directory(self) -> Path:
        """Where agents work."""
        return (self.path.parent / self.fields.directory).resolve()


class Contender(Struct, frozen=True, kw_only=True):
    """One of the agents that do a task; most tasks have one."""

    name: str
    agent: str


class PlannedTask(Struct, frozen=True, kw_only=True):
    """A task as it runs: one of a matrix, or the task itself."""

    key: str
    """The task's name, in a matrix with a number: ``fix.2``."""
    task: str
    label: str
    """The values of the matrix, for people."""
    fields: TaskFields
    inputs: Mapping[str, str]
    needs: tuple[str, ...]
    """Keys."""
    contenders: tuple[Contender, ...]
    prompt: str
    """A template, into which outputs of other tasks are yet to be put."""

    def fill(self, text: str, more: Mapping[str, str] | None = None) -> str:
        """Put the inputs, and more values, into a template."""
        return fill_template(text, {**_input_values(self.inputs), **(more or {})})

    def fill_command(self, text: str) -> str:
        """Put the inputs into a line of the shell, quoted."""
        import shlex

        return fill_template(text, _input_values(self.inputs), shlex.quote)


def _input_values(inputs: Mapping[str, str]) -> dict[str, str]:
    return {f"inputs.{name}": value for name, value in inputs.items()}


def load_plan(
    path: Path,
    find_agent: Callable[[str], object] | None = None,
    check_pull_request: Callable[[str, str | None], object] | None = None,
) -> CheckedPlan:
    """Read a plan and check all of it. Blocks on files.

    Args:
        path: the file.
        find_agent: raises if there is no agent of a name; None: agents are not checked.
        check_pull_request: raises if none can be opened from a directory, to a remote; None: that
            is not checked.

    Raises:
        UnreadablePlanError: there is no such file, or it cannot be read.
        InvalidPlanError: it cannot run; names every problem with its line.
    """
    try:
        values = read_toml(path)
        text = path.read_bytes().decode("utf-8-sig") if values is not None else ""
    except UnreadableConfigError as error:
        if (found := _LINE.search(error.reason)) is None:
            raise UnreadablePlanError(str(path), error.reason) from error
        raise InvalidPlanError([PlanProblem(str(path), int(found[1]), "", error.reason)]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadablePlanError(str(path), f"cannot be read: {error}") from error
    if values is None:
        raise UnreadablePlanError(str(path), "there is no such file")
    check = _Check(path, values, find_key_lines(text))
    fields = convert(check.check_form(), PlanFields)
    prompts = check.check_meaning(fields, find_agent)
    if check_pull_request is not None:
        check.check_pull_requests(check_pull_request)
    if problems := check.list_problems():
        raise InvalidPlanError(problems)
    return CheckedPlan(
        path=path.resolve(),
        name=fields.name or _name_of(path),
        text=text,
        fields=fields,
        prompts=prompts,
    )


def _name_of(path: Path) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", path.stem.lower()).strip("-_")[:24] or "plan"


class _Check:
    """Collects the problems of one file."""

    def __init__(self, path: Path, values: dict[str, Any], lines: Mapping[Key, int]) -> None:
        self._form: list[tuple[Key, PlanProblem]] = []
        self._meaning: list[tuple[Key, PlanProblem]] = []
        self._path = path
        self._values = values
        self._lines = lines

    def list_problems(self) -> list[PlanProblem]:
        """All of them by line; not what only follows from a value that was rejected."""
        rejected = {key for key, _ in self._form if key in self._lines}
        found = [problem for _, problem in self._form]
        for key, problem in self._meaning:
            if not any(key == one[: len(key)] and len(one) - len(key) <= 1 for one in rejected):
                found.append(problem)
        return sorted(set(found))

    def check_form(self) -> dict[str, Any]:
        """Unknown fields, and values of another type than their field's; the values without."""
        version = self._values.get("version")
        kept = copy.deepcopy(self._values)
        if isinstance(version, int) and version != PLAN_VERSION:
            what = "is newer than this program; update it" if version > 1 else "does not exist"
            self._reject(("version",), f"version {version} {what}; known is {PLAN_VERSION}")
            kept.pop("version")
        paths = {spell_key(key): key for key in self._lines}
        for problem in check_layer(self._values, str(self._path), PlanFields):
            spelled = problem.key
            while spelled and spelled not in paths:  # a key in quotes with escapes
                spelled = spelled.rpartition(".")[0]
            key = paths.get(spelled, ())
            _remove(kept, key)
            self._reject(key, problem.message, is_unknown="unknown key" in problem.message)
        return kept

    def _reject(self, key: Key, message: str, *, is_unknown: bool = False) -> None:
        problem = PlanProblem(str(self._path), self._line(key), spell_key(key), message)
        # What is unknown explains nothing else that is wrong.
        self._form.append(((*key, "") if is_unknown else key, problem))

    def check_meaning(
        self, fields: PlanFields, find_agent: Callable[[str], object] | None
    ) -> dict[str, str]:
        """Everything else; returns the templates of the prompts."""
        self._fields = fields
        if fields.name and not _NAME.fullmatch(fields.name):
            self._add(("name",), f"{fields.name!r} cannot be a name; {_NAME_RULE}")
        if not fields.tasks:
            self._add((), "the plan has no tasks; add a table such as [tasks.fix]")
        if not (self._path.parent / fields.directory).is_dir():
            self._add(("directory",), f"{fields.directory!r} is not a directory")
        for name in fields.inputs:
            if not _INPUT.fullmatch(name):
                self._add(("inputs", name), "use at most 40 letters, digits and '_'")
        self._check_needs()
        prompts = {name: self._check_task(name, task) for name, task in fields.tasks.items()}
        if find_agent is not None:
            self._check_agents(find_agent)
        return prompts

    def _check_needs(self) -> None:
        tasks = self._fields.tasks
        for name, task in tasks.items():
            for number, need in enumerate(task.needs, 1):
                if need not in tasks:
                    key = ("tasks", name, "needs", str(number))
                    self._add(key, f"there is no task {need!r}{suggest_name(need, tasks)}")
        for cycle in find_cycles({name: task.needs for name, task in tasks.items()}):
            way = " → ".join((*cycle, cycle[0]))
            self._add(("tasks", cycle[0], "needs"), f"tasks need each other: {way}; remove one")

    def _check_task(self, name: str, task: TaskFields) -> str:
        at = ("tasks", name)
        if not _NAME.fullmatch(name):
            self._add(at, f"{name!r} cannot be a name; {_NAME_RULE}")
        for number, limit in enumerate(task.budget, 1):
            try:
                parse_limit(limit)
            except ValueError as error:
                self._add((*at, "budget", str(number)), str(error))
        for number, check in enumerate(task.checks, 1):
            if not check.run.strip():
                self._add((*at, "checks", str(number)), "the check has no command; add run")
        self._check_end(at, task)
        if task.retries and not task.checks:
            self._add((*at, "retries"), "only count with checks; add [[tasks.NAME.checks]]")
        self._check_race(at, task)
        self._check_matrix(at, task)
        template, where = self._read_prompt(at, task)
        self._check_templates(at, name, task, template, where)
        return template

    def _check_end(self, at: Key, task: TaskFields) -> None:
        if task.end != "keep" and not task.worktree:
            what = "can be landed" if task.end == "land" else "can be in a pull request"
            self._add((*at, "end"), f"only work in a worktree {what}; set worktree = true")
        for field, ends in _END_FIELDS.items():
            if getattr(task, field) and task.end not in ends:
                known = " or ".join(f'"{end}"' for end in ends)
                self._add((*at, field), f"only counts with end = {known}")
        if task.base is not None and not task.worktree:
            self._add((*at, "base"), "only counts with worktree = true")

    def check_pull_requests(self, check: Callable[[str, str | None], object]) -> None:
        """Whether this machine can open those that the plan ends with; ``check`` raises if not."""
        directory = str((self._path.parent / self._fields.directory).resolve())
        for name, task in self._fields.tasks.items():
            if task.end == "pull request":
                try:
                    check(directory, task.remote)
                except QuarterdeckError as error:
                    key = ("tasks", name, "end" if task.remote is None else "remote")
                    self._add(key, str(error).replace("--remote", "remote").replace("\n", " "))

    def _check_race(self, at: Key, task: TaskFields) -> None:
        race, key = task.race, (*at, "race")
        if key not in self._lines:
            return
        if len(race.agents) < 2:
            self._add((*key, "agents"), "a race needs at least two agents")
        if task.agent is not None:
            self._add((*at, "agent"), "a race names its own agents; remove this")
        if not task.worktree:
            self._add(key, "contenders need worktrees of their own; set worktree = true")
        if race.pick == "judge" and race.judge is None:
            self._add((*key, "pick"), "needs an agent that chooses; add judge")
        if race.judge is not None and race.pick != "judge":
            self._add((*key, "judge"), 'only counts with pick = "judge"')
        if not race.rank or not set(race.rank) <= set(RANK_RULES):
            rules = ", ".join(RANK_RULES)
            self._add((*key, "rank"), f"needs at least one of {rules}, and nothing else")

    def _check_matrix(self, at: Key, task: TaskFields) -> None:
        count = 1
        for name, values in task.matrix.items():
            key = (*at, "matrix", name)
            if name not in self._fields.inputs:
                known = suggest_name(name, self._fields.inputs)
                self._add(key, f"there is no input {name!r}{known}; add [inputs.{name}]")
            if not values:
                self._add(key, "needs at least one value")
            if len(set(values)) != len(values):
                self._add(key, "has a value twice")
            count *= max(1, len(values))
        if count > _MOST_INSTANCES:
            self._add((*at, "matrix"), f"{count} combinations; at most {_MOST_INSTANCES} can run")

    def _read_prompt(self, at: Key, task: TaskFields) -> tuple[str, tuple[str, int]]:
        """The template, and the file and line on which it begins."""
        here = (str(self._path), self._line((*at, "prompt", TEXT)))
        if task.prompt_file is None:
            if not task.prompt.strip():
                self._add(at, "the task has no prompt; add prompt or prompt_file")
            return task.prompt, here
        if task.prompt:
            self._add((*at, "prompt_file"), "a task has one prompt; remove prompt or prompt_file")
        path = self._path.parent / task.prompt_file
        try:
            return _read_prompt_file(path, self._path.parent), (str(path), 1)
        except (PathError, ValueError) as error:
            self._add((*at, "prompt_file"), f"cannot read {str(path)!r}: {error}")
            return "", here

    def _check_templates(
        self, at: Key, name: str, task: TaskFields, prompt: str, where: tuple[str, int]
    ) -> None:
        inputs = frozenset(f"inputs.{one}" for one in self._fields.inputs)
        needs = {one: task.needs for one, task in self._fields.tasks.items()}
        needed = list_needed(needs, name) & needs.keys() - {name}
        outputs = frozenset(f"tasks.{one}.output" for one in needed)
        for key, text, known in (
            ((*at, "prompt"), prompt, inputs | outputs),
            ((*at, "options", "system_prompt"), task.options.system_prompt or "", inputs | outputs),
            ((*at, "retry_message"), task.retry_message, inputs | outputs | _CHECK_NAMES),
            ((*at, "base"), task.base or "", inputs),
            ((*at, "into"), task.into or "", inputs),
            *(
                ((*at, "checks", str(number), "run"), check.run, inputs)
                for number, check in enumerate(task.checks, 1)
            ),
        ):
            path, line = str(self._path), self._line((*key, TEXT))
            if key[-1] == "prompt":
                path, line = where
            for used, below in list_names(text):
                if used not in known:
                    message = self._describe_unknown(used, known)
                    problem = PlanProblem(path, line + below, spell_key(key), message)
                    self._meaning.append((key, problem))

    def _describe_unknown(self, used: str, known: Iterable[str]) -> str:
        if used == "{{":
            return r"a template is not closed by }}; write \{{ for two braces"
        parts = used.split(".")
        is_output = len(parts) == 3 and parts[0] == "tasks" and parts[2] == "output"
        if is_output and parts[1] in self._fields.tasks:
            return f"the output of {parts[1]!r} is not there yet; add {parts[1]!r} to needs"
        known = sorted(known)
        hint = suggest_name(used, known) or (f"; known here: {', '.join(known)}" if known else "")
        return f"nothing has the name {used!r}{hint}"

    def _check_agents(self, find_agent: Callable[[str], object]) -> None:
        if self._fields.agent is not None:
            self._check_agent(("agent",), self._fields.agent, find_agent)
        for name, task in self._fields.tasks.items():
            at = ("tasks", name)
            if task.is_race:
                for number, agent in enumerate(task.race.agents, 1):
                    self._check_agent((*at, "race", "agents", str(number)), agent, find_agent)
                if task.race.judge is not None:
                    self._check_agent((*at, "race", "judge"), task.race.judge, find_agent)
            elif task.agent is not None:
                self._check_agent((*at, "agent"), task.agent, find_agent)
            elif self._fields.agent is None:
                self._add(at, "the task has no agent; add agent here or at the top of the plan")

    def _check_agent(self, key: Key, name: str, find_agent: Callable[[str], object]) -> None:
        try:
            find_agent(name)
        except QuarterdeckError as error:
            self._add(key, str(error).replace("\n", " "))

    def _add(self, key: Key, message: str) -> None:
        problem = PlanProblem(str(self._path), self._line(key), spell_key(key), message)
        self._meaning.append((key, problem))

    def _line(self, key: Key) -> int:
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)


def _remove(values: Any, key: Key) -> None:
    """Take a value out of nested tables and lists; of a list all, so that numbers stay right."""
    if not key:
        cast("dict[str, Any]", values).clear()
        return
    above: Any = values
    for part in key[:-1]:
        try:
            place = int(part) - 1 if isinstance(above, list) else part
            above = cast("dict[Any, Any]", above)[place]
        except (KeyError, IndexError):
            return  # taken out with what it was in
    if isinstance(above, dict):
        cast("dict[str, Any]", above).pop(key[-1], None)
    elif isinstance(above, list):
        cast("list[Any]", above)[int(key[-1]) - 1] = {}


def expand_tasks(plan: CheckedPlan, given: Mapping[str, str]) -> dict[str, PlannedTask]:
    """The tasks as they run, each after those that it needs.

    Raises:
        PlanInputError: an input is missing, or there is none of that name.
    """
    inputs = _choose_inputs(plan, given)
    tasks = plan.fields.tasks
    order = sort_by_needs({name: task.needs for name, task in tasks.items()})
    keys: dict[str, tuple[str, ...]] = {}
    found: dict[str, PlannedTask] = {}
    for name in order:
        made = list(_expand_task(plan, name, inputs, keys))
        keys[name] = tuple(one.key for one in made)
        found |= {one.key: one for one in made}
    return found


def _expand_task(
    plan: CheckedPlan, name: str, inputs: Mapping[str, str], keys: Mapping[str, tuple[str, ...]]
) -> Iterator[PlannedTask]:
    fields = plan.fields.tasks[name]
    needs = tuple(key for need in fields.needs for key in keys[need])
    combinations = [
        dict(zip(fields.matrix, values, strict=True))
        for values in itertools.product(*fields.matrix.values())
    ]
    for number, values in enumerate(combinations, 1):
        yield PlannedTask(
            key=name if len(combinations) == 1 else f"{name}.{number}",
            task=name,
            label=", ".join(f"{one}={value}" for one, value in values.items()),
            fields=fields,
            inputs={**inputs, **values},
            needs=needs,
            contenders=tuple(_list_contenders(plan, fields)),
            prompt=plan.prompts[name],
        )


def _list_contenders(plan: CheckedPlan, fields: TaskFields) -> Iterator[Contender]:
    if not fields.is_race:
        agent = fields.agent or plan.fields.agent or "native"
        yield Contender(name=agent, agent=agent)
        return
    counts: dict[str, int] = {}
    for agent in fields.race.agents:
        counts[agent] = counts.get(agent, 0) + 1
        number = counts[agent]
        yield Contender(name=agent if number == 1 else f"{agent}-{number}", agent=agent)


def _choose_inputs(plan: CheckedPlan, given: Mapping[str, str]) -> dict[str, str]:
    known = plan.fields.inputs
    for name in given:
        if name not in known:
            raise PlanInputError(f"the plan has no input {name!r}{suggest_name(name, known)}")
    covered = frozenset(_covered_by_matrices(plan))
    chosen = {
        name: given.get(name, fields.default if fields.default is not None else "")
        for name, fields in known.items()
    }
    missing = [
        name
        for name, fields in known.items()
        if name not in given and fields.default is None and name not in covered
    ]
    if missing:
        flags = " ".join(f"--input {name}=VALUE" for name in missing)
        raise PlanInputError(f"the plan needs more inputs: {flags}")
    return chosen


def _covered_by_matrices(plan: CheckedPlan) -> Iterator[str]:
    """Inputs that no task uses except those that have them in their matrix."""
    for name in plan.fields.inputs:
        users = [
            task
            for one, task in plan.fields.tasks.items()
            if any(used == f"inputs.{name}" for used, _ in _list_used(plan.prompts[one], task))
        ]
        if users and all(name in task.matrix for task in users):
            yield name


def _list_used(prompt: str, task: TaskFields) -> Iterator[tuple[str, int]]:
    options: OptionFields = task.options
    texts = (prompt, options.system_prompt, task.retry_message, task.base, task.into)
    for text in (*texts, *(check.run for check in task.checks)):
        yield from list_names(text or "")


def _read_prompt_file(path: Path, near: Path) -> str:
    """The text of a file in the project: an agent may have put a link to anything there."""
    project = find_workspace(near.absolute()).project
    with Roots([project]).place(path.absolute()) as place:
        if not stat.S_ISREG(place.stat().st_mode):
            raise ValueError("it is no file")
        handle = place.open(os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            data = file.read(_LONGEST_PROMPT + 1)
    if len(data) > _LONGEST_PROMPT:
        raise ValueError(f"it is larger than {_LONGEST_PROMPT:,} bytes")
    return data.decode("utf-8")


def find_cycles(needs: Needs) -> list[tuple[str, ...]]:
    """Groups of tasks that need each other, each as one way around, from its first task."""
    order = {name: place for place, name in enumerate(needs)}
    cycles: list[tuple[str, ...]] = []
    covered: set[str] = set()
    for name in needs:
        if name in covered:
            continue
        if (way := _find_way_back(needs, name)) is not None:
            covered |= {one for one in list_needed(needs, name) if name in list_needed(needs, one)}
            first = min(way, key=order.__getitem__)
            start = way.index(first)
            cycles.append((*way[start:], *way[:start]))
    return cycles


def _find_way_back(needs: Needs, start: str) -> tuple[str, ...] | None:
    """The shortest way from a task over what it needs back to it."""
    ways: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        for need in needs.get(way[-1], ()):
            if need == start:
                return way
            if need not in seen:
                seen.add(need)
                ways.append((*way, need))
    return None


def list_needed(needs: Needs, name: str) -> frozenset[str]:
    """All tasks that a task needs, directly or not; itself too if it is in a cycle."""
    found: set[str] = set()
    rest = list(needs.get(name, ()))
    while rest:
        one = rest.pop()
        if one not in found:
            found.add(one)
            rest += needs.get(one, ())
    return frozenset(found)


def sort_by_needs(needs: Needs) -> list[str]:
    """The tasks, each after those that it needs, otherwise in their order; no cycle is in them."""
    order: list[str] = []
    done: set[str] = set()
    waiting = {name: set(below) for name, below in needs.items()}
    while waiting:
        ready = [name for name, below in waiting.items() if below <= done]
        if not ready:
            raise ValueError(f"tasks need each other: {', '.join(waiting)}")
        for name in ready:
            del waiting[name]
        order += ready
        done |= set(ready)
    return order
