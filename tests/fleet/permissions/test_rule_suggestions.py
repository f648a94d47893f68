"""Rules that recorded answers suggest: the same as by a look at every request for every rule, and
without that.
"""

import random
from collections.abc import Sequence

import pytest

from quarterdeck.fleet.permissions.api import RuleSuggestion
from quarterdeck.fleet.permissions.back_test import RecordedJudge, Verdict, suggest_from
from quarterdeck.policy.grammar import print_pattern
from quarterdeck.policy.modes import Mode
from quarterdeck.policy.permission_options import suggest_grants
from quarterdeck.policy.rules import Pattern, Rule
from quarterdeck.wire.events import PermissionAnswered, PermissionAsked
from quarterdeck.wire.permissions import Cancelled, Selected
from tests.fleet.permissions.test_back_test import PERSON, ROOT, Requests, asked, bash

COMMANDS = (
    "npm test", "npm run build -- --only {n}", "pytest -q tests/test_{n}.py", "timeout 5 npm test",
    "git add -A", "git commit -m 'step {n}'", "make part-{n}", "cat f{n}.txt", "cat /etc/passwd",
    "ls /etc/x{n}", "tail -{n}", "tee out_{n}.txt", "cd src", "env A={n} npm test",
    "bash -c 'npm test && make part-{n}'", "rm f{n}", "echo $HOME", "find . -name x{n}",
    "FOO=1 make", "grep -r x{n} /usr/lib", "xargs -n1 pytest", "curl https://example.com/{n}",
    "sudo make", "time nice pytest -q", "git log --oneline -{n}", "npm  'test'", "sort -o o{n} in",
)  # fmt: skip
ENDS = ("", "", "", " > out_{n}.txt", " 2>&1", " < in.txt")
MODES: tuple[Mode, ...] = ("ask", "ask", "ask", "accept-edits", "full-auto", "plan")


def draw_request(dice: random.Random, commands: Sequence[str], number: int) -> PermissionAsked:
    n = str(dice.randrange(3))
    match dice.randrange(12):
        case 0:
            path = f"{ROOT}/{dice.choice(('src', 'docs/a'))}/f{n}.py"
            return asked("Edit", "edit", {"file_path": path}, number)
        case 1:
            return asked("Read", "read", {"file_path": f"/srv/data/{n}.txt"}, number)
        case 2:
            return asked("WebFetch", "fetch", {"url": f"https://h{n}.example.com/"}, number)
        case 3:
            return asked(f"mcp__tracker__tool{n}", "other", {}, number)
        case _:
            line = dice.choice(commands)
            for _ in range(dice.randrange(3)):
                line += dice.choice((" && ", " | ", "; ", " || ")) + dice.choice(commands)
            return bash((line + dice.choice(ENDS)).replace("{n}", n), number)


def draw_history(seed: int) -> Requests:
    """A few commands, often again and in other lines; one in ten is denied or not answered."""
    dice = random.Random(seed)
    log = Requests()
    log.spawn(mode=dice.choice(MODES))
    commands = dice.sample(COMMANDS, dice.randrange(3, 9))
    denied = dice.choice((0.0, 0.05, 0.2))
    for _ in range(dice.randrange(5, 45)):
        question = draw_request(dice, commands, len(log.records))
        log.ask(question)
        is_denied = dice.random() < denied
        outcome = Selected(option_id="no") if is_denied else Selected(option_id="yes")
        log.add(
            PermissionAnswered(
                request=question.request,
                call=question.call,
                outcome=Cancelled() if dice.random() < 0.05 else outcome,
                by=PERSON,
            )
        )
    return log


def suggest_simply(judges: Sequence[RecordedJudge], limit: int) -> list[tuple[object, ...]]:
    """The same by a look at every request for every rule."""
    offers: dict[tuple[Pattern, ...], bool] = {}
    for judge in judges:
        if not judge.is_refused and any(one.is_approved for one in judge.kind.decisions):
            for offer in suggest_grants(judge.call, judge.kind.mode):
                offers.setdefault(offer.patterns, not offer.is_exact)
    found: list[tuple[tuple[Pattern, ...], bool, dict[int, str], int]] = []
    for patterns, is_wide in offers.items():
        rules = [Rule(effect="allow", pattern=one) for one in patterns]
        concerned = [one for one in judges if any(map(one.may_concern, patterns))]
        allowed = [one for one in concerned if one.judge(rules).effect == "allow"]
        if any(one.is_refused for one in allowed):
            continue
        certain = [one for one in allowed if not one.judge(rules).depends_on_files]
        made = [(judge, one) for judge in certain for one in judge.kind.decisions if one.was_asked]
        approved = {one.seq: judge.describe() for judge, one in made if one.is_approved}
        calls = {id(judge) for judge, one in made if one.is_approved}
        if len(approved) >= 2 and (not is_wide or len(calls) >= 3):
            found.append((patterns, is_wide, approved, len(made) - len(approved)))
    chosen: list[tuple[object, ...]] = []
    covered: set[int] = set()
    while found and len(chosen) < limit:
        found.sort(key=lambda one: (-len(one[2].keys() - covered), one[1]))
        patterns, is_wide, approved, others = found.pop(0)
        saved = len(approved.keys() - covered)
        if saved < 2:
            break
        covered |= approved.keys()
        examples = tuple(dict.fromkeys(approved.values()))[:3]
        texts = tuple(map(print_pattern, patterns))
        chosen.append((texts, saved, len(approved), is_wide, examples, others))
    return chosen


def facts_of(one: RuleSuggestion) -> tuple[object, ...]:
    examples = tuple(dict.fromkeys(each.what for each in one.examples))
    return one.patterns, one.saved, one.covers, one.is_wide, examples, one.others


def compare(seeds: range) -> int:
    """How many histories suggested something."""
    found = 0
    for seed in seeds:
        judges = draw_history(seed).judges()
        suggested = [facts_of(one) for one in suggest_from(judges, limit=8)]
        assert suggested == suggest_simply(judges, 8), seed
        found += bool(suggested)
    return found


def test_suggestions_are_those_of_a_look_at_every_request():
    assert compare(range(12)) > 6


@pytest.mark.stress
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
def test_suggestions_of_many_histories_are_those_of_a_look_at_every_request(part: int):
    assert compare(range(part * 100, part * 100 + 100)) > 60


class CountingJudge(RecordedJudge):
    count = 0

    def judge(self, rules: Sequence[Rule]) -> Verdict:
        CountingJudge.count += 1
        return super().judge(rules)


def count_judgements(lines: int) -> int:
    log = Requests()
    log.spawn()
    for _ in range(2):
        for n in range(lines):
            log.run(f"make part-{n} && npm test | tee out_{n}.txt")
            log.run(f"npm run build -- --only {n} && ./run_{n % 7}.sh | tail -5")
            log.run(f"git add file_{n}.py && git commit -m 'step {n}'")
    CountingJudge.count = 0
    judges = [CountingJudge(one.kind, "/home/dev") for one in log.judges()]
    assert suggest_from(judges)
    return CountingJudge.count


def test_twice_as_many_compound_lines_are_twice_the_work():
    assert count_judgements(40) <= 2.2 * count_judgements(20)
