"""What the form that starts an agent offers and reads: its options as a line of text, worktrees,
and the values to choose from. Pure: it reads no disk and draws nothing.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from quarterdeck.policy.modes import MODE_MEANINGS, MODES
from quarterdeck.wire.budgets import BudgetLimit, describe_limit, parse_limit
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.session_options import SessionLimits, SessionOptions
from quarterdeck.wire.settings import Effort
from quarterdeck.wire.worktrees import WorktreeOptions

from ..widgets.select import SelectOption

if TYPE_CHECKING:
    from quarterdeck.drivers.probe import LoginState

__all__ = [
    "BUDGET_EXAMPLES",
    "EFFORT_WORDS",
    "LIMITS",
    "NEW",
    "NONE",
    "REMEMBERED",
    "ModelPrice",
    "OptionTextError",
    "SpawnAgent",
    "SpawnDirectory",
    "check_support",
    "describe_budgets",
    "list_agent_options",
    "list_directory_options",
    "list_effort_options",
    "list_mode_options",
    "list_model_options",
    "list_remembered",
    "list_worktree_options",
    "parse_budgets",
    "parse_limits",
    "parse_option_text",
    "parse_worktree_choice",
    "recall_options",
]

NEW, NONE = "new", "none"
"""The two words of the field for the worktree."""
LIMITS = {"cost": "$", "tokens": "tokens", "model_calls": "model calls", "seconds": "seconds"}
"""The limits of a turn that have a field, with what they are counted in."""
REMEMBERED = ("agent", "model", "mode", "effort", "worktree")
"""The fields whose last values are offered again in the same project."""
BUDGET_EXAMPLES = "5usd, 200ktok, 50calls or 30min"
"""How budgets are written."""
_BUDGET_WORD = re.compile(r"[^\s,]+(?: (?=[a-zA-Z$]+(?:[\s,]|$))[a-zA-Z$]+)?")
"""A budget; between its number and its unit there may be a space."""
_LISTS = ("roots", "allow", "deny", "tools", "denied_tools")
_TEXTS = ("transport", "agent_mode", "effort", "system_prompt", "resume", "fork")
_LIMITS = tuple(f"limits.{name}" for name in SessionLimits.__struct_fields__)
_VARIABLE = "environment."
_WORKTREE = ("worktree", "worktree.base", "worktree.carry", "worktree.path")
_WORDS: dict[str, dict[str, Any]] = {
    "yes": {},
    "true": {},
    "no": {"is_off": True},
    "false": {"is_off": True},
}
"""What a worktree is asked for with, besides its name."""


class OptionTextError(QuarterdeckError):
    """The text is not understood; the message says which part and what there is."""


def parse_option_text(text: str, **fields: Any) -> SessionOptions:
    """The options that a text sets, with these fields besides; a list is one word for each value.

    Words are separated and quoted as in a shell. ``environment.NAME=value`` sets a variable;
    ``worktree`` is ``yes``, ``no`` or a name.

    Raises:
        OptionTextError: there is no such option, or it has no such value.
    """
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionTextError(f"options: {str(error).lower()} in {text!r}") from error
    for word in words:
        name, is_set, value = word.partition("=")
        if not is_set:
            raise OptionTextError(f"options: write {word!r} as name=value")
        _put(given, name, value)
    try:
        return convert(given, SessionOptions, strict=False)
    except msgspec.ValidationError as error:
        raise OptionTextError(f"options: {error}") from error


def _put(given: dict[str, Any], name: str, value: str) -> None:
    if name in _LISTS:
        given.setdefault(name, []).append(value)
    elif name in _TEXTS:
        given[name] = value
    elif name in _LIMITS:
        given.setdefault("limits", {})[name.removeprefix("limits.")] = value
    elif name == "worktree":
        given.setdefault("worktree", {}).update(_WORDS.get(value, {"name": value}))
    elif name in _WORKTREE:
        given.setdefault("worktree", {})[name.removeprefix("worktree.")] = value
    elif name.startswith(_VARIABLE) and name != _VARIABLE:
        given.setdefault("environment", {})[name.removeprefix(_VARIABLE)] = value
    else:
        known = ", ".join((*_TEXTS, *_LISTS, *_WORKTREE, *_LIMITS, f"{_VARIABLE}NAME"))
        raise OptionTextError(f"options: there is no {name!r}; there are {known}")


def parse_limits(typed: Mapping[str, str | None], also: SessionLimits) -> SessionLimits:
    """The limits of the fields, and those of the line of options.

    Raises:
        OptionTextError: one is no number, or is in both.
    """
    found: dict[str, Any] = {}
    for name, text in typed.items():
        if text is None:
            continue
        if getattr(also, name) is not None:
            raise OptionTextError(f"limits.{name}: is in the options as well; fill in only one")
        try:
            limits = convert({name: text}, SessionLimits, strict=False)
        except msgspec.ValidationError:
            kind = "a number" if name in ("cost", "seconds") else "a whole number"
            raise OptionTextError(f"limits.{name}: must be {kind}, not {text!r}") from None
        if not getattr(limits, name) > 0:
            raise OptionTextError(f"limits.{name}: must be above 0, not {text!r}")
        found[name] = getattr(limits, name)
    return msgspec.structs.replace(also, **found)


def parse_budgets(text: str) -> tuple[BudgetLimit, ...]:
    """The budgets that a line names, such as ``5usd 200ktok``; of one unit only one.

    Raises:
        OptionTextError: one of them is none; the message says what one looks like.
    """
    found: dict[str, BudgetLimit] = {}
    for word in _BUDGET_WORD.findall(text):
        try:
            limit = parse_limit(word)
        except ValueError as error:
            raise OptionTextError(f"budget: {error}") from None
        if limit.unit in found:
            raise OptionTextError(f"budget: {text!r} has two in {limit.unit}; write one")
        found[limit.unit] = limit
    if text.strip(" ,") and not found:
        raise OptionTextError(f"budget: {text!r} is no budget; write it as {BUDGET_EXAMPLES}")
    return tuple(found.values())


def describe_budgets(text: str) -> str:
    """What a line of budgets means, or what one looks like."""
    try:
        limits = parse_budgets(text)
    except OptionTextError:
        return f"such as {BUDGET_EXAMPLES}"
    words = ", ".join(describe_limit(limit.unit, limit.amount) for limit in limits)
    return f"{words} for it and all that it starts" if words else ""


def list_remembered(options: SessionOptions) -> dict[str, str]:
    """What to offer again next time: the values of ``REMEMBERED`` fields."""
    tree = options.worktree
    choice = "" if tree is None or tree.path else NONE if tree.is_off else NEW
    values = (options.agent, options.model, options.mode, options.effort, choice)
    return {name: value for name, value in zip(REMEMBERED, values, strict=True) if value}


def recall_options(chosen: Mapping[str, str], cwd: str) -> SessionOptions:
    """How an agent starts that is to be as the last one, by what ``list_remembered`` kept.

    Raises:
        OptionTextError: what was kept is no longer understood.
    """
    given = {name: chosen.get(name) or None for name in REMEMBERED if name != "worktree"}
    tree = {NEW: WorktreeOptions(), NONE: WorktreeOptions(is_off=True)}
    options = parse_option_text("", cwd=cwd, **given)
    return msgspec.structs.replace(options, worktree=tree.get(chosen.get("worktree", "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnDirectory:
    """What the form has to know of a directory: for its worktrees, and what the settings say."""

    problem: str = ""
    """Why no worktree can be made here; empty: one can."""
    head: str = ""
    """What is checked out: a new worktree starts from it."""
    has_default: bool = False
    """A new agent gets a worktree here unless a person says otherwise."""
    worktrees: tuple[str, ...] = ()
    """The names of those that agents have already."""
    branches: tuple[str, ...] = ()
    mode: str = ""
    """What the settings say for a new agent here; empty: nothing, or it is not known."""
    model: str = ""
    effort: str = ""
    is_lenient: bool = False
    """An agent that cannot be held to its mode is started with a warning."""


def parse_worktree_choice(
    choice: str, base: str, carry: bool, known: SpawnDirectory, cwd: str = "/"
) -> WorktreeOptions | None:
    """The worktree that the fields of the form ask for; None: what the settings say.

    Raises:
        OptionTextError: they do not fit together, or there is no repository.
    """
    makes_new = choice == NEW or (not choice and known.has_default)
    is_path = "/" in choice or choice.startswith(("~", "."))
    exists = is_path or choice in known.worktrees
    if choice in ("", NONE) and not makes_new:
        if base or carry:
            field = "base" if base else "carry"
            raise OptionTextError(f"{field}: needs a worktree; choose {NEW!r} for it")
        return WorktreeOptions(is_off=True) if choice else None
    if known.problem and not is_path:
        raise OptionTextError(f"worktree: {known.problem}")
    if exists and (base or carry):
        field = "base" if base else "carry"
        raise OptionTextError(f"{field}: only for a new worktree, and {choice!r} exists")
    if is_path:
        return WorktreeOptions(path=str(Path(cwd, Path(choice).expanduser())))
    if exists:
        return WorktreeOptions(path=choice)
    if not choice and not base and not carry:
        return None
    return WorktreeOptions(name=None if makes_new else choice, base=base or None, carry=carry)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnAgent:
    """An agent of the catalogue, as the form shows it."""

    name: str
    title: str = ""
    is_here: bool = False
    version: str = ""
    """Empty: not known, or not known yet."""
    login: "LoginState" = "unknown"
    install: str = ""
    problem: str = ""
    """Why no session can be opened with it."""
    vendor: str = ""
    """The vendor of its models in the catalogue of models; empty: none, or of several."""
    modes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why it cannot be held to a mode, by the mode."""
    options: frozenset[str] | None = None
    """The names of the options that reach it; None: all."""

    def explain(self, option: str) -> str:
        """Why an option cannot be set for it; empty: it can."""
        if self.options is None or option in self.options:
            return ""
        return f"{self.title or self.name} takes no {_NAMES.get(option, option)} from here"


