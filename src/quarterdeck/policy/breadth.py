"""Rules that allow more than people mostly mean, and why."""

import shlex

from .grammar import print_rule
from .rules import AnyCall, FetchPattern, McpPattern, PathPattern, Rule, ShellPattern

__all__ = ["explain_breadth"]

_WIDE_GLOBS = frozenset({"/", "/**", "/*", "~", "~/", "~/**", "~/*"})


def explain_breadth(rule: Rule) -> str | None:
    """Say what a rule allows that deserves a second look; None if nothing does.

    Rules that ask or deny are never too broad.
    """
    if rule.effect != "allow":
        return None
    match rule.pattern:
        case AnyCall():
            return "it allows every call of every agent"
        case ShellPattern(words=()):
            return "it allows every command, even ones that cannot be parsed"
        case ShellPattern() as pattern:
            return _of_command(rule, pattern)
        case PathPattern(glob=None):
            return "it covers every file of this machine"
        case PathPattern(glob=glob) if glob in _WIDE_GLOBS:
            return f"{glob!r} covers almost every file of this machine"
        case FetchPattern(host=None):
            return "it allows every host"
        case McpPattern(server=None):
            return "it allows every tool of every MCP server"
        case _:
            return None


def _of_command(rule: Rule, pattern: ShellPattern) -> str | None:
    # Imported here: they bring the parser of command lines.
    from .shell.hazards import never_standing
    from .shell.parser import read_line

    commands = read_line(shlex.join(pattern.words)).commands
    if not commands:
        return f"what {print_rule(rule)!r} runs is not certain"
    reasons = (never_standing(command) for command in commands)
    return next((reason for reason in reasons if reason is not None), None)
