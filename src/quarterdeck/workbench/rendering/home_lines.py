"""The lines of the home screen; each line that can be chosen has the key of its action."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len

from quarterdeck.policy.modes import MODE_MEANINGS
from quarterdeck.version import __version__

from ..sanitize import sanitize_line
from ..stores.home import FIRST_STEPS
from . import glyphs
from .agent_rows import STATE_ROLES, format_since
from .lines import Line, Span, clip, flow, indented, plain, width_of, wrap

if TYPE_CHECKING:
    from quarterdeck.fleet.permissions.workspace_trust import WorkspaceTrust

    from ..stores.discovery import DiscoveredAgent, DiscoveryStore, MachineDiscovery
    from ..stores.home import FirstStep, HomeStore, RecentSession

__all__ = ["HomePage", "KeyedLine", "head_line", "home_lines"]

KeyedLine: TypeAlias = tuple[str, Line]
"""What a line does when it is chosen, and the line; empty: it does nothing."""

_LABEL = 13
_NARROW = 60
"""Cells below which labels stand above what they name."""
_WIDEST = 120
_BESIDE = 150
"""Cells from which on what changed stands beside what can be chosen."""
_SIDE = 60
_OFFERED = 2
"""Agents that are not here and whose way to get them is shown."""
_NAMED_KEYS = 3
_LOGINS = {"yes": "", "no": "not logged in", "unknown": "login unknown"}
_MARKS = {
    "done": (glyphs.DONE, "good"),
    "now": (glyphs.PLAN_BEGUN, "asking"),
    "open": (glyphs.PLAN_OPEN, "faint"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePage:
    """Everything that the home screen shows."""

    cwd: str
    """As people write it, with ``~`` for the home directory."""
    now: int
    """Microseconds since the epoch."""
    home: "HomeStore"
    discovery: "DiscoveryStore"
    recent: "Sequence[RecentSession]" = ()
    step: "FirstStep | None" = None
    """The step of the first run that is next; None: it is over."""
    done: frozenset[str] = frozenset()
    """Steps that are done."""
    tips: Sequence[str] = ()
    """What is worth knowing; as many are shown as there is room for."""
    keys: Sequence[tuple[str, str]] = ()
    """The keys that matter most, and what each does."""
    height: int = 0
    """Lines for all of it; where there is room, more is shown."""


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much of each part is shown."""

    recent: int
    has_all_tasks: bool
    commits: int
    files: int
    tips: int
    has_rows: bool = False
    """Each agent has a line of its own, and the keys are listed."""


_DETAILS = (
    _Detail(9, True, 5, 8, 4, has_rows=True),
    _Detail(9, True, 5, 5, 4),
    _Detail(9, True, 4, 3, 2),
    _Detail(7, True, 3, 3, 2),
    _Detail(5, True, 3, 0, 2),
    _Detail(5, True, 0, 0, 1),
    _Detail(5, False, 0, 0, 1),
)
"""From much to little; the first that there is room for counts, else the last."""


def head_line(page: HomePage, width: int) -> Line:
    """The name and the version; at the right where we are, as much as there is room for."""
    name: Line = ((" quarterdeck ", "strong"), (__version__, "faint"))
    project = page.home.project
    facts = [sanitize_line(page.cwd, 200)]
    if project is not None and project.branch:
        facts.append(sanitize_line(project.branch, 60))
        if project.changed is not None:
            count = project.changed
            facts.append(f"{count} change{'s' * (count != 1)}" if count else "clean")
    room = width - width_of(name) - 3
    facts[0] = _shorten_path(facts[0], room - sum(cell_len(fact) + 3 for fact in facts[1:]))
    while facts and cell_len(" · ".join(facts)) > room:
        facts.pop()
    right = " · ".join(facts)
    room = max(0, width - width_of(name) - cell_len(right) - 1)
    return clip((*name, (" " * room, "text"), (right, "faint")), width)


def _shorten_path(path: str, width: int) -> str:
    """A path within so many cells, without its first directories; the last one always stays."""
    parts = path.split("/")
    while len(parts) > 2 and cell_len("/".join(parts)) > width:
        parts = ["…", *parts[2:]]
    return "/".join(parts)


def home_lines(page: HomePage, width: int) -> list[KeyedLine]:
    """All lines below the head; the more important, the higher, and the less the less room."""
    lines: list[KeyedLine] = []
    for detail in _DETAILS:
        lines = _arrange(page, width, detail)
        if len(lines) <= page.height:
            break
    return [(key, clip(((" ", "text"), *line), width)) for key, line in lines]


