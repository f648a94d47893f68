"""Profiles of child agents: a child's prompt and tools, how a file is parsed, and where
files are found.
"""

import asyncio
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from quarterdeck.policy.errors import UnknownModeError
from quarterdeck.policy.modes import Mode, parse_mode
from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.errors import QuarterdeckError

from ..frontmatter import FrontMatter, read_front_matter
from ..library.folders import ProfileFolder

__all__ = [
    "DEFAULT",
    "Profile",
    "ProfileError",
    "ProfileLibrary",
    "parse_profile",
    "part",
    "read_built_in_profiles",
    "read_profiles",
]

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


class ProfileError(QuarterdeckError):
    """A profile cannot be used; the message names its file and what to fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a child agent is to work."""

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
    """None: its parent's. Never wider than that, whatever the profile has here."""
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
        ProfileError: it cannot be used.
    """
    matter = read_front_matter(text)
    if not claude and (unknown := sorted(set(matter.facts) - _KEYS)):
        known = ", ".join(sorted(_KEYS))
        raise ProfileError(
            f"profile {source!r}: unknown key {unknown[0]!r}; valid keys are {known}"
        )
    name = matter.text("name") or stem
    if len(name) > _MOST_NAME or not name.replace("-", "").replace("_", "").isalnum():
        raise ProfileError(
            f"profile {source!r}: the name {name!r} may only contain letters, digits, '-' and '_'"
        )
    if not matter.body:
        raise ProfileError(f"profile {source!r} has no prompt; write one after the second '---'")
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
        raise ProfileError(f"profile {source!r}: model {model!r} must be 'vendor/id' or 'inherit'")
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
    except UnknownModeError as error:
        raise ProfileError(f"profile {source!r}: {error}, or 'inherit'") from error


def _number(matter: FrontMatter, key: str, source: str, kind: type[_Number]) -> _Number | None:
    written = matter.text(key)
    if not written:
        return None
    try:
        number = kind(written)
    except ValueError:
        number = kind(0)
    if not number > 0:
        raise ProfileError(f"profile {source!r}: {key} must be a number above 0, not {written!r}")
    return number


DEFAULT = "explore"
"""The profile that is meant where none is named."""
_MOST_FILES = 200
_MOST_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class ProfileLibrary:
    """The profiles that can be used, and why others cannot."""

    profiles: dict[str, Profile]
    problems: tuple[str, ...] = field(default=())

    def own(self) -> tuple[Profile, ...]:
        """Those that did not come with us, by name."""
        own = (one for one in self.profiles.values() if one.source != "built in")
        return tuple(sorted(own, key=lambda one: one.name))


@cache
def part() -> str:
    """The part of the prompt that every child gets. Reads a file."""
    return Path(__file__).with_name("child.md").read_text("utf-8").strip()


@cache
def read_built_in_profiles() -> tuple[Profile, ...]:
    """The profiles that come with us. Reads files."""
    paths = sorted(Path(__file__).with_name("profiles").glob("*.md"))
    return tuple(parse_profile(p.read_text("utf-8"), "built in", stem=p.stem) for p in paths)


async def read_profiles(shelves: tuple[ProfileFolder, ...]) -> ProfileLibrary:
    """Read them as they are now; what cannot be used is left out and reported."""
    return await asyncio.to_thread(_read, shelves)


def _read(shelves: tuple[ProfileFolder, ...]) -> ProfileLibrary:
    found: dict[str, Profile] = {}
    problems: list[str] = []
    for shelf in shelves:
        for path in sorted(shelf.path.glob("*.md"))[:_MOST_FILES]:
            try:
                profile = _profile(path, shelf)
            except ProfileError as error:
                problems.append(str(error))
                continue
            found.setdefault(profile.name, profile)
    for profile in read_built_in_profiles():
        found.setdefault(profile.name, profile)
    return ProfileLibrary(found, tuple(problems))


def _profile(path: Path, shelf: ProfileFolder) -> Profile:
    try:
        data = read_regular_file(path, _MOST_BYTES + 1)
    except OSError as error:
        raise ProfileError(f"profile {str(path)!r} cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise ProfileError(f"profile {str(path)!r} is larger than {_MOST_BYTES} bytes")
    text = data.decode("utf-8", "replace")
    return parse_profile(text, str(path), stem=path.stem, claude=shelf.claude)
