"""Claude Code's command line, as far as programs use it; other words are refused as it does."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

__all__ = ["FakeClaudeFlags", "parse", "refuse"]

_MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "manual", "dontAsk", "plan")
_SWITCHES = {
    "-p": "print",
    "--print": "print",
    "--verbose": "verbose",
    "--include-partial-messages": "partials",
    "--replay-user-messages": "replay",
    "--fork-session": "fork",
    "--strict-mcp-config": "strict_mcp",
    "--forward-subagent-text": "subagent_text",
    "--dangerously-skip-permissions": "skip",
}
_VALUES = {
    "--input-format": "input_format",
    "--output-format": "output_format",
    "--permission-prompt-tool": "prompt_tool",
    "--permission-mode": "permission_mode",
    "--model": "model",
    "--resume": "resume",
    "-r": "resume",
    "--resume-session-at": "resume_at",
    "--session-id": "session_id",
    "--append-system-prompt": "system_prompt",
    "--name": "name",
    "-n": "name",
    "--effort": "effort",
    "--settings": "settings",
    "--setting-sources": "setting_sources",
}
_LISTS = {
    "--add-dir": "roots",
    "--mcp-config": "mcp",
    "--allowedTools": "allowed",
    "--allowed-tools": "allowed",
    "--disallowedTools": "disallowed",
    "--tools": "tools",
}


@dataclass(slots=True)
class FakeClaudeFlags:
    """What the command line says."""

    switches: set[str] = field(default_factory=set[str])
    values: dict[str, str] = field(default_factory=dict[str, str])
    lists: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    prompt: list[str] = field(default_factory=list[str])


def refuse(reason: str) -> None:
    """Say why and leave, as the real one does."""
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()
    sys.exit(1)


def parse(words: Sequence[str]) -> FakeClaudeFlags:
    """Read the words; leaves with 1 when one is unknown or they do not fit together."""
    flags = FakeClaudeFlags()
    left = iter(words)
    rest: str | None = next(left, None)
    while rest is not None:
        rest = _take(flags, rest, left)
    _check(flags)
    return flags


def _take(flags: FakeClaudeFlags, word: str, left: Iterator[str]) -> str | None:
    """Take one word and what belongs to it; returns the next."""
    if word in _SWITCHES:
        flags.switches.add(_SWITCHES[word])
    elif word in _VALUES:
        value = next(left, None)
        if value is None:
            refuse(f"error: option '{word} <value>' argument missing")
        flags.values[_VALUES[word]] = value or ""
    elif word in _LISTS:
        given = flags.lists.setdefault(_LISTS[word], [])
        for value in left:
            if value.startswith("-"):
                return value
            given.append(value)
    elif word.startswith("-"):
        refuse(f"error: unknown option '{word}'")
    else:
        flags.prompt.append(word)
    return next(left, None)


def _check(flags: FakeClaudeFlags) -> None:
    values = flags.values
    mode = values.get("permission_mode", "default")
    if mode not in _MODES:
        refuse(
            f"error: option '--permission-mode <mode>' argument '{mode}' is invalid. "
            f"Allowed choices are {', '.join(_MODES)}."
        )
    formats = (values.get("input_format"), values.get("output_format"))
    if "print" not in flags.switches or formats != ("stream-json", "stream-json"):
        refuse("Error: this fake only speaks stream-json both ways, with --print")
    if "verbose" not in flags.switches:
        refuse("Error: When using --print, --output-format=stream-json requires --verbose")
    if "fork" in flags.switches and "resume" not in values:
        refuse("Error: --fork-session can only be used with --resume or --continue")
    if "resume_at" in values and "resume" not in values:
        refuse("Error: --resume-session-at requires --resume")
    _check_id(flags)


def _check_id(flags: FakeClaudeFlags) -> None:
    given = flags.values.get("session_id")
    if given is None:
        return
    try:
        UUID(given)
    except ValueError:
        refuse("Error: Invalid session ID. Must be a valid UUID.")
    if "resume" in flags.values and "fork" not in flags.switches:
        refuse(
            "Error: --session-id can only be used with --continue or --resume if "
            "--fork-session is also specified."
        )
