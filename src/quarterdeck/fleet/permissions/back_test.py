"""Rules tried on recorded permission requests, and rules that recorded answers suggest.

Decided is by the function that the gate uses, about a call that is read as the gate's was. The
disk of that time is gone, so each call is looked up on two made-up disks: one on which everything
is plain, and one on which everything that files could change is against it. Where the decisions
differ, files have a part in the matter, and that is said. On both, paths lead where they say:
symbolic links are not followed.
"""

import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct, field

from quarterdeck.drivers.permissions import hold_against, read_recorded_call
from quarterdeck.policy.advice import effect_of
from quarterdeck.policy.call import Call
from quarterdeck.policy.call_parts import CallPart, CommandPart, parts_of
from quarterdeck.policy.decision import Allow, Decision, Deny, decide, examine_call
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.grammar import parse_rule, print_pattern
from quarterdeck.policy.modes import Effect
from quarterdeck.policy.permission_options import suggest_grants
from quarterdeck.policy.rules import AnyCall, Pattern, Rule, ShellPattern
from quarterdeck.wire.permissions import Decider

from .api import BackTest, RuleSuggestion, TriedRequest
from .request_history import RecordedDecision, RequestKind

__all__ = ["RecordedJudge", "Verdict", "suggest_from", "try_rules"]

_LEAST_SAVED = 2
"""Prompts below which a rule is not worth a suggestion."""
_LEAST_VARIED = 3
"""Different approved calls from which on a wider rule is suggested."""
_EXAMPLES = 3
_LONGEST = 300
_QUOTES = str.maketrans("", "", "'\"\\\n")
"""What a shell takes away from words."""


class _PlainDisk:
    """A disk on which names mean what they say."""

    def real_path(self, path: str, /) -> str:
        return posixpath.normpath(path)

    def is_directory(self, path: str, /) -> bool:
        return False

    def match(self, pattern: str, /) -> Sequence[str] | None:
        return ()

    def names_below(self, path: str, /) -> Sequence[str] | None:
        return ()

    def find_program(self, name: str, /) -> str | None:
        return f"/usr/bin/{name}"


class _AdverseDisk(_PlainDisk):
    """A disk on which whatever could be against a call is."""

    def real_path(self, path: str, /) -> str:
        return "/" if ".." in path.split("/") else posixpath.normpath(path)

    def is_directory(self, path: str, /) -> bool:
        return True

    def match(self, pattern: str, /) -> Sequence[str] | None:
        return None

    def names_below(self, path: str, /) -> Sequence[str] | None:
        return None

    def find_program(self, name: str, /) -> str | None:
        return None


_PLAIN, _ADVERSE = _PlainDisk(), _AdverseDisk()


class Verdict(Struct, frozen=True, kw_only=True):
    """What rules would decide about a request."""

    effect: Effect
    reason: str | None = None
    depends_on_files: bool = False
    by_rule: bool = False
    """A rule decided, not the mode or a doubt."""


