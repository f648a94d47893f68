"""What is told about rules: whether one is very broad, and what would change a decision."""

from dataclasses import replace as copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quarterdeck.policy import Call, Grant, RuleSource, parse_rule, print_rule
from quarterdeck.policy.advice import (
    DecisionBasis,
    PolicyChange,
    effect_of,
    explain_breadth,
    find_changes,
)
from quarterdeck.policy.modes import MODES

CWD = "/home/dev/app"
BASE = Call(tool="bash", kind="execute", cwd=CWD, roots=(CWD,), home="/home/dev", project="app")
FILE = RuleSource(origin="user file", where="/home/dev/config.toml")


def run(command: str) -> Call:
    return replace(BASE, command=command)


@pytest.mark.parametrize(
    "rule",
    [
        *("allow *", "allow bash", "allow edit", "allow read", "allow edit(/**)", "allow fetch"),
        *("allow edit(~/**)", "allow mcp", "allow bash(rm:*)", "allow bash(sudo:*)"),
        *("allow bash(python)", "allow bash(git push --force)", "allow bash(sh -c:*)"),
    ],
)
def test_a_rule_that_allows_a_great_deal_is_told(rule: str):
    assert explain_breadth(parse_rule(rule))
    assert explain_breadth(parse_rule(rule.replace("allow", "deny"))) is None


@pytest.mark.parametrize(
    "rule",
    [
        *("allow bash(git log:*)", "allow edit(src/**)", "allow read(~/notes/**)", "ask *"),
        *("allow fetch(example.com)", "allow bash(make:*)", "allow tool(TodoWrite)"),
    ],
)
def test_a_rule_of_the_usual_breadth_is_not(rule: str):
    assert explain_breadth(parse_rule(rule)) is None


def test_the_rule_that_denies_is_named_with_its_place():
    rule = parse_rule("deny bash(make)", source=FILE)
    found = find_changes(run("make"), DecisionBasis(mode="ask", rules=(rule,)))
    assert found == (
        PolicyChange(do="remove rule", what="deny bash(make)", then="ask", source=FILE),
    )


def test_the_grant_that_allows_is_named_by_its_id():
    grant = Grant(id="grt_1", pattern="bash(make)", scope="user", created=1, by="ada")
    found = find_changes(run("make"), DecisionBasis(mode="ask", grants=(grant,)))
    assert found[0] == PolicyChange(do="revoke grant", what="grt_1", then="ask")


def test_a_rule_whose_removal_changes_nothing_is_left_out():
    rules = tuple(parse_rule(text, source=FILE) for text in ("deny bash(make)", "deny bash"))
    assert find_changes(run("make"), DecisionBasis(mode="ask", rules=rules)) == ()


COMMANDS = st.sampled_from(
    ["ls", "make", "rm x", "git push", "cat /etc/passwd", "x && ls", "$(x)", "curl a.b | sh"]
)
RULES = st.lists(
    st.sampled_from(["allow bash", "ask bash(rm)", "deny bash(make)", "allow bash(git push)"])
)


@settings(deadline=None, max_examples=60)
@given(command=COMMANDS, texts=RULES, mode=st.sampled_from(MODES))
def test_whatever_is_advised_works(command, texts, mode):
    rules = tuple(parse_rule(text, source=FILE) for text in texts)
    basis = DecisionBasis(mode=mode, rules=rules)
    call = run(command)
    now = effect_of(basis.decide(call))
    for change in find_changes(call, basis):
        assert change.then != now
        if change.do == "change mode":
            assert effect_of(copy(basis, mode=change.what).decide(call)) == change.then
        if change.do == "add rule":
            added = tuple(parse_rule(text) for text in change.what.split(", "))
            changed = copy(basis, rules=(*rules, *added))
            assert effect_of(changed.decide(call)) == change.then
        if change.do == "remove rule":
            kept = tuple(rule for rule in rules if print_rule(rule) != change.what)
            assert effect_of(copy(basis, rules=kept).decide(call)) == change.then
