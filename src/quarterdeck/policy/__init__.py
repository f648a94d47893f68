"""Permission modes, rules, grants and workspace trust: pure decisions over values.

A ``Call`` says what is to be decided, ``decide`` decides it, ``explain`` tells why. Rules are read
by ``parse_rule``; ``suggest``, ``options_for``, ``choice_of`` and ``grants_of`` turn a question
into a standing answer. Nothing here reads a file, looks up a name or keeps a state.
"""

from .call import Call, McpTool, PathUse, path_use
from .decide import Allow, Ask, By, Decision, Deny, Explanation, Step, decide, decider_of, explain
from .errors import GrantsError, PolicyError, RuleError, UnknownMode
from .foreign import Surroundings, call_from_tool
from .grammar import parse_pattern, parse_rule, print_pattern, print_rule
from .grants import Grant, applicable, grants_from_json, grants_to_json, spend
from .modes import DEFAULT_MODE, MODES, NO_SANDBOX, Mode, Sandbox, parse_mode
from .options import Choice, choice_of, grants_of, options_for, session_grants
from .parts import mentioned_paths
from .rules import Effect, Pattern, Rule, Scope, Source
from .suggest import Suggestion, refusal, suggest

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
    "Effect",
    "Explanation",
    "Grant",
    "GrantsError",
    "McpTool",
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
    "mentioned_paths",
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