class RecordedJudge:
    """Decides about one kind of requests, by any rules; the call is read once."""

    def __init__(self, kind: RequestKind, home: str = "", project: str | None = None) -> None:
        self.kind = kind
        around = CallContext(
            cwd=kind.cwd,
            roots=(kind.cwd, *kind.roots),
            home=home,
            project=project,
            agent=kind.agent,
        )
        self._plain = read_recorded_call(kind.question, around, _PLAIN)
        self._adverse = read_recorded_call(kind.question, around, _ADVERSE)
        self.words = (self._plain.command or "").translate(_QUOTES)
        """The command line without quotes; the words of a rule that covers a part stand in it."""
        self._without: Verdict | None = None

    @property
    def is_refused(self) -> bool:
        """Whether a person ever denied such a request."""
        return any(one.is_refused for one in self.kind.decisions)

    @property
    def call(self) -> Call:
        """The call as it is where everything is plain."""
        return self._plain

    def judge(self, rules: Sequence[Rule]) -> Verdict:
        """Decide by these rules and the mode of the time. Pure; never raises."""
        if any(rule.effect != "allow" or self.may_concern(rule.pattern) for rule in rules):
            return self._judge(rules)
        if self._without is None:
            self._without = self._judge(())
        return self._without

    def may_concern(self, pattern: Pattern) -> bool:
        """A quick look whether an allow rule could cover a part of the call; False is certain.

        Most rules have nothing to do with most calls. A rule for a command covers it word by word,
        so that the words stand in the line, once quotes are gone.
        """
        if not isinstance(pattern, ShellPattern):
            return True
        command = self._plain.command
        if command is None or not pattern.words:
            return command is not None
        if "$'" in command or any(word.translate(_QUOTES) != word for word in pattern.words):
            return True
        return all(word in self.words for word in pattern.words)

    def _judge(self, rules: Sequence[Rule]) -> Verdict:
        plain = self._decide(self._plain, rules, _PLAIN.is_directory)
        adverse = self._decide(self._adverse, rules, _ADVERSE.is_directory)
        deciders = (plain.by,) if isinstance(plain, Deny) else plain.by
        return Verdict(
            effect=effect_of(plain),
            reason=None if isinstance(plain, Allow) else plain.reason,
            depends_on_files=effect_of(plain) != effect_of(adverse),
            by_rule=any(by.kind == "rule" for by in deciders),
        )

    def _decide(
        self, call: Call, rules: Sequence[Rule], is_directory: Callable[[str], bool]
    ) -> Decision:
        return decide(hold_against(call, rules, is_directory), self.kind.mode, rules)

    def describe(self) -> str:
        """The call on one line."""
        call = self._plain
        parts = (call.command, *(use.path for use in call.paths), *call.urls)
        found = " ".join(part for part in parts if part) or self.kind.question.title or call.tool
        line = " ".join(found.split())
        return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _tried(judge: RecordedJudge, decision: RecordedDecision, verdict: Verdict) -> TriedRequest:
    return TriedRequest(
        seq=decision.seq,
        time=decision.time,
        session=decision.session,
        name=decision.name,
        what=judge.describe(),
        cwd=judge.kind.cwd,
        mode=judge.kind.mode,
        then=decision.then,
        by=_describe(decision.by),
        now=verdict.effect,
        reason=verdict.reason,
        depends_on_files=verdict.depends_on_files,
    )


def _describe(by: Decider | None) -> str:
    if by is None:
        return "no one"
    return by.kind if by.kind == "person" or not by.name else f"{by.kind} {by.name}"


class _Tally(Struct, eq=False):
    effects: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("allow", "ask", "deny"), 0)
    )
    decided: int = 0
    uncertain: int = 0
    worse: list[TriedRequest] = field(default_factory=list[TriedRequest])
    """Would be allowed, and a person denied it."""
    stricter: list[TriedRequest] = field(default_factory=list[TriedRequest])

    def add(self, judge: RecordedJudge, decision: RecordedDecision, verdict: Verdict) -> None:
        if decision.was_asked:
            self.effects[verdict.effect] += 1
        else:
            self.decided += 1
        self.uncertain += verdict.depends_on_files
        is_denied = verdict.effect == "deny" and (decision.was_asked or verdict.by_rule)
        if decision.was_asked and decision.is_refused and verdict.effect == "allow":
            self.worse.append(_tried(judge, decision, verdict))
        elif is_denied and decision.then == "allow":
            self.stricter.append(_tried(judge, decision, verdict))


def try_rules(
    rules: Sequence[str],
    judges: Iterable[RecordedJudge],
    *,
    since: int | None = None,
    limit: int = 100,
    unread: int = 0,
) -> BackTest:
    """Decide about every request by these rules. Raises RuleError."""
    parsed = [parse_rule(text) for text in rules]
    tally = _Tally()
    for judge in judges:
        decisions = _since(judge.kind, since)
        if decisions:
            verdict = judge.judge(parsed)
            for decision in decisions:
                tally.add(judge, decision, verdict)
    worse, stricter = (sorted(some, key=lambda one: -one.seq) for some in (
        tally.worse, tally.stricter
    ))  # fmt: skip
    listed = (*worse, *stricter)
    return BackTest(
        rules=tuple(rules),
        requests=sum(tally.effects.values()),
        allowed=tally.effects["allow"],
        denied=tally.effects["deny"],
        asked=tally.effects["ask"],
        allowed_denied=len(worse),
        denied_allowed=len(stricter),
        decided=tally.decided,
        uncertain=tally.uncertain,
        unread=unread,
        disagreements=listed[: max(limit, 0)],
        is_cut=len(listed) > max(limit, 0),
    )


def _since(kind: RequestKind, since: int | None) -> list[RecordedDecision]:
    return [one for one in kind.decisions if since is None or one.time >= since]


# Suggestions