_NAMES = {"effort": "effort", **{f"limits.{name}": f"limit of {LIMITS[name]}" for name in LIMITS}}
_NAMES["limits.cost"] = "limit of cost"
_LOGINS = {"yes": "logged in", "no": "not logged in", "unknown": "login unknown"}


def list_agent_options(agents: Iterable[SpawnAgent]) -> list[SelectOption]:
    """Those that are installed first, in the given order; others with how to install them."""
    found = sorted(agents, key=lambda one: not one.is_here)
    return [_agent_option(one) for one in found]


def _agent_option(agent: SpawnAgent) -> SelectOption:
    title = agent.title if agent.title.lower() != agent.name else ""
    if not agent.is_here:
        how = f"install: {agent.install}" if agent.install else "see docs/agents.md"
        return SelectOption(value=agent.name, group="not installed", problem=_join(title, how))
    if agent.problem:
        return SelectOption(value=agent.name, group="installed", problem=agent.problem)
    login = _LOGINS[agent.login]
    if agent.name == "native":
        login = "a model key is set" if agent.login == "yes" else "no model key is set"
        title = "our own agent"
    return SelectOption(
        value=agent.name, group="installed", words=_join(title, agent.version, login)
    )


def _join(*words: str) -> str:
    return " · ".join(filter(None, words))


