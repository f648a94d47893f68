"""The decision about a call: allow it, deny it, or ask a person.

``decide`` is a pure function. It takes the call apart and decides each part:

1. a deny rule that holds for it, from any scope, denies;
2. what the mode denies is denied;
3. an ask rule that holds, or a deny rule that may hold, asks;
4. an allow rule that covers it, or the mode, allows;
5. everything else asks.

The call gets the strictest answer of its parts. Scopes choose which of several rules of the same
effect is named as the one that decided: the most specific.

A command that nothing allows but its classification as one that only reads is *sealed* where the
session has a sandbox for that. Where it has none, or where the same line runs something else, which
a seal would break, the command must be among the few that are certain without (``Reading.core``);
any other counts as a command of which nothing is known.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.wire.permissions import Decider

from .call import Call
from .call_parts import CallPart, CommandPart, HiddenPart, PathPart, UnclearPart, parts_of
from .grammar import print_rule
from .grants import Grant, applicable_rules
from .matching import Fit, covers, touches
from .modes import NO_SANDBOX, ActionKind, Containment, Mode, ModeAnswer, SandboxState, mode_answer
from .paths import is_below
from .rules import SCOPES, PathPattern, Rule, RuleSource, Scope, trusted_rules

__all__ = [
    "Allow",
    "Ask",
    "Decision",
    "DecisionSource",
    "DecisionStep",
    "Deny",
    "Explanation",
    "decide",
    "decider_of",
    "examine_call",
    "explain",
    "grants_behind",
]


class DecisionSource(Struct, frozen=True, kw_only=True):
    """What decided."""

    kind: Literal["rule", "mode", "doubt"]
    text: str
    """The rule's text, the mode's name, or the doubt."""
    scope: Scope | None = None
    source: RuleSource | None = None


class Allow(Struct, frozen=True, kw_only=True):
    """The call may run; ``by`` names each rule or mode that a part of it needed."""

    by: tuple[DecisionSource, ...]
    containment: Containment = "none"
    """What its command has to run in."""


class Deny(Struct, frozen=True, kw_only=True):
    """The call may not run; ``reason`` is for the model and the person."""

    reason: str
    by: DecisionSource


class Ask(Struct, frozen=True, kw_only=True):
    """A person decides; ``reason`` says why nothing else did."""

    reason: str
    by: tuple[DecisionSource, ...]
    can_last: bool = True
    """A standing permission could answer it next time: no ask rule and no doubt is behind it."""


Decision: TypeAlias = Allow | Deny | Ask


class DecisionStep(Struct, frozen=True, kw_only=True):
    """One rule or mode compared with one part."""

    part: str
    by: DecisionSource
    outcome: str


class Explanation(Struct, frozen=True, kw_only=True):
    """A decision, and everything that was considered for it."""

    decision: Decision
    steps: tuple[DecisionStep, ...]


def decide(
    call: Call,
    mode: Mode,
    rules: Iterable[Rule] = (),
    grants: Iterable[Grant] = (),
    *,
    sandbox: SandboxState = NO_SANDBOX,
    trusted: bool = True,
    now: int = 0,
) -> Decision:
    """Decide about a call. Pure; never raises; in doubt it asks.

    ``now`` is in microseconds since the epoch and ends grants. In a workspace that is not
    ``trusted``, what its files allow does nothing.
    """
    return _Judge(call, mode, rules, grants, sandbox, trusted, now).decide()


def explain(
    call: Call,
    mode: Mode,
    rules: Iterable[Rule] = (),
    grants: Iterable[Grant] = (),
    *,
    sandbox: SandboxState = NO_SANDBOX,
    trusted: bool = True,
    now: int = 0,
) -> Explanation:
    """Decide like ``decide`` and list which rules were compared with which part."""
    judge = _Judge(call, mode, rules, grants, sandbox, trusted, now)
    judge.steps = []
    decision = judge.decide()
    return Explanation(decision=decision, steps=tuple(judge.steps))


def examine_call(
    call: Call,
    mode: Mode,
    rules: Iterable[Rule] = (),
    grants: Iterable[Grant] = (),
    *,
    sandbox: SandboxState = NO_SANDBOX,
    trusted: bool = True,
    now: int = 0,
) -> tuple[Decision, tuple[CallPart, ...]]:
    """Decide like ``decide``, and return the parts that nothing decided."""
    judge = _Judge(call, mode, rules, grants, sandbox, trusted, now)
    decision = judge.decide()
    return decision, tuple(judge.undecided)


def grants_behind(decision: Decision, *, counted: bool = False) -> tuple[str, ...]:
    """The ids of the grants that had a part in a decision; ``counted``: only those whose uses
    are.
    """
    sources = (decision.by,) if isinstance(decision, Deny) else decision.by
    return tuple(
        by.source.where
        for by in sources
        if by.source is not None and by.source.origin == "grant"
        if by.source.is_counted or not counted
    )


def decider_of(decision: Allow | Deny) -> Decider:
    """Return the decision's maker in the words of the log."""
    by = decision.by[0] if isinstance(decision, Allow) else decision.by
    return Decider(kind="rule" if by.kind == "rule" else "mode", name=by.text)