def _arrange(page: HomePage, width: int, detail: _Detail) -> list[KeyedLine]:
    is_beside = width >= _BESIDE and page.step is None
    wide = min(width - _SIDE - 4 if is_beside else width, _WIDEST)
    narrow = _SIDE if is_beside else wide
    parts: list[list[KeyedLine]] = []
    if page.step is not None:
        parts.append(list(_steps(page, wide)))
    parts.append(list(_found(page, wide, has_rows=detail.has_rows)))
    parts.append(list(_recent(page, wide, detail.recent)))
    parts.append(list(_starts(page, wide, has_all=detail.has_all_tasks)))
    side = [list(_files(page, narrow, detail.files)), list(_commits(page, narrow, detail.commits))]
    tips = list(_tips(page, narrow, detail.tips))
    hint: list[KeyedLine] = [("", line) for line in wrap(plain(_HINT, "faint"), wide - 2)]
    if is_beside:
        side += [tips, list(_key_rows(page)) if detail.has_rows else []]
        return _put_beside(_join([*parts, hint]), _join(side), wide)
    last = [[*hint, *tips]] if detail.tips == 1 else [tips, hint]
    return _join([*parts, *side, *last])


_HINT = "Type a task and press enter. To choose here: ↑ and a key, or alt and the key."


def _join(parts: Iterable[list[KeyedLine]]) -> list[KeyedLine]:
    lines: list[KeyedLine] = []
    for part in parts:
        lines += [("", ())] * bool(lines and part) + part
    return lines


def _put_beside(left: list[KeyedLine], right: list[KeyedLine], wide: int) -> list[KeyedLine]:
    """What can be chosen at the left, and what is only to be read at the right."""
    lines: list[KeyedLine] = []
    for at in range(max(len(left), len(right))):
        key, line = left[at] if at < len(left) else ("", ())
        beside = right[at][1] if at < len(right) else ()
        gap = max(0, wide - width_of(line))
        lines.append((key, (*line, (" " * gap, "text"), ("  ", "text"), *beside)))
    return lines


def _row(label: str, spans: Sequence[Span], width: int, key: str = "") -> Iterator[KeyedLine]:
    """A label, and what it names beside it; below it where it is narrow."""
    yield from _label(label, wrap(spans, _row_width(width)), width, key)


def _row_width(width: int) -> int:
    return max(10, width - (_LABEL if width >= _NARROW else 2) - 2)


def _label(label: str, inner: Iterable[Line], width: int, key: str = "") -> Iterator[KeyedLine]:
    size = _LABEL if width >= _NARROW else 2
    if size != _LABEL and label:
        yield "", plain(label, "faint")
        label = ""
    for line in indented(inner, (f"{label:<{size}}", "faint"), (" " * size, "text")):
        yield key, line


# What is here


def _found(page: HomePage, width: int, *, has_rows: bool) -> Iterator[KeyedLine]:
    found = page.discovery.found
    if found is None:
        yield from _row("Agents here", [("looking …", "faint")], width)
    else:
        yield from _agents(found, width, has_rows=has_rows)
        yield from _keys(found, width)
    yield from _trust(page.discovery.trust, page.step, width)


def _agents(found: "MachineDiscovery", width: int, *, has_rows: bool) -> Iterator[KeyedLine]:
    here = [agent for agent in found.agents if agent.is_here]
    missing = [agent for agent in found.agents if not agent.is_here]
    items: list[Sequence[Span]] = [_agent(agent) for agent in here]
    built_in = (f"{glyphs.RUNNING} ", "running") if found.keys else (f"{glyphs.IDLE} ", "faint")
    items.append((built_in, ("built-in" if found.keys else "built-in needs a key", "text")))
    offered = missing[:_OFFERED] if not here else []
    more = len(missing) - len(offered)
    if more > 0:
        items.append(((f"+ {more} more  ", "faint"), ("a", "key")))
    lines = list(map(tuple, items)) if has_rows else flow(items, _row_width(width))
    yield from _label("Agents here", lines, width, "a")
    for agent in offered:
        get = sanitize_line(agent.install, 200)
        title = sanitize_line(agent.title, 40)
        yield from _row(
            "", [(f"{glyphs.IDLE} {title} not installed: ", "text"), (get, "code")], width
        )


def _agent(agent: "DiscoveredAgent") -> list[Span]:
    title = f"{sanitize_line(agent.title, 30)} {sanitize_line(agent.version, 20)}".rstrip()
    if agent.login == "yes":
        return [(f"{glyphs.RUNNING} ", "running"), (title, "text")]
    role = "warning" if agent.login == "no" else "faint"
    return [(f"{glyphs.IDLE} ", role), (f"{title} {_LOGINS[agent.login]}", "faint")]


