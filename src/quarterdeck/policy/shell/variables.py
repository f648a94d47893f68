"""Environment variables that change nothing about which program runs, and all others."""

import re

__all__ = ["is_harmless_assignment", "is_harmless_name"]

_HARMLESS = frozenset(
    (
        "LANG",
        "LANGUAGE",
        "TZ",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "TERM",
        "COLUMNS",
        "LINES",
        "CI",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONUTF8",
        "GIT_TERMINAL_PROMPT",
        "GIT_OPTIONAL_LOCKS",
        "DEBIAN_FRONTEND",
        "NODE_ENV",
    )
)
_HARMLESS_VALUES = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat"}
_LOCAL_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_SPECIAL_LOCAL = re.compile(r".*_proxy|npm_config_.*|path|fpath|cdpath|prompt|psvar|_")
"""Lower case names with a meaning: proxies, npm's settings, and zsh's arrays."""


def is_harmless_name(name: str) -> bool:
    """Say whether a shell variable of that name changes no later command.

    By custom the environment is upper case; a lower case name is the line's own.
    """
    if name in _HARMLESS or name.startswith("LC_"):
        return True
    return bool(_LOCAL_NAME.fullmatch(name)) and not _SPECIAL_LOCAL.fullmatch(name)


def is_harmless_assignment(name: str, value: str | None) -> bool:
    """Say whether a variable given to a command changes nothing about what it runs."""
    if name in _HARMLESS or name.startswith("LC_"):
        return True
    return value is not None and _HARMLESS_VALUES.get(name) == value