class _Findings(Struct, eq=False):
    """The results for the parts of a call."""

    denied: list[Deny] = field(default_factory=list[Deny])
    asked: list[Ask] = field(default_factory=list[Ask])
    allowed: dict[DecisionSource, None] = field(default_factory=dict["DecisionSource", None])
    readings: list["_Reading"] = field(default_factory=list["_Reading"])
    """What only reads; decided when the rest of the line is known."""
    is_free: bool = False
    """A rule or a person allows, or will, a command as such."""
    writes: bool = False
    """The mode allows a command's writing in the workspace."""


class _Reading(Struct, frozen=True):
    """A command, or a redirection of one, that is seen to read only."""

    part: CommandPart | PathPart
    by: DecisionSource | None
    """What allows that; None: an ask rule holds."""
    is_covered: bool
    """A rule allows the command, whatever it does."""

    @property
    def is_core(self) -> bool:
        """Whether it only reads for certain. The shell itself opens what is redirected."""
        reading = self.part.reading if isinstance(self.part, CommandPart) else None
        return isinstance(self.part, PathPart) or (reading is not None and reading.core)


class _Judge:
    """One decision in the making."""

    def __init__(
        self,
        call: Call,
        mode: Mode,
        rules: Iterable[Rule],
        grants: Iterable[Grant],
        sandbox: SandboxState,
        trusted: bool,
        now: int,
    ) -> None:
        self.call = call
        self.mode: Mode = mode
        self.sandbox = sandbox
        self.trusted = trusted
        self.steps: list[DecisionStep] | None = None
        given = applicable_rules(
            grants,
            project=call.project,
            session=call.session,
            agent=call.agent,
            leads=call.leads,
            now=now,
            trusted=trusted,
        )
        ordered = sorted((*trusted_rules(rules, trusted), *given), key=_specificity)
        self.denying = [rule for rule in ordered if rule.effect == "deny"]
        self.asking = [rule for rule in ordered if rule.effect == "ask"]
        # What may be used so many times is used where nothing else allows the same.
        allowing = (rule for rule in ordered if rule.effect == "allow")
        self.allowing = sorted(allowing, key=lambda rule: rule.source.is_counted)
        self.found = _Findings()
        self.undecided: list[CallPart] = []

    def decide(self) -> Decision:
        if self.sandbox.required and not self.sandbox.in_force and self.call.command is not None:
            reason = "commands run only in a sandbox (sandbox.require), and none is available"
            self.found.denied.append(
                Deny(reason=reason, by=DecisionSource(kind="mode", text="sandbox.require"))
            )
        for part in parts_of(self.call):
            self._part(part)
        self._settle_readings()
        found = self.found
        if found.denied:
            return found.denied[0]
        if found.asked:
            reasons = dict.fromkeys(ask.reason for ask in found.asked)
            by = dict.fromkeys(by for ask in found.asked for by in ask.by)
            return Ask(
                reason="; ".join(reasons),
                by=tuple(by),
                can_last=all(ask.can_last for ask in found.asked),
            )
        return Allow(by=tuple(found.allowed), containment=self._containment())

    def _containment(self) -> Containment:
        found = self.found
        if self.call.command is None:
            return "none"
        if self._runs_contained:
            return "workspace"
        if found.is_free or not self.sandbox.seals:
            return "none"
        return "workspace" if found.writes else "sealed"

    @property
    def _runs_contained(self) -> bool:
        """Whether the mode itself allows commands, in a sandbox with a writable workspace."""
        return self.mode == "full-auto" and self.sandbox.in_force

    def _part(self, part: CallPart) -> None:
        restricted = self._restricted(part)
        if not isinstance(part, HiddenPart):
            self._permit(part, restricted)

    def _restricted(self, part: CallPart) -> bool:
        """Hold deny and ask rules against a part; True when one held."""
        held = False
        for rule in self.denying:
            fit = touches(rule.pattern, part, self.call)
            self._note(part, rule, fit)
            if fit == "yes":
                reason = f"{part.label!r} is denied by the rule {print_rule(rule)!r}"
                self.found.denied.append(Deny(reason=reason, by=_by(rule)))
                return True
            if fit == "maybe":
                held = True
                reason = f"{part.label!r} may be what {print_rule(rule)!r} denies"
                self.found.asked.append(Ask(reason=reason, by=(_by(rule),), can_last=False))
        for rule in self.asking:
            fit = touches(rule.pattern, part, self.call)
            self._note(part, rule, fit)
            if fit != "no":
                held = True
                reason = f"the rule {print_rule(rule)!r} requires permission for {part.label!r}"
                self.found.asked.append(Ask(reason=reason, by=(_by(rule),), can_last=False))
                break
        return held

    def _permit(self, part: CallPart, restricted: bool) -> None:
        if isinstance(part, CommandPart) and self._looked_through(part, restricted):
            return
        answer = mode_answer(self.mode, part.action, self.sandbox)
        by_mode = DecisionSource(kind="mode", text=self.mode)
        if answer == "deny":
            reason = f"the mode {self.mode!r} does not allow {part.label!r}"
            self.found.denied.append(Deny(reason=reason, by=by_mode))
        elif _only_reads(part) and not self._runs_contained:
            self._permit_reading(part, answer, restricted)
        elif restricted:
            return
        elif (rule := self._allowing(part, answer)) is not None:
            self.found.is_free = True
            self.found.allowed[_by(rule)] = None
        elif answer == "allow":
            self.found.writes |= part.action == "run write"
            self.found.allowed[by_mode] = None
        else:
            self.found.is_free = True
            self._ask(part)
        self._note_mode(part, by_mode, answer)

    def _permit_reading(
        self, part: CommandPart | PathPart, answer: ModeAnswer, restricted: bool
    ) -> None:
        if restricted:
            self.found.readings.append(_Reading(part, None, is_covered=False))
            return
        rule = self._allowing(part, "ask")
        if rule is None and answer != "allow":
            self._ask(part)
            return
        by = DecisionSource(kind="mode", text=self.mode) if rule is None else _by(rule)
        covered = rule is not None and self._covers_command(rule, part)
        self.found.readings.append(_Reading(part, by, covered))

    def _covers_command(self, rule: Rule, part: CommandPart | PathPart) -> bool:
        """Whether a rule would allow the command if nothing were known of what it does."""
        if isinstance(rule.pattern, PathPattern):  # it says what may be read, not by what
            return False
        answer = mode_answer(self.mode, self._plain_action(part), self.sandbox)
        return answer in ("allow", "ask") or (answer == "insist" and rule.scope == "call")

    def _settle_readings(self) -> None:
        """Decide about what only reads: by rule, sealed, as certain, or as any other command."""
        readings = self.found.readings
        for reading in [each for each in readings if self._is_distrusted(each)]:
            readings.remove(reading)
            self.found.is_free = True
            why = "git runs programs that a workspace names; this one is not trusted"
            self._ask(reading.part, why)
        doubtful = [each for each in readings if not (each.is_covered or each.is_core)]
        covered = any(each.is_covered for each in readings)
        if self.found.is_free or self.found.writes or not self.sandbox.seals:
            for reading in doubtful:
                self._settle_unsealed(reading)
        elif not doubtful and covered:
            self.found.is_free = True
        self.found.allowed |= {each.by: None for each in readings if each.by is not None}

    def _settle_unsealed(self, reading: _Reading) -> None:
        """Decide about a command as if nothing were known of what it does."""
        part = reading.part
        assert isinstance(part, CommandPart)
        plain = replace(part, action=self._plain_action(part))
        answer = mode_answer(self.mode, plain.action, self.sandbox)
        by_mode = DecisionSource(kind="mode", text=self.mode)
        if answer == "deny":
            reason = f"the mode {self.mode!r} does not allow {part.label!r}"
            self.found.denied.append(Deny(reason=reason, by=by_mode))
        elif reading.by is not None:
            why = "it seems read-only, but not certainly enough to run it outside the sandbox"
            self._ask(plain, why)
        self._note_mode(plain, by_mode, answer)

    def _plain_action(self, part: CommandPart | PathPart) -> ActionKind:
        cwds = part.cwds if isinstance(part, CommandPart) else (self.call.cwd,)
        inside = cwds is not None and all(is_below(cwd, self.call.roots) for cwd in cwds)
        return "run" if inside else "run outside"

    def _is_distrusted(self, reading: _Reading) -> bool:
        known = reading.part.reading if isinstance(reading.part, CommandPart) else None
        by_rule = reading.is_covered or reading.by is None
        return known is not None and known.at_root and not (self.trusted or by_rule)

    def _looked_through(self, run: CommandPart, restricted: bool) -> bool:
        """Decide a wrapper by what it runs; False when it is decided by itself."""
        wrapping = run.command.wrapping
        if not run.inner or wrapping not in ("transparent", "also"):
            return False
        if wrapping == "also":
            for inner in run.inner:
                self._permit(inner, restricted)
            return False
        answer = mode_answer(self.mode, run.action, self.sandbox)
        if answer in ("allow", "ask") and self._allowing(run, "ask") is not None:
            return False
        # Variables before a wrapper reach what it runs.
        if run.command.assignments:
            return False
        for inner in run.inner:
            self._permit(inner, restricted)
        return True

    def _allowing(self, part: CallPart, answer: ModeAnswer) -> Rule | None:
        for rule in self.allowing:
            if answer == "insist" and rule.scope != "call":
                continue
            if answer == "allow" and rule.source.is_counted:
                continue
            fits = covers(rule.pattern, part, self.call)
            self._note(part, rule, "yes" if fits else "no")
            if fits:
                return rule
        return None

    def _ask(self, part: CallPart, why: str = "") -> None:
        self.undecided.append(part)
        reason = f"{part.label!r}: {why}" if why else _reason(part, self.mode, self.sandbox)
        doubt = isinstance(part, UnclearPart)
        by = (
            DecisionSource(kind="doubt", text=part.reason)
            if doubt
            else DecisionSource(kind="mode", text=self.mode)
        )
        self.found.asked.append(Ask(reason=reason, by=(by,), can_last=not doubt))

    def _note(self, part: CallPart, rule: Rule, fit: Fit) -> None:
        if self.steps is not None:
            outcome = {"yes": "applies", "maybe": "may apply", "no": "does not apply"}[fit]
            self.steps.append(DecisionStep(part=part.label, by=_by(rule), outcome=outcome))

    def _note_mode(self, part: CallPart, by: DecisionSource, answer: str) -> None:
        if self.steps is not None:
            text = f"{answer} ({part.action})"
            self.steps.append(DecisionStep(part=part.label, by=by, outcome=text))


