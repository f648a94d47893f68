"""Permission modes, rules, grants and workspace trust: pure decisions over values.

A ``Call`` says what is to be decided, ``decide`` decides it, ``explain`` says why. Rules are read
by ``parse_rule``; ``suggest_grants``, ``options_for``, ``choice_of`` and ``grants_of`` turn a
question into a standing answer. Nothing here reads a file, looks up a name or keeps a state, except
``gate``, which holds what is open. Names are imported when they are first used: a process that
decides nothing reads none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .call import Call, McpTool, PathUse, path_use
    from .call_parts import CallMentions, find_mentions
    from .decision import (
        Allow,
        Ask,
        Decision,
        DecisionSource,
        DecisionStep,
        Deny,
        Explanation,
        decide,
        decider_of,
        explain,
    )
    from .errors import GrantsError, PolicyError, RuleError, UnknownModeError
    from .foreign_calls import CallContext, call_from_tool
    from .grammar import parse_pattern, parse_rule, print_pattern, print_rule
    from .grants import Grant, applicable_rules, grants_from_json, grants_to_json
    from .lookup import Disk, look_up
    from .modes import DEFAULT_MODE, MODES, NO_SANDBOX, Mode, SandboxState, parse_mode
    from .permission_options import (
        PermissionChoice,
        Suggestion,
        choice_of,
        grants_of,
        options_for,
        session_grants,
        suggest_grants,
        suggest_refusal,
    )
    from .rules import Effect, Pattern, Rule, RuleSource, Scope

__all__ = [
    "DEFAULT_MODE",
    "MODES",
    "NO_SANDBOX",
    "Allow",
    "Ask",
    "Call",
    "CallContext",
    "CallMentions",
    "Decision",
    "DecisionSource",
    "DecisionStep",
    "Deny",
    "Disk",
    "Effect",
    "Explanation",
    "Grant",
    "GrantsError",
    "McpTool",
    "Mode",
    "PathUse",
    "Pattern",
    "PermissionChoice",
    "PolicyError",
    "Rule",
    "RuleError",
    "RuleSource",
    "SandboxState",
    "Scope",
    "Suggestion",
    "UnknownModeError",
    "applicable_rules",
    "call_from_tool",
    "choice_of",
    "decide",
    "decider_of",
    "explain",
    "find_mentions",
    "grants_from_json",
    "grants_of",
    "grants_to_json",
    "look_up",
    "options_for",
    "parse_mode",
    "parse_pattern",
    "parse_rule",
    "path_use",
    "print_pattern",
    "print_rule",
    "session_grants",
    "suggest_grants",
    "suggest_refusal",
]

_HOMES = {
    "call": ("Call", "McpTool", "PathUse", "path_use"),
    "decision": (
        "Allow",
        "Ask",
        "DecisionSource",
        "Decision",
        "Deny",
        "Explanation",
        "DecisionStep",
        "decide",
        "decider_of",
        "explain",
    ),
    "errors": ("GrantsError", "PolicyError", "RuleError", "UnknownModeError"),
    "foreign_calls": ("CallContext", "call_from_tool"),
    "grammar": ("parse_pattern", "parse_rule", "print_pattern", "print_rule"),
    "grants": ("Grant", "applicable_rules", "grants_from_json", "grants_to_json"),
    "lookup": ("Disk", "look_up"),
    "modes": ("DEFAULT_MODE", "MODES", "NO_SANDBOX", "Mode", "SandboxState", "parse_mode"),
    "permission_options": (
        "PermissionChoice",
        "Suggestion",
        "suggest_grants",
        "suggest_refusal",
        "choice_of",
        "grants_of",
        "options_for",
        "session_grants",
    ),
    "call_parts": ("CallMentions", "find_mentions"),
    "rules": ("Effect", "Pattern", "Rule", "Scope", "RuleSource"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
