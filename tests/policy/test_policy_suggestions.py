"""What "always" offers: each offer answers the question, and leaves everything else asked."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.policy import (
    Allow,
    Ask,
    Call,
    choice_of,
    decide,
    grants_of,
    options_for,
    parse_pattern,
    suggest_grants,
)
from quarterdeck.policy.grammar import print_pattern
from quarterdeck.policy.rules import Rule

TABLE: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "offers.toml").read_text())[
    "offer"
]
CWD = "/home/dev/app"
BASE = Call(
    tool="bash",
    kind="execute",
    cwd=CWD,
    roots=(CWD,),
    home="/home/dev",
    project="app",
    session="s1",
)
ROWS = [pytest.param(row, id=row["command"]) for row in TABLE]


def run(command: str) -> Call:
    return replace(BASE, command=command)


def rules_of(offer: str) -> list[Rule]:
    # No offer of the table has a comma within a pattern.
    return [Rule(effect="allow", pattern=parse_pattern(text)) for text in offer.split(", ")]


@pytest.mark.parametrize("row", ROWS)
def test_the_narrowest_rule_is_offered_first(row: dict[str, Any]):
    assert [str(offer) for offer in suggest_grants(run(row["command"]))] == row["offers"]


@pytest.mark.parametrize("row", ROWS)
def test_every_scope_offers_the_narrowest_first_and_only_an_exact_one_everywhere(
    row: dict[str, Any],
):
    call = run(row["command"])
    by_scope: dict[str, list[str]] = {}
    for option in options_for(suggest_grants(call), call=call):
        if option.kind == "allow_always":
            choice = choice_of((option,), option.option_id)
            words = ", ".join(map(print_pattern, choice.patterns))
            by_scope.setdefault(choice.scope, []).append(words)
    narrow, *_ = row["offers"]
    everywhere = {} if ":*)" in narrow or "/**)" in narrow else {"user": [narrow]}
    assert by_scope == {"session": row["offers"], "project": row["offers"]} | everywhere


@pytest.mark.parametrize("row", ROWS)
def test_every_option_answers_the_question_as_a_grant(row: dict[str, Any]):
    call = run(row["command"])
    options = options_for(suggest_grants(call), call=call)
    lasting = [option for option in options if option.kind == "allow_always"]
    assert lasting
    for option in lasting:
        grants = grants_of(choice_of(options, option.option_id), call, by="dev", now=1, request="r")
        assert isinstance(decide(call, "ask", grants=grants), Allow), option.name


@pytest.mark.parametrize("row", ROWS)
def test_no_offer_covers_a_sibling(row: dict[str, Any]):
    wrong = [
        (offer, sibling)
        for offer in row["offers"]
        for sibling in row["siblings"]
        if not isinstance(decide(run(sibling), "ask", rules_of(offer)), Ask)
    ]
    assert wrong == []


@pytest.mark.parametrize("row", [row for row in TABLE if "wide" in row])
def test_only_the_wider_offer_covers_what_is_alike(row: dict[str, Any]):
    narrow, wider = row["offers"][0], row["offers"][-1]
    for sibling in row["wide"]:
        assert isinstance(decide(run(sibling), "ask", rules_of(narrow)), Ask), sibling
        assert isinstance(decide(run(sibling), "ask", rules_of(wider)), Allow), sibling


def test_for_the_session_the_narrowest_comes_first_and_for_everywhere_alone():
    options = options_for(suggest_grants(run("pytest -q")))
    names = [option.name for option in options if option.kind == "allow_always"]
    assert names == [
        "Always allow for this session: bash(pytest -q)",
        "Always allow for this session: bash(pytest:*)",
        "Always allow in this project: bash(pytest -q)",
        "Always allow in this project: bash(pytest:*)",
        "Always allow everywhere: bash(pytest -q)",
    ]
