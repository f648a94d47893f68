"""Who speaks Claude Code's language of lines, and with which words on the command line."""

from dataclasses import dataclass

from ..child import Launch
from ..driver import Opening
from ..errors import Unsupported
from ..words import render, render_agent_mode

__all__ = ["DIALECTS", "Dialect", "command_words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One program's variant of the language."""

    words: tuple[str, ...]
    """Make it speak the language in both directions."""
    asking: tuple[str, ...]
    """Make it ask us about every call that it would ask a person about."""
    login: tuple[str, ...] = ()
    """The command for a terminal that logs a person in."""


_BOTH_WAYS = ("--input-format", "stream-json", "--output-format", "stream-json")

DIALECTS = {
    "claude": Dialect(
        words=(
            *("-p", *_BOTH_WAYS, "--verbose", "--include-partial-messages"),
            *("--permission-prompt-tool", "stdio", "--replay-user-messages"),
        ),
        # Its own default may be a mode in which a model decides instead of a person.
        asking=("--permission-mode", "default"),
        login=("claude", "auth", "login"),
    ),
    "qwen": Dialect(
        words=(*_BOTH_WAYS, "--include-partial-messages"),
        asking=("--approval-mode", "default"),
        login=("qwen",),
    ),
}


def command_words(
    launch: Launch, opening: Opening, transport: str, *, session: str | None, mcp: str | None
) -> tuple[str, ...]:
    """The words of the command line for a session.

    ``session``: the id that a new session shall have; ``mcp``: the file that names tool servers.

    Raises:
        Unsupported: an option that the agent has no words for.
    """
    if opening.fork and opening.resume is None:
        raise Unsupported(launch.agent, transport, "fork a session without 'resume'")
    dialect = DIALECTS[launch.dialect or "claude"]
    options = {
        "model": opening.model,
        "resume": opening.resume,
        "fork": opening.fork,
        "session": session,
        # Our log knows the title; the agent is told where it has a word for it.
        "title": opening.title if "title" in launch.words else None,
        "system_prompt": opening.system_prompt,
        "mcp": mcp,
        "roots": opening.roots,
    }
    words = list(dialect.words)
    words += render_agent_mode(launch, transport, opening.agent_mode) or dialect.asking
    for option, value in options.items():
        words += render(launch, transport, option, value)
    return tuple(words)