def _keys(found: "MachineDiscovery", width: int) -> Iterator[KeyedLine]:
    unset = [name for name in found.key_names if name not in found.keys]
    names = [*found.keys, *unset[: max(0, _NAMED_KEYS - len(found.keys))]]
    items: list[Sequence[Span]] = []
    for name in names:
        is_set = name in found.keys
        mark = (f" {glyphs.DONE}", "good") if is_set else (f" {glyphs.UNKNOWN}", "faint")
        items.append(((sanitize_line(name, 60), "text" if is_set else "faint"), mark))
    if not found.keys:
        items.append((("set one for the built-in agent, or run a local model", "faint"),))
    yield from _label("Model keys", flow(items, _row_width(width)), width)


def _trust(
    trust: "WorkspaceTrust | None", step: "FirstStep | None", width: int
) -> Iterator[KeyedLine]:
    if trust is None or trust.state != "untrusted" or step is not None:
        return  # or a step says it
    files = ", ".join(sanitize_line(act.path, 60) for act in trust.acts)
    spans = [("not trusted", "warning"), (f", ignoring {files}; review with /trust", "text")]
    yield from _row("Project", spans, width, "trust")


# What can be continued


def _recent(page: HomePage, width: int, most: int) -> Iterator[KeyedLine]:
    shown = page.recent[:most]
    if shown:
        yield "", plain("Continue", "faint")
        agent_size = min(10, max(cell_len(one.agent) for one in shown))
        for number, one in enumerate(shown, 1):
            yield str(number), _recent_line(number, one, page.now, agent_size, width)
    elif page.home.past is None:
        yield from _row("Continue", [("looking for earlier sessions …", "faint")], width)
    if page.home.problem:
        yield from _row("", [(sanitize_line(page.home.problem, 200), "bad")], width)


def _recent_line(number: int, one: "RecentSession", now: int, size: int, width: int) -> Line:
    state, role = _recent_state(one)
    where = "fleet" if one.info is not None else "disk"
    age = format_since(one.updated, now) if one.updated else ""
    left: Line = (
        (f"{number}  ", "key"),
        (f"{_cell(sanitize_line(one.agent, 20), size)}  ", "strong"),
    )
    right: Line = ((f"  {state}", role), (f"  {where:<5} {age:>6}", "faint"))
    if width < _NARROW:
        right = ((f" {age:>4}", "faint"),)
    room = width - 2 - width_of(left) - width_of(right)
    title = _cell(sanitize_line(one.title, 200), max(1, room))
    return (*left, (title, "text"), *right)


def _recent_state(one: "RecentSession") -> Span:
    """What it changed and how it stands; of one on disk whose it is."""
    if one.past is not None:
        words = "own session" if one.past.can_resume else "prompts only"
        return words, "faint"
    assert one.info is not None
    counts, word = one.info.changes, one.info.state_word
    facts = (
        [f"+{counts.added} {glyphs.MINUS}{counts.removed}"]
        if counts is not None and counts.files
        else []
    )
    facts.append("archived" if one.info.is_archived else word)
    role = "faint" if one.info.is_archived else STATE_ROLES.get(word, "faint")
    return "  ".join(facts), role


def _cell(text: str, width: int) -> str:
    """A text in exactly so many cells."""
    ((shown, _),) = clip(((text, ""),), width) or (("", ""),)
    return shown + " " * (width - cell_len(shown))


# What to begin with


def _starts(page: HomePage, width: int, *, has_all: bool) -> Iterator[KeyedLine]:
    found, project = page.discovery.found, page.home.project
    can_work = found is None or bool(found.keys) or any(one.is_here for one in found.agents)
    tasks: list[tuple[str, str]] = []
    if can_work and page.step in (None, "prompt"):
        tasks.append(("f", "fix a failing test"))
        if project is not None and project.changed:
            tasks.append(("r", "review my uncommitted changes"))
        tasks += _MORE_TASKS if has_all else ()
    tasks.append(("d", "demo: two agents fix a project in a minute, no key needed"))
    yield "", plain("Start with", "faint")
    for key, words in tasks:
        yield key, clip(((f"{key}  ", "key"), (words, "text")), width - 2)


_MORE_TASKS = (
    ("e", "explain this project: what it does, how it is built"),
    ("b", "look for bugs, worst first, and change nothing"),
    ("t", "write tests for what has none"),
)


# What changed


def _files(page: HomePage, width: int, most: int) -> Iterator[KeyedLine]:
    project = page.home.project
    if project is None or not project.changed or not project.files or not most:
        return
    yield "", plain(f"Uncommitted  {project.changed}", "faint")
    for letter, path in project.files[:most]:
        name: Span = (sanitize_line(path, 200), "text")
        yield "", clip(((f"{sanitize_line(letter, 1):<3}", "faint"), name), width - 2)
    if (left := project.changed - min(most, len(project.files))) > 0:
        yield "", plain(f"{glyphs.CUT}  {left} more", "faint")