EFFORT_WORDS = {
    "off": "answers without thinking first",
    "low": "thinks briefly",
    "medium": "thinks before it answers",
    "high": "thinks long: slower, and costs more",
}
"""What each effort means, in a line."""


def list_mode_options(agent: SpawnAgent | None, known: SpawnDirectory) -> list[SelectOption]:
    """Every mode with what it means; one that the agent cannot be held to with the reason."""
    reasons: Mapping[str, str] = {}
    if agent is not None and not known.is_lenient:
        reasons = agent.modes
    title = (agent.title or agent.name) if agent is not None else ""
    return [
        SelectOption(
            value=mode,
            words=MODE_MEANINGS[mode],
            problem=f"not with {title}: {reasons[mode]}" if mode in reasons else "",
        )
        for mode in sorted(MODES, key=lambda one: one in reasons)
    ]


def list_effort_options(agent: SpawnAgent | None) -> list[SelectOption]:
    """Every effort with what it means, or why it cannot be chosen."""
    problem = agent.explain("effort") if agent is not None else ""
    return [
        SelectOption(value=one, words=EFFORT_WORDS[one], problem=problem)
        for one in get_args(Effort)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """US dollars for a million tokens."""

    input: float
    output: float


def list_model_options(
    catalogue: Mapping[str, ModelPrice | None],
    own: Sequence[tuple[str, str]] = (),
    usable: frozenset[str] | None = None,
) -> list[SelectOption]:
    """The models that an agent reports itself, then those of the catalogue, with prices.

    Args:
        catalogue: the models that are known, by the name that the agent takes.
        own: names and descriptions that the agent reported in an earlier session.
        usable: those whose vendor has a key here, which come first; None: that is not known.
    """
    reported = [
        SelectOption(
            value=name,
            words=_join(words, _describe_price(catalogue.get(name))),
            group="as the agent reports",
        )
        for name, words in own
    ]
    taken = {name for name, _ in own}
    known = [
        SelectOption(value=name, words=_describe_price(price), group=_model_group(name, usable))
        for name, price in catalogue.items()
        if name not in taken
    ]
    return reported + sorted(known, key=lambda one: one.group == _NO_KEY)


_NO_KEY = "no key is set for them"


def _model_group(name: str, usable: frozenset[str] | None) -> str:
    if usable is None:
        return "known models"
    return "can be used here" if name in usable else _NO_KEY


def _describe_price(price: ModelPrice | None) -> str:
    """A price in words."""
    if price is None:
        return "price unknown"
    return f"{price.input:g} $ in · {price.output:g} $ out per million"


def list_worktree_options(known: SpawnDirectory) -> list[SelectOption]:
    """A new worktree, none, and those that there are."""
    problem = known.problem
    base = f" from {known.head}" if known.head else ""
    return [
        SelectOption(value=NEW, words=f"a worktree and a branch{base}", problem=problem),
        SelectOption(value=NONE, words="works in the directory itself"),
        *(SelectOption(value=one, words="continues there") for one in known.worktrees),
    ]


def list_directory_options(
    typed: str, recent: Sequence[str], repositories: Sequence[str], below: Sequence[str]
) -> list[SelectOption]:
    """Directories to choose from; a path that is begun completes to what is ``below`` it."""
    if typed.startswith(("/", "~", ".")):
        return [SelectOption(value=one) for one in below]
    words = typed.lower()
    groups = (("recent", recent), ("repositories of agents", repositories))
    seen: set[str] = set()
    found: list[SelectOption] = []
    for group, paths in groups:
        for path in paths:
            if path not in seen and words in path.lower():
                seen.add(path)
                found.append(SelectOption(value=path, group=group))
    return found


def check_support(
    options: SessionOptions, agent: SpawnAgent | None, mode: SelectOption | None
) -> None:
    """Say now what the agent would refuse. Raises OptionTextError."""
    if mode is not None and mode.problem:
        raise OptionTextError(f"mode: {mode.value} {mode.problem}")
    if agent is not None and options.effort and (problem := agent.explain("effort")):
        raise OptionTextError(f"effort: {problem}")