class _Candidate(Struct, eq=False):
    patterns: tuple[Pattern, ...]
    is_wide: bool
    approved: dict[int, RecordedDecision] = field(default_factory=dict[int, RecordedDecision])
    """By sequence number."""
    others: list[tuple[RecordedJudge, RecordedDecision]] = field(
        default_factory=list[tuple[RecordedJudge, RecordedDecision]]
    )
    judges: list[RecordedJudge] = field(default_factory=list[RecordedJudge])
    """Of the different calls that it covers."""
    is_refused: bool = False
    """A person denied something that it covers."""


def suggest_from(
    judges: Sequence[RecordedJudge], *, since: int | None = None, limit: int = 20
) -> list[RuleSuggestion]:
    """The narrowest rules for what people always approved and never denied, best first.

    ``since`` says which approvals count; a denial counts for ever.
    """
    known = [
        (judge, decisions)
        for judge in judges
        if (decisions := _since(judge.kind, since)) or judge.is_refused
    ]
    candidates = _candidates(known)
    sieve = _Sieve(known, candidates)
    for candidate in candidates:
        chosen = sieve.choose(candidate.patterns)
        if _can_be_worth_it(candidate, chosen):
            _measure(candidate, chosen)
    usable = [one for one in candidates if not one.is_refused and _is_worth_it(one)]
    found: list[RuleSuggestion] = []
    covered: set[int] = set()
    while usable and len(found) < limit:
        usable.sort(key=lambda one: (-len(one.approved.keys() - covered), one.is_wide))
        best = usable.pop(0)
        saved = len(best.approved.keys() - covered)
        if saved < _LEAST_SAVED:
            break
        covered |= best.approved.keys()
        found.append(_suggestion(best, saved))
    return found


_Known = Sequence[tuple[RecordedJudge, list[RecordedDecision]]]
_Words = tuple[str, ...]


class _Need(Struct, frozen=True):
    """A part of a call that nothing decides: which rules could allow it."""

    commands: tuple[_Words, ...]
    """The words of its command, and of those that run it, as far as they are certain."""
    by_others: bool
    """Rules that are not for the words of a command could, too."""

    def find(self, rules: Collection[_Words], longest: int) -> frozenset[_Words]:
        """Those of the rules, by their words, that could allow it."""
        return frozenset(
            words[:count]
            for words in self.commands
            for count in range(1, min(len(words), longest) + 1)
            if words[:count] in rules
        )


def _find_needs(judge: RecordedJudge) -> tuple[_Need, ...]:
    """What rules have to allow before a call is; empty: that is not known."""
    decision, parts = examine_call(judge.call, judge.kind.mode)
    if isinstance(decision, Deny):
        return ()
    chains: dict[str, list[CommandPart]] = {}
    for part in parts_of(judge.call):
        if isinstance(part, CommandPart):
            _list_chains(part, (), chains)
    needs = [_make_need(part, chains) for part in parts]
    return tuple(needs) if all(one.commands or one.by_others for one in needs) else ()


def _list_chains(
    part: CommandPart, above: tuple[CommandPart, ...], found: dict[str, list[CommandPart]]
) -> None:
    """Each command with all that run it: a rule for a wrapper allows what it runs."""
    chain = (*above, part)
    found.setdefault(part.command.text, []).extend(chain)
    for inner in part.inner:
        _list_chains(inner, chain, found)


def _make_need(part: CallPart, chains: Mapping[str, list[CommandPart]]) -> _Need:
    if not isinstance(part, CommandPart):
        return _Need((), by_others=True)
    chain = chains.get(part.command.text, [])
    by_others = any(one.action == "run reading outside" for one in chain)
    return _Need(tuple(map(_certain_words, chain)), by_others)


def _certain_words(part: CommandPart) -> _Words:
    words = (*part.command.assignments, *part.command.words)
    return tuple(word.exact or "" for word in takewhile(lambda one: one.exact is not None, words))


