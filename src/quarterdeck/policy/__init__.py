"""Permission modes, rules, grants and workspace trust: pure decisions over values.

A ``Call`` says what is to be decided, ``decide`` decides it, ``explain`` tells why. Rules are read
by ``parse_rule``; ``suggest``, ``options_for``, ``choice_of`` and ``grants_of`` turn a question
into a standing answer. Nothing here reads a file, looks up a name or keeps a state, except
``gate``, which holds what is open. Names are imported when they are first used: a process that
decides nothing reads none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .call import Call, McpTool, PathUse, path_use
    from .deciding import (
        Allow,
        Ask,
        By,
        Decision,
        Deny,
        Explanation,
        Step,
        decide,
        decider_of,
        explain,
    )
    from .errors import GrantsError, PolicyError, RuleError, UnknownMode
    from .foreign import Surroundings, call_from_tool
    from .grammar import parse_pattern, parse_rule, print_pattern, print_rule
    from .grants import Grant, applicable, grants_from_json, grants_to_json, spend
    from .lookup import Disk, look_up
    from .modes import DEFAULT_MODE, MODES, NO_SANDBOX, Mode, Sandbox, parse_mode
    from .options import Choice, choice_of, grants_of, options_for, session_grants
    from .parts import Mentions, mentioned_paths, mentions
    from .rules import Effect, Pattern, Rule, Scope, Source
    from .suggesting import Suggestion, refusal, suggest

__all__ = [
    "DEFAULT_MODE",
    "MODES",
    "NO_SANDBOX",
    "Allow",
    "Ask",
    "By",
    "Call",
    "Choice",
    "Decision",
    "Deny",
    "Disk",
    "Effect",
    "Explanation",
    "Grant",
    "GrantsError",
    "McpTool",
    "Mentions",
    "Mode",
    "PathUse",
    "Pattern",
    "PolicyError",
    "Rule",
    "RuleError",
    "Sandbox",
    "Scope",
    "Source",
    "Step",
    "Suggestion",
    "Surroundings",
    "UnknownMode",
    "applicable",
    "call_from_tool",
    "choice_of",
    "decide",
    "decider_of",
    "explain",
    "grants_from_json",
    "grants_of",
    "grants_to_json",
    "look_up",
    "mentioned_paths",
    "mentions",
    "options_for",
    "parse_mode",
    "parse_pattern",
    "parse_rule",
    "path_use",
    "print_pattern",
    "print_rule",
    "refusal",
    "session_grants",
    "spend",
    "suggest",
]

_HOMES = {
    "call": ("Call", "McpTool", "PathUse", "path_use"),
    "deciding": (
        "Allow",
        "Ask",
        "By",
        "Decision",
        "Deny",
        "Explanation",
        "Step",
        "decide",
        "decider_of",
        "explain",
    ),
    "errors": ("GrantsError", "PolicyError", "RuleError", "UnknownMode"),
    "foreign": ("Surroundings", "call_from_tool"),
    "grammar": ("parse_pattern", "parse_rule", "print_pattern", "print_rule"),
    "grants": ("Grant", "applicable", "grants_from_json", "grants_to_json", "spend"),
    "lookup": ("Disk", "look_up"),
    "modes": ("DEFAULT_MODE", "MODES", "NO_SANDBOX", "Mode", "Sandbox", "parse_mode"),
    "options": ("Choice", "choice_of", "grants_of", "options_for", "session_grants"),
    "parts": ("Mentions", "mentioned_paths", "mentions"),
    "rules": ("Effect", "Pattern", "Rule", "Scope", "Source"),
    "suggesting": ("Suggestion", "refusal", "suggest"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
