"""What an agent's screen means, as data: one file for each agent, proven on recorded screens.

A state is a pattern that reaches to the end of the screen: what an agent draws around its prompt
is always the last on it, and what a model says never is. So prose with the same words is not
taken for a dialog.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

import msgspec

from quarterdeck.wire.decoders import convert
from quarterdeck.wire.permissions import PermissionKind
from quarterdeck.wire.tool_calls import ToolKind

from ..errors import BadAgentFileError

__all__ = [
    "AnswerPatterns",
    "RequestPatterns",
    "StatePattern",
    "TerminalPatterns",
    "TerminalState",
    "load_patterns",
    "parse_patterns",
]

TerminalState: TypeAlias = Literal[
    "ready", "busy", "asking", "trust", "update", "login", "notice", "unknown"
]
"""What an agent does, as its screen shows it; ``finished`` is ready after busy."""


class StatePattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a state looks, and for a dialog how it is answered."""

    state: TerminalState
    screen: str = ""
    """A pattern that reaches to the end of the screen; blank rows there do not count."""
    title: str = ""
    """A pattern for the window's title."""
    pastes: bool | None = None
    """Whether the program takes pastes in brackets then: some do only while they read a line."""
    cursor: bool | None = None
    """Whether the cursor is on the rows that ``screen`` is found on: not while another part of a
    program that draws the whole screen has the keyboard."""
    unless: str = ""
    """A pattern that must not be found where ``screen`` was."""
    accept: tuple[str, ...] = ()
    """Keys that say yes."""
    decline: tuple[str, ...] = ()
    """Keys that say no and go on."""


class RequestPatterns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a permission request is read and answered.

    The pattern of the state ``asking`` has the groups ``title`` and ``options``, and, where they
    are on the screen, ``subject`` (a path, a reason) and ``detail``.
    """

    option: str
    """A pattern for one option, with the group ``name``, and ``key`` and ``chosen`` if shown."""
    kinds: dict[PermissionKind, str]
    """What the names of options of a kind look like."""
    choose: Literal["key", "arrows"] = "key"
    """By its key, or by moving there and pressing enter."""
    confirm: tuple[str, ...] = ()
    """Keys that have to follow the key of an option."""
    arrows: tuple[str, str] = ("up", "down")
    """Keys to the option before and after."""
    first: int = 0
    """The option that is chosen at first, where neither a mark nor a background shows it."""
    cancel: tuple[str, ...] = ("escape",)
    """Keys that answer nothing and stop the turn."""
    tools: dict[ToolKind, str] = {}
    """What the title or detail of a request of this kind looks like."""
    files: tuple[str, ...] = ()
    """Patterns with the group ``path`` for the file of a request to edit; the first that is found
    counts. They see title, subject and detail as on the screen, with a form feed between."""
    hidden: str = "…"
    """What stands in a path or a command where a part of it is left out."""


class AnswerPatterns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to find the model's messages among what is on the screen; patterns for one line."""

    echo: str
    """The line that shows a prompt that was sent, or its first line."""
    echo_more: str = ""
    """A further line of it, where those cannot be distinguished from the answer."""
    mark: str = ""
    """The character that begins an echo, if other things begin with it in another colour than the
    prompt at the end of the screen does: ``│`` replaces it in those."""
    one_echo: bool = False
    """A turn has one prompt; what looks like another is the model's text."""
    text: str
    """The first line of a message of the model, with the group ``text``."""
    more: str = ""
    """A further line of the same, with the group ``text``."""
    tool: str = ""
    """A tool call; may look at the line after it; groups ``title``, ``failed``, ``running``."""
    tool_after_blank: bool = False
    """An indented line is a tool call only after a blank one; else it is text."""
    thought: str = ""
    """The first line of a thought, with the group ``text``."""
    failed: str = ""
    """The turn has failed, with the group ``reason``."""
    skip: str = ""
    """A line that belongs to the agent's own drawing."""
    over: str = ""
    """The line after which the model's message is complete. What follows is the agent's own, its
    tool calls among it."""
    again: str = ""
    """The line after that from which on the model speaks again."""
    margin: int = 0
    """Columns that are left free at the right; text is wrapped before them."""
    wraps: bool = True
    """The agent itself breaks long lines at words; they are put together again."""


class TerminalPatterns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about one agent's screen."""

    proven: str = ""
    """The program and version that it was recorded with; empty: unverified."""
    columns: int = 120
    rows: int = 60
    calm: float = 0.5
    """Seconds without a change after which a screen that looks ready is."""
    submit: tuple[str, ...] = ("enter",)
    interrupt: tuple[str, ...] = ("escape",)
    """Keys that stop a turn."""
    patience: float = 1.2
    """Seconds after which what stops a turn is pressed again, if it has not."""
    leave: tuple[str, ...] = ()
    """Keys that end the program, if hanging up is not enough."""
    states: tuple[StatePattern, ...]
    """The first that is found counts."""
    asking: RequestPatterns | None = None
    answer: AnswerPatterns


@cache
def load_patterns(name: str) -> TerminalPatterns:
    """What is known about the screen of this name, as it ships.

    Raises:
        BadAgentFileError: nothing is known, or the file is wrong.
    """
    folder = resources.files("quarterdeck.drivers.pty").joinpath("screens")
    file = folder.joinpath(f"{name}.toml")
    if not re.fullmatch(r"[a-z0-9_-]+", name) or not file.is_file():
        known = ", ".join(sorted(one.name.removesuffix(".toml") for one in folder.iterdir()))
        raise BadAgentFileError(f"there is no screen description {name!r}; known are {known}")
    return parse_patterns(f"screens/{name}.toml", tomllib.loads(file.read_text("utf-8")))


def parse_patterns(where: str, table: Mapping[str, Any]) -> TerminalPatterns:
    """The knowledge that a table, as TOML gives it, holds.

    Raises:
        BadAgentFileError: a field or a pattern is wrong; names the place.
    """
    try:
        found = convert(dict(table), TerminalPatterns)
    except msgspec.ValidationError as error:
        raise BadAgentFileError(f"{where}: {error}") from error
    for pattern in _patterns(found):
        try:
            re.compile(pattern, re.MULTILINE)
        except re.error as error:
            raise BadAgentFileError(
                f"{where}: {pattern!r} is not a valid pattern: {error}"
            ) from error
    return found


def _patterns(found: TerminalPatterns) -> list[str]:
    patterns = [one for state in found.states for one in (state.screen, state.title, state.unless)]
    if found.asking is not None:
        patterns += [found.asking.option, *found.asking.kinds.values()]
        patterns += [*found.asking.tools.values(), *found.asking.files, found.asking.hidden]
    answer = found.answer
    patterns += [
        answer.echo,
        answer.echo_more,
        answer.text,
        answer.more,
        answer.tool,
        answer.thought,
    ]
    return [*patterns, answer.failed, answer.skip, answer.over, answer.again]
