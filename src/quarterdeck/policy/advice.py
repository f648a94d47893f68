"""What would change a decision, and which rules allow more than people mostly mean."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .call import Call
from .decision import Allow, Ask, Decision, DecisionSource, Deny, decide
from .grammar import print_pattern, print_rule
from .grants import Grant
from .modes import MODES, NO_SANDBOX, Effect, Mode, SandboxState
from .permission_options import suggest_grants, suggest_refusal
from .rules import (
    AnyCall,
    FetchPattern,
    McpPattern,
    PathPattern,
    Pattern,
    Rule,
    RuleSource,
    ShellPattern,
)

__all__ = ["DecisionBasis", "PolicyChange", "effect_of", "explain_breadth", "find_changes"]

ChangeKind: TypeAlias = Literal["add rule", "remove rule", "revoke grant", "change mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionBasis:
    """What a decision stands on, besides the call."""

    mode: Mode
    rules: tuple[Rule, ...] = ()
    grants: tuple[Grant, ...] = ()
    sandbox: SandboxState = NO_SANDBOX
    trusted: bool = True
    now: int = 0
    """Microseconds since the epoch."""

    def decide(
        self,
        call: Call,
        *,
        mode: Mode | None = None,
        rules: Iterable[Rule] | None = None,
        grants: Iterable[Grant] | None = None,
    ) -> Decision:
        """Decide about a call; what is given stands in for what this basis has."""
        return decide(
            call,
            mode or self.mode,
            self.rules if rules is None else rules,
            self.grants if grants is None else grants,
            sandbox=self.sandbox,
            trusted=self.trusted,
            now=self.now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """One thing that a person could do, and what would then be decided."""

    do: ChangeKind
    what: str
    """A rule's text, a grant's id, or a mode."""
    then: Effect
    source: RuleSource | None = field(default=None)
    """Where the rule is that would go."""


def effect_of(decision: Decision) -> Effect:
    """The decision in one word."""
    match decision:
        case Allow():
            return "allow"
        case Deny():
            return "deny"
        case Ask():
            return "ask"


def find_changes(call: Call, basis: DecisionBasis) -> tuple[PolicyChange, ...]:
    """Everything that by itself would change the decision about a call, rules first."""
    decision = basis.decide(call)
    found = (*_removals(call, basis, decision), *_additions(call, basis), *_modes(call, basis))
    now = effect_of(decision)
    return tuple(change for change in dict.fromkeys(found) if change.then != now)


def _removals(call: Call, basis: DecisionBasis, decision: Decision) -> Iterator[PolicyChange]:
    deciders = (decision.by,) if isinstance(decision, Deny) else decision.by
    for by in deciders:
        if by.source is None:
            continue
        if by.source.origin == "grant":
            id_ = by.source.where
            kept = [grant for grant in basis.grants if grant.id != id_]
            then = effect_of(basis.decide(call, grants=kept))
            yield PolicyChange(do="revoke grant", what=id_, then=then)
        else:
            rules = [rule for rule in basis.rules if not _is(rule, by)]
            then = effect_of(basis.decide(call, rules=rules))
            yield PolicyChange(do="remove rule", what=by.text, then=then, source=by.source)


def _is(rule: Rule, by: DecisionSource) -> bool:
    return print_rule(rule) == by.text and rule.source == by.source


def _additions(call: Call, basis: DecisionBasis) -> Iterator[PolicyChange]:
    offers = suggest_grants(
        call,
        basis.mode,
        basis.rules,
        basis.grants,
        sandbox=basis.sandbox,
        trusted=basis.trusted,
        now=basis.now,
    )
    for offer in offers:
        yield _addition(call, basis, "allow", offer.patterns)
    never = suggest_refusal(call, basis.mode, basis.rules, basis.grants)
    if never is not None:
        yield _addition(call, basis, "deny", (never,))


def _addition(
    call: Call, basis: DecisionBasis, effect: Effect, patterns: tuple[Pattern, ...]
) -> PolicyChange:
    added = tuple(Rule(effect=effect, pattern=pattern, scope="project") for pattern in patterns)
    then = effect_of(basis.decide(call, rules=(*basis.rules, *added)))
    what = ", ".join(f"{effect} {print_pattern(pattern)}" for pattern in patterns)
    return PolicyChange(do="add rule", what=what, then=then)


def _modes(call: Call, basis: DecisionBasis) -> Iterator[PolicyChange]:
    for mode in MODES:
        if mode != basis.mode:
            then = effect_of(basis.decide(call, mode=mode))
            yield PolicyChange(do="change mode", what=mode, then=then)


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
    from .shell.command_line import render_argv
    from .shell.hazards import never_lasting
    from .shell.parser import read_line

    commands = read_line(render_argv(pattern.words)).commands
    if not commands:
        return f"what {print_rule(rule)!r} runs is not certain"
    reasons = (never_lasting(command) for command in commands)
    return next((reason for reason in reasons if reason is not None), None)