def _only_reads(part: CallPart) -> TypeGuard[CommandPart | PathPart]:
    """Whether it is a command that is seen to read only, or reads by a redirection."""
    if isinstance(part, CommandPart):
        return part.reading is not None and part.action in ("run reading", "run reading outside")
    return isinstance(part, PathPart) and part.by_shell and part.use.access == "read"


def _specificity(rule: Rule) -> int:
    return SCOPES.index(rule.scope)


def _by(rule: Rule) -> DecisionSource:
    return DecisionSource(kind="rule", text=print_rule(rule), scope=rule.scope, source=rule.source)


_REASONS: dict[ActionKind, str] = {
    "read outside": "it reads outside the workspace",
    "run reading outside": "it reads outside the workspace",
    "write outside": "it writes outside the workspace",
    "run write outside": "it writes outside the workspace",
    "write protected": "it changes files that decide which programs run",
    "run outside": "it runs outside the workspace, or it is not certain where",
    "fetch inner": "the address is not a public one",
}


def _reason(part: CallPart, mode: Mode, sandbox: SandboxState) -> str:
    if isinstance(part, UnclearPart):
        return part.reason
    if mode == "full-auto" and not sandbox.in_force and part.action in ("run", "run write"):
        return f"no sandbox is active, so {part.label!r} could change anything"
    why = _REASONS.get(part.action, "no rule matches")
    return f"{part.label!r}: {why}"
