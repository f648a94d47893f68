"""Profiles: what an agent that another one starts is told, and what it may use."""

from dataclasses import dataclass
from typing import TypeVar

from quarterdeck.policy.errors import UnknownMode
from quarterdeck.policy.modes import Mode, parse_mode
from quarterdeck.wire.errors import QuarterdeckError

from ..frontmatter import FrontMatter, read_front_matter

__all__ = ["BadProfile", "Profile", "parse_profile"]

_Number = TypeVar("_Number", int, float)

_KEYS = frozenset(
    (
        "name",
        "description",
        "model",
        "tools",
        "mode",
        "max_turns",
        "max_tokens",
        "max_cost",
        "max_seconds",
    )
)
_CLAUDE_TOOLS = {
    "Agent": "spawn_agent",
    "AskUserQuestion": "ask_user",
    "Bash": "bash",
    "BashOutput": "commands",
    "Edit": "edit",
    "Glob": "glob",
    "Grep": "grep",
    "KillShell": "commands",
    "LS": "ls",
    "MultiEdit": "multi_edit",
    "Read": "read",
    "Skill": "skill",
    "Task": "spawn_agent",
    "TodoWrite": "plan",
    "WebFetch": "fetch",
    "Write": "write",
}
_CLAUDE_MODES: dict[str, Mode | None] = {
    "default": "ask",
    "acceptEdits": "accept-edits",
    "plan": "plan",
    "bypassPermissions": "full-auto",
}
_MOST_NAME = 64


class BadProfile(QuarterdeckError):
    """A profile cannot be used; the message names its file and what to mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How an agent shall be that another one starts."""

    name: str
    description: str
    prompt: str
    source: str = "built in"
    """Its file, for people."""
    model: str | None = None
    """As ``vendor/id``; None: its parent's."""
    tools: tuple[str, ...] | None = None
    """Only these of its parent's tools; None: all of them."""
    mode: Mode | None = "read-only"
    """None: its parent's. Never wider than that, whatever is said here."""
    max_turns: int | None = None
    """Calls of the model."""
    max_tokens: int | None = None
    max_cost: float | None = None
    """US dollars."""
    max_seconds: float | None = None


def parse_profile(text: str, source: str, *, stem: str, claude: bool = False) -> Profile:
    """Read a profile; ``stem`` is its name where it says none.

    ``claude``: written for Claude Code. Its names for tools and modes are translated, what else
    it says is passed over, and without a mode it has its parent's, as it has there.

    Raises:
        BadProfile: it cannot be used.
    """
    matter = read_front_matter(text)
    if not claude and (unknown := sorted(set(matter.facts) - _KEYS)):
        known = ", ".join(sorted(_KEYS))
        raise BadProfile(f"profile {source!r}: unknown key {unknown[0]!r}; there are {known}")
    name = matter.text("name") or stem
    if len(name) > _MOST_NAME or not name.replace("-", "").replace("_", "").isalnum():
        raise BadProfile(
            f"profile {source!r}: the name {name!r} may have letters, digits, '-' and '_' only"
        )
    if not matter.body:
        raise BadProfile(f"profile {source!r} has no prompt; write one below the second '---'")
    turns = "maxTurns" if claude else "max_turns"
    return Profile(
        name=name,
        description=matter.text("description") or name,
        prompt=matter.body,
        source=source,
        model=_model(matter, source, claude=claude),
        tools=_tools(matter, claude=claude),
        mode=_mode(matter, source, claude=claude),
        max_turns=_number(matter, turns, source, int),
        max_tokens=_number(matter, "max_tokens", source, int),
        max_cost=_number(matter, "max_cost", source, float),
        max_seconds=_number(matter, "max_seconds", source, float),
    )


def _model(matter: FrontMatter, source: str, *, claude: bool) -> str | None:
    model = matter.text("model")
    if not model or model == "inherit":
        return None
    if "/" not in model:
        if claude:
            return None  # a word for a model of one vendor, which this session may not use
        raise BadProfile(f"profile {source!r}: model {model!r} must be 'vendor/id' or 'inherit'")
    return model


def _tools(matter: FrontMatter, *, claude: bool) -> tuple[str, ...] | None:
    tools = matter.words("tools")
    if tools is None or tools == ("*",):
        return None
    if claude:
        # `Bash(git:*)` narrows a tool there; what may run is for our rules to say.
        tools = tuple(_CLAUDE_TOOLS.get(bare := tool.partition("(")[0], bare) for tool in tools)
    return tuple(dict.fromkeys(tools))


def _mode(matter: FrontMatter, source: str, *, claude: bool) -> Mode | None:
    if claude:
        return _CLAUDE_MODES.get(matter.text("permissionMode"))
    mode = matter.text("mode")
    if not mode:
        return "read-only"
    if mode == "inherit":
        return None
    try:
        return parse_mode(mode)
    except UnknownMode as error:
        raise BadProfile(f"profile {source!r}: {error}, or 'inherit'") from error


def _number(matter: FrontMatter, key: str, source: str, kind: type[_Number]) -> _Number | None:
    told = matter.text(key)
    if not told:
        return None
    try:
        number = kind(told)
    except ValueError:
        number = kind(0)
    if not number > 0:
        raise BadProfile(f"profile {source!r}: {key} must be a number above 0, not {told!r}")
    return number