class _Sieve:
    """Finds the requests that rules could allow, without a look at all others.

    All parts of a call have to be allowed, so that it is enough to find a call by one of them: the
    one that the fewest requests share.
    """

    def __init__(self, known: _Known, candidates: Iterable[_Candidate]) -> None:
        self._known = [
            one for one in known if one[0].is_refused or any(each.was_asked for each in one[1])
        ]
        rules = {words for one in candidates for words in _rule_words(one.patterns)[0]}
        longest = max(map(len, rules), default=0)
        self._needs: list[tuple[tuple[frozenset[_Words], bool], ...]] = [
            tuple((need.find(rules, longest), need.by_others) for need in _find_needs(judge))
            for judge, _ in self._known
        ]
        self._always: list[int] = []
        self._others: list[int] = []
        self._by_words: dict[_Words, list[int]] = {}
        self._file()

    def _file(self) -> None:
        shared = Counter(
            words for needs in self._needs for words in {one for found, _ in needs for one in found}
        )
        everyone = len(self._known)

        def count_sharers(need: tuple[frozenset[_Words], bool]) -> int:
            return sum(shared[words] for words in need[0]) + (everyone if need[1] else 0)

        for number, needs in enumerate(self._needs):
            if not needs:
                self._always.append(number)
                continue
            rarest, by_others = min(needs, key=count_sharers)
            for words in rarest:
                self._by_words.setdefault(words, []).append(number)
            if by_others:
                self._others.append(number)

    def choose(self, patterns: tuple[Pattern, ...]) -> _Known:
        """The requests that rules with these patterns could allow, in order, and a few more."""
        rules, has_others, has_wide = _rule_words(patterns)
        if has_wide:
            return self._known
        found = {number for words in rules for number in self._by_words.get(words, ())}
        found.update(self._always)
        if has_others:
            found.update(self._others)
        return [
            self._known[number]
            for number in sorted(found)
            if all(
                not rules.isdisjoint(words) or (by_others and has_others)
                for words, by_others in self._needs[number]
            )
        ]


def _rule_words(patterns: Iterable[Pattern]) -> tuple[set[_Words], bool, bool]:
    """The words of rules for commands; whether there are others, and ones for every command."""
    rules: set[_Words] = set()
    has_others = has_wide = False
    for pattern in patterns:
        if isinstance(pattern, ShellPattern) and pattern.words:
            rules.add(pattern.words)
        elif isinstance(pattern, ShellPattern | AnyCall):
            has_wide = True
        else:
            has_others = True
    return rules, has_others, has_wide


def _can_be_worth_it(candidate: _Candidate, chosen: _Known) -> bool:
    """Whether it is, if all of them are allowed; most lines come once only."""
    approved = [sum(each.is_approved for each in decisions) for _, decisions in chosen]
    calls = sum(count > 0 for count in approved)
    return sum(approved) >= _LEAST_SAVED and (not candidate.is_wide or calls >= _LEAST_VARIED)


def _is_worth_it(candidate: _Candidate) -> bool:
    enough = len(candidate.approved) >= _LEAST_SAVED
    return enough and (not candidate.is_wide or len(candidate.judges) >= _LEAST_VARIED)


def _candidates(
    known: Iterable[tuple[RecordedJudge, list[RecordedDecision]]],
) -> list[_Candidate]:
    """What the permission dialog offers for each call that was approved and never denied."""
    found: dict[tuple[Pattern, ...], _Candidate] = {}
    for judge, decisions in known:
        if judge.is_refused or not any(one.is_approved for one in decisions):
            continue
        for offer in suggest_grants(judge.call, judge.kind.mode):
            found.setdefault(offer.patterns, _Candidate(offer.patterns, not offer.is_exact))
    return list(found.values())


def _measure(
    candidate: _Candidate, known: Iterable[tuple[RecordedJudge, list[RecordedDecision]]]
) -> None:
    rules = [Rule(effect="allow", pattern=pattern) for pattern in candidate.patterns]
    for judge, decisions in known:
        asked = [one for one in decisions if one.was_asked]
        if not (asked or judge.is_refused) or not any(map(judge.may_concern, candidate.patterns)):
            continue
        verdict = judge.judge(rules)
        if verdict.effect != "allow":
            continue
        if judge.is_refused:
            candidate.is_refused = True
            return
        if verdict.depends_on_files:
            continue
        approved = {one.seq: one for one in asked if one.is_approved}
        if approved:
            candidate.judges.append(judge)
            candidate.approved |= approved
        candidate.others += [(judge, one) for one in asked if not one.is_approved]


def _suggestion(candidate: _Candidate, saved: int) -> RuleSuggestion:
    verdict = Verdict(effect="allow")
    examples: list[TriedRequest] = []
    for judge in candidate.judges[:_EXAMPLES]:
        latest = max(
            (one for one in judge.kind.decisions if one.seq in candidate.approved),
            key=lambda one: one.seq,
        )
        examples.append(_tried(judge, latest, verdict))
    others = [_tried(judge, one, verdict) for judge, one in candidate.others[:_EXAMPLES]]
    return RuleSuggestion(
        patterns=tuple(print_pattern(pattern) for pattern in candidate.patterns),
        saved=saved,
        covers=len(candidate.approved),
        is_wide=candidate.is_wide,
        examples=tuple(examples),
        others=len(candidate.others),
        other_examples=tuple(others),
    )