def _commits(page: HomePage, width: int, most: int) -> Iterator[KeyedLine]:
    commits = page.home.project.commits[:most] if page.home.project is not None else ()
    if commits:
        yield "", plain("Last commits", "faint")
    for one in commits:
        age = f" {format_since(one.time, page.now):>6}"
        left: Line = ((f"{sanitize_line(one.id, 12)}  ", "faint"),)
        room = max(1, width - 2 - width_of(left) - cell_len(age))
        yield "", (*left, (_cell(sanitize_line(one.subject, 200), room), "text"), (age, "faint"))


def _key_rows(page: HomePage) -> Iterator[KeyedLine]:
    if page.keys:
        yield "", plain("Keys", "faint")
    size = max((cell_len(key) for key, _ in page.keys), default=0)
    for key, does in page.keys:
        yield "", ((f"{key:<{size}}  ", "key"), (does, "text"))


def _tips(page: HomePage, width: int, most: int) -> Iterator[KeyedLine]:
    shown = page.tips[:most]
    if len(shown) == 1:
        for line in wrap(plain(f"tip: {sanitize_line(shown[0], 200)}", "faint"), width - 2):
            yield "", line
        return
    if shown:
        yield "", plain("Good to know", "faint")
    point = (f"{glyphs.POINT} ", "faint")
    for tip in shown:
        lines = wrap(plain(sanitize_line(tip, 200), "text"), width - 4)
        for line in indented(lines, point, ("  ", "text")):
            yield "", line


# The first run


def _steps(page: HomePage, width: int) -> Iterator[KeyedLine]:
    number = FIRST_STEPS.index(page.step or "prompt") + 1
    words = f"Get started, step {number} of {len(FIRST_STEPS)}"
    hints = {"mode": "↑ chooses, esc keeps it as it is", "prompt": "esc ends this list"}
    hint = hints.get(page.step or "", "enter does it, esc skips it")
    for line in wrap([(words, "strong"), (f"   {hint}", "faint")], width - 2):
        yield "", line
    for at, step in enumerate(FIRST_STEPS, 1):
        state = "now" if step == page.step else "done" if step in page.done else "open"
        sign, role = _MARKS[state]
        says = _describe_step(step, page)
        inner = wrap(says, max(10, width - 14))
        first = (f"{sign} {at} {step:<8}", role if state != "done" else "faint")
        for line in indented(inner, first, (" " * 12, "text")):
            yield f"step {step}", line
        if state == "now" and step == "mode":
            yield from _modes(page.home.mode, width)


def _modes(now: str, width: int) -> Iterator[KeyedLine]:
    for mode, meaning in MODE_MEANINGS.items():
        sign = glyphs.CHOSEN if mode == now else glyphs.OFFERED
        line: Line = (
            (f"            {sign} ", "running" if mode == now else "faint"),
            (f"{mode:<13} ", "strong" if mode == now else "text"),
            (meaning, "faint"),
        )
        yield f"mode {mode}", clip(line, width - 2)


def _describe_step(step: "FirstStep", page: HomePage) -> Iterable[Span]:
    is_now = step == page.step
    match step:
        case "agent":
            return _agent_step(page.discovery.found)
        case "trust":
            return _trust_step(page.discovery.trust)
        case "mode":
            now = page.home.mode or "ask"
            words = f"{now}: {MODE_MEANINGS.get(now, '')}"
            return [(words, "text" if is_now else "faint")]
        case "prompt":
            words = "type a task below and press enter, then choose an agent for it"
            return [(words, "text" if is_now else "faint")]


def _agent_step(found: "MachineDiscovery | None") -> Iterable[Span]:
    if found is None:
        return [("looking …", "faint")]
    here = [sanitize_line(agent.title, 30) for agent in found.agents if agent.is_here]
    names = [*here, *(sanitize_line(name, 60) for name in found.keys)]
    if names:
        return [(f"found {', '.join(names)}", "text")]
    words = "no agent and no API key found; enter shows how to get one"
    return [(words, "text")]


def _trust_step(trust: "WorkspaceTrust | None") -> Iterable[Span]:
    if trust is None or trust.state == "plain":
        return [("no file of this project needs your trust", "faint")]
    if trust.state == "trusted":
        return [("this project is trusted", "faint")]
    files = ", ".join(sanitize_line(act.path, 60) for act in trust.acts)
    return [(f"{files}: no effect until you trust this project", "text")]
